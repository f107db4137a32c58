"""Tables that get columns for fields of plain messages that nobody has described."""

from __future__ import annotations

import json
import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Message
from inferred_tables import CONFIG, ingest, landed, send
from ingest_fakes import ingest_from
from lakes import GENERATIONS, DeltaLake, DirectoryLake, lake_at, targets
from landed_alike import add_together

from columnar_kafka import native
from columnar_kafka.ingest import Decoding, Infer, OfTable, Rules, audit, verify_topic
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.lake.aside.set_aside import land_staged
from columnar_kafka.lake.landing.stage import Stager
from columnar_kafka.lake.plan import Planner
from columnar_kafka.plain import Lenient, restored
from columnar_kafka.plain.lenient_rows import LenientRows
from columnar_kafka.schema.kept import from_kept
from columnar_kafka.schema.leading import of_columns
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from columnar_kafka.ingest import AuditReport

TEXT, LONG = pa.string(), pa.int64()
SCHEMA = pa.schema({"n": LONG, "o": pa.struct({"x": LONG})})
GROW = Lenient(unknown="grow")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    with FakeKafka() as kafka:
        kafka.create_topic("t", 2)
        ingest_from(kafka, monkeypatch)
        monkeypatch.setattr(audit, "StockConsumer", kafka.Consumer)
        yield kafka


@pytest.fixture(params=targets())
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return lake_at(request, tmp_path)


@pytest.fixture(params=["core", "pure"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "core" and not native.enabled:
        pytest.skip("there is no native core")
    monkeypatch.setattr(native, "enabled", request.param == "core")


def grow(table: Any, schema: Any = SCHEMA, lenient: Lenient = GROW, **options: Any) -> int:
    return ingest(table, schema, lenient=lenient, **options)


def test_new_fields_get_columns_from_the_message_on_that_has_them(
    kafka: FakeKafka, lake: Any
) -> None:
    send(kafka, [{"n": 1}, {"n": 2, "o": {"x": 1}}])
    send(kafka, [{"n": 3, "new": 1.5, "o": {"y": ["a"]}}, {"n": 4, "mixed": 1}])
    send(kafka, [{"n": 5, "mixed": "x", "n2": None, "e": []}, {"n": 6}])
    assert grow(lake.table()) == 6
    rows = landed(lake)
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5, 6]
    expected = {"n": 3, "o": {"x": None, "y": ["a"]}, "new": 1.5, "mixed": None, "_rest": None}
    assert rows[2] == expected
    assert [row["mixed"] for row in rows[3:5]] == ["1", '"x"']
    assert rows[4]["_rest"] == '{"e":[]}'
    kept = from_kept(lake.table().kept_schema())
    assert kept.json_texts == {"mixed"}
    assert kept.arrow == pa.schema(
        {
            "n": LONG,
            "o": pa.struct({"x": LONG, "y": pa.list_(TEXT)}),
            "new": pa.float64(),
            "mixed": TEXT,
        }
    )


def test_a_table_grows_on(kafka: FakeKafka, lake: Any) -> None:
    """A restart decodes by what is kept; what was grown before keeps its type."""
    for number in range(3):
        send(kafka, [{"n": number, f"f{number}": number, "f0": str(number)}])
        assert grow(lake.table()) == 1
    rows = landed(lake)
    assert [row.get("f0") for row in rows] == ["0", "1", "2"]
    assert [(row["f1"], row["f2"]) for row in rows] == [(None, None), (1, None), (None, 2)]
    assert rows[0]["_rest"] is None


def test_the_tables_columns_are_json_texts_where_it_says_so(kafka: FakeKafka, lake: Any) -> None:
    send(kafka, [{"n": 1, "v": [1, "x"]}])
    assert grow(lake.table()) == 1
    send(kafka, [{"n": 2, "v": ["y", 0.5], "w": 1}])
    assert grow(lake.table(), OfTable()) == 1
    assert [row["v"] for row in landed(lake)] == [["1", '"x"'], ['"y"', "0.5"]]


def test_an_attempt_grows_once(kafka: FakeKafka, lake: Any) -> None:
    send(kafka, [{"n": 1, "a": 1}])
    send(kafka, [{"n": 2, "b": 1}], partition=1)
    assert grow(lake.table()) == 2
    rows = landed(lake)
    both = {name for name in ("a", "b") if any(row.get(name) for row in rows)}
    assert len(both) == 1
    [left] = {"a", "b"} - both
    assert [row["_rest"] for row in rows if row["_rest"]] == [f'{{"{left}":1}}']
    send(kafka, [{"n": 3, left: 2}])
    assert grow(lake.table()) == 1
    assert landed(lake)[-1][left] == 2


def test_two_that_grow_a_table_at_the_same_time_agree(
    kafka: FakeKafka, lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka, [{"n": 0}])
    assert grow(lake.table()) == 1
    first, second = lake.table(), lake.table()
    keep = type(second).keep_schema

    def late(table: Any, *arguments: Any) -> str:
        monkeypatch.setattr(type(second), "keep_schema", keep)
        send(kafka, [{"n": 1, "v": 1, "w": 1}], partition=1)
        assert grow(first, partitions=(1,)) == 1
        kept: str = keep(table, *arguments)
        return kept

    monkeypatch.setattr(type(second), "keep_schema", late)
    send(kafka, [{"n": 2, "v": "x", "z": 1}, {"n": 3, "v": 3}])
    assert grow(second, partitions=(0,)) == 2
    rows = landed(lake)
    assert [restored(row) for row in rows] == [
        {"n": 0},
        {"n": 1, "v": 1, "w": 1},
        {"n": 2, "v": "x", "z": 1},
        {"n": 3, "v": 3},
    ]
    assert [row["w"] for row in rows] == [None, 1, None, None]
    assert [row["z"] for row in rows] == [None, None, 1, None]
    kept = from_kept(lake.table().kept_schema())
    assert sorted(kept.arrow.names) == ["n", "o", "v", "w", "z"]
    assert kept.arrow.field("v").type == table_type(lake, "v")


def test_what_another_has_made_of_a_field_meanwhile_is_known(
    kafka: FakeKafka, lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of texts alone does not tell whether they are JSON text."""
    send(kafka, [{"n": 0}])
    assert grow(lake.table()) == 1
    first, second = lake.table(), lake.table()
    kept_schema, reads = type(second).kept_schema, []

    def beaten(table: Any) -> str | None:
        kept: str | None = kept_schema(table)
        reads.append(table)
        if reads == [second, second]:  # as it begins, and as it is to grow
            send(kafka, [{"n": 1, "v": 1}, {"n": 2, "v": "x"}], partition=1)
            assert grow(first, partitions=(1,)) == 2
        return kept

    monkeypatch.setattr(type(second), "kept_schema", beaten)
    send(kafka, [{"n": 3, "v": "x"}])
    assert grow(second, partitions=(0,)) == 1
    schema = lake.table().kept_schema()
    assert from_kept(schema).json_texts == {"v"}
    restored_rows = [restored(row, schema) for row in landed(lake)]
    assert [row.get("v") for row in restored_rows] == [None, 1, "x", "x"]


def table_type(lake: Any, name: str) -> pa.DataType:
    columns = pa.schema([lake.table().columns().field(name)])
    return of_columns(columns).arrow.field(name).type


def test_a_table_has_no_more_columns_than_it_may(
    kafka: FakeKafka, lake: Any, caplog: pytest.LogCaptureFixture
) -> None:
    few = Lenient(unknown="grow", max_columns=3)
    for number in range(3):
        send(kafka, [{"n": number, f"f{number}": number}])
        assert grow(lake.table(), lenient=few) == 1
    rows = landed(lake)
    assert rows[0]["f0"] == 0
    assert [row["_rest"] for row in rows] == [None, '{"f1":1}', '{"f2":2}']
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.message.partition(" has ")[2] for record in warned] == [
        "3 columns: what else is new in messages goes to the rest"
    ]


def test_a_table_that_must_not_grow_does_not(
    kafka: FakeKafka, lake: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if lake.table().is_listed:
        pytest.skip("a directory takes any file")
    send(kafka, [{"n": 1}])
    assert grow(lake.table()) == 1
    send(kafka, [{"n": 2, "new": 1}])
    assert grow(lake.table(growth=False)) == 1
    assert [row["_rest"] for row in landed(lake)] == [None, '{"new":1}']
    assert "gets no columns for new fields" in caplog.text


def test_what_is_in_lists_and_below_a_path_grows_and_maps_do_not(
    kafka: FakeKafka, lake: Any
) -> None:
    item = pa.struct({"a": LONG})
    schema = pa.schema({"l": pa.list_(item), "m": pa.map_(TEXT, item)})
    row = {"l": [{"a": 1}, None, {"b": 2}], "m": {"k": {"c": 3}}, "d": {"e": True}}
    send(kafka, [{"payload": row, "op": "c"}])
    assert grow(lake.table(), schema, Lenient(unknown="grow", path="/payload")) == 1
    [read] = landed(lake)
    assert read["l"] == [{"a": 1, "b": None}, None, {"a": None, "b": 2}]
    assert read["d"] == {"e": True}
    assert json.loads(read["_rest"]) == {"payload": {"m": {"k": {"c": 3}}}, "op": "c"}


def test_what_does_not_fit_its_column_tells_none(kafka: FakeKafka, lake: Any) -> None:
    """Not even an object for a list, which looks like the rest of one."""
    item = pa.struct({"a": LONG})
    schema = pa.schema({"l": pa.list_(item), "o": pa.struct({"l": pa.list_(item)}), "n": LONG})
    rows: list[Any] = [{"l": {"0": {"b": 1}}, "o": {"l": {"1": {"b": 1}}}, "n": {"b": 1}}]
    rows += [{"l": [{"a": 1}, {"c": 1}], "o": {"l": "x", "d": 1}}]
    send(kafka, rows)
    assert grow(lake.table(), schema) == 2
    kept = from_kept(lake.table().kept_schema()).arrow
    assert kept.field("l").type == pa.list_(pa.struct({"a": LONG, "c": LONG}))
    assert kept.field("o").type == pa.struct({"l": pa.list_(item), "d": LONG})
    made = [restored(row) for row in landed(lake)]
    assert sorted(made, key=str) == sorted(rows, key=str)


def test_a_guess_grows_and_is_verified(kafka: FakeKafka, lake: Any) -> None:
    send(kafka, [{"n": 1}])
    assert grow(lake.table(), Infer()) == 1
    rows = [{"n": 2, "x": {"y": 0.1}}, {"n": 2.50, "x": {"z": 1}}]
    for row in rows:
        send(kafka, [row])
        assert grow(lake.table(), Infer()) == 1
    assert landed(lake)[0]["_rest"] == '{"n":2.5}'
    report = verified(lake.table(), Infer())
    assert (report.decoded, report.findings) == (3, [])


def verified(table: Any, schema: Any, lenient: Lenient = GROW) -> AuditReport:
    decoding = Decoding("json", schema, lenient=lenient)
    return verify_topic(CONFIG, "t", table, topic_generation="g", decoding=decoding)


def test_a_table_that_grows_between_messages_read_one_by_one_and_together(tmp_path: Path) -> None:
    rows = [{"n": 0, "new": 1}, *({"n": n} for n in range(1, 5))]
    land_in_parts(tmp_path, rows, [1, 3, 5])
    assert [row["new"] for row in landed(DirectoryLake(tmp_path / "lake"))] == [1, *[None] * 4]


def test_what_was_fetched_apart_grows_together(tmp_path: Path) -> None:
    rows = [{"n": 0}, {"n": 1, "a": 1}, {"n": 2}, {"n": 3, "b": 2}, {"n": 4, "c": 3}]
    land_in_parts(tmp_path, rows, [0, 3, 4, 5])
    assert [read["_rest"] for read in landed(DirectoryLake(tmp_path / "lake"))] == [None] * 5


def land_in_parts(tmp_path: Path, rows: list[dict[str, int]], ends: list[int]) -> None:
    """Land rows in one attempt: the first of these parts one by one, each other together."""
    if not native.enabled:
        pytest.skip("only the native core takes them together")
    messages = [
        Message(topic="t", partition=0, offset=row["n"], value=json.dumps(row).encode())
        for row in rows
    ]
    table = DirectoryLake(tmp_path / "lake").table()
    rules = Rules(plain="decode", decoding=Decoding("json", SCHEMA, lenient=GROW))
    stager = Stager(table=table, planner=Planner(fences={}, generations=GENERATIONS), rules=rules)
    for message in messages[: ends[0]]:
        stager.add(source_message(message))
    for start, end in pairwise(ends):
        add_together(stager, messages[start:end])
    land_staged(table, [stager.finish()], rules)


def test_rows_from_before_a_column_came_are_verified(kafka: FakeKafka, lake: Any) -> None:
    """Their rests have nulls, and times and numbers in the form that they came in."""
    told = Lenient(unknown="grow", coerce=True)
    send(kafka, [{"n": 1, "o": {"new": {"a": None}}, "later": {"b": [{"c": None}]}}])
    assert grow(lake.table(), lenient=told) == 1
    rests = [{"n": 2, "at": None}, {"n": 3, "o": {"new": {"a": 5}}, "later": {"b": [{"c": 1}]}}]
    send(kafka, rests)
    assert grow(lake.table(), lenient=told) == 2
    assert verified(lake.table(), SCHEMA, told).findings == []


def test_rows_from_before_segments_had_a_column_are_verified(kafka: FakeKafka, lake: Any) -> None:
    send(kafka, [{"n": 1, "at": "2026-01-31T12:00:00+01:00", "day": 1, "count": "7"}])
    assert grow(lake.table(), Infer(messages=1), Lenient(max_columns=1)) == 1
    columns = {"n": LONG, "at": pa.timestamp("us", "UTC"), "day": pa.date32(), "count": LONG}
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", pa.schema(columns))
        producer.produce("t", {"n": 2, "at": None, "day": None, "count": 1}, partition=0)
    assert grow(lake.table(), Infer(), Lenient()) == 1
    report = verified(lake.table(), Infer(), Lenient(coerce=True))
    assert (report.decoded, report.findings) == (1, [])


def test_rows_from_before_a_column_became_wider_are_verified(kafka: FakeKafka, lake: Any) -> None:
    if isinstance(lake, DeltaLake):
        pytest.skip("its columns become no wider")
    send(kafka, [{"n": 1}, {"n": 2**40}])
    assert grow(lake.table(), pa.schema({"n": pa.int32()})) == 2
    with kafka.Producer({"columnar.encoding": "parquet"}) as producer:
        producer.set_schema("t", pa.schema({"n": LONG}))
        producer.produce("t", {"n": 3}, partition=0)
    assert grow(lake.table(), OfTable()) == 1
    report = verified(lake.table(), OfTable())
    assert (report.decoded, report.findings) == (2, [])


def test_the_core_leaves_only_what_may_have_a_column() -> None:
    """Not what is in a map, beside the row, null, or of a name that no column has."""
    if not native.enabled:
        pytest.skip("there is no native core")
    schema = pa.schema({"n": LONG, "m": pa.map_(TEXT, pa.struct({"x": LONG}))})
    rows = LenientRows(schema, Lenient(unknown="grow", path="/p"))
    form, _ = rows.native()
    inside = ['"m": {"k": {"y": 1}}', '"a.b": 1', '"": 1', '"c": null', '"n": 1', '"new": 1']
    values = [b'{"p": {%s}, "op": {"x": 1}}' % text.encode() for text in inside]
    batch = native.core.PlainBatch(form, "", 1 << 16)
    assert batch.take(native.core.PlainMessages.of_values(values), 0, len(values)) == 5
