"""Columns compared exactly: every null, every length and the bits of every value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from columnar_kafka.columns.layouts import as_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def difference(
    expected: pa.Table, actual: pa.Table, as_read: Callable[[pa.Array], pa.Array]
) -> str | None:
    """Return where two tables differ first; None if they are equal.

    NaN equals NaN, zeros of two signs differ, and so do the types of values. How a list or a text
    is laid out in memory does not matter.

    Args:
        expected: what was sent.
        actual: what a reader returned.
        as_read: turns values that were sent into those that the reader should return.
    """
    if expected.column_names != actual.column_names:
        return f"columns {actual.column_names}"
    pairs = zip(expected.columns, actual.columns, strict=True)
    for name, (column, other_column) in zip(expected.column_names, pairs, strict=True):
        ours, theirs = _parts(_whole(column), name), _parts(_whole(other_column), name)
        for (path, mine), (other_path, other) in zip(ours, theirs, strict=True):
            if path != other_path:
                return f"{other_path} instead of {path}"
            wanted = _bits(mine if path.endswith(_MARKS) else as_read(mine))
            if wanted.type != (got := _bits(other)).type:
                return f"{path} is {got.type}, not {wanted.type}"
            if not wanted.equals(got):
                return f"{path}: {_first(wanted, got)}"
    return None


_IS_NULL, _LENGTH = " is null", " length"
_MARKS = (_IS_NULL, _LENGTH)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def _parts(column: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield what a column consists of: nulls, lengths of lists, and values."""
    yield path + _IS_NULL, column.is_null()
    kind = column.type
    if types.is_map(kind):
        column = as_lists(column)
        kind = column.type
    if types.is_struct(kind):
        for field, child in zip(kind, column.flatten(), strict=True):
            yield from _parts(child, f"{path}.{field.name}")
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        column = column.drop_null()
        yield path + _LENGTH, pc.list_value_length(column).cast(pa.int64())
        yield from _parts(column.flatten(), f"{path}[]")
    else:
        yield path, column


def _bits(values: pa.Array) -> pa.Array:
    kind = values.type
    if types.is_floating(kind):
        return values.view(getattr(pa, f"int{kind.bit_width}")())
    if types.is_string(kind):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if types.is_binary(kind) else values


def _first(wanted: pa.Array, got: pa.Array) -> str:
    if len(wanted) != len(got):
        return f"{len(got)} values instead of {len(wanted)}"
    pairs: Any = enumerate(zip(wanted, got, strict=True))
    row, (mine, other) = next((n, pair) for n, pair in pairs if not pair[0].equals(pair[1]))
    return f"{other} instead of {mine} at {row}"
