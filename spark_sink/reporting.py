"""A line for each commit. In the driver's Python processes, which show no more than warnings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.lake.model import CommitResult
    from spark_sink.planning import OffsetRange

__all__ = ["commit_line", "report"]

_log = logging.getLogger(__name__)

_FORMAT: Final = "%(asctime)s INFO spark_sink: %(message)s"
_TIME: Final = "%y/%m/%d %H:%M:%S"


def report(line: str) -> None:
    """Log a line: on stderr, as Spark does, unless the process has a handler of its own."""
    _log.setLevel(logging.INFO)
    if not _log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT, _TIME))
        _log.addHandler(handler)
    _log.info(line)


def commit_line(result: CommitResult, ranges: Iterable[OffsetRange]) -> str:
    """Return what has landed, and how much of the partitions that were read has not.

    The number of records that are left is estimated from those that have landed.
    """
    landed, before, repeated = result.landed, result.landed_before.rows, result.repeated.rows
    line = (
        f"{landed.rows} records in {landed.messages} segments ({result.nbytes / 1e6:.1f} MB) "
        f"landed in {len(result.files)} files"
    )
    if before:
        line += f"; {before} records had landed before"
    if repeated:
        line += f"; {repeated} records came twice"
    counts = {
        "segments encoded anew": result.rewritten,
        "dead letters": result.dead_letters,
        "plain messages in a table of their own": result.plain_messages,
        "messages skipped": result.skipped,
    }
    line += "".join(f"; {count} {name}" for name, count in counts.items() if count)
    behind = {each[:2]: each for each in sorted(ranges, key=lambda each: each[:4])}
    if behind:
        messages = sum(max(0, each.latest - each.end) for each in behind.values())
        records = messages * landed.rows // max(1, landed.messages)
        line += f"; behind by {messages} messages, about {records} records"
    return line
