"""What the core makes of a value is what pyarrow makes of it, and comes back the same."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import zoneinfo
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from arrow_types import storable
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka import native
from columnar_kafka.columns.columns_to_rows import to_rows
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.columns.range_checks import DECIMAL_DIGITS
from columnar_kafka.errors import RowError
from columnar_kafka.schema import RecordSchema

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
ZONES = st.sampled_from([BERLIN, dt.timezone.utc, dt.timezone(dt.timedelta(hours=-2, minutes=-30))])
INTS = st.integers(-(2**64), 2**64) | st.integers(-3, 86_400_001)
DECIMALS = (
    st.decimals(allow_nan=True, allow_infinity=True)
    | st.decimals(-(10**9), 10**9, places=2)
    | st.builds(
        lambda digits, exponent: decimal.Decimal(digits).scaleb(exponent),
        st.integers(-(10**40), 10**40),
        st.integers(-45, 45),
    )
    | st.builds(
        decimal.Decimal.scaleb, st.integers(-99, 99).map(decimal.Decimal), st.integers(-7, 7)
    )
    | st.integers(-(10**80), 10**80)
    | st.integers(-1000, 1000)
)
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.float16(): st.floats() | st.floats(-70_000, 70_000) | st.floats(-1e-4, 1e-4) | INTS,
    **dict.fromkeys(
        [pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
        st.times() | st.times(timezones=ZONES) | INTS,
    ),
    **dict.fromkeys(map(pa.duration, ("s", "ms", "us", "ns")), st.timedeltas() | INTS),
    **dict.fromkeys(
        [
            pa.timestamp(unit, zone)
            for unit in ("ms", "us", "ns")
            for zone in ("Europe/Berlin", "+02:00", "UTC", None)
        ],
        st.datetimes() | st.datetimes(timezones=ZONES) | INTS,
    ),
    **dict.fromkeys(
        [
            *storable("decimal32", 5, 2),
            *storable("decimal64", 18, 0),
            pa.decimal128(38, 10),
            pa.decimal128(12, 2),
            pa.decimal128(5, 5),
            pa.decimal256(76, 6),
        ],
        DECIMALS,
    ),
    pa.list_(pa.int64(), 2): st.lists(st.integers(0, 5), max_size=3),
}


def has_more_digits(value: Any, arrow: pa.DataType) -> bool:
    """Say whether a decimal has more than any of its type; pyarrow takes some that end in zeros.

    The core leaves them to Python.
    """
    digits = value.as_tuple().digits if isinstance(value, decimal.Decimal) else ()
    return pa.types.is_decimal(arrow) and len(digits) > DECIMAL_DIGITS[arrow.bit_width]


@pytest.mark.parametrize("arrow", TYPES, ids=str)
def test_a_value_is_stored_as_pyarrow_stores_it(arrow: pa.DataType) -> None:
    schema = RecordSchema.parse(pa.schema([("v", arrow), ("in", pa.struct([("v", arrow)]))]))
    core = row_format(schema)
    python = RowColumns(schema)
    usage = native.core.Usage(1 << 30)
    seen: set[bool] = set()

    @settings(max_examples=examples(400))
    @given(TYPES[arrow])
    @example(None)
    @example(0)
    # The few decimals that a negative scale can hold, and those that have no whole digit.
    @example(decimal.Decimal(2000))
    @example(decimal.Decimal("0.5"))
    @example(decimal.Decimal("100000000000000000.0"))
    def check(value: Any) -> None:
        batch = native.core.Batch(core, 9, 1 << 20)
        taken = batch.append((value, (value,)), None, 1, None, None, usage)
        try:
            values, _ = python.take({"v": value, "in": {"v": value}})
            converted = python.convert([values])
        except RowError:
            converted = None
        is_good = converted is not None and not converted.rejected
        seen.add(taken and bool(value))
        if taken:
            assert converted is not None
            assert not converted.rejected
            rows, expected = batch.seal().values(0, 1), to_rows(converted.batch)
            assert rows == expected or repr(rows) == repr(expected)  # NaN; UTC has two names
        else:
            assert not is_good or has_more_digits(value, arrow)

    check()
    assert seen == {False, True}


class Color(str, enum.Enum):
    RED = "red"


class Zone(dt.tzinfo):
    """Like those of pytz and dateutil: none of Python's own."""

    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(hours=2)

    def dst(self, _: dt.datetime | None) -> None:
        return None


class Hour(dt.time):
    pass


class Amount(decimal.Decimal):
    pass


OTHER_CLASSES = [
    (pa.int32(), np.int64(-5)),
    (pa.uint64(), np.uint64(2**64 - 1)),
    (pa.float16(), np.float16(1.5)),
    (pa.float32(), np.float64(0.1)),
    (pa.float64(), np.float32(0.1)),
    (pa.string(), Color.RED),
    (pa.large_string(), np.str_("é")),
    (pa.binary(), np.bytes_(b"x")),
    (pa.binary(2), np.bytes_(b"xy")),
    (pa.decimal128(5, 2), Amount("1.5")),
    (pa.decimal128(38, 0), decimal.Decimal(38 * "1" + ".0")),
    (pa.time64("us"), Hour(23, 59)),
    (pa.duration("us"), pd.Timedelta(-7, "us")),
    (pa.timestamp("us"), pd.Timestamp("2024-01-01 00:00:00.000001")),
    (pa.timestamp("ns"), pd.Timestamp("2024-01-01 00:00:00.000000001")),
    (pa.timestamp("us", "UTC"), pd.Timestamp("2024-07-01", tz="Europe/Berlin")),
    (pa.timestamp("us", "UTC"), dt.datetime(2024, 7, 1, tzinfo=Zone())),
    (pa.timestamp("ms", "Europe/Berlin"), dt.datetime(1, 1, 1, 2, tzinfo=Zone())),
]


@pytest.mark.parametrize(("arrow", "value"), OTHER_CLASSES)
def test_a_value_of_another_class_is_stored_as_pyarrow_stores_it(
    arrow: pa.DataType, value: Any
) -> None:
    types = {"v": arrow, "in": pa.struct({"v": arrow, "n": arrow}), "list": pa.list_(arrow)}
    if pa.types.is_string(arrow):
        types["map"] = pa.map_(arrow, arrow)
    inner = {"v": value, "n": None}
    row = {"v": value, "in": inner, "list": [None, value], "map": {value: value}}
    schema = RecordSchema.parse(pa.schema(types))
    core, python = row_format(schema), RowColumns(schema)
    batch, usage = native.core.Batch(core, 9, 1 << 20), native.core.Usage(1 << 20)
    values, _ = python.take({name: row[name] for name in types})
    assert not batch.append(values, None, 1, None, None, usage)
    assert batch.append(python.builtin(values), None, 1, None, None, usage)
    assert batch.seal().values(0, 1) == to_rows(python.convert([values]).batch)
