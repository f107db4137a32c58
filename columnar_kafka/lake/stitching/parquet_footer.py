"""The footer of a Parquet file that is to be stitched, and the footer of the stitched file.

`read_footer` reads one in a single pass; `RowGroupCopier` copies its row groups meanwhile. Where
the native core is on, it does both, and only what it gives up is read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.errors import LakeError, SchemaError
from columnar_kafka.lake.stitching.row_groups import START, RowGroupCopier, StitchError
from columnar_kafka.segment.decoder import fingerprint_of
from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.field_ids import (
    MAGIC,
    TAIL,
    FileMetaDataField,
    KeyValueField,
    SchemaElementField,
)
from columnar_kafka.segment.parquet.metadata import ARROW_SCHEMA
from columnar_kafka.segment.parquet.native_footer import copy_footer
from columnar_kafka.segment.parquet.thrift import I32, LIST, STRUCT, Cursor, ThriftError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "MAX_FOOTER",
    "Footer",
    "encode_footer",
    "read_footer",
    "with_field_ids",
]

MAX_FOOTER: Final = 16_000_000  # bytes; readers have limits, the lowest known is Dremio's 16 MiB
_ENCRYPTED: Final = b"PARE"
_SPARK_LEGACY: Final = b"org.apache.spark.legacy"  # …DateTime and …INT96
# Readers choose work-arounds for the bugs of old writers by `created_by`, and a file has only one:
# files of different writers stay apart. Releases of Arrow without such bugs count as one writer.
_ARROW_WRITER: Final = re.compile(rb"parquet-cpp-arrow version \d\d+\.")

# The Thrift types of the fields that are read.
_FILE: Final = FileMetaDataField.types(
    FileMetaDataField.VERSION,
    FileMetaDataField.SCHEMA,
    FileMetaDataField.NUM_ROWS,
    FileMetaDataField.ROW_GROUPS,
    FileMetaDataField.KEY_VALUE_METADATA,
    FileMetaDataField.CREATED_BY,
    FileMetaDataField.COLUMN_ORDERS,
)
_ENCRYPTION: Final = (
    FileMetaDataField.ENCRYPTION_ALGORITHM,
    FileMetaDataField.FOOTER_SIGNING_KEY_METADATA,
)
_SCHEMA_ELEMENT: Final = SchemaElementField.types(
    SchemaElementField.NAME, SchemaElementField.NUM_CHILDREN, SchemaElementField.FIELD_ID
)
_REPEATED: Final = ("list", "key_value")
_NUM_CHILDREN: Final = SchemaElementField.types(SchemaElementField.NUM_CHILDREN)


@dataclass(slots=True)
class Footer:
    """What the footer of a complete file states.

    `schema`, `column_orders` and `row_groups` are encoded. Row groups without rows are left out;
    the others are copies, as they must stand in the stitched file. `body_end` is where the footer
    begins.
    """

    body_end: int
    version: int = 0
    schema: bytes = b""
    columns: int = 0  # leaves of the schema
    rows: int = -1
    row_groups: list[bytes] = field(default_factory=list)
    arrow_schema: bytes | None = None
    created_by: bytes = b""
    column_orders: bytes = b""


def read_footer(data: memoryview, *, at: int, ordinal: int, first: Footer | None) -> Footer:
    """Read the footer of a complete file whose body is to be written at `at`.

    The first of its row groups is to have the number `ordinal`. `first` is the footer of the first
    file that was stitched.

    Raises:
        StitchError: the file is damaged or encrypted, or must not be put behind the first one.
    """
    body_end, shift = _body_end(data), at - START
    encoded = bytes(data[body_end:-TAIL])
    copied = copy_footer(encoded, body_end=body_end, shift=shift, ordinal=ordinal)
    if copied is None:
        footer = _read(encoded, body_end, shift, ordinal)
    else:
        footer = Footer(body_end, *copied)
    if first is not None:
        _check_alike(footer, first)
    return footer


def _read(encoded: bytes, body_end: int, shift: int, ordinal: int) -> Footer:
    """Do as `copy_footer` for any footer, and refuse what cannot be read."""
    footer, cursor = Footer(body_end), Cursor(encoded)
    copier = RowGroupCopier(cursor, shift=shift, body_end=body_end)
    try:
        group_rows = _read_fields(footer, cursor, copier, ordinal)
    except IndexError:
        raise StitchError("the footer ends too early") from None
    except ThriftError as error:
        raise StitchError(f"the footer is damaged: {error}") from None
    if not footer.schema:
        raise StitchError("the footer has no schema")
    if footer.rows != group_rows:
        raise StitchError(f"{footer.rows} rows in the footer, but {group_rows} in its row groups")
    return footer


def _read_fields(footer: Footer, cursor: Cursor, copier: RowGroupCopier, ordinal: int) -> int:
    """Fill in the footer; return the number of rows in its row groups."""
    group_rows = 0
    for field_id, field_type in cursor.fields(_FILE):
        if field_id == FileMetaDataField.ROW_GROUPS:
            for _ in range(cursor.struct_count()):
                number = ordinal + len(footer.row_groups)
                rows, row_group = copier.copy(columns=footer.columns, ordinal=number)
                if rows:
                    footer.row_groups.append(row_group)
                group_rows += rows
        elif field_id == FileMetaDataField.KEY_VALUE_METADATA:
            for _ in range(cursor.struct_count()):
                _read_key_value(footer, cursor)
        elif field_id in _FILE:
            _read_value(footer, cursor, field_id)
        elif field_id in _ENCRYPTION:
            raise StitchError("an encrypted file")
        else:
            cursor.skip(field_type)
    return group_rows


def _read_value(footer: Footer, cursor: Cursor, field_id: int) -> None:
    if field_id == FileMetaDataField.VERSION:
        footer.version = cursor.integer()
    elif field_id == FileMetaDataField.SCHEMA:
        footer.schema = cursor.span(LIST)
        footer.columns = _count_leaves(Cursor(footer.schema))
    elif field_id == FileMetaDataField.NUM_ROWS:
        footer.rows = cursor.integer()
    elif field_id == FileMetaDataField.CREATED_BY:
        footer.created_by = cursor.binary()
    else:
        footer.column_orders = cursor.span(LIST)


def _read_key_value(footer: Footer, cursor: Cursor) -> None:
    key = value = b""
    for field_id, field_type in cursor.fields(KeyValueField.TYPES):
        if field_id == KeyValueField.KEY:
            key = cursor.binary()
        elif field_id == KeyValueField.VALUE:
            value = cursor.binary()
        else:
            cursor.skip(field_type)
    if key == ARROW_SCHEMA:
        if footer.arrow_schema is not None:
            raise StitchError("ARROW:schema occurs twice in the footer")
        footer.arrow_schema = value
    elif key.startswith(_SPARK_LEGACY):
        raise StitchError(
            f"{key!r}: dates in another calendar, and no other part of the file would say so"
        )


def _check_alike(footer: Footer, first: Footer) -> None:
    """Refuse a file that cannot share a footer with the first one."""
    if footer.schema != first.schema:
        raise StitchError("its Parquet schema differs from the first file's")
    if footer.arrow_schema != first.arrow_schema and not _mean_the_same(
        footer.schema, footer.arrow_schema, first.arrow_schema
    ):
        raise StitchError("its ARROW:schema differs from the first file's")
    if footer.column_orders != first.column_orders:
        raise StitchError("its column orders differ from the first file's")
    if _writer(footer.created_by) != _writer(first.created_by):
        raise StitchError(f"written by {footer.created_by!r}, not by {first.created_by!r}")


@lru_cache(maxsize=100)
def _mean_the_same(schema: bytes, arrow: bytes | None, other: bytes | None) -> bool:
    """Whether a Parquet schema is read the same with one Arrow schema, or none, as with another.

    Segments leave out an Arrow schema that says nothing more.
    """
    try:
        return _fingerprint(schema, arrow) == _fingerprint(schema, other)
    except (pa.ArrowException, OSError, SchemaError, UnicodeDecodeError):
        return False


def _fingerprint(schema: bytes, arrow: bytes | None) -> str:
    pairs = [] if arrow is None else [(ARROW_SCHEMA, arrow)]
    footer = encode_footer(Footer(0, schema=schema), rows=0, row_groups=[], pairs=pairs)
    return fingerprint_of(MAGIC + footer)


def encode_footer(
    first: Footer, *, rows: int, row_groups: list[bytes], pairs: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """Encode a footer like `first`, with these row groups and key-value pairs.

    Its length and the magic are included: the result ends a file.
    """
    field_id = FileMetaDataField
    values = {
        field_id.VERSION: thrift.encode_integer(first.version),
        field_id.SCHEMA: first.schema,
        field_id.NUM_ROWS: thrift.encode_integer(rows),
        field_id.ROW_GROUPS: thrift.encode_list(STRUCT, row_groups),
    }
    if key_values := [_encode_key_value(key, value) for key, value in pairs]:
        values[field_id.KEY_VALUE_METADATA] = thrift.encode_list(STRUCT, key_values)
    if first.created_by:
        values[field_id.CREATED_BY] = thrift.encode_binary(first.created_by)
    if first.column_orders:
        values[field_id.COLUMN_ORDERS] = first.column_orders
    footer = field_id.encode(values)
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def _encode_key_value(key: bytes, value: bytes) -> bytes:
    return KeyValueField.encode(
        {
            KeyValueField.KEY: thrift.encode_binary(key),
            KeyValueField.VALUE: thrift.encode_binary(value),
        }
    )


def with_field_ids(schema: bytes, ids: Mapping[tuple[str, ...], int]) -> bytes:
    """Return an encoded schema in which each element has the field id of its path, and no other.

    The repeated groups of lists and maps have none.

    Raises:
        LakeError: another element has no id.
        ThriftError, IndexError: the schema is damaged.
    """
    cursor, elements = Cursor(schema), []
    open_groups: list[tuple[tuple[str, ...], list[int]]] = []  # with the number of children to come
    for _ in range(cursor.struct_count()):
        values, name, children = _read_element(cursor)
        path = (*open_groups[-1][0], name) if open_groups else ()
        if path in ids:
            values.append((SchemaElementField.FIELD_ID, I32, thrift.encode_integer(ids[path])))
        elif path and path[-1] not in _REPEATED:
            raise LakeError(f"column {'.'.join(path)!r} has no field id in the table")
        elements.append(thrift.encode_struct(sorted(values)))
        if open_groups:
            open_groups[-1][1][0] -= 1
        if children:
            open_groups.append((path, [children]))
        while open_groups and not open_groups[-1][1][0]:
            open_groups.pop()
    return thrift.encode_list(STRUCT, elements)


def _read_element(cursor: Cursor) -> tuple[list[tuple[int, int, bytes]], str, int]:
    """Read an element of a schema: its fields but the field id, its name, its children's number."""
    values, name, children = [], "", 0
    for field_id, field_type in cursor.fields(_SCHEMA_ELEMENT):
        start = cursor.pos
        if field_id == SchemaElementField.NAME:
            name = cursor.binary().decode()
        elif field_id == SchemaElementField.NUM_CHILDREN:
            children = cursor.integer()
        else:
            cursor.skip(field_type)
        if field_id != SchemaElementField.FIELD_ID:
            values.append((field_id, field_type, cursor.buf[start : cursor.pos]))
    return values, name, children


def _body_end(data: memoryview) -> int:
    """Return where the footer begins."""
    head, tail = bytes(data[:START]), bytes(data[-START:])
    if len(data) < START + TAIL or tail not in (MAGIC, _ENCRYPTED):
        raise StitchError("not a complete Parquet file")
    if _ENCRYPTED in (head, tail):
        raise StitchError("a file with an encrypted footer")
    size = int.from_bytes(data[-TAIL:-START], "little")
    end = len(data) - TAIL - size
    if head != MAGIC or end < START or size > MAX_FOOTER:
        raise StitchError(f"not a Parquet file: {len(data)} bytes with a footer of {size}")
    return end


def _count_leaves(schema: Cursor) -> int:
    """Count the columns of a schema: its elements without children, except the root."""
    children = []
    for _ in range(schema.struct_count()):
        children.append(0)
        for field_id, field_type in schema.fields(_NUM_CHILDREN):
            if field_id == SchemaElementField.NUM_CHILDREN:
                children[-1] = schema.integer()
            else:
                schema.skip(field_type)
    return children[1:].count(0)


def _writer(created_by: bytes) -> bytes:
    match = _ARROW_WRITER.match(created_by)
    return b"parquet-cpp-arrow" if match else created_by
