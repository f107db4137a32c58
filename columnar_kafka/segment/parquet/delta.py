"""How long delta-encoded bytes become, which must be known before Arrow decodes a page of them.

Such a page begins with lengths, which are integers in DELTA_BINARY_PACKED. Arrow allocates whatever
they add up to, and one long value may be the prefix of a million others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.segment import pyarrow_parquet as pq
from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.field_ids import (
    MAGIC,
    ColumnChunkField,
    ColumnMetaDataField,
    DataPageHeaderField,
    Encoding,
    FileMetaDataField,
    PageHeaderField,
    PageType,
    PhysicalType,
    RowGroupField,
    SchemaElementField,
)
from columnar_kafka.segment.parquet.thrift import BINARY, I32, STRUCT, ThriftError, encode_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.segment.parquet.thrift import Cursor

__all__ = ["PackedIntegers", "prefix_lengths", "total"]

_MINIBLOCK: Final = 32  # a miniblock's number of integers is a multiple of this
_MORE: Final = 0x80  # the bit in a varint's byte that announces another byte


class PackedIntegers(NamedTuple):
    """`number` integers in DELTA_BINARY_PACKED."""

    data: bytes
    number: int


def prefix_lengths(stream: Cursor, values: int, *, has_prefixes: bool) -> PackedIntegers | None:
    """Check the lengths at the start of a page, and return those of the prefixes if it has any.

    `stream` stands where the page's `values` values begin. `has_prefixes` tells DELTA_BYTE_ARRAY
    from DELTA_LENGTH_BYTE_ARRAY.

    Raises:
        ThriftError, IndexError: the lengths are damaged, or there are more of them than values.
    """
    start = stream.pos
    block, miniblocks, count = _read_head(stream, values)
    if not has_prefixes:
        return None
    stream.varint()  # the first length
    _skip_blocks(stream, block, miniblocks, count - 1)
    prefixes = PackedIntegers(stream.buf[start : stream.pos], count)
    _read_head(stream, values)  # of the suffixes' lengths
    return prefixes


def total(lengths: Sequence[PackedIntegers]) -> int:
    """Return the sum of all these lengths.

    Raises:
        ThriftError, pa.ArrowException, OSError: they are damaged.
    """
    integers = _decode(lengths)
    if (pc.min(integers).as_py() or 0) < 0:  # it would hide what others add
        raise ThriftError("a length is negative")
    return int(pc.sum(integers).as_py() or 0)


def _read_head(stream: Cursor, values: int) -> tuple[int, int, int]:
    """Read the integers of a block, its number of miniblocks, and the number of all integers."""
    block, miniblocks, count = stream.varint(), stream.varint(), stream.varint()
    if count > values:
        raise ThriftError(f"{count} lengths of {values} values")
    if not miniblocks or not block or block % (miniblocks * _MINIBLOCK):
        raise ThriftError(f"blocks of {block} lengths in {miniblocks} miniblocks")
    return block, miniblocks, count


def _skip_blocks(stream: Cursor, block: int, miniblocks: int, left: int) -> None:
    buf, pos, per_miniblock = stream.buf, stream.pos, block // miniblocks
    while left > 0:
        while buf[pos] >= _MORE:  # the least difference
            pos += 1
        used = miniblocks if left >= block else -(-left // per_miniblock)
        bit_widths = buf[pos + 1 : pos + 1 + used]
        pos += 1 + miniblocks + sum(bit_widths) * per_miniblock // 8
        left -= block
    stream.pos = pos


# --- a Parquet file around packed integers, for Arrow to decode -----------------------------------

_NAME: Final = thrift.encode_binary(b"n")


def _schema() -> bytes:
    """Encode a schema with one required int32 column."""
    field = SchemaElementField
    root = field.encode({field.NAME: _NAME, field.NUM_CHILDREN: encode_integer(1)})
    column = field.encode(
        {
            field.TYPE: encode_integer(PhysicalType.INT32),
            field.REPETITION_TYPE: encode_integer(0),
            field.NAME: _NAME,
        }
    )
    return thrift.encode_list(STRUCT, [root, column])


_SCHEMA: Final = _schema()


def _decode(lengths: Sequence[PackedIntegers]) -> pa.ChunkedArray:
    """Let Arrow decode packed integers, as the pages of a file made around them."""
    pages = b"".join(map(_page, lengths))
    values = encode_integer(sum(packed.number for packed in lengths))
    row_group = _row_group(values, nbytes=encode_integer(len(pages)))
    field = FileMetaDataField
    footer = field.encode(
        {
            field.VERSION: encode_integer(1),
            field.SCHEMA: _SCHEMA,
            field.NUM_ROWS: values,
            field.ROW_GROUPS: thrift.encode_list(STRUCT, [row_group]),
        }
    )
    file = MAGIC + pages + footer + len(footer).to_bytes(4, "little") + MAGIC
    return pq.ParquetFile(pa.BufferReader(file)).read(use_threads=False).column(0)


def _page(packed: PackedIntegers) -> bytes:
    """Encode a data page and its header."""
    data, page = DataPageHeaderField, PageHeaderField
    size = encode_integer(len(packed.data))
    description = data.encode(
        {
            data.NUM_VALUES: encode_integer(packed.number),
            data.ENCODING: encode_integer(Encoding.DELTA_BINARY_PACKED),
            data.DEFINITION_LEVEL_ENCODING: encode_integer(Encoding.RLE),
            data.REPETITION_LEVEL_ENCODING: encode_integer(Encoding.RLE),
        }
    )
    header = page.encode(
        {
            page.TYPE: encode_integer(PageType.DATA_PAGE),
            page.UNCOMPRESSED_PAGE_SIZE: size,
            page.COMPRESSED_PAGE_SIZE: size,
            page.DATA_PAGE_HEADER: description,
        }
    )
    return header + packed.data


def _row_group(values: bytes, nbytes: bytes) -> bytes:
    """Encode a row group of one column with encoded numbers of values and bytes."""
    meta, chunk, row_group = ColumnMetaDataField, ColumnChunkField, RowGroupField
    encodings = [encode_integer(Encoding.DELTA_BINARY_PACKED), encode_integer(Encoding.RLE)]
    meta_data = meta.encode(
        {
            meta.TYPE: encode_integer(PhysicalType.INT32),
            meta.ENCODINGS: thrift.encode_list(I32, encodings),
            meta.PATH_IN_SCHEMA: thrift.encode_list(BINARY, [_NAME]),
            meta.CODEC: encode_integer(0),
            meta.NUM_VALUES: values,
            meta.TOTAL_UNCOMPRESSED_SIZE: nbytes,
            meta.TOTAL_COMPRESSED_SIZE: nbytes,
            meta.DATA_PAGE_OFFSET: encode_integer(len(MAGIC)),
        }
    )
    column = chunk.encode({chunk.FILE_OFFSET: encode_integer(0), chunk.META_DATA: meta_data})
    return row_group.encode(
        {
            row_group.COLUMNS: thrift.encode_list(STRUCT, [column]),
            row_group.TOTAL_BYTE_SIZE: nbytes,
            row_group.NUM_ROWS: values,
        }
    )
