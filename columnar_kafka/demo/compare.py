"""Compares two tables of records as multisets: exactly, but without regard to their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_SIDE: Final = "__side"
_BALANCE: Final = f"{_SIDE}_sum"
_NULL: Final = pa.scalar(b"-", pa.binary())
_NOTHING: Final = pa.scalar(b"", pa.binary())
_COLON: Final = pa.scalar(b":", pa.binary())


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `compare`. Records count as often as they occur.

    `examples` shows the first few records that occur more often on one side than on the other.
    """

    expected: int
    found: int
    missing: int
    unexpected: int
    examples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both sides hold the same records, each the same number of times."""
        return self.expected == self.found and not (
            self.missing or self.unexpected or self.examples
        )

    def __str__(self) -> str:
        if self.equal:
            return f"{self.found:,} records, equal"
        return (
            f"{self.found:,} records instead of {self.expected:,}: "
            f"{self.missing:,} missing, {self.unexpected:,} not expected"
        )


def refused(expected: pa.Table, rows: int, reason: str) -> Comparison:
    """The comparison with data that cannot be converted to the expected columns."""
    return Comparison(expected.num_rows, rows, expected.num_rows, rows, (reason,))


def compare(expected: pa.Table, seen: pa.Table, *, examples: int = 5) -> Comparison:
    """Compare two multisets of records.

    Every column counts. Null equals null and nothing else; a missing list of headers is not an
    empty one; NaN equals NaN. Columns of both tables must be scalars, or lists of header pairs.
    """
    if not expected.schema.equals(seen.schema):
        reason = f"columns differ: {_describe(expected.schema)} became {_describe(seen.schema)}"
        return refused(expected, seen.num_rows, reason)
    unbalanced = _unbalanced(scalars(expected), scalars(seen))
    balance = unbalanced[_BALANCE]
    missing = pc.sum(pc.max_element_wise(balance, 0)).as_py() or 0
    unexpected = -(pc.sum(pc.min_element_wise(balance, 0)).as_py() or 0)
    return Comparison(
        expected=expected.num_rows,
        found=seen.num_rows,
        missing=missing,
        unexpected=unexpected,
        examples=_examples(unbalanced, examples),
    )


def _unbalanced(expected: pa.Table, seen: pa.Table) -> pa.Table:
    """The distinct records that occur more often on one side, and how much more often.

    An expected record counts +1 and a seen one -1, so records in balance sum up to 0.
    """
    sides = pa.concat_tables([_with_side(expected, 1), _with_side(seen, -1)])
    sums = sides.group_by(expected.column_names).aggregate([(_SIDE, "sum")])
    return sums.filter(pc.not_equal(sums[_BALANCE], 0))


def _with_side(table: pa.Table, side: int) -> pa.Table:
    return table.append_column(_SIDE, pa.repeat(pa.scalar(side, pa.int8()), table.num_rows))


def _examples(unbalanced: pa.Table, count: int) -> tuple[str, ...]:
    order = [(name, "ascending") for name in unbalanced.column_names if name != _BALANCE]
    rows = unbalanced.sort_by(order).slice(0, count).to_pylist() if len(unbalanced) else []
    return tuple(_example(row) for row in rows)


def _example(row: dict[str, object]) -> str:
    balance = row.pop(_BALANCE)
    assert isinstance(balance, int)  # for the type checker: it is a sum of integers
    verdict = f"missing {balance}x" if balance > 0 else f"not expected {-balance}x"
    fields = ", ".join(f"{name}={value}" for name, value in row.items())
    return f"{verdict}: {fields}"


def scalars(table: pa.Table) -> pa.Table:
    """The table with each list of header pairs as one binary value.

    Arrow can group by scalars only. (polars groups by lists too, but holds 0.0 and -0.0 for equal.)
    Each pair becomes two netstrings (`6:source12:nycflights13`; null is `-`), so different lists
    have different values; a null list stays null.
    """
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = _texts(table[field.name].combine_chunks())
            table = table.set_column(index, field.name, texts)
    return table


def _texts(lists: pa.ListArray) -> pa.Array:
    pairs = lists.flatten()
    if pairs.null_count:
        raise ValueError("a header is null; its key and value may be, the pair may not")
    keys = _netstring(pc.struct_field(pairs, 0).cast(pa.binary()))
    values = _netstring(pc.struct_field(pairs, 1).cast(pa.binary()))
    joined = pc.binary_join_element_wise(keys, values, _NOTHING)
    lengths = pc.fill_null(lists.value_lengths(), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    rebuilt = pa.ListArray.from_arrays(offsets, joined, mask=lists.is_null())
    return pc.binary_join(rebuilt, _NOTHING)


def _netstring(values: pa.Array) -> pa.Array:
    length = pc.binary_length(values).cast(pa.string()).cast(pa.binary())
    return pc.fill_null(pc.binary_join_element_wise(length, values, _COLON), _NULL)


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
