"""Rows → the Avro datums of which they were made, as fastavro writes them.

The native core writes the same (``native/src/values/avro/``).
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.errors import SegmentError
from columnar_kafka.plain.json_leaves import PER_SECOND
from columnar_kafka.schema import KAFKA_COLUMN
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import is_union, is_union_of_rows
from columnar_kafka.segment.avro_layout import AvroLayout

if TYPE_CHECKING:
    import decimal
    from collections.abc import Iterable, Mapping, Sequence

    from columnar_kafka.schema.avro_encoding import AvroType

__all__ = ["AvroValues"]

_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - of a column without a zone
_UTC_EPOCH: Final = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_INT: Final = 1 << 31

_Write = Callable[[Any], bytes]
"""Takes a value that is not null. Raises ValueError: the type does not have it."""


class AvroValues:
    """Makes the datums of rows of some columns, as `columns_to_rows.to_rows` returns them.

    Unions are members there.
    """

    def __init__(
        self, columns: Iterable[pa.Field], types: Sequence[AvroType], header: bytes, most: int
    ) -> None:
        """Write a row's fields as these types; `header` stands in front of each datum.

        None may have more than `most` bytes, which is ``columnar.max.decoded.bytes``.
        """
        self._header = header
        self._most = most
        self._write = _rows(list(columns), types)

    @classmethod
    def of(cls, columns: pa.Schema, said: Mapping[bytes, bytes], most: int) -> AvroValues:
        """Make those of a file whose footer says this of values. Raises SegmentError."""
        layout = AvroLayout.parse(said)
        fields = [field for field in columns if field.name != KAFKA_COLUMN]
        return cls(fields, layout.described(columns), layout.header, most)

    def __call__(self, row: Mapping[str, Any]) -> bytes:
        """Return a row's datum; numbers may stand for times and dates.

        Raises:
            SegmentError: its type does not have a value, or it is too large.
        """
        try:
            datum = self._header + self._write(row)
        except ValueError as error:
            raise SegmentError(
                f"a record has no form in Avro: {error}; with columnar.value.format=rows it can be "
                "read"
            ) from error
        if len(datum) > self._most:
            raise SegmentError(
                f"a record takes more than {self._most} bytes as Avro, which is "
                "columnar.max.decoded.bytes: raise it, or set columnar.value.format=rows"
            )
        return datum


def _rows(columns: Sequence[pa.Field], types: Sequence[AvroType]) -> _Write:
    if is_union_of_rows(columns):
        return _union(columns, range(len(columns)), types)
    return _record(columns, types)


def _record(columns: Iterable[pa.Field], types: Sequence[AvroType]) -> _Write:
    parts = [
        (field.name, _writer(field.type, avro)) for field, avro in zip(columns, types, strict=True)
    ]
    return lambda row: b"".join([write(row[name]) for name, write in parts])


def _writer(arrow: pa.DataType, avro: AvroType) -> _Write:
    """Return what writes a value, or null."""
    if avro[0] != "union":
        return _typed(arrow, avro)
    index = {name: place for place, (name, _) in enumerate(avro[1])}
    null = _long(index["null"]) if "null" in index else None
    if is_union(arrow):
        places = [place for place, (name, _) in enumerate(avro[1]) if name != "null"]
        write = _union(list(arrow), places, [avro[1][place] for place in places])
        return lambda value: null if value is None and null is not None else write(value)
    branches = [
        (_long(place), _typed(arrow, branch))
        for place, branch in enumerate(avro[1])
        if branch[0] != "null"
    ]
    return lambda value: _branch(value, null, branches)


def _union(members: Sequence[pa.Field], places: Iterable[int], types: Sequence[AvroType]) -> _Write:
    """Return what writes the member of a union that is not null; others may be missing."""
    parts = [
        (member.name, _long(place), _typed(member.type, avro))
        for member, place, avro in zip(members, places, types, strict=True)
    ]

    def write(row: Mapping[str, Any]) -> bytes:
        for name, place, write_value in parts:
            if (value := row.get(name)) is not None:
                return place + write_value(value)
        raise ValueError("no branch of a union has a value")

    return write


def _branch(value: Any, null: bytes | None, branches: Sequence[tuple[bytes, _Write]]) -> bytes:
    """Return a value as the first of a union's types that has it."""
    if value is None and null is not None:
        return null
    for place, write in branches:
        try:
            return place + write(value)
        except ValueError:
            if len(branches) == 1:
                raise
    raise ValueError(f"no type of its union has {value!r}")


def _typed(arrow: Any, avro: AvroType) -> _Write:
    """Return what writes a value that is not null."""
    name, details = avro
    if family(arrow) == "decimal":
        return _decimal(arrow.scale, details)
    return _TYPES[name](arrow, details)


def _array(arrow: Any, avro: AvroType) -> _Write:
    item = _writer(arrow.value_type, avro)
    return lambda items: _block(len(items), b"".join(map(item, items)))


def _map(arrow: Any, avro: AvroType) -> _Write:
    inner = _writer(arrow.item_type, avro)

    def write(pairs: Mapping[str, Any]) -> bytes:
        return _block(
            len(pairs), b"".join([_text(key) + inner(value) for key, value in pairs.items()])
        )

    return write


def _block(count: int, items: bytes) -> bytes:
    return _long(count) + items + b"\0" if count else b"\0"


# --- leaves ---------------------------------------------------------------------------------------


def _long(number: int) -> bytes:
    bits = number << 1 ^ number >> 63
    written = bytearray()
    while bits >= 0x80:  # noqa: PLR2004 - seven bits in each byte
        written.append(bits & 0x7F | 0x80)
        bits >>= 7
    written.append(bits)
    return bytes(written)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _text(value: str) -> bytes:
    return _bytes(value.encode())


def _enum(_: pa.DataType, symbols: Sequence[str]) -> _Write:
    places = {symbol: _long(place) for place, symbol in enumerate(symbols)}

    def write(value: str) -> bytes:
        if value not in places:
            raise ValueError(f"{value!r} is no symbol of its enum")
        return places[value]

    return write


def _fixed(_: pa.DataType, size: int) -> _Write:
    def write(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes, where {size} are fixed")
        return value

    return write


def _decimal(scale: int, size: int | None) -> _Write:
    def write(value: decimal.Decimal) -> bytes:
        sign, digits, exponent = value.as_tuple()
        number: int = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
        number = -number if sign else number
        if size is None:
            # As fastavro: one more byte than a power of two needs where it is negative.
            return _bytes(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))
        try:
            return number.to_bytes(size, "big", signed=True)
        except OverflowError as error:
            raise ValueError(f"{value} does not fit {size} bytes") from error

    return write


def _float(arrow: pa.DataType) -> _Write:
    is_double = arrow == pa.float64()  # of a union, in which that is written

    def write(value: float) -> bytes:
        if is_double:
            raise ValueError(f"{value} is a double")
        return struct.pack("<f", value)

    return write


def _int(arrow: pa.DataType) -> _Write:
    ticks = _ticks(arrow)

    def write(value: Any) -> bytes:
        number = ticks(value)
        if not -_INT <= number < _INT:
            raise ValueError(f"{number} is no int")
        return _long(number)

    return write


def _ticks(arrow: Any) -> Callable[[Any], int]:
    """Return what returns a number, or a time's or a date's, which may be one already."""
    kind = family(arrow)
    if kind == "date":
        epoch = _EPOCH.date()
        return lambda value: value if type(value) is int else (value - epoch).days
    if kind not in ("time", "timestamp", "local timestamp"):
        return int
    per_second = PER_SECOND[arrow.unit]
    start = _UTC_EPOCH if kind == "timestamp" else _EPOCH

    def ticks(value: Any) -> int:
        if type(value) is int:
            return value
        if kind == "time":
            value = datetime.datetime.combine(start, value)
        return int((value - start) // _MICROSECOND * per_second // 10**6)

    return ticks


def _numbers(arrow: pa.DataType) -> _Write:
    ticks = _ticks(arrow)
    return lambda value: _long(ticks(value))


_TYPES: Final[Mapping[str, Callable[[Any, Any], _Write]]] = {
    "record": _record,
    "array": _array,
    "map": _map,
    "enum": _enum,
    "fixed": _fixed,
    "int": lambda arrow, _: _int(arrow),
    "long": lambda arrow, _: _numbers(arrow),
    "float": lambda arrow, _: _float(arrow),
    "double": lambda *_: lambda value: struct.pack("<d", value),
    "boolean": lambda *_: lambda value: b"\1" if value else b"\0",
    "string": lambda *_: _text,
    "bytes": lambda *_: _bytes,
}
