"""Values of plain messages as rows: by the rules of produced rows, and nothing else passes."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

from columnar_kafka import SchemaError
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.plain.row_formats import ROW_FORMATS
from columnar_kafka.schema import RecordSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

UTC = datetime.timezone.utc
NESTED = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "day", "type": {"type": "int", "logicalType": "date"}}],
}
NOT_AVRO = "not a valid Avro value of this schema"


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def record(*types: Any, **fields: Any) -> dict[str, Any]:
    """Return the schema of a record with these fields, or with the only field f."""
    named = fields or {"f": types[0]}
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": avro} for name, avro in named.items()],
    }


def decoded(schema: Any, *values: bytes, form: str = "json") -> list[Any]:
    """Return the values of f, or what is wrong, for each value."""
    table, errors = ROW_FORMATS[form].open(schema).decode(values)
    rows = iter(table["f"].to_pylist())
    return [errors[index] if index in errors else next(rows) for index in range(len(values))]


def of(value: Any) -> bytes:
    return json.dumps({"f": value}).encode()


@pytest.mark.parametrize(
    ("avro", "text", "value"),
    [
        ("boolean", "true", True),
        ("int", "-3", -3),
        ("long", "9223372036854775807", 2**63 - 1),
        ("float", "1.5", 1.5),
        ("double", "1e300", 1e300),
        ("double", "2", 2.0),
        ("float", "20000000", 2e7),
        ("float", "16777217", 16777216.0),
        ("double", "1000000000000000001", 1e18),
        ("string", '"\\u00e9\\ud83d\\ude00"', "é😀"),
        ("bytes", '"/wA="', b"\xff\x00"),
        ({"type": "fixed", "name": "F", "size": 2}, '"/wA="', b"\xff\x00"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"B"', "B"),
        (logical("string", "uuid"), f'"{uuid.UUID(int=5)}"', str(uuid.UUID(int=5))),
        (
            {**logical("fixed", "uuid"), "name": "U", "size": 16},
            f'"{uuid.UUID(int=5)}"',
            uuid.UUID(int=5).bytes,
        ),
        (logical("bytes", "decimal", precision=20, scale=2), '"-1.50"', decimal.Decimal("-1.50")),
        (
            logical("bytes", "decimal", precision=20, scale=2),
            "123456789012345678.25",
            decimal.Decimal("123456789012345678.25"),
        ),
        (logical("bytes", "decimal", precision=20, scale=2), "7", decimal.Decimal("7.00")),
        (logical("string", "json"), '{"a": [1.50, "é", null]}', '{"a":[1.50,"é",null]}'),
        (logical("int", "date"), '"2024-02-29"', datetime.date(2024, 2, 29)),
        (logical("int", "date"), "1", datetime.date(1970, 1, 2)),
        (logical("int", "time-millis"), '"23:59:59.5"', datetime.time(23, 59, 59, 500_000)),
        (logical("long", "time-micros"), "1", datetime.time(0, 0, 0, 1)),
        (
            logical("long", "timestamp-millis"),
            '"2024-01-01T01:00:00.123456+01:30"',
            datetime.datetime(2023, 12, 31, 23, 30, 0, 123_000, tzinfo=UTC),
        ),
        (
            logical("long", "timestamp-micros"),
            '"1969-12-31 23:59:59.999999Z"',
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ),
        (
            logical("long", "timestamp-micros"),
            '"2024-01-01T00:00"',
            datetime.datetime(2024, 1, 1, tzinfo=UTC),
        ),
        (
            logical("long", "timestamp-millis"),
            "1704067200123",
            datetime.datetime(2024, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC),
        ),
        (
            logical("long", "local-timestamp-millis"),
            '"2024-01-01T12:00:00"',
            datetime.datetime(2024, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None),
        ),
        (["null", "long"], "null", None),
        ({"type": "array", "items": ["null", "bytes"]}, '["AQ==", null]', [b"\1", None]),
        ({"type": "map", "values": "bytes"}, '{"k": "AQ=="}', [("k", b"\1")]),
        (["null", NESTED], '{"day": "1970-01-02"}', {"day": datetime.date(1970, 1, 2)}),
    ],
    ids=str,
)
def test_json_becomes_the_values_of_the_schemas_types(avro: Any, text: str, value: Any) -> None:
    schema = record(avro)
    [outcome] = decoded(schema, b'{"f": %s}' % text.encode())
    assert outcome == value
    columns = RowColumns(RecordSchema.parse(schema))
    produced = columns.convert(
        [
            columns.take(
                {"f": dict(value) if text[0] == "{" and isinstance(value, list) else value}
            )[0]
        ]
    ).batch
    table, _ = ROW_FORMATS["json"].open(schema).decode([b'{"f": %s}' % text.encode()])
    assert table.to_batches() == [produced]


def test_nanoseconds_keep_their_digits() -> None:
    schema = record(logical("long", "timestamp-nanos"))
    table, _ = ROW_FORMATS["json"].open(schema).decode([of("2024-01-01T00:00:00.123456789Z")])
    assert table["f"].cast(pa.int64()).to_pylist() == [1_704_067_200_123_456_789]


@pytest.mark.parametrize(
    ("avro", "text", "why"),
    [
        ("long", '"1"', "field 'f' is str '1'; its schema wants int64"),
        ("long", "1.0", "field 'f' is float 1.0; its schema wants int64"),
        ("long", "true", "field 'f' is bool True; its schema wants int64"),
        ("int", "2147483648", "field 'f': int 2147483648"),
        ("string", "1", "field 'f' is int 1; its schema wants string"),
        ("string", "null", "field 'f' is null, and its schema does not allow null"),
        ("string", '"\\ud800"', "field 'f': str '\\ud800'"),
        ("double", "1e400", "it is not JSON: 1e400 is larger than every float"),
        ("double", "9" * 400, f"field 'f': {'9' * 40} is larger than every float"),
        ("double", "true", "field 'f' is bool True; its schema wants double"),
        ("double", "NaN", "it is not JSON: NaN is no number in JSON"),
        ("bytes", '"a"', "field 'f' is str 'a', not base64: "),
        ("bytes", "[1]", "field 'f' is list [1]; its schema wants binary"),
        ({"type": "fixed", "name": "F", "size": 2}, '"AQ=="', "field 'f': bytes b'\\x01'"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, '"B"', "field 'f' is str 'B'; its enum"),
        (logical("bytes", "decimal", precision=4, scale=2), "1.234", "field 'f': Decimal"),
        (logical("bytes", "decimal", precision=4, scale=2), '"NaN"', "not a decimal: it needs dig"),
        (
            logical("bytes", "decimal", precision=4, scale=2),
            "1e99999999999999999999",
            "it is not JSON: 1e99999999999999999999 has an exponent that no decimal has",
        ),
        (
            logical("bytes", "decimal", precision=4, scale=2),
            '"1e99999999999999999999"',
            "not a decimal: 1e99999999999999999999 has an exponent that no decimal has",
        ),
        (logical("int", "date"), '"20240101"', "not a date in ISO 8601: it needs the form"),
        (logical("int", "date"), '"2024-02-30"', "not a date in ISO 8601: "),
        (logical("int", "time-millis"), '"24:00"', "not a time of day in ISO 8601: "),
        (logical("int", "time-millis"), "86400000", "a time of day is outside its 24 hours"),
        (logical("long", "timestamp-millis"), '"2024-01-01"', "it needs the form 2026-01-31T12"),
        (logical("long", "timestamp-millis"), '"2024-01-01T00:00+1"', "its time zone needs the"),
        (logical("long", "local-timestamp-millis"), '"2024-01-01T00:00Z"', "would be lost"),
        ({"type": "array", "items": "long"}, '["x"]', "field 'f.item' is str 'x'"),
        (NESTED, '{"day": "x"}', "field 'f.day' is str 'x', not a date"),
        (NESTED, '{"day": 1, "more": 2}', "field 'f.more' is not in the topic's schema"),
        (NESTED, "{}", "field 'f.day' is missing, and has no default"),
    ],
    ids=str,
)
def test_a_value_that_no_row_could_have_is_refused(avro: Any, text: str, why: str) -> None:
    schema = record(avro)
    bad = b'{"f": %s}' % text.encode()
    [error] = decoded(schema, bad)
    assert why in error


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it is not JSON: Expecting value"),
        (b'{"f": 1} {}', "it is not JSON: Extra data"),
        (b'{"f": 1', "it is not JSON: "),
        (b"\xff\xfe{\0}\0", "it is not JSON: 'utf-8' codec"),
        (b"[" * 100_000, "it is not JSON: "),
        (b"[1]", "it is list [1], not a JSON object"),
        (b'{"g": 1, "f": 1}', "field 'g' is not in the topic's schema"),
        (b"{}", "field 'f' is missing, and has no default"),
    ],
    ids=["empty", "two", "cut", "utf-16", "deep", "list", "unknown", "missing"],
)
def test_what_is_no_row_in_json_is_refused_and_its_neighbours_are_not(
    value: bytes, why: str
) -> None:
    one, error, other = decoded(record("long"), of(1), value, of(2))
    assert (one, other) == (1, 2)
    assert error.startswith(why)


def test_a_missing_field_has_its_default() -> None:
    schema = record("long")
    schema["fields"][0]["default"] = 7
    assert decoded(schema, b"{}") == [7]


def test_bad_values_in_many_chunks_are_found_by_their_index() -> None:
    values = [of(n if n % 1000 else 1 << 31) for n in range(3000)]
    table, errors = ROW_FORMATS["json"].open(record("int")).decode(values)
    assert sorted(errors) == [0, 1000, 2000]
    assert table["f"].to_pylist() == [n for n in range(3000) if n % 1000]


def test_arrow_types_that_avro_lacks_can_be_read_from_json() -> None:
    schema = pa.schema(
        {
            "f": pa.uint8(),
            "large": pa.large_list(pa.large_binary()),
            "span": pa.duration("ms"),
            "zone": pa.timestamp("ms", "Europe/Berlin"),
        }
    )
    value = {"f": 255, "large": ["AQ=="], "span": 1500, "zone": "2024-01-01T00:00:00+01:00"}
    table, errors = ROW_FORMATS["json"].open(schema).decode([json.dumps(value).encode()])
    assert errors == {}
    assert table.schema == schema
    [row] = table.to_pylist()
    assert row["span"] == datetime.timedelta(seconds=1.5)
    assert row["zone"] == datetime.datetime(2023, 12, 31, 23, tzinfo=UTC)
    assert (row["f"], row["large"]) == (255, [b"\1"])


def test_a_map_whose_keys_json_cannot_have_is_refused_and_named() -> None:
    schema = pa.schema([("a", pa.list_(pa.map_(pa.int64(), pa.int64())))])
    with pytest.raises(SchemaError, match=r"field 'a\.item' is a map with keys of type int64"):
        ROW_FORMATS["json"].open(schema)


# --- Avro -----------------------------------------------------------------------------------------

AVRO = record(f="long", time=logical("int", "time-millis"))


def zigzag(number: int) -> bytes:
    """Return an int, a long or an index as Avro has it."""
    left, encoded = (number << 1) ^ (number >> 63), b""
    while left > 127:
        encoded += bytes([left & 127 | 128])
        left >>= 7
    return encoded + bytes([left])


def datum(f: int, time: int = 0) -> bytes:
    out = io.BytesIO()
    schema = record(f="long", time="int")
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"f": f, "time": time})
    return out.getvalue()


@pytest.fixture(params=[True, False], ids=["pyruhvro", "fastavro"])
def fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether pyruhvro decodes, or else fastavro."""
    if not request.param:
        monkeypatch.setattr("columnar_kafka.plain.avro._pyruhvro", lambda: None)
    return bool(request.param)


@pytest.mark.usefixtures("fast")
def test_avro_has_the_columns_of_the_schema_and_bad_values_spoil_no_other() -> None:
    values = [datum(0), b"", datum(2), datum(3) + b"!", datum(4), datum(5, 86_400_000), datum(6)]
    rows = ROW_FORMATS["avro"].open(AVRO)
    table, errors = rows.decode(values)
    assert table.schema == RecordSchema.parse(AVRO).arrow
    assert table["f"].to_pylist() == [0, 2, 4, 6]
    assert sorted(errors) == [1, 3, 5]
    assert {error.partition(":")[0] for error in errors.values()} == {NOT_AVRO}


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize(
    ("kind", "name", "number"),
    [
        ("int", "date", 2_932_897),  # the first of the year 10000
        ("int", "date", -(1 << 31)),
        ("long", "timestamp-millis", 253_402_300_800_000),
        ("long", "local-timestamp-micros", (1 << 63) - 1),
        ("long", "timestamp-nanos", -(1 << 63)),
        ("int", "time-millis", 86_399_999),
    ],
)
def test_avro_has_dates_and_times_that_python_has_not(kind: str, name: str, number: int) -> None:
    value = zigzag(number)
    table, errors = ROW_FORMATS["avro"].open(record(logical(kind, name))).decode([value])
    integers = table["f"].cast(pa.int32() if kind == "int" else pa.int64())
    assert (integers.to_pylist(), errors) == ([number], {})


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("index", [0, 1, 2, -1, -2, -3, 1 << 32, -(1 << 63)])
def test_a_symbol_of_avro_is_not_counted_from_the_end(index: int) -> None:
    schema = record(g={"type": "enum", "name": "E", "symbols": ["A", "B"]}, f="E")
    [outcome] = decoded(schema, zigzag(0) + zigzag(index), form="avro")
    assert outcome == "AB"[index] if index in (0, 1) else NOT_AVRO in outcome


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("index", [0, 1, 2, -1, -2, -3])
def test_a_branch_of_avro_is_not_counted_from_the_end(index: int) -> None:
    datum = zigzag(index) + (zigzag(7) if index % 2 else b"")
    [outcome] = decoded(record(["null", "int"]), datum, form="avro")
    known = {0: None, 1: 7}
    assert outcome == known[index] if index in known else NOT_AVRO in outcome


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("avro", ["int", logical("int", "date"), logical("int", "time-millis")])
def test_an_int_of_avro_has_no_more_bits_than_it_may(avro: Any) -> None:
    """As where the writer's schema has another type than is said."""
    values = [zigzag(1), zigzag((1 << 32) + 1), zigzag(2)]
    table, errors = ROW_FORMATS["avro"].open(record(avro)).decode(values)
    assert table["f"].cast(pa.int32()).to_pylist() == [1, 2]
    assert sorted(errors) == [1]


def test_avro_behind_a_registrys_prefix_has_to_be_of_that_schema() -> None:
    rows = ROW_FORMATS["avro"].open(AVRO, 7)
    values: Sequence[bytes] = [b"\0\0\0\0\7" + datum(1), b"\0\0\0\0\x08" + datum(2), datum(3)]
    table, errors = rows.decode(values)
    assert (table["f"].to_pylist(), sorted(errors)) == ([1], [1, 2])


def test_no_value_at_all_has_no_rows() -> None:
    for form in "json", "avro":
        table, errors = ROW_FORMATS[form].open(AVRO).decode([])
        assert (table.num_rows, errors) == (0, {})
        assert table.schema == RecordSchema.parse(AVRO).arrow


def test_the_columns_are_those_of_a_producers_segments() -> None:
    rows = ROW_FORMATS["avro"].open(AVRO)
    assert rows.schema.names == ["f", "time", "_kafka"]
    assert [field.name for field in rows.schema.field("_kafka").type] == [
        "segment",
        "row",
        "key",
        "timestamp",
        "headers",
    ]
