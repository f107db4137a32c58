"""Arrow data as values → tables, with nothing allocated that a value only claims."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SegmentError
from columnar_kafka.parquet.pages import check_decoded, exceeds
from columnar_kafka.plain.base import check_names

if TYPE_CHECKING:
    from columnar_kafka.config import Limits

__all__ = ["Ipc"]

_FILE: Final = b"ARROW1\0\0"  # what a stream has before it in a file; behind it is a footer


class Ipc:
    """Arrow data: each value is an IPC stream or file of any number of rows, which become rows.

    All rows of a message have the message's position. They are held against ``columnar.max.*``
    before they are read: rows, values of a column, and bytes, of which compressed data is what it
    says it comes to.
    """

    name = ""

    def read(self, value: bytes, limits: Limits) -> pa.Table:
        """Return the rows of one value.

        Raises:
            ValueError: it is no Arrow data, or more than is allowed.
        """
        stream = pa.py_buffer(value.removeprefix(_FILE))
        try:
            _check_sizes(stream, limits)
            with pa.ipc.open_stream(stream) as opened:
                table = opened.read_all()
        except SegmentError as error:  # which it is not
            raise ValueError(error.reason) from None
        except (pa.ArrowException, OSError, EOFError, IndexError, struct.error) as error:
            raise ValueError(f"is no Arrow data: {error}") from error
        table.validate(full=True)
        check_names(pa.struct(list(table.schema)))
        return table


def _check_sizes(stream: pa.Buffer, limits: Limits) -> None:
    rows = nbytes = 0
    for message in pa.ipc.MessageReader.open_stream(stream):
        if message.type == "record batch":
            batch = _Table.root(message.metadata).table(_HEADER)
            rows += batch.long(_LENGTH)
        elif message.type == "dictionary":
            batch = _Table.root(message.metadata).table(_HEADER).table(_DATA)
        else:
            continue
        values = max((length for length, _ in batch.pairs(_NODES)), default=0)
        nbytes += _decoded_bytes(message, batch)
        if rows > limits.rows:
            raise exceeds("it", rows, "rows", "rows", limits.rows)
        if values > limits.values:
            raise exceeds("a column", values, "values", "values", limits.values)
        check_decoded("its end", nbytes, limits)


def _decoded_bytes(message: pa.ipc.Message, batch: _Table) -> int:
    """Return what the buffers of a batch come to: compressed ones begin with that number."""
    if not batch.has(_COMPRESSION):
        return int(message.body.size)
    nbytes = 0
    for offset, length in batch.pairs(_BUFFERS):
        if length:
            [decoded] = struct.unpack_from("<q", message.body, offset)
            nbytes += length if decoded < 0 else decoded  # -1: not compressed all the same
    return nbytes


# Places of fields in the tables of Arrow's Message.fbs.
_HEADER: Final = 2
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_DATA: Final = 1


class _Table:
    """A table in a flatbuffer that Arrow has verified."""

    def __init__(self, data: pa.Buffer, at: int) -> None:
        self._data, self._at = data, at

    @classmethod
    def root(cls, data: pa.Buffer) -> _Table:
        """Return a flatbuffer's table."""
        return cls(data, *struct.unpack_from("<I", data))

    def _place(self, field: int) -> int:
        [back] = struct.unpack_from("<i", self._data, self._at)
        [size] = struct.unpack_from("<H", self._data, self._at - back)
        slot = 4 + 2 * field
        if slot >= size:
            return 0
        [found] = struct.unpack_from("<H", self._data, self._at - back + slot)
        return self._at + int(found) if found else 0

    def _follow(self, field: int) -> int:
        place = self._place(field)
        return place + int(*struct.unpack_from("<I", self._data, place)) if place else 0

    def has(self, field: int) -> bool:
        """Say whether a field is there."""
        return self._place(field) > 0

    def table(self, field: int) -> _Table:
        """Return a table in this one."""
        return _Table(self._data, self._follow(field))

    def long(self, field: int) -> int:
        """Return a number."""
        place = self._place(field)
        return int(*struct.unpack_from("<q", self._data, place)) if place else 0

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structs of two numbers."""
        at = self._follow(field)
        if not at:
            return []
        [count] = struct.unpack_from("<I", self._data, at)
        numbers = struct.unpack_from(f"<{2 * count}q", self._data, at + 4)
        return list(zip(numbers[::2], numbers[1::2], strict=True))
