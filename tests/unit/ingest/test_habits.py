"""Topics of twelve habits land without a schema, and each message can be made again of its row."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from drifting import comparable, values_of
from habits import HABITS, messages
from inferred_tables import ingest, send
from ingest_fakes import ingest_from
from lakes import (
    POLARS_READS_ALL,
    DeltaLake,
    DirectoryLake,
    IcebergLake,
    needs_added_fields,
    place_at,
)
from lakes import letters as letters_of
from support import by_profile

from columnar_kafka.ingest import Infer
from columnar_kafka.plain import Lenient, restored
from columnar_kafka.schema.kept import from_kept
from columnar_kafka.schema.leading import number_of_columns
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from decimal import Decimal
    from pathlib import Path

COUNT = 160
KINDS: list[Any] = [DirectoryLake, DeltaLake, IcebergLake]


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    with FakeKafka() as kafka:
        kafka.create_topic("t", 1)
        ingest_from(kafka, monkeypatch)
        yield kafka


@needs_added_fields
@pytest.mark.parametrize("unknown", ["rest", "grow"])
@pytest.mark.parametrize("habit", HABITS)
def test_columns_and_rest_are_the_message(
    kafka: FakeKafka, tmp_path: Path, habit: str, unknown: str
) -> None:
    """By all readers that there are. A dead letter would be an error."""
    turn = [*HABITS].index(habit) + (unknown == "grow")
    kinds = by_profile([KINDS[turn % 3]], KINDS)
    lakes = [kind(tmp_path / kind.__name__) for kind in kinds]
    sent = messages(habit, COUNT)
    infer, lenient = Infer(messages=COUNT // 4), Lenient(unknown=unknown)
    for half in sent[: COUNT // 2], sent[COUNT // 2 :]:
        send(kafka, (json.dumps(message, default=float) for message in half))
        for lake in lakes:
            assert ingest(lake.table(), infer, partitions=(0,), lenient=lenient) == len(half)
    values = [json.loads(json.dumps(message, default=float)) for message in sent]
    for lake in lakes:
        schema = lake.table().kept_schema()
        for engine, rows in read(lake):
            # pyiceberg reads a list of records that is null as one that is empty.
            text = text_without_empty if engine == "IcebergLake" else text_of
            found = Counter(text(restored(row, schema)) for row in rows)
            expected = Counter(map(text, values))
            assert found == expected, (engine, (found - expected).most_common(1))


REFUSED = [
    *("{", '{"a": 1} {"a": 2}', "NaN", '{"n": NaN}', "7", "[]", '{"n": 1, "n": 2}', "\ufeff{}"),
    '{"o": {"x": 1, "x": 1}}',
    '{"deep": ' + "[" * 1000 + "]" * 1000 + "}",
]
LANDED = [
    *(
        "{}",
        '{"n": null}',
        '{"": 1}',
        '{"a.b": {"c d": 1}}',
        '{"\\u0000": 1, "\\n": 2, "e=mc2": 3}',
    ),
    '{"ID": 1, "id": 2, "Id": {"x": 1, "X": 2}}',
    '{"_file": "a", "_pos": 1, "_deleted": true, "_partition": {"x": 1}}',
    '{"_kafka": 1, "_KAFKA.key": 2, "_rest": 3, "_ingest_date": 4, "_Kafka_Topic": 5}',
    '{"' + "n" * 10_000 + '": 1, "' + "é" * 200 + '": 2}',
    '{"s": "\\ud83d", "\\udc00": {"x": "\\ud83d"}, "t": "\\ud83d\\ude00"}',
    '{"big": ' + "9" * 400 + ', "small": 1e-400, "e": 1E+400, "exact": 0.1000000000000000055}',
    '{"deep": ' + '{"x": ' * 150 + "1" + "}" * 150 + "}",
    *('{"@type": 1, "ce-id": [{"$ref": "#/"}], "ключ": {"名": true}}', '{"n": 1}'),
]


@needs_added_fields
@pytest.mark.parametrize("unknown", ["rest", "grow"])
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_json_lands_whole_or_not_and_tables_can_be_read(
    kafka: FakeKafka, tmp_path: Path, kind: Any, unknown: str
) -> None:
    lake, letters = kind(tmp_path / "lake"), place_at(tmp_path / "dead")
    lenient = Lenient(unknown=unknown, max_columns=300)
    names = [json.dumps({f"name{n}": n for n in range(first, first + 500)}) for first in (0, 500)]
    for sent in REFUSED + LANDED, LANDED[::-1], names:
        send(kafka, sent)
        ingest(lake.table(), Infer(), partitions=(0,), lenient=lenient, dead_letters=letters)
    assert [letter["value"].decode() for letter in letters_of(letters)] == REFUSED
    schema = from_kept(lake.table().kept_schema())
    assert number_of_columns(schema.arrow) <= 300
    sent = [values_of(text) for text in [*LANDED, *LANDED, *names]]
    for engine, rows in read(lake):
        text = text_without_empty if engine == "IcebergLake" else text_of
        found = Counter(text(restored(row, schema)) for row in rows)
        expected = Counter(map(text, sent))
        assert found == expected, (engine, (found - expected).most_common(1))


def text_of(value: Any) -> str:
    """Return a text that equal values of JSON share."""
    return json.dumps(comparable(value), sort_keys=True, default=as_fraction)


def text_without_empty(value: Any) -> str:
    return text_of(without_empty(value))


def without_empty(value: Any) -> Any:
    """Return a value without lists in objects that have no items."""
    if isinstance(value, dict):
        return {name: without_empty(part) for name, part in value.items() if part != []}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def as_fraction(value: Decimal) -> str:
    return f"number {Fraction(value)}"


def read(lake: Any) -> Iterator[tuple[str, Iterable[dict[str, Any]]]]:
    """Yield the rows of a table as each reader has them."""
    if isinstance(lake, DirectoryLake):
        paths = [str(path) for path in lake.root.glob("[!_]*/*.parquet")]
        schemas = [pq.read_schema(path).remove_metadata() for path in paths]
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        yield "pyarrow", pads.dataset(paths, schema=schema).to_table().to_pylist()
        yield "duckdb", duckdb.read_parquet(paths, union_by_name=True).to_arrow_table().to_pylist()
        frame = pl.concat([pl.scan_parquet(path) for path in paths], how="diagonal_relaxed")
        yield "polars", frame.collect().to_arrow().to_pylist()
        return
    yield type(lake).__name__, lake.read().to_pylist()
    table = lake.load()
    if isinstance(lake, DeltaLake):
        dataset = table.to_pyarrow_dataset()
        yield "duckdb", duckdb.from_arrow(dataset).to_arrow_table().to_pylist()
    if POLARS_READS_ALL:
        scan = pl.scan_delta if isinstance(lake, DeltaLake) else pl.scan_iceberg
        yield "polars", scan(table).collect().to_arrow().to_pylist()
