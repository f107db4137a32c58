"""Tables of each format in a folder, for what is measured without Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benchmarks.segments import TOPIC
from columnar_kafka.lake.audit.audit import TopicAudit
from columnar_kafka.lake.formats import FORMATS, open_table
from columnar_kafka.lake.model import SourceMessage, TopicGeneration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from columnar_kafka.lake.audit.audit import AuditReport
    from columnar_kafka.lake.tables.base import LakeTable

FORMAT_NAMES: Final = tuple(FORMATS)
GENERATIONS: Final = {TOPIC: TopicGeneration("cluster", "id")}


def table_in(folder: str, table_format: str, **options: Any) -> LakeTable:
    """Return the table of a format in a folder."""
    if table_format == "iceberg":
        options["catalog"] = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}",
        }
        return open_table(table_format, "lake.flights", **options)
    return open_table(table_format, f"{folder}/lake", **options)


def verified(table: LakeTable, messages: Callable[[], Iterable[SourceMessage]]) -> AuditReport:
    """Compare a table with all messages that landed, those of a partition in order.

    Raises:
        AssertionError: they are not the same.
    """
    head = table.head()
    audit = TopicAudit(TOPIC, table.landed_files(head), head.fences)
    fences = sorted(head.fences.values(), key=lambda fence: fence.partition)
    if len(fences) == 1:
        audit.compare(fences[0], 0, messages())
    else:
        by_partition = {fence.partition: list[SourceMessage]() for fence in fences}
        for message in messages():
            by_partition[message.partition].append(message)
        for fence in fences:
            audit.compare(fence, 0, by_partition[fence.partition])
    report = audit.finish(fence.partition for fence in fences)
    if report.findings:
        raise AssertionError(report.findings[0])
    return report
