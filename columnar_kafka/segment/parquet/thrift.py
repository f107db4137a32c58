"""Thrift's compact protocol, as much of it as Parquet's metadata needs: read, skip, encode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "BINARY",
    "FALSE",
    "I16",
    "I32",
    "I64",
    "LIST",
    "STOP",
    "STRUCT",
    "TRUE",
    "Cursor",
    "ThriftError",
    "encode_binary",
    "encode_integer",
    "encode_list",
    "encode_struct",
]

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
STOP: Final = b"\0"
_INTEGERS: Final = (I16, I32, I64)
_FIXED: Final = {TRUE: 1, FALSE: 1, I8: 1, DOUBLE: 8, UUID: 16}  # bytes of an element or entry
_MAX_DEPTH: Final = 32  # footers nest less than ten deep; hostile ones must not exhaust the stack
_INT32_RANGE: Final = range(-(1 << 31), 1 << 31)
_FIELD_IDS: Final = 1 << 15
_MORE: Final = 0x80  # the bit in a varint's byte that announces another byte
_LONG: Final = 15  # a list head's count if the real count follows as a varint


class ThriftError(ValueError):
    """Bytes that are not Thrift's compact protocol, or not the value expected at that place."""


class Cursor:
    """A place in bytes that Thrift encoded; reading moves it.

    Each method reads the value at `pos` and leaves `pos` behind it. Malformed bytes raise
    `ThriftError`. Bytes that end too early raise `IndexError`, at the latest when the stop byte of
    the enclosing struct is read: a length that points past the end is not noticed before. Time is
    linear in the number of bytes, whatever counts they claim.
    """

    __slots__ = ("buf", "pos")

    def __init__(self, buf: bytes, pos: int = 0) -> None:
        self.buf = buf
        self.pos = pos

    def fields(self, types: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield id and Thrift type of each field of the struct here; end behind its stop byte.

        The caller reads or skips the value before it continues. `types` holds the types of the
        fields that the caller reads; another type raises. Ids must ascend, as every known writer
        has them, so no field comes twice, and the fields after the last known one can be cut off.
        Ids have 16 bits; other readers truncate larger ones, so these raise.
        """
        buf, field_id = self.buf, 0
        while head := buf[self.pos]:
            self.pos += 1
            before, delta, field_type = field_id, head >> 4, head & 15
            field_id = field_id + delta if delta else self.integer()
            if not before < field_id < _FIELD_IDS:
                raise ThriftError(f"field {field_id} after field {before}")
            if types.get(field_id, field_type) != field_type:
                raise ThriftError(
                    f"field {field_id} has the Thrift type {field_type}, not {types[field_id]}"
                )
            yield field_id, field_type
        self.pos += 1

    def varint(self) -> int:
        """Read an unsigned integer of at most 64 bits."""
        buf, pos = self.buf, self.pos
        value, shift = buf[pos], 7
        if value < _MORE:  # as most are
            self.pos = pos + 1
            return value
        value &= 127
        while buf[pos] >= _MORE and shift < 70:  # noqa: PLR2004 - ten bytes of 7 bits
            pos += 1
            value |= (buf[pos] & 127) << shift
            shift += 7
        if buf[pos] >= _MORE or value >> 64:
            raise ThriftError("an integer of more than 64 bits")
        self.pos = pos + 1
        return value

    def integer(self) -> int:
        """Read a signed integer (i16, i32 or i64)."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def i32(self) -> int:
        """Read a signed integer that must have 32 bits; Arrow would cut off the rest."""
        value = self.integer()
        if value not in _INT32_RANGE:
            raise ThriftError(f"{value} has more than 32 bits")
        return value

    def binary(self) -> bytes:
        """Read bytes or text."""
        size = self.varint()
        start = self.pos
        self.pos = start + size
        return self.buf[start : self.pos]

    def list_head(self) -> tuple[int, int]:
        """Read the head of a list: the type and the number of its elements, which follow."""
        head = self.buf[self.pos]
        self.pos += 1
        count = head >> 4
        return head & 15, self.varint() if count == _LONG else count

    def struct_count(self) -> int:
        """Read the head of a list of structs, which follow; return their number."""
        element_type, count = self.list_head()
        if element_type != STRUCT and count:
            raise ThriftError(f"a list of the Thrift type {element_type}, not of structs")
        return count

    def skip(self, field_type: int) -> None:
        """Skip the value of a field of this type."""
        if field_type not in (TRUE, FALSE):  # the type is the value
            self._skip(field_type, 0)

    def span(self, field_type: int) -> bytes:
        """Read a value as its encoded bytes."""
        start = self.pos
        self.skip(field_type)
        return self.buf[start : self.pos]

    def _skip(self, value_type: int, depth: int) -> None:
        """Skip a value. It has at least one byte: an empty struct has its stop byte."""
        if depth > _MAX_DEPTH:
            raise ThriftError(f"more than {_MAX_DEPTH} levels")
        if value_type in _INTEGERS:
            self.varint()
        elif value_type == BINARY:
            self.binary()
        elif value_type == STRUCT:
            self._skip_struct(depth)
        elif value_type in (LIST, SET):
            element_type, count = self.list_head()
            self._skip_all((element_type,), count, depth)
        elif value_type == MAP:
            self._skip_map(depth)
        elif value_type in _FIXED:
            self.pos += _FIXED[value_type]
        else:
            raise ThriftError(f"a value of the unknown Thrift type {value_type}")

    def _skip_struct(self, depth: int) -> None:
        while head := self.buf[self.pos]:
            self.pos += 1
            if not head >> 4:
                self.varint()  # the id
            field_type = head & 15
            if field_type not in (TRUE, FALSE):
                self._skip(field_type, depth + 1)
        self.pos += 1

    def _skip_map(self, depth: int) -> None:
        if count := self.varint():
            types = self.buf[self.pos]
            self.pos += 1
            self._skip_all((types >> 4, types & 15), count, depth)

    def _skip_all(self, value_types: tuple[int, ...], count: int, depth: int) -> None:
        if self.pos + count > len(self.buf):  # every value has at least one byte
            raise IndexError(count)
        for _ in range(count):
            for value_type in value_types:
                self._skip(value_type, depth + 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= _MORE:
        out.append(value & 127 | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_integer(value: int) -> bytes:
    """Encode a signed integer (i16, i32 or i64)."""
    return _varint(value << 1 ^ value >> 63)


def encode_binary(value: bytes) -> bytes:
    """Encode bytes or text."""
    return _varint(len(value)) + value


def encode_list(element_type: int, elements: list[bytes]) -> bytes:
    """Encode a list of encoded elements."""
    count = len(elements)
    head = bytes([min(count, _LONG) << 4 | element_type])
    if count >= _LONG:
        head += _varint(count)
    return head + b"".join(elements)


def encode_struct(fields: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Encode a struct of (id, type, encoded value), ids ascending and less than 16 apart."""
    out, last = bytearray(), 0
    for field_id, field_type, value in fields:
        out.append(field_id - last << 4 | field_type)
        out += value
        last = field_id
    return bytes(out + STOP)
