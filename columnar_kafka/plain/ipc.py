"""Arrow IPC data as values → tables, without allocating what a value only claims."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SegmentError
from columnar_kafka.plain.base import check_column_names
from columnar_kafka.runtime.interruptions import raise_if_once
from columnar_kafka.schema.flatbuffer import (
    BATCH,
    DICTIONARY,
    FlatTable,
    IpcMessage,
    described_bytes,
    messages,
)
from columnar_kafka.segment.parquet.page_checks import check_decoded, exceeds

if TYPE_CHECKING:
    from columnar_kafka.config import ReadOptions

__all__ = ["Ipc"]

_FILE: Final = b"ARROW1\0\0"  # precedes the stream in a file; a footer follows it


class Ipc:
    """Arrow data: each value is an IPC stream or file of any number of rows.

    A file is read as the stream inside it, without its footer. A file that contains no stream is an
    error, such as polars' `write_ipc` writes; use `write_ipc_stream`.

    All rows of a message have the message's position. Before a value is read, its rows, the values
    of each column and its bytes are checked against ``columnar.max.*``; compressed data counts with
    the size that it claims to decompress to.
    """

    name = ""

    def read(self, value: bytes, options: ReadOptions) -> pa.Table:
        """Return the rows of one value.

        Raises:
            ValueError: the value is not Arrow data, or exceeds a limit.
        """
        stream = memoryview(value.removeprefix(_FILE))
        try:
            table = _read(stream, options)
        except SegmentError as error:  # a limit; but the value is no segment
            raise ValueError(error.reason) from None
        except Exception as error:  # pyarrow raises many kinds, registered extension types any
            raise_if_once(error, partial(_read, stream, options))
            raise ValueError(f"is not Arrow data: {error}") from error
        check_column_names(pa.struct(list(table.schema)))
        return table


def _read(stream: memoryview, options: ReadOptions) -> pa.Table:
    _check_sizes(stream, options)
    with pa.ipc.open_stream(stream) as opened:
        table = opened.read_all()
    table.validate(full=True)  # before anything else touches it
    hash(table.schema.remove_metadata())  # raises if a name, at any depth, is not UTF-8
    return table


def _check_sizes(stream: memoryview, options: ReadOptions) -> None:
    """Check a stream against the limits.

    Raises:
        SegmentError: it exceeds a limit; says which.
        struct.error: it is not a stream.
    """
    rows = nbytes = 0
    entries: dict[int, int] = {}
    for message in messages(stream):
        nbytes += described_bytes(message, options.max_decoded_bytes - nbytes)
        check_decoded("its metadata", nbytes, options)  # before it is read
        header = message.header
        if message.header_type == BATCH:
            rows += header.long(_LENGTH)
            nbytes += _check_batch(message, header, options)
        elif message.header_type == DICTIONARY:
            number, batch = header.long(_ID), header.table(_DATA)
            # Arrow appends a delta to a copy: earlier batches keep the dictionary that they had.
            before = entries.get(number, 0) if header.byte(_IS_DELTA) else 0
            entries[number] = before + _check_batch(message, batch, options)
            nbytes += entries[number]
        if rows > options.max_rows:
            raise exceeds("it", rows, "rows", "rows", options.max_rows)
        check_decoded("its end", nbytes, options)


def _check_batch(message: IpcMessage, batch: FlatTable, options: ReadOptions) -> int:
    """Return the decoded bytes of a batch's buffers; compressed ones begin with that number."""
    values = max((length for length, _ in batch.pairs(_NODES)), default=0)
    if values > options.max_values:
        raise exceeds("a column", values, "values", "values", options.max_values)
    if _OLD_COMPRESSION in message.keys:
        raise SegmentError("it uses a compression format from before Arrow 1.0")
    if not batch.has(_COMPRESSION):
        return len(message.body)
    nbytes = 0
    for offset, length in batch.pairs(_BUFFERS):
        if length:
            [decoded] = struct.unpack_from("<q", message.body, offset)
            nbytes += length if decoded < 0 else decoded  # -1: this one is not compressed
    return nbytes


_OLD_COMPRESSION: Final = b"ARROW:experimental_compression"

# Slots of fields in the tables of Arrow's Message.fbs.
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_ID, _DATA, _IS_DELTA = range(3)
