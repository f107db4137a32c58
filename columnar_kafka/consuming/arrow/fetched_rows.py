"""Plain messages that the core keeps → the rows that `table_builder.plain_rows` makes of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka import native, position
from columnar_kafka.columns.kafka_column import HEADERS, TIMESTAMP
from columnar_kafka.plain.base import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from columnar_kafka.native import _core as core
    from columnar_kafka.plain.base import Format, ManyFormats

__all__ = ["FetchedRows", "UnusualError"]


class UnusualError(Exception):
    """Each message has to be looked at by itself: one is wrong, or has a form of its own."""


class FetchedRows:
    """Plain messages of one topic, as columns."""

    def __init__(self, messages: Sequence[core.FetchedMessages]) -> None:
        """Take messages in their order. Raises UnusualError."""
        self._columns = _read(native.core.FetchedColumns, messages)
        self.first = messages[0]
        self.topic = self.first.topic()

    def __len__(self) -> int:
        return len(self._columns)

    def keys(self, format_: Format | ManyFormats | None) -> pa.Array:
        """Return decoded keys. Raises UnusualError."""
        if format_ is None:
            return _cells(pa.binary(), len(self), _read(self._columns.keys))
        return self._decoded(format_, is_key=True)

    def values(self, format_: Format | ManyFormats | None) -> pa.Array:
        """Return decoded values. Raises UnusualError."""
        if format_ is None:
            return _cells(pa.binary(), len(self), _read(self._columns.values))
        return self._decoded(format_, is_key=False)

    def member(self, name: str) -> pa.Array:
        """Return a member of `_kafka` other than the key. Raises UnusualError."""
        columns, rows = self._columns, len(self)
        if name == "topic":
            return pa.repeat(self.topic, rows)
        if name == "partition":
            return _numbers(pa.int32(), rows, None, _read(columns.partitions))
        if name == "offset":
            return _numbers(pa.int64(), rows, None, _read(columns.positions, position.MAX_ROWS))
        if name == "timestamp":
            return _numbers(TIMESTAMP, rows, *_read(columns.times))
        return self._headers()

    def _decoded(self, format_: Any, *, is_key: bool) -> pa.Array:
        objects = None
        if hasattr(format_, "of_all"):
            objects = _read(self._columns.objects, is_key)
            format_ = format_.of_all(objects)
            if format_ is None:
                raise UnusualError
        if (decode_fetched := getattr(format_, "decode_fetched", None)) is not None:
            array = _read(partial(decode_fetched, self._columns, is_key=is_key))
            if array is not None:
                return array
        decoded = decode(format_, objects or _read(self._columns.objects, is_key))
        if len(decoded.array) < len(self):
            raise UnusualError
        return decoded.array

    def _headers(self) -> pa.Array:
        headers = _read(self._columns.headers)
        if headers is None:
            return pa.nulls(len(self), HEADERS)
        validity, ends, count, names, contents = headers
        fields = list(HEADERS.value_type)
        pairs = [
            _cells(field.type, count, cells)
            for field, cells in zip(fields, (names, contents), strict=True)
        ]
        children = [pa.StructArray.from_arrays(pairs, fields=fields)]
        buffers = [_buffer(validity), _buffer(ends)]
        return pa.Array.from_buffers(HEADERS, len(self), buffers, children=children)


def _read(read: Callable[..., Any], *args: Any) -> Any:
    """Call the core. Raises UnusualError: an array has no room for it, or the core has panicked."""
    try:
        return read(*args)
    except (OverflowError, native.core.PanicError) as error:
        raise UnusualError from error


def _cells(arrow: pa.DataType, rows: int, buffers: Iterable[bytes | None]) -> pa.Array:
    return pa.Array.from_buffers(arrow, rows, list(map(_buffer, buffers)))


def _numbers(arrow: pa.DataType, rows: int, validity: bytes | None, numbers: bytes) -> pa.Array:
    return pa.Array.from_buffers(arrow, rows, [_buffer(validity), _buffer(numbers)])


def _buffer(data: bytes | None) -> pa.Buffer | None:
    return None if data is None else pa.py_buffer(data)
