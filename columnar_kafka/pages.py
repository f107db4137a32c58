"""A Parquet file's pages, walked and capped before Arrow decodes any of them.

Arrow believes what it reads: a header's sizes and counts are allocated before the bytes they speak
of are looked at, so 45 bytes take 680 MB, 504 bytes 200,000,000 values, and 2 KB a terabyte. Here
every page is found and counted first, and what it says is compared with the footer and the limits.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from columnar_kafka import thrift
from columnar_kafka.errors import SegmentError
from columnar_kafka.schema.canonical import children
from columnar_kafka.thrift import BINARY, I32, I64, LIST, STRUCT, Cursor, ThriftError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.config import Limits

__all__ = ["Walked", "exceeds", "footer_elements", "walk"]

_MAGIC: Final = b"PAR1"
_TAIL: Final = 8  # bytes: the footer's length and the magic

# parquet.thrift: the fields of page headers read here, and the kinds they must have.
_TYPE, _UNCOMPRESSED, _COMPRESSED, _CRC, _DATA, _DICTIONARY, _DATA_V2 = 1, 2, 3, 4, 5, 7, 8
_HEADER: Final = {1: I32, 2: I32, 3: I32, 4: I32, 5: STRUCT, 7: STRUCT, 8: STRUCT}
_VALUES, _ENCODING = 1, 2  # of data pages and dictionaries alike
_PART: Final = {1: I32, 2: I32, 3: I32, 4: I32}
_V2_ENCODING, _V2_DEFINITION, _V2_REPETITION, _V2_COMPRESSED = 4, 5, 6, 7
_PART_V2: Final = {1: I32, 4: I32, 5: I32, 6: I32}
_KINDS: Final = {0: _DATA, 2: _DICTIONARY, 3: _DATA_V2}  # a page's type: where the rest is said

_ENCODINGS: Final = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}
_RLE: Final = 3
_DELTA_LENGTH, _DELTA_BYTES = 6, 7
_INDICES: Final = (2, 8)
_BYTES: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CODECS: Final = {
    "UNCOMPRESSED": None,
    "GZIP": "gzip",
    "SNAPPY": "snappy",
    "LZ4": "lz4_raw",
    "ZSTD": "zstd",
}
_ENTRY_BYTES: Final = 16  # what Arrow keeps of a dictionary's entry beside its bytes


class Walked(NamedTuple):
    """What a file's pages come to.

    `nbytes` is what all columns take in memory once decoded, at most, those of `dictionaries`
    without their values: the leaf columns (by number) of bytes that are stored as dictionaries,
    one value of which may stand for a million.
    """

    nbytes: int
    dictionaries: list[int]


def exceeds(what: str, value: int, key: str, limit: int) -> NoReturn:
    """Refuse what is over a limit, and say how to raise it."""
    raise SegmentError(f"{what}: more than columnar.max.{key}={limit} (this is {value})")


def footer_elements(data: bytes, limits: Limits) -> int:
    """Return how many elements a list in the footer may have.

    To be told to Arrow, which makes room for as many as the footer claims before it reads one. A
    list's element takes a byte; one that takes much room in memory takes more than eight.

    Raises:
        SegmentError: the footer is larger than ``columnar.max.footer.bytes``.
    """
    size = int.from_bytes(data[-_TAIL:-4], "little") if data[-4:] == _MAGIC else 0
    if size > limits.footer_bytes:
        exceeds("the footer's bytes", size, "footer.bytes", limits.footer_bytes)
    return max(1000, size // 8)


def walk(data: bytes, metadata: pq.FileMetaData, schema: pa.Schema, limits: Limits) -> Walked:
    """Walk the pages of every column chunk; about a twentieth of what decoding them costs.

    Raises:
        SegmentError: pages, footer and file disagree; a page has no checksum; something other
            than version 1 allows; or a limit is exceeded, by its key.
    """
    nbytes = largest = 0
    position = len(_MAGIC)
    end = len(data) - _TAIL - metadata.serialized_size
    leaves = [leaf for each in schema for leaf in _leaves(each.type)]
    if len(leaves) != metadata.num_columns:
        raise SegmentError(f"{metadata.num_columns} columns in Parquet, {len(leaves)} in Arrow")
    dictionaries = set()
    for row_group in range(metadata.num_row_groups):
        group = metadata.row_group(row_group)
        for column, leaf in enumerate(leaves):
            chunk = _Chunk(data, group.column(column), metadata.schema.column(column), limits)
            if not chunk.values:
                continue
            position = chunk.walk(position, end)
            if not chunk.repeated and chunk.values != group.num_rows:
                chunk.refuse(f"{chunk.values} values in {group.num_rows} rows")
            nbytes += chunk.nbytes + leaf.nbytes(group.num_rows, chunk.values)
            largest = max(largest, chunk.largest)
            if nbytes + largest > limits.decoded_bytes:
                chunk.exceeds("decoded bytes", nbytes + largest, "decoded.bytes")
            if chunk.expands:
                dictionaries.add(column)
    return Walked(nbytes + largest, sorted(dictionaries))


class _Leaf(NamedTuple):
    """One leaf column in Arrow: the bytes of a slot, and how many slots a row or value has."""

    width: int
    slots: int
    listed: bool  # inside a list of varying length

    def nbytes(self, rows: int, values: int) -> int:
        # A null list of fixed size is one value in the file, and all its slots in memory.
        return self.width * (values if self.listed else max(rows, values)) * self.slots


def _leaves(kind: pa.DataType, slots: int = 1, *, listed: bool = False) -> Iterator[_Leaf]:
    if pa.types.is_fixed_size_list(kind):
        slots *= kind.list_size
    elif pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        listed = True
    inner = children(kind)
    for _, child in inner:
        yield from _leaves(child.type, slots, listed=listed)
    if not inner:
        yield _Leaf(_width(kind), slots, listed)
