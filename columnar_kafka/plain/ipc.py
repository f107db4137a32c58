"""Arrow data as values → tables, with nothing allocated that a value only claims."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import SegmentError
from columnar_kafka.plain.base import check_names
from columnar_kafka.schema.flatbuffer import (
    BATCH,
    DICTIONARY,
    Message,
    Table,
    described_bytes,
    messages,
)
from columnar_kafka.segment.parquet.page_walk import check_decoded, exceeds

if TYPE_CHECKING:
    from columnar_kafka.config import DecodeLimits

__all__ = ["Ipc"]

_FILE: Final = b"ARROW1\0\0"  # what a stream has before it in a file; behind it is a footer


class Ipc:
    """Arrow data: each value is an IPC stream or file of any number of rows, which become rows.

    A file is read as the stream in it, without its footer. A file without one is refused, as those
    of polars' `write_ipc`; its `write_ipc_stream` is read.

    All rows of a message have the message's position. They are held against ``columnar.max.*``
    before they are read: rows, values of a column, and bytes, of which compressed data is what it
    says it comes to.
    """

    name = ""

    def read(self, value: bytes, limits: DecodeLimits) -> pa.Table:
        """Return the rows of one value.

        Raises:
            ValueError: it is no Arrow data, or more than is allowed.
        """
        stream = memoryview(value.removeprefix(_FILE))
        try:
            _check_sizes(stream, limits)
            with pa.ipc.open_stream(stream) as opened:
                table = opened.read_all()
            table.validate(full=True)  # before anything else is done with it
            hash(table.schema)  # names are UTF-8, those inside of types too
        except SegmentError as error:  # which it is not
            raise ValueError(error.reason) from None
        except Exception as error:  # of pyarrow many kinds, of registered extension types any
            raise ValueError(f"is not Arrow data: {error}") from error
        check_names(pa.struct(list(table.schema)))
        return table


def _check_sizes(stream: memoryview, limits: DecodeLimits) -> None:
    """Refuse a stream that comes to more than is allowed.

    Raises:
        SegmentError: saying what is more.
        struct.error: it is no stream.
    """
    rows = nbytes = 0
    entries: dict[int, int] = {}
    for message in messages(stream):
        nbytes += described_bytes(message, limits.decoded_bytes - nbytes)
        check_decoded("its metadata", nbytes, limits)  # before it is read
        header = message.header
        if message.kind == BATCH:
            rows += header.long(_LENGTH)
            nbytes += _check_batch(message, header, limits)
        elif message.kind == DICTIONARY:
            number, batch = header.long(_ID), header.table(_DATA)
            # Arrow puts it behind what there is, and the batches before keep what there was.
            before = entries.get(number, 0) if header.byte(_IS_DELTA) else 0
            entries[number] = before + _check_batch(message, batch, limits)
            nbytes += entries[number]
        if rows > limits.rows:
            raise exceeds("it", rows, "rows", "rows", limits.rows)
        check_decoded("its end", nbytes, limits)


def _check_batch(message: Message, batch: Table, limits: DecodeLimits) -> int:
    """Return what the buffers of a batch come to: compressed ones begin with that number."""
    values = max((length for length, _ in batch.pairs(_NODES)), default=0)
    if values > limits.values:
        raise exceeds("a column", values, "values", "values", limits.values)
    if _OLD_COMPRESSION in message.keys:
        raise SegmentError("it uses a compression format from before Arrow 1.0")
    if not batch.has(_COMPRESSION):
        return len(message.body)
    nbytes = 0
    for offset, length in batch.pairs(_BUFFERS):
        if length:
            [decoded] = struct.unpack_from("<q", message.body, offset)
            nbytes += length if decoded < 0 else decoded  # -1: not compressed all the same
    return nbytes


_OLD_COMPRESSION: Final = b"ARROW:experimental_compression"

# Places of fields in the tables of Arrow's Message.fbs.
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)
_ID, _DATA, _IS_DELTA = range(3)
