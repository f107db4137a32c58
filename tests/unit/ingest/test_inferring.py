"""Schemas of plain messages that come from the messages, or from the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inferred_tables import ingest, landed, send
from ingest_fakes import ingest_from
from lakes import DirectoryLake, lake_at, targets

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.ingest import Decoding, Infer, OfTable
from columnar_kafka.plain import Lenient, restored
from columnar_kafka.schema.kept import from_kept
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from columnar_kafka.lake.aside.schema_source import Guess

TEXT, LONG = pa.string(), pa.int64()


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    with FakeKafka() as kafka:
        kafka.create_topic("t", 2)
        ingest_from(kafka, monkeypatch)
        yield kafka


@pytest.fixture(params=targets())
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lake_at(request, tmp_path)


def send_segment(kafka: FakeKafka, schema: pa.Schema, rows: Iterable[Any]) -> None:
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", schema)
        for row in rows:
            producer.produce("t", row, partition=0)


def columns(lake: Any) -> dict[str, list[Any]]:
    rows = landed(lake)
    return {name: [row[name] for row in rows] for name in rows[0]}


def inferring(told: list[Guess], **options: Any) -> Infer:
    return Infer(told=told.append, **options)


def test_the_first_messages_tell_the_schema_which_is_kept(kafka: FakeKafka, lake: Any) -> None:
    told: list[Guess] = []
    send(kafka, [{"n": 1, "@type": "a", "o": {"x": [1]}}, {"n": 2, "m": {"1": 1.5}}])
    send(kafka, [{"n": 3, "v": "x"}, {"n": 4}, {"n": 5, "v": "y"}], partition=1)
    assert ingest(lake.table(), inferring(told, messages=2)) == 5
    [guess] = told
    assert (guess.objects, guess.passed_over, guess.is_kept) == (4, 0, True)
    kept = from_kept(guess.kept)
    assert kept.arrow == pa.schema(
        {
            "n": LONG,
            "@type": TEXT,
            "o": pa.struct({"x": pa.list_(LONG)}),
            "m": pa.map_(TEXT, pa.float64()),
            "v": TEXT,
        }
    )
    assert lake.table().kept_schema() == guess.kept
    read = columns(lake)
    assert sorted(read) == ["@type", "m", "n", "o", "v"]
    assert sorted(zip(read["n"], read["v"], strict=True)) == [
        *[(1, None), (2, None), (3, "x"), (4, None), (5, "y")]
    ]
    send(kafka, [{"n": 6}])
    assert ingest(lake.table(), inferring(told)) == 1
    assert told == [guess]
    assert sorted(columns(lake)) == sorted(read)


def test_segments_lead(kafka: FakeKafka, lake: Any) -> None:
    """Their columns are the table's, whatever plain messages of the same name look like."""
    schema = pa.schema({"n": pa.int32(), "s": TEXT})
    send_segment(kafka, schema, [{"n": 1, "s": "a"}])
    send(kafka, [{"n": 2, "s": "b", "more": 1.5}, {"n": 3, "s": "c"}])
    assert ingest(lake.table(), inferring([])) == 3
    assert columns(lake) == {"n": [1, 2, 3], "s": ["a", "b", "c"], "more": [None, 1.5, None]}
    assert from_kept(lake.table().kept_schema()).arrow.field("n").type == pa.int32()


def test_columns_of_no_table_are_an_error(kafka: FakeKafka, lake: Any) -> None:
    send(kafka, [{"n": 1}])
    with pytest.raises(LakeError, match="there is no table yet"):
        ingest(lake.table(), OfTable())


def test_a_table_that_exists_leads(kafka: FakeKafka, lake: Any) -> None:
    send_segment(kafka, pa.schema({"n": pa.int32(), "s": TEXT}), [{"n": 1, "s": "a"}])
    assert ingest(lake.table()) == 1
    assert ingest(lake.table(), OfTable()) == 0
    send(kafka, [{"n": 2}, {"n": 3, "s": "b"}])
    assert ingest(lake.table(), OfTable()) == 2
    assert columns(lake) == {"n": [1, 2, 3], "s": ["a", None, "b"]}
    assert lake.table().kept_schema() is None
    send(kafka, [{"n": 4, "s": "c", "x": True}])
    assert ingest(lake.table(), inferring([])) == 1
    assert columns(lake)["x"] == [None, None, None, True]


def test_a_table_that_must_not_grow_has_its_own_columns(
    kafka: FakeKafka, lake: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if lake.table().is_listed:
        pytest.skip("a directory takes any file")
    send(kafka, [{"n": 1}])
    assert ingest(lake.table(), pa.schema({"n": LONG}), lenient=Lenient()) == 1
    send(kafka, [{"n": 2, "x": True}])
    assert ingest(lake.table(growth=False), inferring([]), lenient=Lenient()) == 1
    assert columns(lake) == {"n": [1, 2], "_rest": [None, '{"x":true}']}
    assert "gets no columns for fields: column 'x' is not in the table" in caplog.text


def test_a_column_of_segments_is_no_json_text_whatever_is_kept(
    kafka: FakeKafka, tmp_path: Path
) -> None:
    """A directory takes both; its newest file leads."""
    lake = DirectoryLake(tmp_path / "lake")
    send(kafka, [{"n": 1, "x": [1]}, {"n": 2, "x": "a"}])
    assert ingest(lake.table(), inferring([]), lenient=Lenient()) == 2
    send_segment(kafka, pa.schema({"n": LONG, "x": LONG}), [{"n": 3, "x": 7}])
    assert ingest(lake.table(), inferring([]), lenient=Lenient()) == 1
    send(kafka, [{"n": 4, "x": 5}, {"n": 5, "x": "a"}])
    assert ingest(lake.table(), inferring([]), lenient=Lenient()) == 2
    newest = pq.read_table(max(lake.data_files()), filesystem=lake.filesystem())
    assert newest.drop_columns("_kafka").to_pylist() == [
        {"n": 4, "x": 5, "_rest": None},
        {"n": 5, "x": None, "_rest": '{"x":"a"}'},
    ]


@pytest.mark.usefixtures("kafka")
def test_an_empty_topic_needs_no_schema(lake: Any) -> None:
    assert ingest(lake.table(), inferring([])) == 0
    assert lake.table().kept_schema() is None


def test_two_that_guess_at_the_same_time_land_by_one_schema(
    kafka: FakeKafka, lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one has its sample, as the first one keeps another schema."""
    send(kafka, [{"n": 1, "v": "x"}])
    first, second = lake.table(), lake.table()
    told: list[Guess] = []
    keep = type(second).keep_schema

    def late(table: Any, *arguments: Any) -> str:
        monkeypatch.undo()
        ingest_from(kafka, monkeypatch)
        assert ingest(first, inferring(told)) == 3
        kept: str = keep(table, *arguments)
        return kept

    monkeypatch.setattr(type(second), "keep_schema", late)
    send(kafka, [{"n": 2}, {"n": 3, "w": True}], partition=1)
    assert ingest(second, inferring(told, messages=1)) == 0
    assert [guess.is_kept for guess in told] == [True, False]
    assert told[0].kept == told[1].kept == lake.table().kept_schema()
    assert sorted(columns(lake)) == ["n", "v", "w"]


def test_messages_that_tell_nothing_are_an_error(kafka: FakeKafka, lake: Any) -> None:
    send(kafka, [{}, {"v": None}, [1]])
    said = "no column can be guessed from 2 objects and 1 other plain messages"
    with pytest.raises(LakeError, match=said):
        ingest(lake.table(), inferring([]))


def test_only_json_is_inferred() -> None:
    with pytest.raises(ConfigError, match="need the Avro schema that wrote them"):
        Decoding("avro", Infer())


def test_who_reads_the_table_only_needs_a_kept_schema(lake: Any) -> None:
    with pytest.raises(LakeError, match="keeps no schema of plain messages"):
        Decoding("json", Infer()).decided(lake.table())


def test_a_kept_schema_of_a_newer_release_is_named(lake: Any) -> None:
    lake.table().keep_schema("{}", pa.schema({"n": LONG}))
    with pytest.raises(LakeError, match=r"cannot be read.*upgrade columnar-kafka") as raised:
        Decoding("json", Infer()).decided(lake.table())
    assert str(raised.value).startswith(f"{lake.table()}: ")


def test_what_differs_from_the_sample_goes_to_the_rest(kafka: FakeKafka, lake: Any) -> None:
    told: list[Guess] = []
    rows = [{"n": 1, "v": "x"}, {"n": 2, "v": 1}, {"n": 3, "_rest": 1, "v": [None, 0.1]}]
    send(kafka, rows)
    send(kafka, [{"n": 4, "later": {"x": 1}}, {"n": "5", "v": True}], partition=1)
    assert ingest(lake.table(), inferring(told, messages=3), lenient=Lenient()) == 5
    schema = from_kept(told[0].kept)
    assert schema.json_texts == {"n", "v"}
    assert schema.arrow.names == ["n", "v", "later"]
    read = {row["n"]: row for row in lake.read().to_pylist()}
    assert [read[n]["v"] for n in ("1", "2", "3", '"5"')] == ['"x"', "1", "[null,0.1]", "true"]
    assert read["3"]["_rest"] == '{"_rest":1}'
    assert [restored(read[n], schema) for n in ("2", "4")] == [
        {"n": 2, "v": 1},
        {"n": 4, "later": {"x": 1}},
    ]
    send(kafka, [{"n": 6, "later": 7, "more": None, "z": [1]}])
    assert ingest(lake.table(), Infer(), lenient=Lenient()) == 1
    [row] = [row for row in lake.read().to_pylist() if row["n"] == "6"]
    assert row["_rest"] == '{"later":7,"z":[1]}'
