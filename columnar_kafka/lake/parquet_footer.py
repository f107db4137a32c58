"""The footer of one Parquet file: what must agree between files, and its row groups moved.

A footer says where in the file things are. `Footer` reads one in a single pass and copies the
row groups' bytes with just the positions in them changed; there is no tree of objects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from columnar_kafka.errors import LakeError
from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.metadata import ARROW_CHUNK
from columnar_kafka.segment.parquet.thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Cursor,
    ThriftError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ARROW_SCHEMA", "MAGIC", "MAX_FOOTER", "START", "Footer", "StitchError", "assemble"]

MAX_FOOTER: Final = 16_000_000  # bytes; readers have limits, the lowest known is Dremio's 16 MiB
MAGIC: Final = b"PAR1"
START: Final = len(MAGIC)  # where every body begins
ARROW_SCHEMA: Final = b"ARROW:schema"
_ENCRYPTED: Final = b"PARE"
_TAIL: Final = 8  # bytes: the footer's length and the magic
_SPARK_LEGACY: Final = b"org.apache.spark.legacy"  # …DateTime and …INT96
# Readers choose work-arounds for the bugs of old writers by `created_by`, and a file has only one:
# files of different writers stay apart. Releases of Arrow without such bugs count as one writer.
_ARROW_WRITER: Final = re.compile(rb"parquet-cpp-arrow version \d\d+\.")

# parquet.thrift: ids of the fields read here, the last one known, and the kinds they must have.
_F_VERSION, _F_SCHEMA, _F_ROWS, _F_GROUPS, _F_KEY_VALUES, _F_CREATED_BY, _F_ORDERS = range(1, 8)
_F_CRYPTO: Final = (8, 9)
_FILE: Final = {1: I32, 2: LIST, 3: I64, 4: LIST, 5: LIST, 6: BINARY, 7: LIST}
_E_CHILDREN: Final = 5
_ELEMENT: Final = {5: I32}
_KV_KEY, _KV_VALUE = 1, 2
_KEY_VALUE: Final = {1: BINARY, 2: BINARY}
_G_COLUMNS, _G_ROWS, _G_OFFSET, _G_SIZE, _G_ORDINAL, _G_LAST = 1, 3, 5, 6, 7, 7
_GROUP: Final = {1: LIST, 3: I64, 5: I64, 6: I64, 7: I16}
_C_PATH, _C_OFFSET, _C_META = 1, 2, 3
_C_CRYPTO: Final = (8, 9)
_CHUNK: Final = {1: BINARY, 2: I64, 3: STRUCT}
_M_SIZE, _M_DATA, _M_INDEX, _M_DICTIONARY, _M_BLOOM, _M_LAST = 7, 9, 10, 11, 14, 17
_META: Final = {7: I64, 9: I64, 10: I64, 11: I64, 14: I64}


class StitchError(LakeError):
    """A file that cannot be stitched, or not to the files before it; the message says why."""


class Footer:
    """A complete file's footer: `groups` holds the entries of its row groups that have rows.

    They are encoded as they must stand in a file in which this one's body begins at `at`, and its
    first row group has the number `ordinal`. All else is as it was read.

    Raises:
        StitchError: the file is damaged, encrypted, or must not be put behind `first`.
    """

    version = 0
    schema = b""
    leaves = 0
    rows = -1
    arrow_schema: bytes | None = None
    created_by = b""
    orders = b""

    def __init__(self, data: memoryview, *, at: int, ordinal: int, first: Footer | None) -> None:
        self.body_end = _body_end(data)
        self.groups: list[bytes] = []
        self._first = first
        self._shift = at - START
        self._ordinal = ordinal
        self._rows = 0
        self._cursor = Cursor(bytes(data[self.body_end : -_TAIL]))
        self._out = bytearray()  # the row group so far, up to what stood at _done
        self._done = 0
        self._misplaced = ""
        try:
            self._read_file()
        except IndexError:
            raise StitchError("the footer ends too early") from None
        except ThriftError as error:
            raise StitchError(f"the footer is damaged: {error}") from None
        self._check()
        self._first = None  # or each footer would hold the one before
        self._cursor = Cursor(b"")

    def _check(self) -> None:
        if not self.schema:
            raise StitchError("the footer has no schema")
        if self.rows != self._rows:
            raise StitchError(f"{self.rows} rows in the footer, {self._rows} in its row groups")
        if (first := self._first) is None:
            return
        if self.schema != first.schema:
            raise StitchError("its Parquet schema differs from the first file's")
        if self.arrow_schema != first.arrow_schema:
            raise StitchError("its ARROW:schema differs from the first file's")
        if self.orders != first.orders:
            raise StitchError("its column orders differ from the first file's")
        if _writer(self.created_by) != _writer(first.created_by):
            raise StitchError(f"written by {self.created_by!r}, not by {first.created_by!r}")

    def _read_file(self) -> None:
        cursor = self._cursor
        for fid, kind in cursor.fields(_FILE):
            if fid == _F_GROUPS:
                for _ in range(cursor.structs()):
                    self._read_group()
            elif fid == _F_KEY_VALUES:
                for _ in range(cursor.structs()):
                    self._read_key_value()
            elif fid <= _F_ORDERS:
                self._read_file_value(fid)
            elif fid in _F_CRYPTO:
                raise StitchError("an encrypted file")
            else:
                cursor.skip(kind)

    def _read_file_value(self, fid: int) -> None:
        cursor, first = self._cursor, self._first
        if fid == _F_VERSION:
            self.version = cursor.integer()
        elif fid == _F_SCHEMA:
            self.schema = cursor.span(LIST, known=first.schema if first else b"")
            self.leaves = first.leaves if first else _count_leaves(Cursor(self.schema))
        elif fid == _F_ROWS:
            self.rows = cursor.integer()
        elif fid == _F_CREATED_BY:
            self.created_by = cursor.binary()
        else:
            self.orders = cursor.span(LIST, known=first.orders if first else b"")

    def _read_key_value(self) -> None:
        key = value = b""
        for fid, kind in self._cursor.fields(_KEY_VALUE):
            if fid == _KV_KEY:
                key = self._cursor.binary()
            elif fid == _KV_VALUE:
                value = self._cursor.binary()
            else:
                self._cursor.skip(kind)
        if key == ARROW_SCHEMA:
            if self.arrow_schema is not None:
                raise StitchError("ARROW:schema stands twice in the footer")
            self.arrow_schema = value
        elif key.startswith(_SPARK_LEGACY):
            raise StitchError(f"{key!r}: dates in another calendar, which only this key-value says")

    def _read_group(self) -> None:
        cursor = self._cursor
        self._out, self._done, self._misplaced = bytearray(), cursor.pos, ""
        rows, offset, kept = -1, START, cursor.pos
        for fid, kind in cursor.fields(_GROUP):
            if fid == _G_COLUMNS:
                self._read_chunks()
            elif fid == _G_ROWS:
                rows = cursor.integer()
            elif fid == _G_OFFSET:
                offset = self._read_position()
            elif fid == _G_SIZE:
                # Spark gives a row group to the task that has its middle: a size that reaches
                # past the file's end does no harm in a small file and loses rows in a big one.
                self._check_within(offset, cursor.integer())
            elif fid == _G_ORDINAL:
                self._replace(self._ordinal + len(self.groups))
            else:
                cursor.skip(kind)
            kept = cursor.pos if fid <= _G_LAST else kept
        self._end_struct(kept)
        if rows < 0:
            raise StitchError(f"a row group of {rows} rows")
        if rows and self._misplaced:
            raise StitchError(self._misplaced)
        if rows:
            self.groups.append(bytes(self._out + cursor.buf[self._done : cursor.pos]))
        self._rows += rows

    def _read_chunks(self) -> None:
        count = self._cursor.structs()
        if count != self.leaves:
            raise StitchError(f"a row group of {count} columns, where the schema has {self.leaves}")
        for _ in range(count):
            if not self._read_arrow_chunk():
                self._read_chunk()

    def _read_arrow_chunk(self) -> bool:
        """Do as `_read_chunk` and say so, or say that the chunk is not one of Arrow's usual."""
        cursor = self._cursor
        if not (match := ARROW_CHUNK.match(cursor.buf, cursor.pos)):
            return False
        start = self._move(match, "data")
        if match["dictionary"] not in (None, thrift.integer(0)):
            start = min(start, self._move(match, "dictionary"))
        self._check_within(start, thrift.decoded(match["size"]))
        cursor.pos = match.end()
        return True

    def _move(self, match: re.Match[bytes], name: str) -> int:
        position = thrift.decoded(match[name])
        self._check_within(position, 1)
        start, end = match.span(name)
        self._out += match.string[self._done : start] + thrift.integer(position + self._shift)
        self._done = end
        return position

    def _read_chunk(self) -> None:
        cursor = self._cursor
        kept, found = cursor.pos, False
        for fid, kind in cursor.fields(_CHUNK):
            if fid == _C_OFFSET:
                self._replace(0)
            elif fid == _C_META:
                self._read_meta()
                found = True
            elif fid == _C_PATH:
                raise StitchError("a column chunk that lies in another file (file_path)")
            elif fid in _C_CRYPTO:
                raise StitchError("an encrypted column")
            else:  # the page indexes
                cursor.skip(kind)
            kept = cursor.pos if fid <= _C_META else kept
        self._end_struct(kept)
        if not found:
            raise StitchError("a column chunk without metadata")

    def _read_meta(self) -> None:
        cursor = self._cursor
        kept, size, start = cursor.pos, -1, 0
        for fid, kind in cursor.fields(_META):
            if fid == _M_DATA:
                start = self._read_position()
            elif fid == _M_DICTIONARY:
                start = min(start, self._read_position(optional=True) or start)
            elif fid in (_M_INDEX, _M_BLOOM):
                self._read_position(optional=True)
            elif fid == _M_SIZE:
                size = cursor.integer()
            else:
                cursor.skip(kind)
            kept = cursor.pos if fid <= _M_LAST else kept
        self._end_struct(kept)
        self._check_within(start, size)

    def _read_position(self, *, optional: bool = False) -> int:
        """Shift the position here and return what it was; 0 is how some writers say none."""
        start = self._cursor.pos
        position = self._cursor.integer()
        if position or not optional:
            self._check_within(position, 1)
            self._put(start, position + self._shift)
        return position

    def _check_within(self, start: int, size: int) -> None:
        """Note what lies outside the body; a row group without rows (told later) may have it so."""
        if start < START or size < 0 or start + size > self.body_end:
            self._misplaced = f"{size} bytes at {start} are not within the file's body"

    def _replace(self, value: int) -> None:
        start = self._cursor.pos
        self._cursor.integer()
        self._put(start, value)

    def _put(self, start: int, value: int) -> None:
        """Let `value` stand in the row group for the integer from `start` to the cursor."""
        self._out += self._cursor.buf[self._done : start] + thrift.integer(value)
        self._done = self._cursor.pos

    def _end_struct(self, kept: int) -> None:
        """Cut off the fields of the struct just read that come after `kept`."""
        if self._cursor.pos > kept + 1:
            self._out += self._cursor.buf[self._done : kept] + thrift.STOP
            self._done = self._cursor.pos


def assemble(
    first: Footer, *, rows: int, groups: list[bytes], pairs: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """Encode a footer with what `first` says of the file, these row groups and key-values.

    Length and magic follow it: the result ends a file.
    """
    key_values = [_key_value(key, value) for key, value in pairs]
    fields = [
        (_F_VERSION, I32, thrift.integer(first.version)),
        (_F_SCHEMA, LIST, first.schema),
        (_F_ROWS, I64, thrift.integer(rows)),
        (_F_GROUPS, LIST, thrift.listing(STRUCT, groups)),
    ]
    if key_values:
        fields.append((_F_KEY_VALUES, LIST, thrift.listing(STRUCT, key_values)))
    if first.created_by:
        fields.append((_F_CREATED_BY, BINARY, thrift.binary(first.created_by)))
    if first.orders:
        fields.append((_F_ORDERS, LIST, first.orders))
    footer = thrift.struct(fields)
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _key_value(key: bytes, value: bytes) -> bytes:
    return thrift.struct(
        [(_KV_KEY, BINARY, thrift.binary(key)), (_KV_VALUE, BINARY, thrift.binary(value))]
    )


def _body_end(data: memoryview) -> int:
    """Find where the footer begins."""
    head, tail = bytes(data[:START]), bytes(data[-START:])
    if len(data) < START + _TAIL or tail not in (MAGIC, _ENCRYPTED):
        raise StitchError("not a complete Parquet file")
    if _ENCRYPTED in (head, tail):
        raise StitchError("a file with an encrypted footer")
    size = int.from_bytes(data[-_TAIL:-START], "little")
    end = len(data) - _TAIL - size
    if head != MAGIC or end < START or size > MAX_FOOTER:
        raise StitchError(f"not a Parquet file: {len(data)} bytes with a footer of {size}")
    return end


def _count_leaves(schema: Cursor) -> int:
    """Count the columns of a schema: its elements without children, but for the root."""
    children = []
    for _ in range(schema.structs()):
        children.append(0)
        for fid, kind in schema.fields(_ELEMENT):
            if fid == _E_CHILDREN:
                children[-1] = schema.integer()
            else:
                schema.skip(kind)
    return children[1:].count(0)


def _writer(created_by: bytes) -> bytes:
    match = _ARROW_WRITER.match(created_by)
    return b"parquet-cpp-arrow" if match else created_by
