"""Arrow's serialized metadata, as it is: what a schema comes to, told before Arrow makes it.

In a flatbuffer any number of fields may share one name, and any number of places one field: Arrow
makes each of them anew. So of 1 MB there may come 60 GB.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["Table", "metadata_bytes", "schema_bytes"]

# Places of fields in the tables of Arrow's Schema.fbs.
_S_FIELDS, _S_METADATA = 1, 2
_F_NAME, _F_TYPE_ID, _F_TYPE, _F_CHILDREN, _F_METADATA = 0, 2, 3, 5, 6
_TIMESTAMP, _ZONE = 10, 1
_KEY, _VALUE = 0, 1

_ENTRY_BYTES: Final = 1000
"""What a field takes in memory, or an entry of its metadata, beside its text."""


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


def schema_bytes(schema: Table, most: int) -> int:
    """Return about how many bytes a schema takes in memory; more than `most` if it is more.

    Raises:
        struct.error: it is no schema.
    """
    nbytes = metadata_bytes(schema, _S_METADATA, most)
    groups = [(schema, _S_FIELDS)]
    while groups and nbytes <= most:
        table, place = groups.pop()
        nbytes += _ENTRY_BYTES * table.size(place)
        if nbytes > most:
            break
        for field in table.tables(place):
            nbytes += field.size(_F_NAME) + metadata_bytes(field, _F_METADATA, most)
            if field.byte(_F_TYPE_ID) == _TIMESTAMP:
                nbytes += field.table(_F_TYPE).size(_ZONE)
            if field.has(_F_CHILDREN):
                groups.append((field, _F_CHILDREN))
    return nbytes


def metadata_bytes(table: Table, place: int, most: int) -> int:
    """Return about how many bytes a table's own keys and values take, as `schema_bytes`."""
    nbytes = _ENTRY_BYTES * table.size(place) if table.has(place) else 0
    if 0 < nbytes <= most:
        nbytes += sum(each.size(_KEY) + each.size(_VALUE) for each in table.tables(place))
    return nbytes
