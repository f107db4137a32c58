"""What the driver does with staged files, without a Spark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import GENERATIONS, DirectoryLake, put, rows, staged
from segments import numbered, numbers

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.decoding import Decoding
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.formats import open_dead_letters
from columnar_kafka.lake.landing.stage import stage
from columnar_kafka.lake.model import MayHaveLandedError, NotLandedError, SourceMessage
from columnar_kafka.lake.plan import Layout, Planner
from columnar_kafka.plain import Lenient
from spark_sink.landing import gaps
from spark_sink.sink import LakeStreamWriter, Settings, TaskResult

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


def writer(table: Any) -> LakeStreamWriter:
    return LakeStreamWriter(Settings(table=table, layout=Layout(), rules=Rules(), config={}))


def files(lake: DirectoryLake) -> int:
    return len(list(lake.root.glob("_columnar/staged/*")))


def test_after_a_failed_task_the_staged_files_are_removed(lake: DirectoryLake) -> None:
    table = lake.table()
    writer(table).abort([TaskResult((staged(table, [0]),)), None], 0)
    assert files(lake) == 0


@pytest.mark.parametrize(("error", "left"), [(MayHaveLandedError, 1), (NotLandedError, 0)])
def test_after_a_commit_they_are_kept_unless_it_surely_did_not_land(
    lake: DirectoryLake, error: type[Exception], left: int
) -> None:
    table = lake.table()
    messages = [TaskResult((staged(table, [0]),))]

    def fails(_: object) -> None:
        raise error("no answer")

    table.commit = fails
    with pytest.raises(error):
        writer(table).commit(messages, 0)
    writer(table).abort(messages, 0)
    assert files(lake) == left


def rows_of(messages: list[SourceMessage]) -> pa.RecordBatch:
    """Messages as rows of Spark's Kafka source."""
    headers = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    columns = {
        "key": pa.array([message.key for message in messages], pa.binary()),
        "value": pa.array([message.value for message in messages], pa.binary()),
        "topic": pa.array([message.topic for message in messages]),
        "partition": pa.array([message.partition for message in messages], pa.int32()),
        "offset": pa.array([message.offset for message in messages], pa.int64()),
        "timestamp": pa.array([1_234_567] * len(messages), pa.timestamp("us", "UTC")),
        "headers": pa.array(
            [
                [{"key": key, "value": value} for key, value in message.headers]
                for message in messages
            ],
            headers,
        ),
    }
    return pa.record_batch(columns)


def test_where_kafka_cannot_be_asked_about_gaps_the_staged_files_are_removed(
    lake: DirectoryLake,
) -> None:
    put(lake.table(), [0])
    result = TaskResult((staged(lake.table(), [5]),))
    config = {"bootstrap.servers": "localhost:1", "no.such.key": "1"}
    settings = Settings(table=lake.table(), layout=Layout(), rules=Rules(), config=config)
    with pytest.raises(
        NotLandedError, match=r"t\[0\]: it is not known whether messages lie .*no\.such\.key"
    ):
        LakeStreamWriter(settings).commit([result], 0)
    assert files(lake) == 0


def test_what_kafka_has_deleted_before_it_landed_is_said(
    lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trimmed:
        def __init__(self, config: Any) -> None:
            assert config["group.id"] == "spark-kafka-source"

        def get_watermark_offsets(self, *_: Any) -> tuple[int, int]:
            return 4, 9

        def close(self) -> None:
            pass

    monkeypatch.setattr(gaps, "StockConsumer", Trimmed)
    put(lake.table(), [0])
    result = staged(lake.table(), [5])
    with pytest.raises(NotLandedError, match=r"^t\[0\]: Kafka has deleted .* before offset 4"):
        gaps.refuse_gaps({}, lake.table().fences(), [result])


def test_where_the_table_cannot_be_read_any_more_the_staged_files_are_removed(
    lake: DirectoryLake,
) -> None:
    table = lake.table()
    result = TaskResult((staged(table, [5]),))

    def unreadable() -> Any:
        raise LakeError("the log cannot be read")

    table.fences = unreadable
    config = {"bootstrap.servers": "localhost:1"}
    settings = Settings(table=table, layout=Layout(), rules=Rules(), config=config)
    with pytest.raises(LakeError, match="the log cannot be read"):
        LakeStreamWriter(settings).commit([result], 0)
    assert files(lake) == 0


def test_a_task_sets_aside_what_cannot_land_and_the_driver_commits_it_first(
    lake: DirectoryLake, tmp_path: Path
) -> None:
    plain = SourceMessage(
        topic="t", partition=0, offset=1, headers=[("h", None)], value=b"plain", key=b"k"
    )
    rules = Rules(dead_letters=open_dead_letters(str(tmp_path / "dead")), plain="dead-letter")
    settings = Settings(table=lake.table(), layout=Layout(), rules=rules, config={}, generation="g")
    sink = LakeStreamWriter(pickle.loads(pickle.dumps(settings)))
    sink.commit([sink.write(iter([rows_of([numbered(0), plain, numbered(2)])]))], 0)
    assert rows(lake) == numbers([0, 2])
    [letter] = pq.read_table(tmp_path / "dead" / "t").to_pylist()
    assert (letter["offset"], letter["key"], letter["value"]) == (1, b"k", b"plain")
    assert letter["timestamp"].timestamp() == 1.234
    # Without the ranges that were read, the fence moves by what came.
    sink.commit([sink.write(iter([rows_of([replace(plain, offset=3)])]))], 1)
    assert lake.table().fences()["kafka:named:g/t:0"].next == 4


def test_plain_messages_land_as_rows_and_a_task_that_runs_again_is_recognised(
    lake: DirectoryLake,
) -> None:
    schema = pa.schema([("n", pa.int64())])
    rules = Rules(plain="decode", decoding=Decoding("json", schema))
    settings = Settings(table=lake.table(), layout=Layout(), rules=rules, config={}, generation="g")
    sink = LakeStreamWriter(pickle.loads(pickle.dumps(settings)))
    messages = [
        SourceMessage(
            topic="t", partition=0, offset=n, headers=[], value=b'{"n": %d}' % n, key=b"k"
        )
        for n in range(3)
    ]
    batches = [rows_of(messages[:1]), rows_of(messages[1:])]
    sink.commit([sink.write(iter(batches)), sink.write(iter(batches))], 0)
    assert rows(lake) == [0, 1, 2]
    *_, last = sorted(lake.read().to_pylist(), key=lambda row: row["_kafka"]["row"])
    assert (last["_kafka"]["key"], last["_kafka"]["headers"]) == (b"k", None)
    assert last["_kafka"]["timestamp"].timestamp() == 1.234


def test_messages_that_differ_land_with_a_rest(lake: DirectoryLake) -> None:
    decoding = Decoding("json", pa.schema([("n", pa.int64())]), lenient=Lenient())
    rules = Rules(plain="decode", decoding=decoding)
    settings = Settings(table=lake.table(), layout=Layout(), rules=rules, config={}, generation="g")
    sink = LakeStreamWriter(pickle.loads(pickle.dumps(settings)))
    values = [b'{"n": 1.0}', b'{"n": "x", "more": 1.50}']
    messages = [
        SourceMessage(topic="t", partition=0, offset=n, headers=[], value=value, key=b"k")
        for n, value in enumerate(values)
    ]
    sink.commit([sink.write(iter([rows_of(messages)]))], 0)
    assert lake.read().select(["n", "_rest"]).to_pylist() == [
        {"n": 1, "_rest": None},
        {"n": None, "_rest": '{"n":"x","more":1.50}'},
    ]


def test_a_message_that_was_set_aside_leaves_no_gap(
    lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AskedError(Exception):
        pass

    def ask(_: Any) -> None:
        raise AskedError

    monkeypatch.setattr(gaps, "StockConsumer", ask)
    table = lake.table()
    put(table, [0])
    plain = [replace(numbered(offset), headers=None) for offset in range(1, 3)]
    planner = Planner(fences=table.fences(), generations=GENERATIONS)
    result = stage([*plain, numbered(3)], table=table, planner=planner, rules=Rules(plain="skip"))
    gaps.refuse_gaps({}, table.fences(), [result])
    with pytest.raises(AskedError):
        gaps.refuse_gaps({}, table.fences(), [replace(result, set_aside=())])
