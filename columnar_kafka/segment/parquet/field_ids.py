"""What the format fixes: its magic, and parquet.thrift's field ids, Thrift types and enums.

Names are parquet.thrift's, in upper case. Only structs that are read or written here are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.thrift import BINARY, I16, I32, I64, LIST, STRUCT

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CODECS",
    "MAGIC",
    "TAIL",
    "ColumnChunkField",
    "ColumnMetaDataField",
    "ColumnOrderField",
    "DataPageHeaderField",
    "DataPageHeaderV2Field",
    "DictionaryPageHeaderField",
    "Encoding",
    "FileMetaDataField",
    "KeyValueField",
    "PageHeaderField",
    "PageType",
    "PhysicalType",
    "RowGroupField",
    "SchemaElementField",
    "StatisticsField",
]

MAGIC: Final = b"PAR1"
"""What a file begins and ends with."""
TAIL: Final = 8
"""The size of what follows the footer: its length, and the magic."""


class _Struct:
    """The fields of one struct."""

    TYPES: ClassVar[Mapping[int, int]]
    """The Thrift type of each field, by id, except of booleans: their type is their value."""

    @classmethod
    def types(cls, *ids: int) -> dict[int, int]:
        """Return the Thrift types of these fields, as `Cursor.fields` takes them."""
        return {field_id: cls.TYPES[field_id] for field_id in ids}

    @classmethod
    def encode(cls, values: Mapping[int, bytes]) -> bytes:
        """Encode a struct of encoded values by field id, ascending."""
        return thrift.encode_struct(
            [(field_id, cls.TYPES[field_id], value) for field_id, value in values.items()]
        )


class FileMetaDataField(_Struct):
    """The footer."""

    VERSION = 1
    SCHEMA = 2
    NUM_ROWS = 3
    ROW_GROUPS = 4
    KEY_VALUE_METADATA = 5
    CREATED_BY = 6
    COLUMN_ORDERS = 7
    ENCRYPTION_ALGORITHM = 8
    FOOTER_SIGNING_KEY_METADATA = 9
    TYPES: ClassVar = {
        1: I32,
        2: LIST,
        3: I64,
        4: LIST,
        5: LIST,
        6: BINARY,
        7: LIST,
        8: STRUCT,
        9: BINARY,
    }


class SchemaElementField(_Struct):
    """One node of the schema, which is a list of them in depth-first order, root first."""

    TYPE = 1
    REPETITION_TYPE = 3
    NAME = 4
    NUM_CHILDREN = 5
    FIELD_ID = 9
    TYPES: ClassVar = {1: I32, 3: I32, 4: BINARY, 5: I32, 9: I32}


class KeyValueField(_Struct):
    """One entry of the footer's key-value metadata."""

    KEY = 1
    VALUE = 2
    TYPES: ClassVar = {1: BINARY, 2: BINARY}


class ColumnOrderField(_Struct):
    """How a column's statistics are ordered: a union."""

    TYPE_ORDER = 1
    TYPES: ClassVar = {1: STRUCT}


class RowGroupField(_Struct):
    """A row group, with its column chunks."""

    COLUMNS = 1
    TOTAL_BYTE_SIZE = 2
    NUM_ROWS = 3
    FILE_OFFSET = 5
    TOTAL_COMPRESSED_SIZE = 6
    ORDINAL = 7
    LAST = ORDINAL
    TYPES: ClassVar = {1: LIST, 2: I64, 3: I64, 5: I64, 6: I64, 7: I16}


class ColumnChunkField(_Struct):
    """A column chunk."""

    FILE_PATH = 1
    FILE_OFFSET = 2
    META_DATA = 3
    CRYPTO_METADATA = 8
    ENCRYPTED_COLUMN_METADATA = 9
    TYPES: ClassVar = {1: BINARY, 2: I64, 3: STRUCT, 8: STRUCT, 9: BINARY}


class ColumnMetaDataField(_Struct):
    """The metadata of a column chunk."""

    TYPE = 1
    ENCODINGS = 2
    PATH_IN_SCHEMA = 3
    CODEC = 4
    NUM_VALUES = 5
    TOTAL_UNCOMPRESSED_SIZE = 6
    TOTAL_COMPRESSED_SIZE = 7
    DATA_PAGE_OFFSET = 9
    INDEX_PAGE_OFFSET = 10
    DICTIONARY_PAGE_OFFSET = 11
    STATISTICS = 12
    ENCODING_STATS = 13
    BLOOM_FILTER_OFFSET = 14
    GEOSPATIAL_STATISTICS = 17
    LAST = GEOSPATIAL_STATISTICS
    TYPES: ClassVar = {
        1: I32,
        2: LIST,
        3: LIST,
        4: I32,
        5: I64,
        6: I64,
        7: I64,
        9: I64,
        10: I64,
        11: I64,
        12: STRUCT,
        13: LIST,
        14: I64,
        17: STRUCT,
    }


class StatisticsField(_Struct):
    """The statistics of a column chunk."""

    NULL_COUNT = 3
    MAX_VALUE = 5
    MIN_VALUE = 6
    IS_MAX_VALUE_EXACT = 7
    IS_MIN_VALUE_EXACT = 8
    TYPES: ClassVar = {3: I64, 5: BINARY, 6: BINARY}


class PageHeaderField(_Struct):
    """What stands before each page; which of the three structs depends on the type."""

    TYPE = 1
    UNCOMPRESSED_PAGE_SIZE = 2
    COMPRESSED_PAGE_SIZE = 3
    CRC = 4
    DATA_PAGE_HEADER = 5
    DICTIONARY_PAGE_HEADER = 7
    DATA_PAGE_HEADER_V2 = 8
    TYPES: ClassVar = {1: I32, 2: I32, 3: I32, 4: I32, 5: STRUCT, 7: STRUCT, 8: STRUCT}


class DataPageHeaderField(_Struct):
    """A data page of the first version."""

    NUM_VALUES = 1
    ENCODING = 2
    DEFINITION_LEVEL_ENCODING = 3
    REPETITION_LEVEL_ENCODING = 4
    TYPES: ClassVar = {1: I32, 2: I32, 3: I32, 4: I32}


class DictionaryPageHeaderField(_Struct):
    """A dictionary page."""

    NUM_VALUES = 1
    ENCODING = 2
    TYPES: ClassVar = {1: I32, 2: I32}


class DataPageHeaderV2Field(_Struct):
    """A data page of the second version."""

    NUM_VALUES = 1
    ENCODING = 4
    DEFINITION_LEVELS_BYTE_LENGTH = 5
    REPETITION_LEVELS_BYTE_LENGTH = 6
    IS_COMPRESSED = 7
    TYPES: ClassVar = {1: I32, 4: I32, 5: I32, 6: I32}


class PhysicalType:
    """How Parquet stores a column's values."""

    INT32 = 1
    INT64 = 2
    BYTE_ARRAY = 6


class PageType:
    """The types of pages that version 1 allows."""

    DATA_PAGE = 0
    DICTIONARY_PAGE = 2
    DATA_PAGE_V2 = 3


class Encoding:
    """How a page encodes its values, or its levels."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8


CODECS: Final = {0: None, 1: "snappy", 2: "gzip", 6: "zstd", 7: "lz4_raw"}
"""The compression codecs that version 1 allows, under pyarrow's names."""
