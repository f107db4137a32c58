"""Thrift's compact protocol, as much of it as Parquet's metadata needs: walk, skip, encode."""

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
    "binary",
    "decoded",
    "integer",
    "listing",
    "struct",
]

TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
STOP: Final = b"\0"
_INTEGERS: Final = (I16, I32, I64)
_FIXED: Final = {TRUE: 1, FALSE: 1, I8: 1, DOUBLE: 8, UUID: 16}  # bytes of each in a list or map
_MAX_DEPTH: Final = 32  # footers nest less than ten deep; hostile ones must not exhaust the stack
_IDS: Final = 1 << 15
_MORE: Final = 0x80  # the bit of a varint's byte that says another follows
_LONG: Final = 15  # what a nibble says where the number did not fit in it and follows


class ThriftError(ValueError):
    """Bytes that are not Thrift's compact protocol, or not the value expected there."""


class Cursor:
    """A place in Thrift bytes, moved by reading.

    Each method reads the value at `pos` and leaves `pos` behind it. Malformed bytes raise
    `ThriftError`, bytes that end too early `IndexError`: at the latest when the stop byte of the
    enclosing struct is read, for a length that points past the end is not noticed before. Time is
    linear in the bytes there are, whatever counts they claim.
    """

    __slots__ = ("buf", "pos")

    def __init__(self, buf: bytes, pos: int = 0) -> None:
        self.buf = buf
        self.pos = pos

    def fields(self, kinds: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield id and kind of each field of the struct here, ending behind its stop byte.

        The caller reads or skips the value before it goes on. `kinds` says which kind the fields
        have that it is going to read. Ids must ascend, as every known writer has them: so none
        comes twice, and what follows the last known one can be cut off. They have 16 bits: others
        cut what is above them off.
        """
        buf, fid = self.buf, 0
        while head := buf[self.pos]:
            self.pos += 1
            before, delta, kind = fid, head >> 4, head & 15
            fid = fid + delta if delta else self.integer()
            if not before < fid < _IDS:
                raise ThriftError(f"field {fid} after field {before}")
            if kinds.get(fid, kind) != kind:
                raise ThriftError(f"field {fid} is of the kind {kind}")
            yield fid, kind
        self.pos += 1

    def varint(self) -> int:
        """Read an unsigned integer of at most 64 bits."""
        buf, pos = self.buf, self.pos
        value, shift = buf[pos] & 127, 7
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

    def binary(self) -> bytes:
        """Read bytes or text."""
        size = self.varint()
        start = self.pos
        self.pos = start + size
        return self.buf[start : self.pos]

    def listing(self) -> tuple[int, int]:
        """Read the head of a list: kind and number of its elements, which follow."""
        head = self.buf[self.pos]
        self.pos += 1
        count = head >> 4
        return head & 15, self.varint() if count == _LONG else count

    def structs(self) -> int:
        """Read the head of a list of structs, which follow, and return their number."""
        kind, count = self.listing()
        if kind != STRUCT and count:
            raise ThriftError(f"a list of the kind {kind}, not of structs")
        return count

    def skip(self, kind: int) -> None:
        """Pass over the value of a field of this kind."""
        if kind not in (TRUE, FALSE):  # the kind is the value
            self._skip(kind, 0)

    def span(self, kind: int, known: bytes) -> bytes:
        """Read a value as its encoded bytes; if it is `known` it need not be walked."""
        start = self.pos
        # A complete encoding is never the beginning of another one.
        if known and self.buf.startswith(known, start):
            self.pos = start + len(known)
            return known
        self.skip(kind)
        return self.buf[start : self.pos]

    def _skip(self, kind: int, depth: int) -> None:
        """Pass over a value, which has at least one byte or (an empty struct's) one stop byte."""
        if depth > _MAX_DEPTH:
            raise ThriftError(f"more than {_MAX_DEPTH} levels")
        if kind in _INTEGERS:
            self.varint()
        elif kind == BINARY:
            self.binary()
        elif kind == STRUCT:
            self._skip_struct(depth)
        elif kind in (LIST, SET):
            element, count = self.listing()
            self._skip_all((element,), count, depth)
        elif kind == MAP:
            self._skip_map(depth)
        elif kind in _FIXED:
            self.pos += _FIXED[kind]
        else:
            raise ThriftError(f"a value of the unknown kind {kind}")

    def _skip_struct(self, depth: int) -> None:
        while head := self.buf[self.pos]:
            self.pos += 1
            if not head >> 4:
                self.varint()  # the id
            kind = head & 15
            if kind not in (TRUE, FALSE):
                self._skip(kind, depth + 1)
        self.pos += 1

    def _skip_map(self, depth: int) -> None:
        if count := self.varint():
            kinds = self.buf[self.pos]
            self.pos += 1
            self._skip_all((kinds >> 4, kinds & 15), count, depth)

    def _skip_all(self, kinds: tuple[int, ...], count: int, depth: int) -> None:
        if self.pos + count > len(self.buf):  # none is without bytes
            raise IndexError(count)
        for _ in range(count):
            for kind in kinds:
                self._skip(kind, depth + 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= _MORE:
        out.append(value & 127 | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(value: int) -> bytes:
    """Encode a signed integer (i16, i32 or i64)."""
    return _varint(value << 1 ^ value >> 63)


def decoded(value: bytes) -> int:
    """Decode a signed integer that is known to be complete."""
    result = 0
    for byte in reversed(value):
        result = result << 7 | byte & 127
    return result >> 1 ^ -(result & 1)


def binary(value: bytes) -> bytes:
    """Encode bytes or text."""
    return _varint(len(value)) + value


def listing(kind: int, elements: list[bytes]) -> bytes:
    """Encode a list of encoded elements."""
    count = len(elements)
    head = bytes([min(count, _LONG) << 4 | kind]) + (_varint(count) if count >= _LONG else b"")
    return head + b"".join(elements)


def struct(fields: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Encode a struct of (id, kind, encoded value), ids ascending and less than 16 apart."""
    out, last = bytearray(), 0
    for fid, kind, value in fields:
        out.append(fid - last << 4 | kind)
        out += value
        last = fid
    return bytes(out + STOP)
