"""Columns hold the values that they were made of."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from columnar_kafka.columns.from_rows.converters import converter


def test_an_hour_that_repeats_counts_as_two() -> None:
    """Python subtracts wall times if both have the same zone: an hour would be lost."""
    zone = zoneinfo.ZoneInfo("Europe/Paris")
    values = [
        dt.datetime(2020, 7, 1, tzinfo=zone),
        dt.datetime(2020, 10, 25, 2, 30, tzinfo=zone),
        dt.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=zone),
    ]
    milliseconds = converter(pa.timestamp("ms", "UTC"))(values).cast(pa.int64()).to_pylist()
    assert milliseconds == [round(value.timestamp() * 1000) for value in values]


def test_a_zone_from_a_file_is_what_the_file_says_whatever_its_key_does() -> None:
    paths = (Path(root, "Europe/Berlin") for root in zoneinfo.TZPATH)
    with next(path for path in paths if path.exists()).open("rb") as file:
        berlin = zoneinfo.ZoneInfo.from_file(file, key="UTC")
    values = [dt.datetime(1880, 1, 1, tzinfo=berlin)]  # local mean time: + 0:53:28
    times = converter(pa.timestamp("us", "UTC"))(values).to_pylist()
    assert times == [dt.datetime(1879, 12, 31, 23, 6, 32, tzinfo=dt.timezone.utc)]


def test_an_offset_with_parts_of_a_second_is_taken_off_in_full() -> None:
    zone = dt.timezone(dt.timedelta(hours=-2, microseconds=-1))
    time = dt.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=zone)
    [value] = converter(pa.timestamp("us", "UTC"))([time]).to_pylist()
    assert value == dt.datetime(2026, 1, 1, 2, 0, 0, 2, tzinfo=dt.timezone.utc)


def test_nanoseconds_of_pandas_are_kept() -> None:
    value = pd.Timestamp(1_234_567_891, unit="ns", tz="UTC")
    times = converter(pa.timestamp("ns", "UTC"))([value, None])
    assert times.cast(pa.int64()).to_pylist() == [1_234_567_891, None]


INTEGERS = [
    (pa.int8(), 7),
    (pa.int16(), 15),
    (pa.int32(), 31),
    (pa.int64(), 63),
    (pa.uint8(), 8),
    (pa.uint16(), 16),
    (pa.uint32(), 32),
    (pa.uint64(), 64),
]


@pytest.mark.parametrize(("arrow", "bits"), INTEGERS, ids=str)
@pytest.mark.parametrize("null", [[], [None]])
def test_integers_are_packed_to_their_last_value(
    arrow: pa.DataType, bits: int, null: list[None]
) -> None:
    low = -(1 << bits) if pa.types.is_signed_integer(arrow) else 0
    values = [low, 0, 1, (1 << bits) - 1, *null]
    column = converter(arrow)(values)
    column.validate(full=True)
    assert (column.type, column.to_pylist()) == (arrow, values)
    for beyond in (low - 1, 1 << bits):
        with pytest.raises((pa.ArrowInvalid, OverflowError)):
            converter(arrow)([beyond, *null])


@pytest.mark.parametrize(
    "arrow", [pa.int32(), pa.timestamp("us", "UTC"), pa.float32(), pa.time32("ms"), pa.string()]
)
def test_no_values_make_an_empty_column(arrow: pa.DataType) -> None:
    column = converter(arrow)([])
    assert (column.type, len(column)) == (arrow, 0)
