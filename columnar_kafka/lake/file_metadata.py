"""The key-values in the footer of a file with the rows of several segments: which messages it has.

A verbatim file has those of its segment instead, see `segment.headers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from columnar_kafka.segment.headers import ROWS_HEADER, SCHEMA_HEADER, VERSION_HEADER

if TYPE_CHECKING:
    from columnar_kafka.lake.model import SourcePartition

__all__ = ["CLUSTER", "FIRST", "LAST", "PARTITION", "TOPIC", "file_metadata"]

CLUSTER: Final = "columnar.cluster"
TOPIC: Final = "columnar.topic"
PARTITION: Final = "columnar.partition"
FIRST: Final = "columnar.offset.first"
LAST: Final = "columnar.offset.last"


def file_metadata(
    source: SourcePartition, *, schema: str, rows: int, segments: int, first: int, last: int
) -> dict[str, str]:
    """Return the key-values of a file, equal for equal input.

    So staging the same input again makes the same file. The segments' own key-values are left out:
    a segment's id and times are in its rows.

    Args:
        source: the partition that all rows are from.
        schema: the fingerprint of the file's schema.
        rows: the number of its rows.
        segments: the number of segments that these are from.
        first: the Kafka offset of the first of these.
        last: that of the last one.
    """
    return {
        VERSION_HEADER: "1",
        SCHEMA_HEADER: schema,
        ROWS_HEADER: str(rows),
        "columnar.segments": str(segments),
        CLUSTER: source.generation.cluster,
        "columnar.topic.id": source.generation.topic_id,
        TOPIC: source.topic,
        PARTITION: str(source.partition),
        FIRST: str(first),
        LAST: str(last),
    }
