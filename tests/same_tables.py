"""Whether the native core makes the tables that Arrow makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from columnar_kafka import SegmentError
from columnar_kafka.segment.decoder import InlineDecoder, RawSegment
from columnar_kafka.segment.headers import parse_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from columnar_kafka.config import ReadOptions


def assert_same_tables(
    headers: Any,
    value: bytes,
    columns: Sequence[str] | None = None,
    options: ReadOptions | None = None,
) -> bool:
    """Read a segment's table natively and by Arrow, and compare; return whether it was native.

    The tables have to be equal in schema and values, and so have errors.
    """
    decoder = InlineDecoder(options)
    core, decoder.core = decoder.core, None
    assert core is not None
    expected = table_or_error(decoder, headers, value, columns)
    decoder.core = core
    actual = table_or_error(decoder, headers, value, columns)
    if isinstance(expected, str) or isinstance(actual, str):
        assert actual == expected
        return False
    assert_same(actual, expected)
    if columns is None:  # else Arrow's way calls the entries of a map by another name
        assert actual.schema.equals(expected.schema, check_metadata=True)
    raw = RawSegment(*parse_headers(headers), value)
    known = core.open(*raw, schema=lambda: decoder.open(raw).schema)
    table = None if known is None else known.table(columns)
    if table is None:
        return False
    assert all(column.num_chunks == 1 for column in table.columns)
    return True


def table_or_error(
    decoder: InlineDecoder, headers: Any, value: bytes, columns: Sequence[str] | None
) -> pa.Table | str:
    """Return the table of a segment, or why there is none."""
    try:
        return decoder.open(RawSegment(*parse_headers(headers), value)).read(columns)
    except SegmentError as error:
        return str(error)


def assert_same(actual: pa.Table, expected: pa.Table) -> None:
    """Compare two tables, whose chunks and order of columns may differ."""
    actual.validate(full=True)
    assert set(actual.schema.names) == set(expected.schema.names)
    expected = expected.select(actual.schema.names)
    assert actual.schema.equals(expected.schema)
    assert (actual.schema.metadata or {}) == (expected.schema.metadata or {})
    assert [field.metadata for field in actual.schema] == [
        field.metadata for field in expected.schema
    ]
    assert actual.num_rows == expected.num_rows
    for one, other in zip(actual.columns, expected.columns, strict=True):
        assert_same_arrays(pa.concat_arrays(one.chunks), pa.concat_arrays(other.chunks))


def assert_same_arrays(actual: pa.Array, expected: pa.Array) -> None:
    """Compare two arrays, NaNs bit by bit; of what nulls hide, only whether it is null."""
    arrow = actual.type
    assert arrow.equals(expected.type)
    assert len(actual) == len(expected)
    assert actual.null_count == expected.null_count
    assert actual.is_valid().equals(expected.is_valid())
    if types.is_struct(arrow):
        for index, (one, other) in enumerate(
            zip(actual.flatten(), expected.flatten(), strict=True)
        ):
            assert actual.field(index).null_count == expected.field(index).null_count
            assert_same_arrays(one, other)
    elif types.is_fixed_size_list(arrow):
        assert actual.values.null_count == expected.values.null_count
        assert_same_arrays(actual.flatten(), expected.flatten())
    elif types.is_nested(arrow):
        assert actual.offsets.equals(expected.offsets)
        assert_same_arrays(actual.values, expected.values)
    elif types.is_floating(arrow):
        bits = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[arrow.bit_width]
        assert actual.view(bits).equals(expected.view(bits))
    else:
        assert actual.equals(expected)
