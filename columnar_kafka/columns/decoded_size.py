"""What columns take in the memory of who decodes them, from their types and values."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from columnar_kafka.columns.layouts import as_lists
from columnar_kafka.schema.canonical import children
from columnar_kafka.schema.type_families import family

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MOST_DECODED", "LeafSize", "decoded_bytes", "leaf_sizes", "written_sizes"]

MOST_DECODED: Final = 64 << 20
"""The most that the columns of a segment take: a consumer refuses it by default at four times that.

Encodings add to it: a dictionary of many numbers, or texts stored without what they begin with,
count up to four times. A slot in a list takes eight bytes, so ``columnar.max.values`` is kept too.
"""
_LEAST: Final = 4  # bytes of a written slot: narrower integers are as wide in Parquet

# Bytes that Arrow needs beside those of the values.
_OFFSET: Final = 8  # of a list or a text
_LEVELS: Final = 4  # of a list's element: definition and repetition


class LeafSize(NamedTuple):
    """What a leaf column takes in Arrow, besides text: bytes for each row, and for each slot."""

    per_row: int = 0
    per_slot: int = 0


_NOTHING: Final = LeafSize()


@lru_cache
def leaf_sizes(column_type: pa.DataType, least: int = 1) -> list[LeafSize]:
    """Return the size of each leaf of a type, whose slots take at least so many bytes."""
    return list(_leaves(column_type, least))


def written_sizes(column_type: pa.DataType) -> list[LeafSize]:
    """Return the size of each leaf of a type, as `MOST_DECODED` has it."""
    return leaf_sizes(column_type, _LEAST)


def _leaves(
    arrow: pa.DataType,
    least: int,
    slots: int = 1,
    above: LeafSize = _NOTHING,
    *,
    in_list: bool = False,
) -> Iterator[LeafSize]:
    """Yield the leaves of a type that has `slots` for each row, or in a list for each value.

    A null list of fixed size is one value in the file, and has all of its slots in memory.
    """
    inner = children(arrow)
    if pa.types.is_fixed_size_list(arrow):
        slots *= 2 * arrow.list_size  # Arrow fills the slots of nulls in a copy
    elif not pa.types.is_struct(arrow):
        nbytes = slots * (_OFFSET if inner else max(least, _width(arrow)))
        if in_list:
            above = above._replace(per_slot=above.per_slot + nbytes)
        else:
            above = above._replace(per_row=above.per_row + nbytes)
        if inner:
            above = above._replace(per_slot=above.per_slot + _LEVELS)
            slots, in_list = 1, True
    if not inner:
        yield above
    for _, child in inner:
        yield from _leaves(child.type, least, slots, above, in_list=in_list)


def _width(arrow: pa.DataType) -> int:
    """Return the bytes of one slot, without those of text."""
    if pa.types.is_fixed_size_binary(arrow):
        return int(arrow.byte_width)
    try:
        return max(1, int(arrow.bit_width) // 8)
    except ValueError:
        return _OFFSET


def decoded_bytes(column: pa.Array) -> int:
    """Return what a column takes decoded, or a little more, without what encodings add."""
    sizes = written_sizes(column.type)
    rows = len(column)
    return sum(
        rows * size.per_row + slots * size.per_slot + text
        for size, (slots, text) in zip(sizes, _slots(column, rows), strict=True)
    )


def _slots(array: pa.Array, slots: int) -> Iterator[tuple[int, int]]:
    """Yield how many slots each leaf has, and the bytes of its texts; `slots` are the array's."""
    values = family(array.type)
    if values == "struct":
        for member in array.flatten():
            yield from _slots(member, slots)
    elif values in ("list", "map"):
        items = as_lists(array).flatten()
        yield from _slots(items, slots + len(items))  # an empty list has a slot too
    else:
        yield slots, array.nbytes if values in ("string", "binary") else 0
