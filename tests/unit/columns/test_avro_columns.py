"""Rows of any Avro schema are read as they were produced, with defaults filled in."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import struct
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.schema import RecordSchema

Pairs = st.SearchStrategy[tuple[Any, Any]]
LEFT_OUT = object()


class Typed(NamedTuple):
    """An Avro type, and values of it: as they are produced, and as they are read."""

    avro: Any
    pairs: Pairs


def _same(values: st.SearchStrategy[Any]) -> Pairs:
    return values.map(lambda value: (value, value))


def _whole(bits: int) -> Pairs:
    return _same(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1))


def _cut(value: Any) -> Any:
    """Return a time cut to whole milliseconds, so that it is read as it was produced."""
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _decimals(precision: int, scale: int) -> Pairs:
    digits = st.integers(-(10**precision) + 1, 10**precision - 1)

    def made(unscaled: int) -> decimal.Decimal:
        sign, text = int(unscaled < 0), str(abs(unscaled))
        return decimal.Decimal((sign, tuple(map(int, text)), -scale))

    return _same(digits.map(made))


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
BYTES = st.binary(max_size=20)
UTC = st.datetimes(timezones=st.just(dt.timezone.utc))
SYMBOLS = st.sampled_from(["A", "B"])


def _named(kind: str, **more: Any) -> Any:
    return {"type": kind, "name": "?", **more}


def _logical(kind: str, logical: str, **more: Any) -> Any:
    return {"type": kind, "logicalType": logical, **more}


FOUR = st.binary(min_size=4, max_size=4)
ENUM = _named("enum", symbols=["A", "B"])
FIXED = _named("fixed", size=4)
PLAIN = [
    Typed("boolean", _same(st.booleans())),
    Typed("int", _whole(32)),
    Typed("long", _whole(64)),
    Typed("float", _same(st.floats(width=32, allow_nan=False))),
    Typed("double", _same(st.floats(allow_nan=False))),
    Typed("string", _same(TEXT)),
    Typed("bytes", _same(BYTES)),
    Typed(FIXED, _same(FOUR)),
    Typed(ENUM, _same(SYMBOLS)),
    Typed(_logical("int", "date"), _same(st.dates())),
    Typed(_logical("int", "time-millis"), _same(st.times().map(_cut))),
    Typed(_logical("long", "time-micros"), _same(st.times())),
    Typed(_logical("long", "timestamp-millis"), _same(UTC.map(_cut))),
    Typed(_logical("long", "timestamp-micros"), _same(UTC)),
    Typed(
        _logical("long", "timestamp-nanos"),
        _same(st.integers(-(1 << 62), 1 << 62).map(lambda value: value | 1)),
    ),
    Typed(_logical("long", "local-timestamp-millis"), _same(st.datetimes().map(_cut))),
    Typed(_logical("long", "local-timestamp-micros"), _same(st.datetimes())),
    Typed(
        _logical("long", "local-timestamp-nanos"),
        _same(st.integers(-(1 << 62), 1 << 62).map(lambda value: value | 1)),
    ),
    Typed(_logical("string", "uuid"), st.uuids().map(lambda value: (value, str(value)))),
    Typed(
        _named("fixed", size=16, logicalType="uuid"),
        st.uuids().map(lambda value: (value, value.bytes)),
    ),
    Typed(
        _named("fixed", size=12, logicalType="duration"),
        _same(st.binary(min_size=12, max_size=12)),
    ),
    Typed(_logical("bytes", "decimal", precision=30, scale=4), _decimals(30, 4)),
    Typed(_named("fixed", size=32, logicalType="decimal", precision=70, scale=7), _decimals(70, 7)),
    Typed(["int", "long"], _whole(64)),
    Typed(["double", "float"], _same(st.floats(allow_nan=False))),
    Typed([ENUM, "string"], _same(SYMBOLS | TEXT)),
    Typed(["bytes", FIXED], _same(FOUR | BYTES)),
]


@st.composite
def typed(draw: st.DrawFn, depth: int) -> Typed:
    kind = draw(st.sampled_from(["plain"] * 3 + ["array", "map", "record"] * (depth > 0)))
    if kind == "plain":
        drawn = draw(st.sampled_from(PLAIN))
    elif kind == "array":
        inner = draw(typed(depth - 1))
        pairs = st.lists(inner.pairs, max_size=3).map(
            lambda items: ([given for given, _ in items], [read for _, read in items])
        )
        drawn = Typed({"type": "array", "items": inner.avro}, pairs)
    elif kind == "map":
        inner = draw(typed(depth - 1))
        pairs = st.dictionaries(TEXT, inner.pairs, max_size=3).map(
            lambda entries: (
                {key: given for key, (given, _) in entries.items()},
                {key: read for key, (_, read) in entries.items()},
            )
        )
        drawn = Typed({"type": "map", "values": inner.avro}, pairs)
    else:
        drawn = draw(records(depth - 1))
    if not draw(st.booleans()):
        return drawn
    branches = drawn.avro if isinstance(drawn.avro, list) else [drawn.avro]
    return Typed(["null", *branches], st.just((None, None)) | drawn.pairs)


DEFAULTS = [
    Typed("int", st.integers(-9, 9).map(lambda value: (value, value))),
    Typed("bytes", BYTES.map(lambda value: (value.decode("latin-1"), value))),
    Typed(["null", "string"], _same(st.none() | TEXT)),
    Typed(
        {"type": "array", "items": ["null", "double"]}, _same(st.lists(st.none() | st.just(0.5)))
    ),
]
"""The first value of each pair is in the form that JSON has for it."""


@st.composite
def records(draw: st.DrawFn, depth: int) -> Typed:
    fields, values = [], {}
    for name in draw(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=4, unique=True)):
        if draw(st.integers(0, 3)):
            inner = draw(typed(depth))
            fields.append({"name": name, "type": inner.avro})
            values[name] = inner.pairs
        else:
            inner = draw(st.sampled_from(DEFAULTS))
            default, read = draw(inner.pairs)
            fields.append({"name": name, "type": inner.avro, "default": default})
            values[name] = st.just((LEFT_OUT, read)) | st.just((read, read))
    pairs = st.fixed_dictionaries(values).map(
        lambda members: (
            {name: given for name, (given, _) in members.items() if given is not LEFT_OUT},
            {name: read for name, (_, read) in members.items()},
        )
    )
    return Typed(_named("record", fields=fields), pairs)


def renamed(avro: Any, numbers: Any) -> Any:
    """Return the schema with a different name for each of its types."""
    if isinstance(avro, list):
        return [renamed(branch, numbers) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    schema = {
        key: renamed(value, numbers) if key in ("type", "items", "values", "fields") else value
        for key, value in avro.items()
    }
    return schema | {"name": f"n{next(numbers)}"} if avro.get("name") == "?" else schema


@given(records(2), st.data())
@settings(
    max_examples=examples(150),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
def test_rows_are_read_as_they_were_produced(table: Typed, data: st.DataObject) -> None:
    schema = renamed(table.avro, itertools.count())
    pairs = data.draw(st.lists(table.pairs, min_size=1, max_size=6))
    made = RowColumns(RecordSchema.parse(json.dumps(schema)))
    builder = made.builder()
    for row, _ in pairs:
        builder.append(made.take(row)[0])
    batch, refused = builder.finish()
    assert refused == {}
    batch.validate(full=True)
    assert [exact(row) for row in to_rows(batch)] == [exact(row) for _, row in pairs]


def exact(value: Any) -> Any:
    """Return a value that equals only one of its own type: 1 is not 1.0, and 0.0 is not -0.0."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return struct.pack("d", value) if isinstance(value, float) else (type(value), value)
