"""The types that a Parquet file declares, where an older pyarrow does not restore them.

Parquet stores texts, numbers, records and lists. Which of Arrow's types they were stands in the
Arrow schema of the footer. pyarrow up to 23 does not look there for what is inside of maps; up to
25 it cannot read a fixed-size list where one is null. So there it is told of lists without a size,
and what it reads becomes the declared types here.
"""

from __future__ import annotations

import base64
from typing import Final

import pyarrow as pa
from pyarrow import types

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.layouts import as_lists, map_entries, one_array, take
from columnar_kafka.columns.older_arrow import VERSION, arange, with_fields
from columnar_kafka.schema.type_families import family
from columnar_kafka.segment.parquet.field_ids import MAGIC
from columnar_kafka.segment.parquet.metadata import arrow_schemas
from columnar_kafka.segment.parquet.thrift import encode_binary

__all__ = [
    "cannot_be_written",
    "declared_schema",
    "file_with_lists",
    "needs_help",
    "projected",
    "with_declared_types",
    "with_sizes",
    "without_sizes",
    "younger_types",
]

_WRITES_HIDDEN_ITEMS: Final = VERSION >= (25, 0)
_RESTORES_MAPS: Final = VERSION >= (24, 0)
_READS_NULL_FIXED_LISTS: Final = VERSION >= (26, 0)


def younger_types(error: BaseException) -> str:
    """Return what to add to an error that comes of a type which pyarrow does not have yet."""
    named = ("only supports 128-bit or 256-bit decimal", "decimal32(", "decimal64(")
    if VERSION < (19, 0) and any(text in str(error) for text in named):
        needed = "decimal32 and decimal64 need pyarrow 19 or later"
        return f"; {needed}, and {pa.__version__} is installed"
    return ""


def needs_help(schema: pa.Schema) -> bool:
    """Say whether a file with this schema has types that the installed pyarrow cannot restore."""
    return not (_RESTORES_MAPS and _READS_NULL_FIXED_LISTS) and any(map(_needs_help, schema.types))


def _needs_help(arrow: pa.DataType) -> bool:
    return (
        (types.is_map(arrow) and not _RESTORES_MAPS)
        or (types.is_fixed_size_list(arrow) and not _READS_NULL_FIXED_LISTS)
        or any(_needs_help(arrow.field(i).type) for i in range(arrow.num_fields))
    )


def declared_schema(footer: bytes, stored: pa.Schema) -> pa.Schema:
    """Return a file's schema as pyarrow has found it, in the types that its footer may declare.

    Raises:
        pa.ArrowInvalid: a column is stored in another form than its declared type.
    """
    for encoded in arrow_schemas(footer):
        declared = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
        return projected(declared, stored)
    return stored


def projected(schema: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return a schema with the columns, and in them the members, of another one only.

    Raises:
        pa.ArrowInvalid: a column has another form in it, other than a dictionary.
    """
    fields = [
        field.with_type(_declared(field.type, schema.field(field.name).type)) for field in other
    ]
    return pa.schema(fields, other.metadata)


def file_with_lists(footer: bytes) -> bytes:
    """Return a file without data that has this Parquet metadata, but lists without a size in it."""
    for encoded in arrow_schemas(footer):
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
        footer = _declaring(footer, encoded, _schema_without_sizes(schema))
    return MAGIC + _ending(footer)


def _declaring(footer: bytes, encoded: bytes, schema: pa.Schema) -> bytes:
    """Return Parquet metadata with another Arrow schema for the encoded one."""
    instead = base64.b64encode(schema.serialize())
    return footer.replace(encode_binary(encoded), encode_binary(instead))


def _ending(footer: bytes) -> bytes:
    return b"".join([footer, len(footer).to_bytes(4, "little"), MAGIC])


def with_declared_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table's columns in a schema's types; texts that are dictionaries stay so.

    Required values are null where something above them is.

    Raises:
        pa.ArrowInvalid: a value does not fit its type; a list has another size.
    """
    columns = [
        pa.chunked_array([_restored(chunk, field.type) for chunk in column.chunks])
        if column.num_chunks
        else pa.chunked_array([], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, table.schema.names)


# --- writing --------------------------------------------------------------------------------------


def cannot_be_written(schema: pa.Schema) -> bool:
    """Say whether there are lists, which pyarrow up to 24 cannot write if a null one has items."""
    return not _WRITES_HIDDEN_ITEMS and any(map(_has_lists, schema.types))


def without_sizes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return columns with lists for the fixed-size lists in them, and no items of null ones."""
    columns = [_writable(column, None) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=_schema_without_sizes(batch.schema))


def with_sizes(file: pa.Buffer, schema: pa.Schema) -> pa.Buffer:
    """Return a file that was written `without_sizes`; it declares the types that they had."""
    data = file.to_pybytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8]
    for encoded in arrow_schemas(footer):  # none where the Parquet schema says it all
        footer = _declaring(footer, encoded, schema)
    return pa.py_buffer(data[:start] + _ending(footer))


def _schema_without_sizes(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_type(_without_sizes(field.type)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _has_lists(arrow: pa.DataType) -> bool:
    return family(arrow) in ("list", "map") or any(
        _has_lists(field.type) for field in _inner(arrow)
    )


def _writable(array: pa.Array, hidden: pa.BooleanArray | None) -> pa.Array:
    """Return values with lists for fixed-size lists; lists have no items where nobody sees them.

    Args:
        array: the values.
        hidden: where a record around the array is null; None if nowhere.
    """
    arrow = array.type
    if not types.is_nested(arrow):
        return array
    nulls = array.is_null() if array.null_count else None
    gone = hidden if nulls is None or hidden is None else pc.or_(nulls, hidden)
    gone = nulls if gone is None else gone
    to = _without_sizes(arrow)
    if types.is_struct(arrow):
        children = [_writable(array.field(i), gone) for i in range(arrow.num_fields)]
        return pa.Array.from_buffers(to, len(array), [_validity(array)], children=children)
    lists = as_lists(array)
    lengths = pc.list_value_length(lists).cast(pa.int64())
    if gone is not None:
        lists, lengths = lists.filter(pc.invert(gone)), pc.if_else(gone, 0, lengths)
    ends = pa.concat_arrays([pa.array([0]), pc.cumulative_sum(lengths)])
    ends = ends.cast(pa.int64() if types.is_large_list(to) else pa.int32())
    buffers, items = [_validity(array), ends.buffers()[1]], _writable(lists.flatten(), None)
    items = map_entries(items) if types.is_map(to) else items
    return pa.Array.from_buffers(to, len(array), buffers, children=[items])


# --- types ----------------------------------------------------------------------------------------


def _inner(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.field(i) for i in range(arrow.num_fields)]


def _without_sizes(arrow: pa.DataType) -> pa.DataType:
    if types.is_fixed_size_list(arrow):
        return pa.list_(arrow.value_field.with_type(_without_sizes(arrow.value_type)))
    if family(arrow) not in ("struct", "list", "map"):
        return arrow
    inner = [field.with_type(_without_sizes(field.type)) for field in _inner(arrow)]
    return with_fields(arrow, inner)


def _declared(arrow: pa.DataType, declared: pa.DataType) -> pa.DataType:
    """Return the declared type, of a struct only the members that were found."""
    stored, meant = family(arrow), family(declared)
    if meant is None or types.is_dictionary(arrow):
        return declared  # None: the schema will be refused
    if types.is_int64(arrow) and types.is_duration(declared):
        return declared
    if stored != meant:
        raise pa.ArrowInvalid(f"{arrow} is stored where {declared} is declared")
    if stored == "struct":
        whole = arrow.num_fields == declared.num_fields
        members = [
            (field, declared.field(i if whole else field.name)) for i, field in enumerate(arrow)
        ]
        return pa.struct(
            [other.with_type(_declared(field.type, other.type)) for field, other in members]
        )
    if stored in ("list", "map"):
        item, other = arrow.field(0), declared.field(0)
        return with_fields(declared, [other.with_type(_declared(item.type, other.type))])
    return declared


# --- values ---------------------------------------------------------------------------------------


def _restored(array: pa.Array, to: pa.DataType) -> pa.Array:
    if not types.is_nested(to):
        return array if types.is_dictionary(array.type) else array.cast(to)
    fields = _inner(to)
    if types.is_struct(to):
        children = [_restored(array.field(i), field.type) for i, field in enumerate(fields)]
        arrow = pa.struct(
            [_retyped(field, child) for field, child in zip(fields, children, strict=True)]
        )
        return pa.Array.from_buffers(arrow, len(array), [_validity(array)], children=children)
    is_fixed = types.is_fixed_size_list(to)
    items = _restored(_items(array, to.list_size) if is_fixed else array.values, fields[0].type)
    arrow = with_fields(to, [_retyped(fields[0], items)])
    if is_fixed:
        return pa.Array.from_buffers(arrow, len(array), [_validity(array)], children=[items])
    if types.is_large_list(to) and not types.is_large_list(array.type):
        array = array.cast(pa.large_list(array.type.value_field))
    items = map_entries(items) if types.is_map(to) else items
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(arrow, len(array), buffers, offset=array.offset, children=[items])


def _retyped(field: pa.Field, array: pa.Array) -> pa.Field:
    return field.with_type(array.type)


def _validity(array: pa.Array) -> pa.Buffer | None:
    return array.is_valid().buffers()[1] if array.null_count else None


def _items(lists: pa.Array, size: int) -> pa.Array:
    """Return the items of lists that all have one size; nulls where a list is null."""
    lengths = pc.list_value_length(lists)
    if pc.any(pc.not_equal(lengths, size)).as_py():
        raise pa.ArrowInvalid(f"Expected all lists to be of size={size}")
    items = lists.flatten()
    if not lists.null_count:
        return items
    number_of = pc.subtract(pc.cumulative_sum(lists.is_valid().cast(pa.int64())), 1)
    starts = pc.if_else(lists.is_valid(), pc.multiply(number_of, size), None)
    places = arange(0, len(lists) * size)
    rows = pc.divide(places, size)
    indices = pc.add(starts.take(rows), pc.subtract(places, pc.multiply(rows, size)))
    return one_array(take(pa.chunked_array([items]), indices))
