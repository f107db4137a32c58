"""Fixed-size lists of a Parquet file, by way of lists: pyarrow up to 25 cannot read a null one.

Parquet has lists only. That they all have one size stands in the Arrow schema of the footer. Told
of another schema, pyarrow reads lists, which become fixed-size lists here.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from columnar_kafka.columns.layouts import one_array, take
from columnar_kafka.columns.older_arrow import arange
from columnar_kafka.segment.parquet.metadata import arrow_schemas
from columnar_kafka.segment.parquet.thrift import encode_binary

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["file_with_lists", "has_fixed_lists", "with_fixed_lists"]


def has_fixed_lists(fields: Iterable[pa.Field]) -> bool:
    """Say whether a fixed-size list is among these fields or inside one."""
    return any(
        types.is_fixed_size_list(field.type)
        or has_fixed_lists(field.type.field(i) for i in range(field.type.num_fields))
        for field in fields
    )


def file_with_lists(footer: bytes, schema: pa.Schema) -> bytes:
    """Return a file without rows that has the metadata of another, and lists in its schema.

    Args:
        footer: the other file's Parquet metadata.
        schema: the columns that it describes.
    """
    fields = [field.with_type(_as_list(field.type)) for field in schema]
    encoded = base64.b64encode(pa.schema(fields, schema.metadata).serialize())
    for replaced in arrow_schemas(footer):
        footer = footer.replace(encode_binary(replaced), encode_binary(encoded))
    return b"".join([b"PAR1", footer, len(footer).to_bytes(4, "little"), b"PAR1"])


def with_fixed_lists(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table whose lists have the sizes that a schema says.

    Texts that are dictionaries stay so. Required values are null where a list above is.

    Raises:
        pa.ArrowInvalid: a list has another size.
    """
    arrays = [
        pa.chunked_array([_restore(chunk, field.type) for chunk in column.chunks])
        if column.num_chunks
        else pa.chunked_array([], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, table.schema.names)


def _as_list(arrow: pa.DataType) -> pa.DataType:
    """Return a type with lists for the fixed-size lists in it."""
    inner = [arrow.field(i) for i in range(arrow.num_fields)]
    if types.is_struct(arrow):
        return pa.struct([field.with_type(_as_list(field.type)) for field in inner])
    if types.is_map(arrow):
        key, item = arrow.key_field, arrow.item_field
        return pa.map_(key, item.with_type(_as_list(item.type)), arrow.keys_sorted)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        list_type = pa.large_list if types.is_large_list(arrow) else pa.list_
        return list_type(inner[0].with_type(_as_list(inner[0].type)))
    return arrow


def _restore(array: pa.Array, to: pa.DataType) -> pa.Array:
    fields = [to.field(i) for i in range(to.num_fields)]
    if not types.is_fixed_size_list(to) and not has_fixed_lists(fields):
        return array
    validity = array.is_valid().buffers()[1] if array.null_count else None
    if types.is_struct(to):
        children = [_restore(array.field(i), field.type) for i, field in enumerate(fields)]
        arrow = pa.struct(list(map(_retyped, fields, children)))
        return pa.Array.from_buffers(arrow, len(array), [validity], children=children)
    if types.is_fixed_size_list(to):
        items = _restore(_items(array, to.list_size), to.value_type)
        arrow = pa.list_(_retyped(fields[0], items), to.list_size)
        return pa.Array.from_buffers(arrow, len(array), [validity], children=[items])
    items = _restore(array.values, fields[0].type)
    if types.is_map(to):
        arrow = pa.map_(items.type.field(0), items.type.field(1), to.keys_sorted)
    else:
        list_type = pa.large_list if types.is_large_list(to) else pa.list_
        arrow = list_type(_retyped(fields[0], items))
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(arrow, len(array), buffers, offset=array.offset, children=[items])


def _retyped(field: pa.Field, array: pa.Array) -> pa.Field:
    return field.with_type(array.type)


def _items(lists: pa.Array, size: int) -> pa.Array:
    """Return the items of lists that all have one size; nulls where a list is null."""
    lengths = pc.list_value_length(lists)
    if pc.any(pc.not_equal(lengths, size)).as_py():
        raise pa.ArrowInvalid(f"a fixed-size list of {size} has another size")
    items = lists.flatten()
    if not lists.null_count:
        return items
    rows = pc.subtract(pc.cumulative_sum(lists.is_valid().cast(pa.int64())), 1)
    starts = pc.if_else(lists.is_valid(), pc.multiply(rows, size), None)
    numbers = arange(0, len(lists) * size)
    row_of = pc.divide(numbers, size)
    within: Any = pc.subtract(numbers, pc.multiply(row_of, size))
    indices = pc.add(starts.take(row_of), within)
    return one_array(take(pa.chunked_array([items]), indices))
