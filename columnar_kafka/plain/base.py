"""What formats have in common: how they are chosen, and how many values are decoded at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import pyarrow as pa

from columnar_kafka.columns.layouts import one_array, take
from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.segment.headers import SCHEMA_HEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.config import DecodeLimits

__all__ = ["Decoded", "Format", "Formats", "TableFormat", "check_names", "decode"]


class Format(Protocol):
    """How keys or values are encoded."""

    @property
    def name(self) -> str:
        """The schema's name; empty where it has none."""
        ...

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """Return one element for each value; a record is a struct.

        Raises:
            ValueError: one of them at least is no such value (pyarrow's errors are ValueErrors).
        """
        ...


class TableFormat(Protocol):
    """How values are encoded each of which is any number of rows."""

    @property
    def name(self) -> str:
        """The schema's name; empty where it has none."""
        ...

    def read(self, value: bytes, limits: DecodeLimits) -> pa.Table:
        """Return the rows of one value.

        Raises:
            ValueError: it is no such value, or more than is allowed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Formats:
    """How the keys and values of plain messages are encoded, also by topic; None: they stay bytes.

    Raises:
        TypeError: something else is given.
    """

    keys: Mapping[str, Format] | Format | None = None
    values: Mapping[str, Format | TableFormat] | Format | TableFormat | None = None

    def __post_init__(self) -> None:
        """Refuse what is no format."""
        for what, given in (("key", self.keys), ("value", self.values)):
            for each in given.values() if isinstance(given, Mapping) else [given]:
                if each is None or hasattr(each, "decode"):
                    continue
                if not hasattr(each, "read"):
                    raise TypeError(f"{what} must be Avro, Json or Ipc, not {each!r}")
                if what == "key":
                    raise TypeError("key cannot be Ipc: one value of it is any number of rows")

    def key(self, topic: str) -> Format | None:
        """Return the format of a topic's keys."""
        return self.keys.get(topic) if isinstance(self.keys, Mapping) else self.keys

    def are_tables(self, topic: str) -> bool:
        """Say whether each of a topic's values is any number of rows."""
        return hasattr(self.value(topic), "read")

    def value(self, topic: str) -> Format | TableFormat | None:
        """Return the format of a topic's values."""
        return self.values.get(topic) if isinstance(self.values, Mapping) else self.values

    def name(self, topic: str) -> dict[str, str]:
        """Return what a topic's values are called, for a table's metadata."""
        value = self.value(topic)
        return {SCHEMA_HEADER: value.name} if value is not None and value.name else {}


class Decoded(NamedTuple):
    """The first values that go together; `error` says what is wrong with the next, by itself."""

    array: pa.Array
    error: str | None = None


def decode(form: Format | None, values: Sequence[bytes | None]) -> Decoded:
    """Decode keys or values, null where there is none, up to the first one that is wrong."""
    if form is None:
        return Decoded(pa.array(values, pa.binary()))
    there = [value for value in values if value is not None]
    try:
        return Decoded(_spread(form.decode(there), values))
    except _WRONG:
        return _decode_first(form, there, values)


_WRONG: Final = (ValueError, TypeError, OverflowError, pa.ArrowException)


def _decode_first(form: Format, there: Sequence[bytes], values: Sequence[bytes | None]) -> Decoded:
    good = _count_good(form, there, together=False)
    if good and _error_of(form, there[:good]) is not None:  # each is right, by itself
        good = _count_good(form, there, together=True)
    places = [index for index, value in enumerate(values) if value is not None]
    array = _spread(form.decode(there[:good]), values[: places[good]])
    return Decoded(array, _error_of(form, there[good : good + 1]))


def _count_good(form: Format, values: Sequence[bytes], *, together: bool) -> int:
    """Return how many values come before the first wrong one, or all.

    Steps grow until one is wrong, then halve: what it costs grows with the result only.
    """
    good, step = 0, 1
    while good < len(values):
        if _error_of(form, values[0 if together else good : good + step]) is None:
            good, step = min(good + step, len(values)), 2 * step
        elif step == 1:
            break
        else:
            step //= 2
    return good


def _error_of(form: Format, values: Sequence[bytes]) -> str | None:
    try:
        form.decode(values)
    except _WRONG as error:
        return str(error)
    return None


def _spread(array: pa.Array, values: Sequence[bytes | None]) -> pa.Array:
    """Put nulls where values are."""
    if len(array) == len(values):
        return array
    there = [value is not None for value in values]
    ends = accumulate(there)
    places = [end - 1 if valid else None for end, valid in zip(ends, there, strict=True)]
    return one_array(take(pa.chunked_array([array]), pa.array(places, pa.int64())))


def check_names(kind: pa.DataType) -> None:
    """Refuse columns that cannot be told apart, or from that of this package.

    Raises:
        SchemaError: naming the column.
    """
    counts = Counter(each.name for each in kind) if pa.types.is_struct(kind) else {}
    for name, count in counts.items():
        if name == KAFKA_COLUMN:
            raise SchemaError(f"column {name!r} is reserved")
        if count > 1:
            raise SchemaError(f"column {name!r} occurs {count} times")
