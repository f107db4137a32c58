"""Four times as much takes at most five times the work, in every step and format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from lakes import (
    GENERATIONS,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    compared,
    place_at,
    put,
)
from proportion import in_proportion
from segments import segments

from columnar_kafka import lake as lake_package
from columnar_kafka.lake.aside.decoding import Decoding
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.landing.replay import replay
from columnar_kafka.lake.landing.stage import MAX_OPEN, land
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.lake.plan import Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 30
SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake], ids=["parquet", "delta", "iceberg"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], Any]:
    """Return what makes a lake for a number of things."""
    return lambda count: request.param(tmp_path / f"{count}")


def test_segments(make: Callable[[int], Any]) -> None:
    def work(count: int) -> Callable[[], object]:
        table, messages = make(count).table(), segments(range(count))
        return lambda: land(messages, table=table, generations=GENERATIONS)

    in_proportion(lake_package, work, COUNT)


@pytest.mark.parametrize("files", [1, 3])
def test_what_is_compared(make: Callable[[int], Any], files: int) -> None:
    def work(count: int) -> Callable[[], object]:
        lake = make(count)
        for number in range(files):
            put(lake.table(), range(number * count, (number + 1) * count))
        return lambda: compared(lake, segments(range(files * count)))

    in_proportion(lake_package, work, COUNT)


def test_row_groups_that_are_merged(make: Callable[[int], Any]) -> None:
    def work(count: int) -> Callable[[], object]:
        lake = make(count)
        for number in range(2):
            put(lake.table(), range(number * count, (number + 1) * count))
        return lambda: lake.table().compact(1 << 20)

    in_proportion(lake_package, work, COUNT)


def test_files_that_are_merged(make: Callable[[int], Any]) -> None:
    def work(count: int) -> Callable[[], object]:
        lake = make(count)
        put(lake.table(), range(count), mode=Mode.VERBATIM)
        return lambda: lake.table().compact(1 << 20)

    in_proportion(lake_package, work, COUNT)


def test_partitions(make: Callable[[int], Any]) -> None:
    def work(count: int) -> Callable[[], object]:
        table = make(count).table()
        messages = [segment for n in range(count) for segment in segments([0], partition=n)]
        return lambda: land(messages, table=table, generations=GENERATIONS)

    in_proportion(lake_package, work, MAX_OPEN)


def test_dead_letters(make: Callable[[int], Any], tmp_path: Path) -> None:
    def work(count: int) -> Callable[[], object]:
        table, place = make(count).table(), place_at(tmp_path / f"dead{count}")
        put(table, [0])
        value = b'{"n": 1}'
        plain = [
            SourceMessage(topic="t", partition=0, offset=n, headers=None, value=value, timestamp=0)
            for n in range(1, count + 1)
        ]
        aside = Rules(dead_letters=place, plain="dead-letter")
        decode = Rules(plain="decode", decoding=Decoding("json", SCHEMA))

        def do() -> None:
            land(plain, table=table, generations=GENERATIONS, rules=aside)
            assert replay(place, table, rules=decode).landed.messages == count

        return do

    in_proportion(lake_package, work, COUNT)
