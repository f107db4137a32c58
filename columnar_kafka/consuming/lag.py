"""How much of a partition is still to come: messages as Kafka counts them, and records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from columnar_kafka import position
from columnar_kafka.errors import SegmentError
from columnar_kafka.segment.headers import is_segment, parse_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from columnar_kafka.offsets import Partition

__all__ = ["Lag", "lag_of"]


@dataclass(frozen=True, slots=True)
class Lag:
    """What a consumer has still to read of a partition.

    `messages` counts Kafka's offsets from the consumer's position to the high watermark, a segment
    of which some records were handed out included. Offsets without a message (ends of
    transactions, what was aborted, compacted or deleted) count too.

    `records` is exact where `is_exact`: all of them have been fetched. Otherwise what has not been
    fetched is estimated, by how many records an offset had lately. At the end both are 0, exactly.
    """

    topic: str
    partition: int
    messages: int
    records: int
    is_exact: bool


def lag_of(
    key: Partition,
    at: int,
    high: int,
    *,
    is_known: bool,
    fetched: Sequence[Message],
    fetched_to: int,
    ratio: float,
) -> Lag:
    """Return the lag of a partition whose next record is at position `at` or later.

    Args:
        key: topic and partition.
        at: the position; `is_known` says that a record was handed out before it.
        high: Kafka's high watermark.
        is_known: see `at`.
        fetched: messages from there on, in order; more may follow from `fetched_to` on.
        fetched_to: an offset, or -1 where nothing was fetched.
        ratio: how many records an offset has, where nothing is `fetched` that tells.
    """
    if fetched and not is_known:  # then there is nothing before them
        at = max(at, position.start(fetched[0].offset() or 0))
    offset, left = position.unpack(at)
    if high <= offset:
        return Lag(*key, messages=0, records=0, is_exact=True)
    records, following = (left, offset + 1) if is_known and left else (0, offset)
    rows = 0
    for message in fetched:
        found, of_it = message.offset() or 0, _rows_of(message)
        rows += of_it
        if found >= following:
            records += min(of_it, left) if left and found == offset else of_it
            following = found + 1
    if fetched:  # what comes next is most likely as these are
        ratio = rows / (following - (fetched[0].offset() or 0))
    missing = max(0, high - max(following, fetched_to))
    return Lag(
        *key,
        messages=high - offset,
        records=records + round(missing * ratio),
        is_exact=not missing,
    )


def _rows_of(message: Message) -> int:
    """Return how many records a message holds; one that cannot be read is handed out as one."""
    headers = message.headers()
    if not is_segment(headers):
        return 1
    try:
        return parse_headers(headers)[0].rows
    except SegmentError:
        return 1
