"""Rows of any schema come back from a segment as they went in."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from segments import headers_of
from support import examples

from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.schema import RecordSchema, fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader
from columnar_kafka.segment.segment import Segment

NAMES = st.one_of(
    st.sampled_from(["a", "b", "a.b", "list", "key_value", "element", "", "ü", "`", " "]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
).filter(lambda name: name != "_kafka")
TEXT = st.text(st.characters(codec="utf-8"), max_size=100)


def _integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    low = -(1 << bits - 1) if signed else 0
    return st.integers(low, low + (1 << bits) - 1)


def _single(value: float) -> float:
    single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return single


_naive = st.datetimes()
_utc = st.datetimes(timezones=st.just(dt.timezone.utc))
PLAIN: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), _integers(8)),
    (pa.int16(), _integers(16)),
    (pa.int32(), _integers(32)),
    (pa.int64(), _integers(64)),
    (pa.uint8(), _integers(8, signed=False)),
    (pa.uint16(), _integers(16, signed=False)),
    (pa.uint32(), _integers(32, signed=False)),
    (pa.uint64(), _integers(64, signed=False)),
    (pa.float16(), st.floats(width=16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.binary(), st.binary(max_size=100)),
    (pa.large_binary(), st.binary(max_size=100)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.dates()),
    (
        pa.time32("ms"),
        st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), _naive),
    (pa.timestamp("us", "UTC"), _utc),
    (
        pa.timestamp("ms", "UTC"),
        _utc.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    (pa.timestamp("ns"), _integers(64).map(lambda i: i | 1)),
    (pa.duration("us"), st.integers(-(10**9), 10**9).map(lambda d: dt.timedelta(0, d, d))),
    (
        pa.decimal128(20, 5),
        st.decimals(
            allow_nan=False, allow_infinity=False, places=5, min_value=-(10**14), max_value=10**14
        ),
    ),
    (pa.decimal256(50, 0), st.integers(-(10**50) + 1, 10**50 - 1).map(decimal.Decimal)),
]
KEYS = [pair for pair in PLAIN if not pa.types.is_floating(pair[0])]


@st.composite
def typed(draw: st.DrawFn, depth: int) -> tuple[pa.Field, st.SearchStrategy[Any]]:
    """Draw a field without its name, and a strategy for its values."""
    kind = draw(st.sampled_from(["plain"] * 3 + ["list", "fixed", "map", "struct"] * (depth > 0)))
    if kind == "plain":
        arrow, values = draw(st.sampled_from(PLAIN))
    elif kind == "map":
        key, keys = draw(st.sampled_from(KEYS))
        item, items = draw(typed(depth - 1))
        arrow = pa.map_(key, item.with_name("value"))
        values = st.dictionaries(keys, items, max_size=3)
    elif kind == "struct":
        inner = draw(
            st.lists(
                st.tuples(NAMES, typed(depth - 1)),
                min_size=1,
                max_size=3,
                unique_by=lambda pair: pair[0],
            )
        )
        arrow = pa.struct([field.with_name(name) for name, (field, _) in inner])
        values = st.fixed_dictionaries({name: strategy for name, (_, strategy) in inner})
    else:
        item, items = draw(typed(depth - 1))
        size = draw(st.integers(1, 3)) if kind == "fixed" else -1
        arrow = pa.list_(item.with_name("item"), size)
        values = st.lists(items, max_size=3 if size < 0 else size, min_size=max(0, size))
    # A fixed-size list in a record has to be nullable.
    nullable = kind == "fixed" or draw(st.booleans())
    return pa.field("", arrow, nullable), st.none() | values if nullable else values


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """Draw a schema, and rows that fit it."""
    fields = draw(
        st.lists(st.tuples(NAMES, typed(2)), min_size=1, max_size=4, unique_by=lambda pair: pair[0])
    )
    schema = pa.schema([field.with_name(name) for name, (field, _) in fields])
    row = st.fixed_dictionaries({name: values for name, (_, values) in fields})
    return schema, draw(st.lists(row, min_size=1, max_size=8))


OTHERS = st.tuples(
    st.none() | st.binary(max_size=10),
    st.integers(-(1 << 62), 1 << 62),
    st.none()
    | st.lists(st.tuples(TEXT, st.none() | st.binary(max_size=10)), min_size=1, max_size=3),
)


def comparable(value: Any) -> Any:
    """Return a value that compares equal after a round trip, NaN included."""
    if isinstance(value, dict):
        return {comparable(key): comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return "nan" if isinstance(value, float) and value != value else (type(value), value)  # noqa: PLR0124


@pytest.mark.parametrize("pair", [None, [1, 2]])
def test_a_record_holds_a_half_float_and_a_pair_of_required_values_that_may_be_null(pair) -> None:
    """pyarrow up to 20 casts half floats, and refuses to cast the pair where it is null."""
    numbers = pa.list_(pa.field("item", pa.int8(), nullable=False), 2)
    record = pa.struct([("half", pa.float16()), ("pair", numbers)])
    inside = pa.map_(pa.string(), pa.list_(record))
    schema = pa.schema([("r", record), ("m", inside)])
    value = {"half": 0.5, "pair": pair}
    rows = [{"r": value, "m": {"k": [value, None], "l": None}}, {"r": None, "m": None}]
    columns = RowColumns(RecordSchema.parse(schema))
    builder = columns.builder()
    for row in rows:
        builder.append(columns.take(row)[0])
    batch, refused = builder.finish()
    assert refused == {}
    assert to_rows(batch) == rows
    assert to_rows(batch.slice(1)) == rows[1:]


@given(tables(), st.data())
@settings(
    max_examples=examples(100),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
def test_rows_come_back_as_they_went_in(
    table: tuple[pa.Schema, list[dict[str, Any]]], data: st.DataObject
) -> None:
    schema, rows = table
    others = data.draw(st.lists(OTHERS, min_size=len(rows), max_size=len(rows)))
    parsed = RecordSchema.parse(schema)
    columns = RowColumns(parsed)
    builder = columns.builder()
    for row in rows:
        builder.append(columns.take(row)[0])
    batch, refused = builder.finish()
    assert refused == {}
    keys, times, headers = map(list, zip(*others, strict=True))
    column = kafka_column.KafkaColumn(METADATA_MEMBERS)
    whole = column.append_to(
        batch,
        segment="p-0",
        timestamps=kafka_column.timestamp_array(times),
        keys=kafka_column.key_array(keys),
        headers=kafka_column.header_array(headers),
    )
    assert whole.schema.equals(column.schema(parsed.arrow), check_metadata=True)
    header = SegmentHeader(
        rows=len(rows),
        segment="p-0",
        schema=fingerprint(whole.schema),
        timestamp_min=min(times),
        timestamp_max=max(times),
    )
    value = ParquetEncoder("zstd").encode(whole, header.footer())
    segment = Segment(
        topic="t", partition=0, offset=0, headers=headers_of(header, value), value=value
    )
    assert fingerprint(segment.schema) == header.schema
    records = list(segment.records())
    assert [comparable(record.value) for record in records] == [comparable(row) for row in rows]
    assert [(record.key, record.timestamp, record.headers) for record in records] == others
