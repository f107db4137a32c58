"""Starts a query again if a Python worker of Spark's was late."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["is_late", "start"]

_log = logging.getLogger(__name__)

_LATE: Final = (
    "Timed out while waiting for the Python worker to connect back",
    "Python worker failed to connect back",
)
"""What Spark says of a worker that was not there within ten seconds, which no setting changes."""
_LOOK_SECONDS: Final = 1


def is_late(error: BaseException) -> bool:
    """Whether an error is Spark's because a Python worker did not start within ten seconds."""
    return any(text in str(error) for text in _LATE)


def start(writer: DataStreamWriter, attempts: int = 3) -> StreamingQuery:
    """Start a streaming query, and again if it ends because a Python worker was late.

    On a busy machine a worker may need more than the ten seconds that Spark gives it, and then the
    query ends. Blocks until the first trigger is over: its batch is done, or there is no data, or
    the query has ended. Later triggers are not watched.

    Raises:
        StreamingQueryException: the query failed otherwise, or a worker was late in all `attempts`.
        ValueError: `attempts` is less than 1.
    """
    for left in reversed(range(attempts)):
        try:
            query = writer.start()
            while query.lastProgress is None and not query.awaitTermination(_LOOK_SECONDS):
                pass
        except Exception as error:
            if not left or not is_late(error):
                raise
            _log.warning("a Python worker was late: starting the query again")
        else:
            return query
    raise ValueError(f"attempts is {attempts}: it must be 1 or more")
