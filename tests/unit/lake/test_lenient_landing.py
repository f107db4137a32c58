"""JSON that differs from its schema lands in every kind of table, and engines read all of it."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drifting import comparable, values_of
from lakes import (
    GENERATIONS,
    POLARS_READS_ALL,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    compared,
    letters,
    place_at,
)
from segments import segment

from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest import Decoding, Rules
from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.landing.replay import replay
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import Count, SourceMessage
from columnar_kafka.plain import Lenient, restored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from columnar_kafka.lake.model import CommitResult

POINT = {
    "type": "record",
    "name": "Point",
    "fields": [{"name": "x", "type": ["null", "long"]}, {"name": "y", "type": ["null", "double"]}],
}
TIME = {"type": "long", "logicalType": "timestamp-micros"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "at", "type": ["null", TIME]},
        {"name": "money", "type": ["null", MONEY]},
        {"name": "point", "type": ["null", POINT]},
        {"name": "points", "type": ["null", {"type": "array", "items": ["null", "Point"]}]},
        {"name": "tags", "type": ["null", {"type": "map", "values": ["null", "long"]}]},
        {"name": "any", "type": ["null", {"type": "string", "logicalType": "json"}]},
    ],
}
LENIENT = Decoding("json", SCHEMA, lenient=Lenient())
TEXTS = [
    '{"n": 0, "text": "é", "at": "2024-01-02T03:04:05.5Z", "money": 12.5, "any": [1, {"a": null}]}',
    '{"n": 1, "point": {"x": 1, "y": 0.1}, "points": [{"x": 1}, null], "tags": {"a": 1}}',
    '{"n": 2, "text": 5, "at": "noon", "money": 1.005, "point": {"x": "1", "z": [1.0]}}',
    '{"n": 3, "points": [{"x": 1, "q": 1}, {"x": "a"}, 7], "tags": {"a": 1.5, "b": 2}}',
    '{"n": 4, "new": {"deep": {"er": "\\ud83d"}}, "points": {}, "tags": [], "any": 1e400}',
    '{"n": 5.0, "points": [], "tags": {}, "point": {}, "big": %s}' % ("9" * 400),
    '{"text": "has no n"}',
    '{"n": 7, "n": 8}',
    '{"n": 8}',
]
BAD = (6, 7)
GOOD = [text for number, text in enumerate(TEXTS) if number not in BAD]


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake], ids=["parquet", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


def messages(first: int = 0) -> list[SourceMessage]:
    return [
        SourceMessage(topic="t", partition=0, offset=offset, headers=None, value=text.encode())
        for offset, text in enumerate(TEXTS, first)
    ]


def sent(offset: int) -> SourceMessage:
    """Return a segment as a producer with the same schema makes it."""
    schema = pa.schema(list(PlainDecoder(Decoding("json", SCHEMA)).schema)[:-1])
    table = schema.empty_table().from_pylist([{"n": 1000 * offset, "text": "sent"}], schema)
    return segment(table, offset=offset, number=offset, members=METADATA_MEMBERS)


def put(lake: Any, sources: Iterable[SourceMessage], place: Any, **rules: Any) -> CommitResult:
    chosen = Rules(
        **{"plain": "decode", "decoding": LENIENT, "dead_letters": place_at(place), **rules}
    )
    return land(sources, table=lake.table(), generations=GENERATIONS, rules=chosen)


def read(lake: Any) -> list[dict[str, Any]]:
    """Return the rows of a table; the files of a directory may lack columns."""
    if not isinstance(lake, DirectoryLake):
        return list(lake.read().to_pylist())
    tables = map(pq.read_table, lake.root.glob("t/*.parquet"))
    return list(pa.concat_tables(tables, promote_options="default").to_pylist())


def read_by_engines(lake: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the rows of a table as each engine has them."""
    yield "Arrow", read(lake)
    connection = duckdb.connect()
    if isinstance(lake, DirectoryLake):
        files = f"read_parquet('{lake.root}/t/*.parquet', union_by_name=true)"
        yield "duckdb", connection.sql(f"SELECT * FROM {files}").to_arrow_table().to_pylist()
        frames = [pl.scan_parquet(path) for path in lake.root.glob("t/*.parquet")]
        yield "polars", pl.concat(frames, how="diagonal_relaxed").collect().to_dicts()
    elif isinstance(lake, DeltaLake):
        connection.register("dataset", lake.load().to_pyarrow_dataset())
        yield "duckdb", connection.sql("SELECT * FROM dataset").to_arrow_table().to_pylist()
        if POLARS_READS_ALL:
            yield "polars", pl.scan_delta(lake.load()).collect().to_dicts()
    elif POLARS_READS_ALL:
        yield "polars", pl.scan_iceberg(lake.load()).collect().to_dicts()


def assert_restored(rows: Iterable[dict[str, Any]], *, empty_lists: bool = True) -> None:
    """Check that rows are the good messages; pyiceberg reads no list of structs as an empty one."""
    objects = [comparable(restored(row, SCHEMA)) for row in rows if row["text"] != "sent"]
    expected = [values_of(text.replace("05.5Z", "05.500000Z")) for text in GOOD]
    for value in [] if empty_lists else objects + expected:
        value["points"] = value.get("points") or None
    assert sorted(objects, key=by_number) == sorted(expected, key=by_number)


def by_number(value: Any) -> Any:
    return value["n"]


def has_empty_lists(lake: Any) -> bool:
    return not isinstance(lake, IcebergLake)


def test_columns_and_rest_are_the_messages_in_every_engine(lake: Any, tmp_path: Path) -> None:
    result = put(lake, messages(), tmp_path / "dead")
    assert (result.landed, result.decoded, result.dead_letters) == (Count(7, 7), 7, 2)
    for engine, rows in read_by_engines(lake):
        try:
            assert_restored(rows, empty_lists=engine != "Arrow" or has_empty_lists(lake))
        except AssertionError as error:
            raise AssertionError(f"{engine}: {error}") from error
    reasons = [
        letter["reason"].partition(": ")[2] for letter in letters(place_at(tmp_path / "dead"))
    ]
    assert reasons == [
        "field 'n' is missing, and has no default",
        "an object in it has the name str 'n' more than once",
    ]


def test_a_landing_is_proven_as_it_was_decoded(lake: Any, tmp_path: Path) -> None:
    put(lake, messages(), tmp_path / "dead")
    taken = place_at(tmp_path / "dead").taken({})
    [letters_of] = taken.values()
    report = compared(lake, messages(), letters=letters_of, decoding=LENIENT)
    assert (report.findings, report.decoded, report.dead_letters) == ([], 7, 2)


def test_a_rest_that_is_another_is_found(lake: Any, tmp_path: Path) -> None:
    good = [message for index, message in enumerate(messages()) if index not in BAD]
    put(lake, good, tmp_path / "dead")
    value = good[4].value.replace(b'"er"', b'"ER"')
    good[4] = SourceMessage(topic="t", partition=0, offset=4, headers=None, value=value)
    [finding] = compared(lake, good, decoding=LENIENT).findings
    assert (finding.kind, finding.first) == ("different", 4)


def test_letters_of_exact_land_once_lenient_is_chosen(lake: Any, tmp_path: Path) -> None:
    exact = Decoding("json", SCHEMA)
    put(lake, [*messages(), sent(9)], tmp_path / "dead", decoding=exact)
    place = place_at(tmp_path / "dead")
    assert len(letters(place)) == len(TEXTS)
    rules = Rules(plain="decode", decoding=LENIENT, dead_letters=place_at(tmp_path / "still"))
    assert replay(place, lake.table(), rules=rules).decoded == len(GOOD)
    assert_restored(read(lake), empty_lists=has_empty_lists(lake))


def test_segments_land_beside_them_with_a_rest_of_null(lake: Any, tmp_path: Path) -> None:
    put(lake, [sent(0), *messages(1), sent(20)], tmp_path / "dead")
    rows = read(lake)
    assert_restored(rows, empty_lists=has_empty_lists(lake))
    rests = [row.get("_rest") for row in rows if row["text"] == "sent"]
    assert rests == [None, None]


def test_a_table_without_a_rest_gets_one(lake: Any, tmp_path: Path) -> None:
    put(lake, [sent(0)], tmp_path / "dead")
    put(lake, messages(1), tmp_path / "dead")
    assert_restored(read(lake), empty_lists=has_empty_lists(lake))


def test_rules_of_what_differs_go_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(LENIENT)) == LENIENT


def test_avro_does_not_differ_from_its_schema() -> None:
    with pytest.raises(ConfigError, match="Avro cannot differ from the schema that wrote them"):
        Decoding("avro", SCHEMA, lenient=Lenient())


def test_an_envelope_lands_with_what_is_beside_the_row(lake: Any, tmp_path: Path) -> None:
    value = b'{"op": "u", "before": null, "after": {"n": 1, "new": 2}, "ts_ms": 3}'
    message = SourceMessage(topic="t", partition=0, offset=0, headers=None, value=value)
    decoding = Decoding("json", SCHEMA, lenient=Lenient(path="/after"))
    put(lake, [message], tmp_path / "dead", decoding=decoding)
    [row] = lake.read().to_pylist()
    assert row["_rest"] == '{"op":"u","after":{"new":2},"ts_ms":3}'
    expected = {name: part for name, part in json.loads(value).items() if part is not None}
    again = restored(row, SCHEMA, path="/after")
    again["after"].pop("points", None)  # see `assert_restored`
    assert again == expected
