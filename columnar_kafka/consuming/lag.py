"""How much of a partition is still to be read, in Kafka's messages and in records. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from columnar_kafka import position
from columnar_kafka.errors import SegmentError
from columnar_kafka.segment.headers import is_segment, parse_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from columnar_kafka.offsets import Partition

__all__ = ["Lag", "Seen", "lag_of"]


@dataclass(frozen=True, slots=True)
class Lag:
    """How much of a partition a consumer has still to read.

    `messages` counts Kafka's offsets from the consumer's position to the high watermark, a half
    read segment included. Offsets without a message (ends of transactions; aborted, compacted or
    deleted messages) count too.

    `records` is exact if all of them have been fetched (`is_exact`). Otherwise the rest is
    estimated from the recent number of records per offset. At the end both are 0, exactly.
    """

    topic: str
    partition: int
    messages: int
    records: int
    is_exact: bool


class Seen(NamedTuple):
    """What a consumer knows of a partition whose next record is at position `at` or later.

    A record was handed out before `at` if that `is_known`. `fetched` has the messages from there
    on, in order, and the offset from which more may follow; -1 if nothing was fetched. `ratio` is
    the number of records per offset, if nothing was fetched.
    """

    at: int
    is_known: bool
    fetched: tuple[Sequence[Message], int]
    ratio: float


def lag_of(key: Partition, seen: Seen, low: int, high: int) -> Lag:
    """Return the lag of a partition with these watermarks; it was `seen` before they were asked."""
    at, is_known, (fetched, fetched_to), ratio = seen
    at = max(at, position.start(low))
    if fetched and not is_known:  # then there is no message before these
        at = max(at, position.start(fetched[0].offset() or 0))
    offset, left = position.unpack(at)
    if high <= offset:
        return Lag(*key, messages=0, records=0, is_exact=True)
    records, following = (left, offset + 1) if is_known and left else (0, offset)
    rows = 0
    for message in fetched:
        message_offset, count = message.offset() or 0, _rows_of(message)
        rows += count
        if message_offset >= following:
            records += min(count, left) if left and message_offset == offset else count
            following = message_offset + 1
    if fetched:  # the next messages are most likely like these
        ratio = rows / (following - (fetched[0].offset() or 0))
    missing = max(0, high - max(following, fetched_to))
    return Lag(
        *key,
        messages=high - offset,
        records=records + round(missing * ratio),
        is_exact=not missing,
    )


def _rows_of(message: Message) -> int:
    """Return how many records a message holds; an unreadable segment is handed out as one."""
    headers = message.headers()
    if not is_segment(headers):
        return 1
    try:
        return parse_headers(headers)[0].rows
    except SegmentError:
        return 1
