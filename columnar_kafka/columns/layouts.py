"""The same values in another of Arrow's layouts."""

from __future__ import annotations

import operator
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns import older_arrow
from columnar_kafka.schema.type_families import family

__all__ = [
    "as_lists",
    "can_be_joined",
    "cast_to_grown",
    "fill_hidden_nulls",
    "fill_hidden_nulls_in_table",
    "map_entries",
    "offsets",
    "one_array",
    "regroup",
    "repeat",
    "take",
    "unencoded",
]

_LARGE: Final = {
    pa.string(): pa.large_string(),
    pa.string_view(): pa.large_string(),
    pa.binary(): pa.large_binary(),
    pa.binary_view(): pa.large_binary(),
}
"""Layouts with room for any number of bytes: pyarrow decodes into the others without a check."""


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def unencoded(array: pa.Array) -> pa.Array:
    """Return the values of an array without dictionary, runs, views of bytes or extension type."""
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return unencoded(array.storage)
    if types.is_dictionary(arrow):
        return _large(unencoded(array.dictionary)).take(array.indices)
    if types.is_run_end_encoded(arrow):
        ends, values = array.run_ends, _large(unencoded(array.values))
        runs = pa.Array.from_buffers(
            pa.run_end_encoded(ends.type, pa.int64()),
            len(array),
            [None],
            offset=array.offset,
            children=[ends, older_arrow.arange(0, len(values))],
        )
        return values.take(pc.run_end_decode(runs))
    return _large(array) if types.is_string_view(arrow) or types.is_binary_view(arrow) else array


def _large(array: pa.Array) -> pa.Array:
    to = _LARGE.get(array.type, array.type)
    try:
        return array.cast(to)
    except pa.ArrowNotImplementedError:  # views, up to pyarrow 17
        return pa.array(array.to_pylist(), to)


def as_lists(array: pa.Array) -> pa.Array:
    """Return maps as lists of key-value structs, and lists as they are."""
    if not types.is_map(array.type):
        return array
    entries = array.values  # not keys and items, which forget where a slice of entries starts
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[entries],
    )


def regroup(lists: pa.Array, items: pa.Array, to: pa.DataType) -> pa.Array:
    """Return `items`, one for each of `lists.flatten()`, in lists as long as those of `lists`."""
    nulls = lists.is_null() if lists.null_count else None
    if types.is_large_list(to):
        ends = offsets(lists, pa.int64())
        return pa.LargeListArray.from_arrays(ends, items, type=to, mask=nulls)
    return pa.ListArray.from_arrays(offsets(lists, pa.int32()), items, type=to, mask=nulls)


def offsets(lists: pa.Array, to: pa.DataType) -> pa.Array:
    """Return where each list starts in `lists.flatten()`, then where the last one ends.

    Raises:
        ArrowInvalid: an offset is too large for `to`.
    """
    lengths = pc.list_value_length(lists).fill_null(0).cast(pa.int64())
    return pa.concat_arrays([pa.array([0]), pc.cumulative_sum(lengths)]).cast(to)


def repeat(value: Any, arrow: pa.DataType, count: int) -> pa.Array:
    """Return `count` times a value or null."""
    # Unlike pyarrow's nulls and repeat, this puts no nulls in the required fields of a null record.
    return older_arrow.array([value], type=arrow).take(pa.repeat(0, count))


def cast_to_grown(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Return values in a type that theirs has grown to (`check_growth`), as pyarrow's cast does.

    It also does so where pyarrow's cast does not find the fields of records.
    """
    if older_arrow.HAS_RECORD_CASTS or not types.is_nested(to) or array.type.equals(to):
        return array.cast(to)
    if types.is_list(to) or types.is_large_list(to):
        return regroup(array, cast_to_grown(array.flatten(), to.value_type), to)
    buffers = [array.is_valid().buffers()[1] if array.null_count else None]
    if types.is_struct(to):
        fields = {field.name: array.field(i) for i, field in enumerate(array.type)}
        children = [
            cast_to_grown(fields[field.name], field.type)
            if field.name in fields
            else repeat(None, field.type, len(array))
            for field in to
        ]
    elif types.is_map(to):
        lists, entry = as_lists(array), pa.struct([to.key_field, to.item_field])
        children = [map_entries(cast_to_grown(lists.flatten(), entry))]
        buffers += offsets(lists, pa.int32()).buffers()[1:]
    else:
        items = array.values.slice(array.offset * to.list_size, len(array) * to.list_size)
        children = [cast_to_grown(items, to.value_type)]
    return pa.Array.from_buffers(to, len(array), buffers, children=children)


def take(values: pa.ChunkedArray, indices: pa.Array) -> pa.ChunkedArray:
    """Return the values at `indices`, in their order; null for an index that is null.

    Unlike pyarrow's own, it works for every type.
    """
    if can_be_joined(values):
        try:
            return values.take(indices)
        except pa.ArrowNotImplementedError:  # views of bytes and runs, at any depth
            pass
    pieces: list[pa.Array] = []
    for _, run in groupby(enumerate(indices.to_pylist()), _run_of):
        [(_, first), *others] = run
        count = 1 + len(others)
        if first is None:
            pieces.append(pa.nulls(count, values.type))
        else:
            pieces += values.slice(first, count).chunks
    return pa.chunked_array(pieces, values.type)


def can_be_joined(column: pa.ChunkedArray) -> bool:
    """Say whether pyarrow can combine a column's chunks into one.

    It unifies dictionaries that differ: for some types that fails, and for half floats the result
    is wrong.
    """
    return column.num_chunks == 1 or not _has_a_dictionary(column.type)


def _has_a_dictionary(arrow: pa.DataType) -> bool:
    if isinstance(arrow, pa.BaseExtensionType):
        return _has_a_dictionary(arrow.storage_type)
    inner = (arrow.field(i).type for i in range(arrow.num_fields))
    return types.is_dictionary(arrow) or any(map(_has_a_dictionary, inner))


def _run_of(numbered: tuple[int, int | None]) -> int | None:
    """Return a key that consecutive indices share; None for null."""
    number, index = numbered
    return None if index is None else index - number


# --- nulls under nulls ----------------------------------------------------------------------------


def fill_hidden_nulls_in_table(table: pa.Table, schema: pa.Schema | None = None) -> pa.Table:
    """Return a table with `fill_hidden_nulls` done to each column, as `schema` or as its own."""
    schema = schema or table.schema
    columns = [
        pa.chunked_array([fill_hidden_nulls(chunk, field) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def fill_hidden_nulls(
    array: pa.Array, to: pa.Field, hidden: pa.BooleanArray | None = None
) -> pa.Array:
    """Return an array as the field `to`, its dictionaries decoded and its hidden nulls filled.

    Under a null record or null fixed-size list, Parquet's reader and Arrow's `take` leave nulls in
    place of required values too. pyarrow refuses to cast such an array, even to its own type. Here
    those nulls become zeros, empty texts and empty lists; the null above still hides them. A
    required value that is null where nothing hides it stays null, and so do nullable values.

    Args:
        array: valid data of the field's type, except that texts may be dictionaries and that any
            value may be nullable. It is returned itself if there is nothing to do.
        to: the field.
        hidden: where a record or a list around the array is null; None if nowhere.
    """
    keeps_nulls = to.nullable or not array.null_count or hidden is None
    if keeps_nulls and array.type.equals(to.type) and not types.is_nested(to.type):
        return array
    if not keeps_nulls:
        keeps_nulls = pc.any(pc.and_not(array.is_null(), hidden)).as_py()
    if types.is_struct(to.type):
        return _filled_struct(array, to.type, hidden, keeps_nulls=keeps_nulls)
    if types.is_fixed_size_list(to.type):
        return _filled_fixed(array, to.type, hidden, keeps_nulls=keeps_nulls)
    if types.is_list(to.type) or types.is_large_list(to.type) or types.is_map(to.type):
        return _filled_list(array, to.type, keeps_nulls=keeps_nulls)
    if types.is_dictionary(array.type) and not types.is_dictionary(to.type):
        array = array.dictionary_decode().cast(to.type)
    return array if keeps_nulls or not _has_zero(to.type) else _filled_leaf(array, to.type)


def _filled_leaf(array: pa.Array, to: pa.DataType) -> pa.Array:
    if types.is_float16(to):  # whose nulls pyarrow up to 20 cannot fill
        return array.view(pa.uint16()).fill_null(0).view(to)
    return array.fill_null(_zero(to)).cast(to)  # fill_null widens narrow decimals


def _filled_struct(
    array: pa.StructArray, to: pa.StructType, hidden: pa.BooleanArray | None, *, keeps_nulls: bool
) -> pa.Array:
    nulls = array.is_null() if array.null_count else None
    fields = list(to)
    children = [array.field(i) for i in range(len(fields))]
    below = _either(hidden, nulls)
    full = [
        fill_hidden_nulls(child, field, below)
        for child, field in zip(children, fields, strict=True)
    ]
    is_same = keeps_nulls and array.type.equals(to) and all(map(operator.is_, full, children))
    required = [child for child, field in zip(children, fields, strict=True) if not field.nullable]
    if is_same and (not required or _has_no_nulls_outside(array, required)):
        return array
    validity = array.is_valid().buffers()[1] if keeps_nulls and nulls is not None else None
    # Not from_arrays, which refuses required values that are null.
    return pa.Array.from_buffers(to, len(array), [validity], children=full)


def _has_no_nulls_outside(array: pa.StructArray, required: list[pa.Array]) -> bool:
    """Say whether required fields have no nulls outside of a slice: pyarrow's cast sees them."""
    if any(child.null_count for child in required):
        return True  # with nulls inside as well, a copy without the outside ones is no help
    try:
        array.view(array.type)
    except pa.ArrowException:
        return False
    return True


def _filled_fixed(
    array: pa.FixedSizeListArray,
    to: pa.FixedSizeListType,
    hidden: pa.BooleanArray | None,
    *,
    keeps_nulls: bool,
) -> pa.Array:
    nulls = array.is_null() if array.null_count else None
    items = array.values.slice(array.offset * to.list_size, len(array) * to.list_size)
    below = _either(hidden, nulls)
    if below is not None:
        below = below.take(pc.divide(older_arrow.arange(0, len(items)), to.list_size))
    full = fill_hidden_nulls(items, to.value_field, below)
    is_same = keeps_nulls and array.type.equals(to) and full is items
    if is_same and (to.value_field.nullable or len(items) == len(array.values)):
        return array
    validity = array.is_valid().buffers()[1] if keeps_nulls and nulls is not None else None
    return pa.Array.from_buffers(to, len(array), [validity], children=[full])


def _filled_list(array: pa.Array, to: pa.DataType, *, keeps_nulls: bool) -> pa.Array:
    """Fill a list or a map. One that is null has no items: without its null it is an empty one."""
    items, (validity, ends) = array.values, array.buffers()[:2]
    if types.is_map(to):
        entry = pa.struct([to.key_field, to.item_field])
        full = fill_hidden_nulls(items, pa.field("", entry, nullable=False))
    else:
        full = fill_hidden_nulls(items, to.value_field)
    if keeps_nulls and array.type.equals(to) and full is items:
        return array
    if types.is_map(to):
        full = map_entries(full)
    buffers = [validity if keeps_nulls else None, ends]
    return pa.Array.from_buffers(to, len(array), buffers, offset=array.offset, children=[full])


def map_entries(entries: pa.StructArray) -> pa.StructArray:
    """Return structs of key and value that can become a map.

    pyarrow up to 25 ends the process where keys have nulls, or nobody has counted them.

    Raises:
        pa.ArrowInvalid: a key is null.
    """
    keys = entries.field(0)
    if keys.null_count:
        raise pa.ArrowInvalid("a key of a map is null")
    children = [keys, entries.field(1)]
    return pa.Array.from_buffers(entries.type, len(entries), [None], children=children)


def _either(one: pa.BooleanArray | None, other: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if one is None or other is None:
        return other if one is None else one
    return pc.or_(one, other)


_WIDEST: Final = 32
"""Bytes of a decimal256, the widest type whose width is not a parameter."""


def _has_zero(arrow: pa.DataType) -> bool:
    return types.is_primitive(arrow) or family(arrow) in ("decimal", "string", "binary")


def _zero(arrow: pa.DataType) -> pa.Scalar:
    """Return a type's value whose bits are all zero; for text the empty one."""
    nbytes = max(_WIDEST, arrow.byte_width if types.is_fixed_size_binary(arrow) else 0)
    buffers = [None, pa.py_buffer(bytes(nbytes)), pa.py_buffer(b"")]
    return pa.Array.from_buffers(arrow, 1, buffers[: arrow.num_buffers])[0]
