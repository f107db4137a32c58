"""Segments of producers that have inferred columns which contradict each other."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drifting import Drifting, comparable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lakes import GENERATIONS, DeltaLake, DirectoryLake, IcebergLake, compared
from segments import segment
from support import examples

from columnar_kafka.errors import LakeError
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.lake.audit.landed_rows import same_rows
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.lake.plan import Layout, Mode
from columnar_kafka.plain import restored
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE = [
    {"n": 0, "a": 1, "s": {"x": 1, "only": 0.5}, "l": [{"k": 1}], "same": "t"},
    {"n": 1, "a": 2, "s": {"x": 2}, "l": [], "only one": True},
    {"n": 2},
]
OTHER = [
    {"n": 3, "a": "text", "s": {"x": "x", "y": True}, "l": [{"k": "k", "m": 1}, {"k": 1}]},
    {"n": 4, "a": None, "s": "no object", "l": {"no": "list"}, "same": "u", "A": 1.25},
    {"n": 5, "a": 10**30, "s": {}, "l": [1, None], "new": [[1]]},
]


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


def guessed(objects: Sequence[dict[str, Any]], first: int) -> list[SourceMessage]:
    """Return the segments, from an offset on, of a producer that begins an empty topic."""
    config = {
        "columnar.encoding": "parquet",
        "columnar.value.format": "json",
        "columnar.schema": "infer",
    }
    with FakeKafka() as kafka:
        kafka.create_topic("t", 1)
        with kafka.Producer(config) as producer:
            for value in objects:
                producer.produce("t", json.dumps(value), key=b"k", headers={"h": b"v"})
        messages = [source_message(message) for message in kafka.messages("t")]
    return [replace(message, offset=first + at) for at, message in enumerate(messages)]


def objects_in(lake: Any, by: str = "n") -> list[dict[str, Any]]:
    """Return the objects of which a table's rows were made, without nulls, by n."""
    files = lake.data_files()
    objects = []
    for path in files:
        if not path.startswith("_") and "/_" not in path:
            with pq.ParquetFile(lake.filesystem().open_input_file(path)) as file:
                table = file.read()
            schema = table.drop_columns("_kafka").schema.remove_metadata()
            assert set(table["_kafka"].combine_chunks().field("key").to_pylist()) == {b"k"}
            objects += [restored(row, schema) for row in table.to_pylist()]
    return sorted(objects, key=lambda value: value[by])


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("small", [0, 64 << 10], ids=["alone", "in a run"])
@pytest.mark.parametrize("commits", [1, 4])
def test_all_rows_land(lake: Any, commits: int, small: int) -> None:
    """In one table whose first columns count, and an audit finds each row."""
    messages = guessed(ONE, 0) + guessed(OTHER, 1) + guessed(ONE, 2) + guessed(OTHER, 3)
    for some in (messages[n::commits] for n in range(commits)):
        layout = Layout(small_bytes=small)
        land(some, table=lake.table(), generations=GENERATIONS, layout=layout)
    expected = sorted(2 * (ONE + OTHER), key=lambda value: value["n"])
    assert objects_in(lake) == [without_nulls(value) for value in expected]
    report = compared(lake, messages)
    assert (report.findings, report.messages, report.rows) == ([], 4, 12)
    [column] = {str(field.type) for field in lake.table().columns() if field.name == "a"}
    assert column in ("int64", "long")


def test_an_audit_sees_what_differs(tmp_path: Path) -> None:
    lake = DirectoryLake(tmp_path / "lake")
    messages = guessed(ONE, 0) + guessed(OTHER, 1)
    land(messages, table=lake.table(), generations=GENERATIONS)
    [path] = [path for path in lake.data_files() if "1-" in path.rpartition("/")[2]]
    landed = pq.read_table(path, filesystem=lake.filesystem(), partitioning=None)
    sent = messages[1].segment()
    assert same_rows(landed, sent)
    at = landed.schema.get_field_index("_rest")
    rests = landed["_rest"].to_pylist()
    rests[1] = rests[1].replace("no object", "an object")
    assert not same_rows(landed.set_column(at, "_rest", pa.array(rests)), sent)
    assert not same_rows(landed.slice(1), sent)


def test_what_does_not_contradict_lands_as_it_came(lake: Any) -> None:
    messages = guessed(ONE, 0) + guessed([{"n": 9, "more": 1}], 1)
    layout = Layout(mode=Mode.VERBATIM)
    result = land(messages, table=lake.table(), generations=GENERATIONS, layout=layout)
    assert result.rewritten == 0


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_a_table_that_may_not_grow(tmp_path: Path, kind: Any) -> None:
    """It has new fields in the rest."""
    lake = kind(tmp_path / "lake")
    first, second = guessed(ONE, 0), guessed([*OTHER, {"n": 6, "new": 1}], 1)
    land(first, table=lake.table(), generations=GENERATIONS)
    before = lake.table().columns()
    table = lake.table(growth=False)
    land(second, table=table, generations=GENERATIONS)
    assert lake.table().columns() == before
    assert objects_in(lake) == [
        without_nulls(value) for value in [*ONE, *OTHER, {"n": 6, "new": 1}]
    ]
    assert not compared(lake, first + second).findings


def test_a_partitioned_table(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path / "lake")
    messages = guessed(ONE, 0) + guessed(OTHER, 1)
    table = lake.table(partition_by=["n"])
    land(messages, table=table, generations=GENERATIONS)
    assert sorted(lake.read()["n"].to_pylist()) == list(range(6))


def test_segments_of_set_schemas_are_refused_as_before(tmp_path: Path) -> None:
    """They promise their columns."""
    lake = DeltaLake(tmp_path / "lake")
    land(guessed(ONE, 0), table=lake.table(), generations=GENERATIONS)
    set_one = segment(pa.table({"n": [1], "a": ["text"]}), offset=1, number=1)
    with pytest.raises(LakeError, match=r"'a'|column a"):
        land([set_one], table=lake.table(), generations=GENERATIONS)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck), deadline=None)
@given(seed=st.integers(0, 2**64))
def test_random_objects(seed: int) -> None:
    """Producers whose objects have columns of the same names and any types."""
    rng = random.Random(seed)
    values, messages = dict[int, Any](), list[SourceMessage]()
    for producer in range(3):
        texts = Drifting(rng)
        objects = [{**json.loads(texts.message()), "_n": 9 * producer + n} for n in range(9)]
        objects = [value for value in objects if "Infinity" not in json.dumps(value)]
        values |= {value["_n"]: value for value in objects}
        messages += [message for message in guessed(objects, 0) if not message.is_plain]
    messages = [replace(message, offset=at) for at, message in enumerate(messages)]
    with TemporaryDirectory() as folder:
        lake = DirectoryLake(Path(folder) / "lake")
        for some in filter(None, (messages[:2], messages[2:])):
            land(some, table=lake.table(), generations=GENERATIONS)
        assert not compared(lake, messages).findings
        for found in objects_in(lake, by="_n"):
            assert comparable(found) == comparable(without_nulls(values[found["_n"]]))
