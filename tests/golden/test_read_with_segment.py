"""Golden segments as this package reads them, and that it still writes what they mean."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import make
import pyarrow as pa
import pytest
from arrow_types import storable
from json_segments import WithoutCore, values
from neutral import plain_rows

from columnar_kafka import Segment, SegmentError
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.schema import canonical, fingerprint
from columnar_kafka.segment.decoder import InlineDecoder

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.parquet"))
READABLE = [name for name in NAMES if name != "arrow" or hasattr(pa, "decimal32")]
WRITABLE = [name for name in READABLE if name != "arrow" or storable("decimal32", 9, 2)]
UNIONS = ["unions", "native-unions"]
UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}


def golden(name: str) -> tuple[Segment, dict[str, Any]]:
    meaning = json.loads((HERE / f"{name}.json").read_text(encoding="ascii"))
    headers = [(key, text.encode()) for key, text in meaning["headers"]]
    value = (HERE / f"{name}.parquet").read_bytes()
    return Segment(topic="t", partition=0, offset=9, headers=headers, value=value), meaning


def plain(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - one for each kind of type
    """A record's Python value, as the side files have it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [[key, plain(item, kind.item_type)] for key, item in value.items()]
    if pa.types.is_nested(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_temporal(kind):
        return number(value, kind)
    if pa.types.is_floating(kind):
        return value.hex()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def number(value: Any, kind: pa.DataType) -> int:
    """A time as its number in the column's unit."""
    if pa.types.is_date(kind):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, dt.datetime):
        value -= dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc if value.tzinfo else None)
    if isinstance(value, dt.time):
        value = dt.timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    micros = value // dt.timedelta(microseconds=1)
    return micros * 1000 if kind.unit == "ns" else micros // UNITS[kind.unit]


@pytest.mark.parametrize("name", READABLE)
def test_it_verifies(name: str) -> None:
    segment, meaning = golden(name)
    segment.verify()
    assert segment.sha256() == meaning["sha256"]
    assert segment.rows == len(meaning["rows"])
    assert segment.id == dict(meaning["headers"])["columnar.segment"]


@pytest.mark.parametrize("name", READABLE)
def test_its_table_holds_the_rows(name: str) -> None:
    segment, meaning = golden(name)
    names = [column for column in segment.schema.names if column != "_kafka"]
    assert plain_rows(segment.to_table().select(names)) == meaning["rows"]


@pytest.mark.parametrize("name", [name for name in READABLE if name not in UNIONS])
def test_its_records_hold_the_rows(name: str) -> None:
    segment, meaning = golden(name)
    kinds = {field.name: field.type for field in segment.schema if field.name != "_kafka"}
    assert [
        {key: plain(value, kinds[key]) for key, value in record.value.items()}
        for record in segment.records()
    ] == meaning["rows"]


@pytest.mark.parametrize("name", UNIONS)
def test_records_of_unions_hold_the_values_of_their_branches(name: str) -> None:
    segment, _ = golden(name)
    assert [record.value for record in segment.records()] == [
        {"id": 1, "by": "B"},
        {"id": 1, "legs": [None, 5, {"to": "x"}]},
        {"id": 2, "by": None},
        {"id": 3, "legs": []},
        {"id": 4, "by": 0.5},
    ]


@pytest.mark.parametrize("name", READABLE)
def test_its_records_hold_the_keys_times_and_headers(name: str) -> None:
    segment, meaning = golden(name)
    stored = list(segment.records())
    assert [record.row for record in stored] == list(range(segment.rows))
    records = [
        {
            "key": None if record.key is None else record.key.hex(),
            "timestamp": record.timestamp,
            "headers": record.headers
            and [[key, None if value is None else value.hex()] for key, value in record.headers],
        }
        for record in stored
    ]
    assert records == meaning["records"]


def message_of(name: str, meaning: dict[str, Any]) -> SourceMessage:
    return SourceMessage(
        topic="t",
        partition=0,
        offset=9,
        headers=[(key, text.encode()) for key, text in meaning["headers"]],
        value=(HERE / f"{name}.parquet").read_bytes(),
    )


@pytest.mark.parametrize("cls", [InlineDecoder, WithoutCore])
def test_records_that_were_json_are_these_objects(cls: type[InlineDecoder]) -> None:
    _, meaning = golden("json")
    found = values(message_of("json", meaning), cls())
    assert [value.decode() for value in found] == meaning["objects"]


@pytest.mark.parametrize("cls", [InlineDecoder, WithoutCore])
def test_records_that_were_avro_are_these_datums(cls: type[InlineDecoder]) -> None:
    _, meaning = golden("avro-values")
    found = values(message_of("avro-values", meaning), cls(), form="avro")
    assert [value.hex() for value in found] == meaning["datums"]


@pytest.mark.parametrize("name", WRITABLE)
def test_what_is_written_today_means_the_same(name: str) -> None:
    """The same rows, canonical text and headers; the bytes themselves are the library's."""
    _, expected = golden(name)
    _, meaning = make.build(name, make.SEGMENTS[name])
    for side in (meaning, expected):
        del side["sha256"]
        assert side["headers"].pop()[0] == "columnar.crc32"
        if make.SEGMENTS[name].native:  # a producer draws the ids of its segments
            side["headers"] = [pair for pair in side["headers"] if pair[0] != "columnar.segment"]
    assert json.loads(json.dumps(meaning)) == expected


def test_a_type_that_this_pyarrow_does_not_have_is_named_with_the_version_that_has() -> None:
    needed = "decimal32 and decimal64 need pyarrow 19 or later"
    for name in {*NAMES} - {*READABLE}:
        with pytest.raises(SegmentError) as raised:
            golden(name)[0].to_table()
        assert str(raised.value).endswith(f"; {needed}, and {pa.__version__} is installed")


@pytest.mark.parametrize("name", READABLE)
def test_the_fingerprint_can_be_taken_from_the_file(name: str) -> None:
    segment, meaning = golden(name)
    assert canonical(segment.schema).splitlines() == meaning["canonical"]
    assert fingerprint(segment.schema) == segment.header.schema


@pytest.mark.parametrize("name", ["with-arrow-schema", "without-arrow-schema"])
def test_the_schema_is_the_records_with_and_without_an_arrow_schema_in_the_file(name: str) -> None:
    segment, _ = golden(name)
    schema = make.SEGMENTS[name].schema
    assert segment.schema.remove(segment.schema.get_field_index("_kafka")) == schema
    assert segment.schema.metadata is None


def test_every_golden_segment_has_its_maker() -> None:
    assert sorted(make.SEGMENTS) == NAMES


def test_the_maker_writes_what_is_not_there_and_never_what_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make, "HERE", tmp_path)
    (tmp_path / "one-row.parquet").write_bytes(b"precious")
    (tmp_path / "times.json").write_text("precious")
    chosen = {name: make.SEGMENTS[name] for name in ("one-row", "times", "registry")}
    monkeypatch.setattr(make, "SEGMENTS", chosen)
    make.main()
    assert (tmp_path / "one-row.parquet").read_bytes() == b"precious"
    assert (tmp_path / "times.json").read_text() == "precious"
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"one-row.parquet", "times.json", "registry.parquet", "registry.json"}
    assert capsys.readouterr().out.splitlines()[:2] == [
        "one-row: there already, not touched",
        "times: there already, not touched",
    ]
