"""Reads the bytes of Arrow's IPC messages: how large a schema gets, before Arrow builds it.

In a flatbuffer many fields may share one name, and many vectors may share one field, but Arrow
builds each of them anew: 1 MB of bytes may become 60 GB.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BATCH", "DICTIONARY", "FlatTable", "IpcMessage", "described_bytes", "messages"]

# The types of header in Arrow's Message.fbs.
SCHEMA, DICTIONARY, BATCH = range(1, 4)

# Slots of fields in the tables of Arrow's Message.fbs and Schema.fbs.
_M_HEADER_TYPE, _M_HEADER, _M_BODY_LENGTH, _M_METADATA = range(1, 5)
_S_FIELDS, _S_METADATA = 1, 2
_F_NAME, _F_TYPE_ID, _F_TYPE, _F_CHILDREN, _F_METADATA = 0, 2, 3, 5, 6
_TIMESTAMP, _ZONE = 10, 1
_KEY, _VALUE = 0, 1

_ENTRY_BYTES: Final = 1000
"""The memory of a field, or of an entry of its metadata, besides its text."""

_TABLES: Final = 8
"""The most tables that Arrow accepts for each byte of a flatbuffer."""

_INT: Final = struct.Struct("<i").unpack_from
_UNSIGNED: Final = struct.Struct("<I").unpack_from
_SLOTS: Final = 8
"""The most slots that are read of a table; none needs more."""


class FlatTable:
    """A table in a flatbuffer that nobody has verified.

    A field is read as the type asked for, whatever it is. Each method raises struct.error if that
    leads outside of the bytes.
    """

    def __init__(self, data: memoryview, at: int, layouts: dict[int, tuple[int, ...]]) -> None:
        """Find the slots of the table at byte `at`; the tables of a flatbuffer share `layouts`."""
        self._data, self._at, self._layouts = data, at, layouts
        layout = at - _INT(data, at)[0]
        self._slots = layouts.get(layout) or self._read_layout(max(0, layout))

    @classmethod
    def root(cls, data: memoryview) -> FlatTable:
        """Return the root table of a flatbuffer."""
        return cls(data, _UNSIGNED(data)[0], {})

    def _read_layout(self, at: int) -> tuple[int, ...]:
        count = min(_SLOTS, (struct.unpack_from("<H", self._data, at)[0] - 4) // 2)
        slots = struct.unpack_from(f"<{max(0, count)}H", self._data, at + 4)
        self._layouts[at] = slots
        return slots

    def _place(self, field: int) -> int:
        slot = self._slots[field] if field < len(self._slots) else 0
        return self._at + slot if slot else 0

    def _follow(self, field: int) -> int:
        place = self._place(field)
        return place + int(_UNSIGNED(self._data, place)[0]) if place else 0

    def has(self, field: int) -> bool:
        """Say whether a field is present."""
        return self._place(field) > 0

    def byte(self, field: int) -> int:
        """Return a number of 8 bits; 0 if the field is absent."""
        place = self._place(field)
        return self._data[place] if 0 < place < len(self._data) else 0

    def long(self, field: int) -> int:
        """Return a number of 64 bits; 0 if the field is absent."""
        place = self._place(field)
        return int(*struct.unpack_from("<q", self._data, place)) if place else 0

    def table(self, field: int) -> FlatTable:
        """Return a table in this one."""
        return FlatTable(self._data, self._follow(field), self._layouts)

    def size(self, field: int) -> int:
        """Return the length of a text or a vector; 0 if the field is absent."""
        at = self._follow(field)
        return int(_UNSIGNED(self._data, at)[0]) if at else 0

    def text(self, field: int) -> bytes:
        """Return a text."""
        at, size = self._follow(field) + 4, self.size(field)
        return bytes(self._data[at : at + size])

    def tables(self, field: int) -> list[FlatTable]:
        """Return a vector of tables."""
        at, count = self._follow(field) + 4, self.size(field)
        offsets = struct.unpack_from(f"<{count}I", self._data, at) if count else ()
        return [
            FlatTable(self._data, at + 4 * index + offset, self._layouts)
            for index, offset in enumerate(offsets)
        ]

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structs of two 64-bit numbers."""
        at, count = self._follow(field) + 4, self.size(field)
        numbers = struct.unpack_from(f"<{2 * count}q", self._data, at) if count else ()
        return list(zip(numbers[::2], numbers[1::2], strict=True))


class IpcMessage:
    """A message of an IPC stream: its metadata, a flatbuffer, and its body."""

    def __init__(self, root: FlatTable, size: int, body: memoryview) -> None:
        """`size` is the length of the metadata in bytes."""
        self._root, self.size, self.body = root, size, body
        self.header_type = root.byte(_M_HEADER_TYPE)
        self.header = root.table(_M_HEADER)

    @property
    def keys(self) -> list[bytes]:
        """The keys of its custom metadata."""
        return [entry.text(_KEY) for entry in self._root.tables(_M_METADATA)]

    def nbytes(self, limit: int) -> int:
        """Return about how many bytes its custom metadata takes; see `described_bytes`."""
        return _metadata_bytes(self._root, _M_METADATA, limit)


def messages(stream: memoryview) -> Iterator[IpcMessage]:
    """Yield the messages of an IPC stream where Arrow would find them, and build nothing.

    Raises:
        struct.error: the bytes are not a stream.
    """
    at = 0
    while at < len(stream):
        [size] = _INT(stream, at)
        at += 4
        if size == _CONTINUES:  # absent before Arrow 0.15
            [size] = _INT(stream, at)
            at += 4
        if size <= 0:
            return
        root = FlatTable.root(stream[at : at + size])
        at += size
        length = max(0, root.long(_M_BODY_LENGTH))
        yield IpcMessage(root, size, stream[at : at + length])
        at += length


_CONTINUES: Final = -1


def described_bytes(message: IpcMessage, limit: int) -> int:
    """Return about how many bytes of memory a message's metadata takes, with any schema in it.

    If that is more than `limit`, the result is some number above `limit`.

    Raises:
        struct.error: the bytes are not metadata.
    """
    if _TABLES * message.size * (_ENTRY_BYTES + 2 * message.size) <= limit:
        return message.size  # it cannot exceed the limit
    nbytes = message.nbytes(limit)
    if message.header_type == SCHEMA and nbytes <= limit:
        nbytes += _schema_bytes(message.header, limit)
    return nbytes


def _schema_bytes(schema: FlatTable, limit: int) -> int:
    nbytes = _metadata_bytes(schema, _S_METADATA, limit)
    groups = [(schema, _S_FIELDS)]
    while groups and nbytes <= limit:
        table, slot = groups.pop()
        nbytes += _ENTRY_BYTES * table.size(slot)
        if nbytes > limit:
            break
        for field in table.tables(slot):
            nbytes += field.size(_F_NAME) + _metadata_bytes(field, _F_METADATA, limit)
            if field.byte(_F_TYPE_ID) == _TIMESTAMP:
                nbytes += field.table(_F_TYPE).size(_ZONE)
            if field.has(_F_CHILDREN):
                groups.append((field, _F_CHILDREN))
            if nbytes > limit:
                break
    return nbytes


def _metadata_bytes(table: FlatTable, slot: int, limit: int) -> int:
    nbytes = _ENTRY_BYTES * table.size(slot) if table.has(slot) else 0
    if 0 < nbytes <= limit:
        nbytes += sum(entry.size(_KEY) + entry.size(_VALUE) for entry in table.tables(slot))
    return nbytes
