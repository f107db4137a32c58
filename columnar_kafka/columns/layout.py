"""The same values laid out otherwise: what Arrow has several ways for."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

__all__ = [
    "as_lists",
    "can_be_joined",
    "offsets",
    "one_array",
    "plain",
    "regroup",
    "repeat",
    "taken",
    "without_nulls",
]

_LARGE: Final = {
    pa.string(): pa.large_string(),
    pa.string_view(): pa.large_string(),
    pa.binary(): pa.large_binary(),
    pa.binary_view(): pa.large_binary(),
}
"""Where any number of bytes has room. pyarrow decodes and unviews into the others unchecked."""


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, not copied if it is one."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def plain(array: pa.Array) -> pa.Array:
    """Return the values of an array with no dictionary, runs, views of bytes or extension type."""
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return plain(array.storage)
    if types.is_dictionary(arrow):
        return _large(plain(array.dictionary)).take(array.indices)
    if types.is_run_end_encoded(arrow):
        ends, values = array.run_ends, _large(plain(array.values))
        runs = pa.Array.from_buffers(
            pa.run_end_encoded(ends.type, pa.int64()),
            len(array),
            [None],
            offset=array.offset,
            children=[ends, pa.arange(0, len(values))],
        )
        return values.take(pc.run_end_decode(runs))
    return _large(array) if types.is_string_view(arrow) or types.is_binary_view(arrow) else array


def _large(array: pa.Array) -> pa.Array:
    return array.cast(_LARGE.get(array.type, array.type))


def as_lists(array: pa.Array) -> pa.Array:
    """Return maps as lists of records of two fields, and lists as they are."""
    if not types.is_map(array.type):
        return array
    entries = array.values  # not keys and items: those forget where a slice of entries starts
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[entries],
    )


def regroup(lists: pa.Array, items: pa.Array, to: pa.DataType) -> pa.Array:
    """Return `items`, one for each of `lists.flatten()`, in lists of their lengths."""
    nulls = lists.is_null() if lists.null_count else None
    if types.is_large_list(to):
        ends = offsets(lists, pa.int64())
        return pa.LargeListArray.from_arrays(ends, items, type=to, mask=nulls)
    return pa.ListArray.from_arrays(offsets(lists, pa.int32()), items, type=to, mask=nulls)


def offsets(lists: pa.Array, to: pa.DataType) -> pa.Array:
    """Return where each list starts in `lists.flatten()`, and the last one's end.

    Raises:
        ArrowInvalid: further than `to` can count.
    """
    lengths = pc.list_value_length(lists).fill_null(0).cast(pa.int64())
    return pa.concat_arrays([pa.array([0]), pc.cumulative_sum(lengths)]).cast(to)


def repeat(value: Any, arrow: pa.DataType, count: int) -> pa.Array:
    """Return a value, or null, `count` times."""
    # Unlike pyarrow's own nulls and repeat, this puts no nulls where a null record allows none.
    return pa.array([value], type=arrow).take(pa.repeat(0, count))


def taken(values: pa.ChunkedArray, places: pa.Array) -> pa.ChunkedArray:
    """Return the values in these places, in their order; null where a place is."""
    if can_be_joined(values):
        try:
            return values.take(places)
        except pa.ArrowNotImplementedError:  # views of bytes and runs, also inside of others
            pass
    pieces: list[pa.Array] = []
    for _, run in groupby(enumerate(places.to_pylist()), _run_of):
        [(_, first), *others] = run
        count = 1 + len(others)
        if first is None:
            pieces.append(pa.nulls(count, values.type))
        else:
            pieces += values.slice(first, count).chunks
    return pa.chunked_array(pieces, values.type)


def can_be_joined(column: pa.ChunkedArray) -> bool:
    """Say whether pyarrow can make one chunk of a column's.

    Dictionaries that differ it makes one of, which some types fail at, and half floats are wrong
    after.
    """
    return column.num_chunks == 1 or not _has_a_dictionary(column.type)


def _has_a_dictionary(arrow: pa.DataType) -> bool:
    if isinstance(arrow, pa.BaseExtensionType):
        return _has_a_dictionary(arrow.storage_type)
    inner = (arrow.field(place).type for place in range(arrow.num_fields))
    return types.is_dictionary(arrow) or any(map(_has_a_dictionary, inner))


def _run_of(numbered: tuple[int, int | None]) -> int | None:
    """Return what places that follow each other have in common."""
    number, place = numbered
    return None if place is None else place - number


def without_nulls(array: pa.Array) -> pa.Array:
    """Return an array whose nulls all lie under those of a record as what can have none.

    Parquet's writer wants no nulls there. What is in their place is nothing, and is not written.
    """
    if not array.null_count:
        return array
    arrow = array.type
    if types.is_struct(arrow):
        fields = list(arrow)
        return pa.StructArray.from_arrays(
            [array.field(i) for i in range(len(fields))], fields=fields
        )
    buffers = array.buffers()
    children = None
    if types.is_nested(arrow):  # a list or a map
        children = [array.values]
        buffers = buffers[:2]
    return pa.Array.from_buffers(
        arrow, len(array), [None, *buffers[1:]], offset=array.offset, children=children
    )
