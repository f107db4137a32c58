"""The arithmetic: medians with spread, ratios within one round, and the equality of records."""

from __future__ import annotations

import hashlib
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa


class UnequalError(Exception):
    """The records that were read are not those that were sent."""


@dataclass(frozen=True)
class Spread:
    """The median, the least and the largest of one value a round."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise the rounds. Raises ValueError when there are none."""
        if not values:
            raise ValueError("no rounds were measured")
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} [{number(self.low)} – {number(self.high)}]"


@dataclass(frozen=True)
class Claim:
    """One value a round that should be at least, or at most, `bound`.

    A claim about a competitor is a ratio, theirs divided by ours: below 1 we lose.
    """

    what: str
    values: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "×"

    @property
    def spread(self) -> Spread:
        """Median and extremes of the rounds."""
        return Spread.of(self.values)

    @property
    def bound(self) -> str:
        """The target as people write it; empty without one."""
        bounds = [("≥", self.at_least), ("≤", self.at_most)]
        return " and ".join(
            f"{sign} {number(b)} {self.unit}" for sign, b in bounds if b is not None
        )

    @property
    def met(self) -> bool:
        """Whether the median keeps the target."""
        median = self.spread.median
        return (self.at_least is None or median >= self.at_least) and (
            self.at_most is None or median <= self.at_most
        )

    @property
    def lost(self) -> bool:
        """Whether a competitor is better."""
        return self.at_most is None and self.unit == "×" and self.spread.median < 1

    @property
    def margin(self) -> float:
        """The median as a multiple of what is wanted: below 1 is missed; for sorting."""
        median = self.spread.median
        if self.at_most is not None:
            return self.at_most / median if median > 0 else float("inf")
        return median / (1 if self.at_least is None else self.at_least)


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, ...]:
    """Divide round by round. Raises ValueError if one has more rounds than the other."""
    return tuple(a / b for a, b in zip(theirs, ours, strict=True))


def number(value: float) -> str:
    """Format with three digits: 0.123, 1.23, 12.3, 123, 12,345."""
    size = abs(value)
    if size >= 99.95 or value == int(value):  # noqa: PLR2004 - where three digits have no fraction
        return f"{value:,.0f}"
    return f"{value:.3g}" if size < 1 else f"{value:.{2 if size < 9.995 else 1}f}"  # noqa: PLR2004


def compare_tables(sent: pa.Table, read: pa.Table, where: str) -> None:
    """Compare two tables as multisets of rows, by the columns and types of the first one.

    Raises:
        UnequalError: a row is missing, twice, or changed.
    """
    if sent.num_rows != read.num_rows:
        raise UnequalError(f"{where}: {sent.num_rows:,} records sent, {read.num_rows:,} read")
    read = read.select(sent.column_names).cast(sent.schema)
    if not _distinct(sent).equals(_distinct(read)):
        raise UnequalError(f"{where}: the records read differ from those sent")


def _distinct(rows: pa.Table) -> pa.Table:
    """Return the rows that differ, in order, and how often each is there."""
    counted = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    return counted.sort_by([(name, "ascending") for name in counted.column_names])


class Digest:
    """A multiset of records, as their number and the sum of their hashes: order does not matter."""

    def __init__(self, records: Iterable[Any] = ()) -> None:
        self.count = 0
        self._sum = 0
        for record in records:
            self.add(record)

    def add(self, record: Any) -> None:
        """Count a record: anything that orjson writes; bytes as text."""
        data = orjson.dumps(record, default=bytes.decode, option=orjson.OPT_SORT_KEYS)
        hashed = hashlib.blake2b(data, digest_size=16).digest()
        self._sum = (self._sum + int.from_bytes(hashed, "little")) % (1 << 128)
        self.count += 1

    def compare(self, other: Digest, where: str) -> None:
        """Compare what was sent with what was read.

        Raises:
            UnequalError: a record is missing, twice, or changed.
        """
        if self.count != other.count:
            raise UnequalError(f"{where}: {self.count:,} records sent, {other.count:,} read")
        if self._sum != other._sum:
            raise UnequalError(f"{where}: the records read differ from those sent")
