"""Arrow's serialized messages as they are: what a schema comes to, told before Arrow makes it.

In a flatbuffer any number of fields may share one name, and any number of places one field: Arrow
makes each of them anew. So of 1 MB there may come 60 GB.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BATCH", "DICTIONARY", "Message", "Table", "described_bytes", "messages"]

# Kinds of messages.
SCHEMA, DICTIONARY, BATCH = range(1, 4)

# Places of fields in the tables of Arrow's Message.fbs and Schema.fbs.
_M_KIND, _M_HEADER, _M_BODY_LENGTH, _M_METADATA = range(1, 5)
_S_FIELDS, _S_METADATA = 1, 2
_F_NAME, _F_TYPE_ID, _F_TYPE, _F_CHILDREN, _F_METADATA = 0, 2, 3, 5, 6
_TIMESTAMP, _ZONE = 10, 1
_KEY, _VALUE = 0, 1

_ENTRY_BYTES: Final = 1000
"""What a field takes in memory, or an entry of its metadata, beside its text."""

_TABLES: Final = 8
"""So many tables for each byte of a flatbuffer Arrow goes through, and refuses those with more."""

_INT: Final = struct.Struct("<i").unpack_from
_UNSIGNED: Final = struct.Struct("<I").unpack_from
_SLOTS: Final = 8
"""No table that is read here has more fields."""


class Table:
    """A table in a flatbuffer that nobody has verified.

    Anything is read as what it is asked for; struct.error where that is not inside the bytes.
    """

    def __init__(self, data: memoryview, at: int, layouts: dict[int, tuple[int, ...]]) -> None:
        """`layouts` are those of the flatbuffer that are known, which tables share."""
        self._data, self._at, self._layouts = data, at, layouts
        layout = at - _INT(data, at)[0]
        self._slots = layouts.get(layout) or self._read_layout(max(0, layout))

    @classmethod
    def root(cls, data: memoryview) -> Table:
        """Return a flatbuffer's table."""
        return cls(data, _UNSIGNED(data)[0], {})

    def _read_layout(self, at: int) -> tuple[int, ...]:
        count = min(_SLOTS, (struct.unpack_from("<H", self._data, at)[0] - 4) // 2)
        found = struct.unpack_from(f"<{max(0, count)}H", self._data, at + 4)
        self._layouts[at] = found
        return found

    def _place(self, field: int) -> int:
        slot = self._slots[field] if field < len(self._slots) else 0
        return self._at + slot if slot else 0

    def _follow(self, field: int) -> int:
        place = self._place(field)
        return place + int(_UNSIGNED(self._data, place)[0]) if place else 0

    def has(self, field: int) -> bool:
        """Say whether a field is there."""
        return self._place(field) > 0

    def byte(self, field: int) -> int:
        """Return a number of 8 bits; 0 where it is not there."""
        place = self._place(field)
        return self._data[place] if 0 < place < len(self._data) else 0

    def long(self, field: int) -> int:
        """Return a number of 64 bits; 0 where it is not there."""
        place = self._place(field)
        return int(*struct.unpack_from("<q", self._data, place)) if place else 0

    def table(self, field: int) -> Table:
        """Return a table in this one."""
        return Table(self._data, self._follow(field), self._layouts)

    def size(self, field: int) -> int:
        """Return the length of a text or a vector; 0 where it is not there."""
        at = self._follow(field)
        return int(_UNSIGNED(self._data, at)[0]) if at else 0

    def text(self, field: int) -> bytes:
        """Return a text."""
        at, size = self._follow(field) + 4, self.size(field)
        return bytes(self._data[at : at + size])

    def tables(self, field: int) -> list[Table]:
        """Return a vector of tables."""
        at, count = self._follow(field) + 4, self.size(field)
        offsets = struct.unpack_from(f"<{count}I", self._data, at) if count else ()
        return [
            Table(self._data, at + 4 * place + each, self._layouts)
            for place, each in enumerate(offsets)
        ]

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structs of two numbers."""
        at, count = self._follow(field) + 4, self.size(field)
        numbers = struct.unpack_from(f"<{2 * count}q", self._data, at) if count else ()
        return list(zip(numbers[::2], numbers[1::2], strict=True))


class Message:
    """A message of a stream: what its metadata says, and its body."""

    def __init__(self, root: Table, size: int, body: memoryview) -> None:
        """`size` is that of the metadata, in bytes."""
        self._root, self.size, self.body = root, size, body
        self.kind = root.byte(_M_KIND)
        self.header = root.table(_M_HEADER)

    @property
    def keys(self) -> list[bytes]:
        """Return the keys of its own metadata."""
        return [each.text(_KEY) for each in self._root.tables(_M_METADATA)]

    def nbytes(self, most: int) -> int:
        """Return about how many bytes its own metadata takes, as `described_bytes`."""
        return _metadata_bytes(self._root, _M_METADATA, most)


def messages(stream: memoryview) -> Iterator[Message]:
    """Yield the messages of a stream as Arrow finds them, of which it makes nothing as yet.

    Raises:
        struct.error: it is no stream.
    """
    at = 0
    while at < len(stream):
        [size] = _INT(stream, at)
        at += 4
        if size == _CONTINUES:  # it was not there before Arrow 0.15
            [size] = _INT(stream, at)
            at += 4
        if size <= 0:
            return
        root = Table.root(stream[at : at + size])
        at += size
        length = max(0, root.long(_M_BODY_LENGTH))
        yield Message(root, size, stream[at : at + length])
        at += length


_CONTINUES: Final = -1


def described_bytes(message: Message, most: int) -> int:
    """Return about how many bytes the metadata of a message takes in memory, a schema's included.

    More than `most` is some number above it.

    Raises:
        struct.error: it is no metadata.
    """
    if _TABLES * message.size * (_ENTRY_BYTES + 2 * message.size) <= most:
        return message.size  # it cannot be too much
    nbytes = message.nbytes(most)
    if message.kind == SCHEMA and nbytes <= most:
        nbytes += _schema_bytes(message.header, most)
    return nbytes


def _schema_bytes(schema: Table, most: int) -> int:
    nbytes = _metadata_bytes(schema, _S_METADATA, most)
    groups = [(schema, _S_FIELDS)]
    while groups and nbytes <= most:
        table, place = groups.pop()
        nbytes += _ENTRY_BYTES * table.size(place)
        if nbytes > most:
            break
        for field in table.tables(place):
            nbytes += field.size(_F_NAME) + _metadata_bytes(field, _F_METADATA, most)
            if field.byte(_F_TYPE_ID) == _TIMESTAMP:
                nbytes += field.table(_F_TYPE).size(_ZONE)
            if field.has(_F_CHILDREN):
                groups.append((field, _F_CHILDREN))
            if nbytes > most:
                break
    return nbytes


def _metadata_bytes(table: Table, place: int, most: int) -> int:
    nbytes = _ENTRY_BYTES * table.size(place) if table.has(place) else 0
    if 0 < nbytes <= most:
        nbytes += sum(each.size(_KEY) + each.size(_VALUE) for each in table.tables(place))
    return nbytes
