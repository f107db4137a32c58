"""How long delta-encoded bytes become: what must be known before Arrow decodes a page of them.

Such a page begins with lengths, which are numbers packed as in DELTA_BINARY_PACKED. Arrow makes
room for as many as they say they are, and one long value may be the prefix of a million others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.thrift import BINARY, I32, I64, LIST, STRUCT, ThriftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.segment.parquet.thrift import Cursor

__all__ = ["Packed", "prefixes", "total"]

_PART: Final = 32  # integers packed alike are a multiple of these
_MORE: Final = 0x80  # the bit of a varint's byte that says another follows


class Packed(NamedTuple):
    """Integers as DELTA_BINARY_PACKED has them, and their number."""

    data: bytes
    number: int


def prefixes(stream: Cursor, values: int, *, has_prefixes: bool) -> Packed | None:
    """Return the lengths of the prefixes in a page of so many `values`, if it has any.

    `stream` is where the page's values begin: DELTA_BYTE_ARRAY, with prefixes, or
    DELTA_LENGTH_BYTE_ARRAY.

    Raises:
        ThriftError, IndexError: the lengths are damaged, or more than there are values.
    """
    start = stream.pos
    block, parts, count = _lengths(stream, values)
    if not has_prefixes:
        return None
    stream.varint()  # the first length
    _skip(stream, block, parts, count - 1)
    found = Packed(stream.buf[start : stream.pos], count)
    _lengths(stream, values)  # the suffixes'
    return found


def total(packed: Sequence[Packed]) -> int:
    """Return the sum of all these lengths.

    Raises:
        ThriftError, pa.ArrowException, OSError: they are damaged.
    """
    lengths = _decode(packed)
    if (pc.min(lengths).as_py() or 0) < 0:  # it would hide what others add
        raise ThriftError("a length is negative")
    return int(pc.sum(lengths).as_py() or 0)


def _lengths(stream: Cursor, most: int) -> tuple[int, int, int]:
    """Read how many lengths a block has, in how many parts, and how many there are."""
    block, parts, count = stream.varint(), stream.varint(), stream.varint()
    if count > most:
        raise ThriftError(f"{count} lengths of {most} values")
    if not parts or not block or block % (parts * _PART):
        raise ThriftError(f"blocks of {block} lengths in {parts} parts")
    return block, parts, count


def _skip(stream: Cursor, block: int, parts: int, left: int) -> None:
    """Pass over the blocks of packed integers."""
    buf, pos, per_part = stream.buf, stream.pos, block // parts
    while left > 0:
        while buf[pos] >= _MORE:  # the least difference
            pos += 1
        widths = buf[pos + 1 : pos + 1 + (parts if left >= block else -(-left // per_part))]
        pos += 1 + parts + sum(widths) * per_part // 8
        left -= block
    stream.pos = pos


def _decode(packed: Sequence[Packed]) -> pa.ChunkedArray:
    """Let Arrow decode packed integers, as the pages of a file made around them."""
    pages = b"".join(map(_page, packed))
    values = thrift.integer(sum(each.number for each in packed))
    nbytes = thrift.integer(len(pages))
    chunk = [
        *((1, I32, _INT32), (2, LIST, thrift.listing(I32, [_DELTA, _RLE]))),
        *((3, LIST, thrift.listing(BINARY, [_NAME])), (4, I32, _ZERO), (5, I64, values)),
        *((6, I64, nbytes), (7, I64, nbytes), (9, I64, thrift.integer(len(_MAGIC)))),
    ]
    column = thrift.struct([(2, I64, _ZERO), (3, STRUCT, thrift.struct(chunk))])
    columns = thrift.listing(STRUCT, [column])
    group = thrift.struct([(1, LIST, columns), (2, I64, nbytes), (3, I64, values)])
    groups = thrift.listing(STRUCT, [group])
    footer = thrift.struct(
        [(1, I32, _ONE), (2, LIST, _SCHEMA), (3, I64, values), (4, LIST, groups)]
    )
    file = _MAGIC + pages + footer + len(footer).to_bytes(4, "little") + _MAGIC
    return pq.ParquetFile(pa.BufferReader(file)).read(use_threads=False).column(0)


def _page(packed: Packed) -> bytes:
    size, count = thrift.integer(len(packed.data)), thrift.integer(packed.number)
    part = thrift.struct([(1, I32, count), (2, I32, _DELTA), (3, I32, _RLE), (4, I32, _RLE)])
    header = [(1, I32, _ZERO), (2, I32, size), (3, I32, size), (5, STRUCT, part)]
    return thrift.struct(header) + packed.data


_MAGIC: Final = b"PAR1"
_ZERO, _ONE, _INT32, _RLE, _DELTA = map(thrift.integer, (0, 1, 1, 3, 5))
_NAME: Final = thrift.binary(b"n")
_SCHEMA: Final = thrift.listing(
    STRUCT,
    [
        thrift.struct([(4, BINARY, _NAME), (5, I32, _ONE)]),  # the root, of one
        thrift.struct([(1, I32, _INT32), (3, I32, _ZERO), (4, BINARY, _NAME)]),  # int32, required
    ],
)
