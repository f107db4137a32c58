"""Positions: a record's place in a partition, as one number that orders, adds and commits.

The position of row *r* of *n* in the segment at Kafka offset *o* is ``(o + 1) * 2**20 - (n - r)``.
A plain message is row 0 of 1. So the start of Kafka offset *o* is ``o * 2**20``, the last row's
position + 1 is the next offset's start, and a position alone says what to commit. Negative numbers
are librdkafka's special offsets, which have no rows. `consuming.feed.offset_store` makes commits of
positions.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = [
    "MAX_ROWS",
    "Unpacked",
    "address",
    "commit_metadata",
    "pack",
    "partition_address",
    "resume",
    "start",
    "unpack",
]

MAX_ROWS: Final = 1 << 20
"""The most rows one segment can hold, and the number of positions one Kafka offset spans."""

_METADATA: Final = re.compile(r"1:([1-9][0-9]{0,6}):([0-9A-Za-z_-]{1,40})", re.ASCII)


class Unpacked(NamedTuple):
    """A position's Kafka offset, and how many of its rows are still to come.

    ``left`` counts the row at the position itself. It is 0 at the start of an offset, where the
    number of rows is not known.
    """

    offset: int
    left: int


def partition_address(topic: str | None, partition: int | None) -> str:
    """Return how errors and logs name a partition: ``topic[partition]``."""
    return f"{topic}[{partition}]"


def address(topic: str | None, partition: int | None, offset: int | None) -> str:
    """Return how errors and logs name a Kafka message: ``topic[partition]@offset``."""
    return f"{partition_address(topic, partition)}@{offset}"


def pack(offset: int, row: int = 0, rows: int = 1) -> int:
    """Return the position of `row` of `rows` at Kafka offset `offset`.

    Raises:
        ValueError: there is no such row, or more rows than a segment can hold.
    """
    if not (0 <= row < rows <= MAX_ROWS and offset >= 0):
        raise ValueError(f"no position for row {row} of {rows} at offset {offset}")
    return (offset + 1) * MAX_ROWS - (rows - row)


def unpack(position: int) -> Unpacked:
    """Return the Kafka offset of `position` and how many of its rows are still to come.

    Raises:
        ValueError: `position` is negative (a special offset, not a position).
    """
    if position < 0:
        raise ValueError(f"{position} is a special offset, not a position")
    offset, passed = divmod(position, MAX_ROWS)
    return Unpacked(offset, MAX_ROWS - passed if passed else 0)


def start(offset: int) -> int:
    """Return the position where Kafka offset `offset` starts; special offsets stay as they are."""
    return offset * MAX_ROWS if offset >= 0 else offset


def commit_metadata(left: int, segment: str) -> str:
    """Return the metadata to commit with a segment's offset while `left` of its rows remain."""
    return f"1:{left}:{segment}"


def resume(offset: int, metadata: str | None) -> tuple[int, str]:
    """Return the position and the segment id that a committed offset and its metadata stand for.

    The id is empty if the position is the start of the offset: no row of it was committed, or the
    metadata is not ours. In doubt a record is read again, never skipped.
    """
    match = _METADATA.fullmatch(metadata or "")
    if offset < 0 or match is None or int(match[1]) > MAX_ROWS:
        return start(offset), ""
    return (offset + 1) * MAX_ROWS - int(match[1]), match[2]
