"""A line for each commit. In the driver's Python processes, which show no more than warnings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.lake.model import CommitResult
    from spark_sink.reading.planning import OffsetRange

__all__ = ["commit_line", "log_line"]

_log = logging.getLogger(__name__)

_FORMAT: Final = "%(asctime)s INFO spark_sink: %(message)s"
_TIME: Final = "%y/%m/%d %H:%M:%S"


def log_line(line: str) -> None:
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
    line = str(result)
    behind = {offsets[:2]: offsets for offsets in sorted(ranges, key=lambda offsets: offsets[:4])}
    if behind:
        messages = sum(max(0, offsets.latest - offsets.end) for offsets in behind.values())
        records = messages * result.landed.rows // max(1, result.landed.messages)
        line += f"; behind by {messages} messages, about {records} records"
    return line
