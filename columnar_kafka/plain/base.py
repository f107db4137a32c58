"""What all formats share: a topic's format, and decoding up to the first value that is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa

from columnar_kafka.columns.layouts import one_array, take
from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import KAFKA_COLUMN, is_kafka_member
from columnar_kafka.segment.headers import SCHEMA_HEADER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.config import ReadOptions

__all__ = [
    "DECODE_ERRORS",
    "DecodedValues",
    "Format",
    "Formats",
    "ManyFormats",
    "TableFormat",
    "check_column_names",
    "decode",
    "leading",
]

DECODE_ERRORS: Final = (ValueError, TypeError, OverflowError, pa.ArrowException)
"""What `Format.decode` may raise for a wrong value."""


class Format(Protocol):
    """How keys or values are encoded."""

    @property
    def name(self) -> str:
        """The schema's name; empty where it has none."""
        ...

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """Return one element for each value; a record is a struct.

        Raises:
            ValueError: at least one value is wrong (pyarrow's errors are ValueErrors).
        """
        ...


class TableFormat(Protocol):
    """How values are encoded if each holds any number of rows."""

    @property
    def name(self) -> str:
        """The schema's name; empty where it has none."""
        ...

    def read(self, value: bytes, options: ReadOptions) -> pa.Table:
        """Return the rows of one value.

        Raises:
            ValueError: the value is wrong, or exceeds a limit.
        """
        ...


class ManyFormats(Protocol):
    """How values are encoded if each says it itself."""

    @property
    def name(self) -> str:
        """Empty: there is no schema of all."""
        ...

    def leading(self, messages: Sequence[Any], *, is_key: bool) -> tuple[Format, int]:
        """Return the format of the first messages, and how many have it. May raise any error."""
        ...

    def of_all(self, values: Sequence[bytes | None]) -> Format | None:
        """Return the format of all values; None: messages have to be looked at by themselves."""
        ...


@dataclass(frozen=True, slots=True)
class Formats:
    """How the keys and values of plain messages are encoded: for all topics, or by topic.

    They stay bytes where there is no format.

    Raises:
        TypeError: an argument is not a format.
    """

    keys: Mapping[str, Format | ManyFormats] | Format | ManyFormats | None = None
    values: (
        Mapping[str, Format | TableFormat | ManyFormats] | Format | TableFormat | ManyFormats | None
    ) = None

    def __post_init__(self) -> None:
        """Check that each is a format."""
        for what, formats in (("key", self.keys), ("value", self.values)):
            for format_ in formats.values() if isinstance(formats, Mapping) else [formats]:
                if format_ is None or hasattr(format_, "decode") or hasattr(format_, "leading"):
                    continue
                if not hasattr(format_, "read"):
                    raise TypeError(f"{what} must be Avro, Json, Ipc or Registry, not {format_!r}")
                if what == "key":
                    raise TypeError("key cannot be Ipc: one value of it is any number of rows")

    def key(self, topic: str) -> Format | ManyFormats | None:
        """Return the format of a topic's keys; None for bytes."""
        return self.keys.get(topic) if isinstance(self.keys, Mapping) else self.keys

    def are_tables(self, topic: str) -> bool:
        """Say whether each of a topic's values holds any number of rows."""
        return hasattr(self.value(topic), "read")

    @property
    def have_tables(self) -> bool:
        """Whether the values of any topic hold any number of rows."""
        values = self.values
        formats = values.values() if isinstance(values, Mapping) else [values]
        return any(hasattr(format_, "read") for format_ in formats)

    def value(self, topic: str) -> Format | TableFormat | ManyFormats | None:
        """Return the format of a topic's values; None for bytes."""
        return self.values.get(topic) if isinstance(self.values, Mapping) else self.values

    def name(self, topic: str) -> dict[str, str]:
        """Return the name of a topic's value schema, as entries of a table's metadata."""
        value = self.value(topic)
        return {SCHEMA_HEADER: value.name} if value is not None and value.name else {}


class DecodedValues(NamedTuple):
    """The first values, as many as fit one array.

    Attributes:
        array: the values.
        error: what is wrong with the next value by itself; None if nothing is, or if none is left.
    """

    array: pa.Array
    error: str | None = None


def leading(
    format_: Any, messages: Sequence[Any], *, is_key: bool
) -> tuple[Format | None, Sequence[Any]]:
    """Return the format of the keys or values of the first messages, and the messages that have it.

    Raises what `ManyFormats.leading` does.
    """
    if not hasattr(format_, "leading"):
        return format_, messages
    first, count = format_.leading(messages, is_key=is_key)
    return first, messages[:count]


def decode(format_: Format | None, values: Sequence[bytes | None]) -> DecodedValues:
    """Decode keys or values up to the first one that is wrong; None becomes null."""
    if format_ is None:
        return DecodedValues(pa.array(values, pa.binary()))
    present = [value for value in values if value is not None]
    try:
        return DecodedValues(_with_nulls(format_.decode(present), values))
    except DECODE_ERRORS:
        return _decode_first(format_, present, values)


def _decode_first(
    format_: Format, present: Sequence[bytes], values: Sequence[bytes | None]
) -> DecodedValues:
    good = _count_good(format_, present, together=False)
    if good and _error_of(format_, present[:good]) is not None:  # right one by one, not together
        good = _count_good(format_, present, together=True)
    indices = [index for index, value in enumerate(values) if value is not None]
    array = _with_nulls(format_.decode(present[:good]), values[: indices[good]])
    return DecodedValues(array, _error_of(format_, present[good : good + 1]))


def _count_good(format_: Format, values: Sequence[bytes], *, together: bool) -> int:
    """Return the number of values before the first wrong one, or of all.

    Args:
        format_: decodes them.
        values: in their order.
        together: whether the values counted must decode as one array, or may decode in parts.

    Steps grow until one fails, then halve: the cost grows with the result only.
    """
    good, step = 0, 1
    while good < len(values):
        if _error_of(format_, values[0 if together else good : good + step]) is None:
            good, step = min(good + step, len(values)), 2 * step
        elif step == 1:
            break
        else:
            step //= 2
    return good


def _error_of(format_: Format, values: Sequence[bytes]) -> str | None:
    try:
        format_.decode(values)
    except DECODE_ERRORS as error:
        return str(error)
    return None


def _with_nulls(array: pa.Array, values: Sequence[bytes | None]) -> pa.Array:
    """Return an array with a null for each None in `values`."""
    if len(array) == len(values):
        return array
    valid = [value is not None for value in values]
    counts = accumulate(valid)
    indices = [n - 1 if is_valid else None for n, is_valid in zip(counts, valid, strict=True)]
    return one_array(take(pa.chunked_array([array]), pa.array(indices, pa.int64())))


def check_column_names(arrow: pa.DataType) -> None:
    """Check the names of the columns that a struct becomes; other types have none.

    Raises:
        SchemaError: two columns share a name, or one has that of `_kafka` or of a member of it.
    """
    counts = Counter(field.name for field in arrow) if pa.types.is_struct(arrow) else {}
    for name, count in counts.items():
        if name.lower() == KAFKA_COLUMN or is_kafka_member(name.lower()):  # engines ignore case
            raise SchemaError(f"column {name!r} is reserved")
        if count > 1:
            raise SchemaError(f"column {name!r} occurs {count} times")
