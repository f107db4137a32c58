"""Columns from outside: valid, changed chunk by chunk, and wrong in a row that can be named."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

import pyarrow as pa

from columnar_kafka.errors import RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["convert"]


def convert(
    column: pa.ChunkedArray, name: str, change: Callable[[pa.Array], pa.Array]
) -> pa.ChunkedArray:
    """Return `column` with each chunk validated and changed.

    Args:
        column: data from outside.
        name: how messages call it.
        change: what makes one array of another, value by value, or raises RowError.

    Raises:
        RowError: naming the first row that cannot be changed, where it is one row's fault.
    """
    chunks = column.chunks or [pa.nulls(0, column.type)]

    def attempt(chunk: pa.Array) -> pa.Array:
        try:
            chunk.validate(full=True)
        except (ValueError, pa.ArrowException) as error:
            raise RowError(f"field {name!r} is not valid Arrow data: {error}") from error
        try:
            return change(chunk)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError) as error:
            raise RowError(f"field {name!r} is {chunk.type} in the data: {error}") from error

    made: list[pa.Array] = []
    row = 0
    for chunk in chunks:
        made += _pieces(chunk, row, attempt)
        row += len(chunk)
    return pa.chunked_array(made)


def _pieces(
    chunk: pa.Array, row: int, attempt: Callable[[pa.Array], pa.Array]
) -> Iterator[pa.Array]:
    """Yield a chunk changed, in more than one piece where one cannot hold it.

    A string column holds 2 GiB of text in one piece; views, dictionaries and large strings more.
    """
    while True:
        try:
            yield attempt(chunk)
        except RowError:
            count = _fitting(chunk, attempt)
            if count is None:
                raise
        else:
            return
        try:
            attempt(chunk.slice(count, 1))
        except RowError as error:
            shown = _show(chunk, count)
            raise RowError(f"{error.reason}; row {row + count}{shown}") from error
        yield attempt(chunk.slice(0, count))
        chunk = chunk.slice(count)
        row += count


def _fitting(chunk: pa.Array, attempt: Callable[[pa.Array], pa.Array]) -> int | None:
    """Return how many rows from the start fit together, or None where not even none does."""

    def fits(count: int) -> bool:
        try:
            attempt(chunk.slice(0, count))
        except RowError:
            return False
        return True

    if not fits(0):
        return None
    low, high = 0, len(chunk)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _show(chunk: pa.Array, row: int) -> str:
    try:
        return f" has {reprlib.repr(chunk[row].as_py())}"
    except Exception:  # noqa: BLE001 - the value is wrong, and may be none that Python has
        return ""
