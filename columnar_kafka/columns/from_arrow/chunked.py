"""Converts columns from outside chunk by chunk, and names the row that cannot be converted."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

import pyarrow as pa

from columnar_kafka.errors import RowError
from columnar_kafka.runtime.interruptions import raise_if_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["convert_chunks"]


def convert_chunks(
    column: pa.ChunkedArray, name: str, convert: Callable[[pa.Array], pa.Array]
) -> pa.ChunkedArray:
    """Return `column` with each chunk validated and converted.

    Args:
        column: data from outside.
        name: its name, for messages.
        convert: turns an array into another of the same length, value by value, or raises
            RowError.

    Raises:
        RowError: a value cannot be converted; names its row, unless the whole column is at fault.
    """
    chunks = column.chunks or [pa.nulls(0, column.type)]

    def attempt(chunk: pa.Array) -> pa.Array:
        try:
            chunk.validate(full=True)
        except (ValueError, pa.ArrowException) as error:
            raise RowError(f"field {name!r} is not valid Arrow data: {error}") from error
        try:
            return convert(chunk)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError) as error:
            raise RowError(f"field {name!r} is {chunk.type} in the data: {error}") from error

    pieces: list[pa.Array] = []
    row = 0
    for chunk in chunks:
        pieces += _pieces(chunk, row, attempt)
        row += len(chunk)
    return pa.chunked_array(pieces)


def _pieces(
    chunk: pa.Array, row: int, attempt: Callable[[pa.Array], pa.Array]
) -> Iterator[pa.Array]:
    """Yield a converted chunk, in several pieces if one cannot hold it.

    One piece of a string column holds 2 GiB of text; views, dictionaries and large strings can
    hold more. `row` is the chunk's first row in the column.
    """
    while True:
        try:
            yield attempt(chunk)
        except RowError:
            count = _count_convertible(chunk, attempt)
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


def _count_convertible(chunk: pa.Array, attempt: Callable[[pa.Array], pa.Array]) -> int | None:
    """Return how many rows from the start convert together; None if even an empty chunk fails."""

    def converts(count: int) -> bool:
        try:
            attempt(chunk.slice(0, count))
        except RowError:
            return False
        return True

    if not converts(0):
        return None
    low, high = 0, len(chunk)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if converts(middle) else (low, middle)
    return low


def _show(chunk: pa.Array, row: int) -> str:
    try:
        return f" has {reprlib.repr(chunk[row].as_py())}"
    except Exception as error:  # noqa: BLE001 - Python may have no object for a wrong value
        raise_if_once(error, lambda: reprlib.repr(chunk[row].as_py()))
        return ""
