"""What keys and values of plain messages are decoded to, and that nothing else passes for one."""

from __future__ import annotations

import contextlib
import copy
import datetime
import decimal
import io
import json
import uuid
from typing import Any

import fastavro
import polars
import pyarrow as pa
import pytest
from arrow_types import to_pylist
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import with_pyruhvro_only, without_pyruhvro
from support import examples

from columnar_kafka import SchemaError, plain
from columnar_kafka.config import ReadOptions
from columnar_kafka.lake.aside.decoding import Decoding
from columnar_kafka.plain import Avro, Ipc, Json, avro
from columnar_kafka.plain.base import decode
from columnar_kafka.schema import RecordSchema

TIME = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.timezone.utc)
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "q", "type": ["null", "string"]}]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


FAST = [
    ("boolean", True),
    ("int", -3),
    ("long", 1 << 40),
    ("float", 1.5),
    ("double", 1.5),
    ("bytes", b"\xff\x00"),
    ("string", "x"),
    (logical("int", "date"), datetime.date(2020, 1, 1)),
    (logical("int", "time-millis"), datetime.time(1, 2, 3)),
    (logical("long", "time-micros"), datetime.time(1, 2, 3)),
    (logical("long", "timestamp-millis"), TIME),
    (logical("long", "timestamp-micros"), TIME),
    (logical("long", "local-timestamp-micros"), TIME.replace(tzinfo=None)),
    (logical("string", "uuid"), uuid.UUID(int=5)),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "array", "items": ["null", "long"]}, [1, None]),
    ({"type": "array", "items": INNER}, [{"q": "z"}]),
    ({"type": "map", "values": "bytes"}, {"a": b"1"}),
    (["null", INNER], {"q": None}),
    (["long", "null"], None),
    (
        {**INNER, "fields": [{"name": "q", "type": logical("long", "timestamp-millis")}]},
        {"q": TIME},
    ),
]
SLOW = [
    ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    (logical("bytes", "decimal", precision=10, scale=2), decimal.Decimal("-1.50")),
    (["int", "long"], 5),
    (
        ["null", {"type": "array", "items": logical("bytes", "decimal", precision=4)}],
        [decimal.Decimal(1)],
    ),
]


def datum(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


# --- Avro -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "value"), [*FAST, *SLOW], ids=str)
def test_avro_has_the_types_that_segments_of_the_schema_have(schema, value) -> None:
    outer = {"type": "record", "name": "R", "fields": [{"name": "f", "type": schema}]}
    expected = RecordSchema.parse(outer).arrow.field("f").type
    values = [datum(schema, value)] * 2
    array = without_pyruhvro(Avro(schema)).decode(values)
    assert array.type == expected
    assert Avro(schema).decode(values).equals(array)


@pytest.mark.parametrize(("schema", "value"), FAST, ids=str)
def test_pyruhvro_reads_what_it_can(schema, value) -> None:
    pytest.importorskip("pyruhvro")
    form = with_pyruhvro_only(Avro(schema))
    assert len(form.decode([datum(schema, value)])) == 1


OF_ALL: dict[str, Any] = {
    "type": "record",
    "name": "OfAll",
    "fields": [{"name": f"f{n}", "type": schema} for n, (schema, _) in enumerate(FAST[:13])],
}
ALL = {f"f{n}": value for n, (_, value) in enumerate(FAST[:13])}


@pytest.mark.parametrize("kind", ["avro", "arrow"])
def test_what_a_signal_handler_raises_says_nothing_of_a_value(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised = [TimeoutError("a handler's")]

    def interrupted(function: Any) -> Any:
        def call(*args: Any) -> Any:
            if raised:
                raise raised.pop()
            return function(*args)

        return call

    if kind == "avro":
        value = io.BytesIO()
        fastavro.schemaless_writer(value, "long", 5)
        form = without_pyruhvro(Avro("long"))
        module, name, expected = fastavro, "schemaless_reader", [5]
    else:
        form, value = Ipc(), io.BytesIO()
        table = pa.table({"n": [5]})
        with pa.ipc.new_stream(value, table.schema) as stream:
            stream.write_table(table)
        module, name, expected = pa.ipc, "open_stream", [{"n": 5}]
    monkeypatch.setattr(module, name, interrupted(getattr(module, name)))

    def read() -> list[Any]:
        if kind == "arrow":
            return form.read(value.getvalue(), ReadOptions()).to_pylist()
        return form.decode([value.getvalue()]).to_pylist()

    with pytest.raises(TimeoutError, match="a handler's"):
        read()
    assert read() == expected


@pytest.mark.parametrize(
    "change", [without_pyruhvro, lambda form: form], ids=["fastavro", "pyruhvro"]
)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (OF_ALL, ALL),
        ({**INNER, "fields": [{"name": "r", "type": OF_ALL}]}, {"r": ALL}),
        ({"type": "map", "values": ["null", OF_ALL]}, {"a": None, "b": ALL}),
        ({"type": "array", "items": ["null", OF_ALL]}, [None, ALL]),
    ],
    ids=["record", "record in a record", "map", "array"],
)
def test_a_record_with_required_fields_may_be_null(schema, value, change) -> None:
    form = change(Avro(["null", schema]))
    array = form.decode([datum(["null", schema], row) for row in (None, value, None)])
    assert array.cast(array.type).equals(array)
    assert to_pylist(array) == [None, value, None]


@pytest.mark.parametrize(
    "change", [without_pyruhvro, lambda form: form], ids=["fastavro", "pyruhvro"]
)
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("long", b"\x02\x02"),
        ("long", b""),
        ("string", b"\x06ab"),
        ("string", b"\x04\xff\xff"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x0a"),
        (["null", "string"], b"\x10"),
        ({"type": "array", "items": "string"}, b"\x02\x02"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x80\xf0\xb2\x52"),
    ],
    ids=["longer", "empty", "shorter", "no text", "no symbol", "no branch", "no end", "no time"],
)
def test_avro_that_is_not_of_the_schema_is_refused(schema, value, change) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of several libraries
        change(Avro(schema)).decode([value])


def test_values_of_a_registry_have_its_id() -> None:
    form = Avro("long", schema_id=7)
    assert form.decode([b"\0\0\0\0\x07\x02"]).to_pylist() == [1]
    with pytest.raises(ValueError, match="begins with"):
        form.decode([b"\0\0\0\0\x08\x02"])


@pytest.mark.parametrize(
    "schema",
    [
        *("{", "nothing", {"type": "record"}, ["long", "long"], object()),
        {"type": "record", "name": "R", "fields": [{"name": 5, "type": "int"}]},
    ],
)
def test_what_is_no_schema_is_refused_at_once(schema) -> None:
    with pytest.raises(SchemaError):
        Avro(schema)


@pytest.mark.parametrize("more", [{"logicalType": []}, {"fields": [{"name": "f"}]}], ids=str)
def test_what_means_nothing_in_a_schema_is_passed_over(more: dict[str, Any]) -> None:
    assert Avro({"type": "long"} | more).decode([datum("long", 5)]).to_pylist() == [5]


COLOR = {"type": "enum", "name": "Color", "namespace": "a.b", "symbols": ["RED", "GREEN"]}
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize("slowly", [False, True])
def test_a_list_of_one_record_and_the_types_that_it_uses_is_that_record(
    slowly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `set_schema`. Registries and Java's parser have such types apart, too."""
    if slowly:
        monkeypatch.setattr(avro, "_pyruhvro", lambda: None)
    size = {"type": "fixed", "name": "a.b.Size", "size": 2}
    fields = [
        {"name": "color", "type": "Color"},
        {"name": "others", "type": {"type": "array", "items": ["null", "a.b.Color"]}},
        *([{"name": "size", "type": "Size"}] if slowly else []),
    ]
    row = {"type": "record", "name": "Row", "namespace": "a.b", "fields": fields}
    types: list[Any] = [COLOR, *([size] if slowly else []), row]
    named: dict[str, Any] = {}
    for definition in types:
        parsed = fastavro.parse_schema(copy.deepcopy(definition), named_schemas=named)
    value = {"color": "GREEN", "others": [None, "RED"]} | ({"size": b"ab"} if slowly else {})
    data = io.BytesIO()
    fastavro.schemaless_writer(data, parsed, value)
    for schema in (types, json.dumps(types)):
        form = Avro(schema)
        assert form.name == "a.b.Row"
        assert form.decode([data.getvalue()]).to_pylist() == [value]
        assert form.decode([]).type == pa.struct(list(RecordSchema.parse(schema).arrow))
        Decoding("avro", schema)


@pytest.mark.parametrize("types", [[POINT, {**POINT, "name": "Q"}], [POINT, "null", "int"]])
def test_any_other_list_is_a_union(types: list[Any]) -> None:
    """It has a member for each branch."""
    branches = [branch for branch in types if branch != "null"]
    assert Avro(types).decode([]).type.names == [f"member{at}" for at in range(len(branches))]
    assert Avro(types).decode([b"\0\2"]).to_pylist() == [{"member0": {"x": 1}, "member1": None}]


def test_a_union_of_one_type_is_of_that_type() -> None:
    assert Avro([COLOR]).decode([b"\0\2"]).to_pylist() == ["GREEN"]
    row = {"type": "record", "name": "r", "fields": [{"name": "f", "type": ["string"]}]}
    assert Avro(row).decode([b"\0\2a"]).to_pylist() == [{"f": "a"}]


def test_a_record_that_has_our_column_is_refused_at_once() -> None:
    fields = [{"name": "_kafka", "type": "long"}]
    with pytest.raises(SchemaError, match=r"^column '_kafka' is reserved$"):
        Avro({"type": "record", "name": "R", "fields": fields})
    with pytest.raises(SchemaError, match=r"^column '_kafka' is reserved$"):
        Json(pa.schema([("_kafka", pa.int64())]))
    with pytest.raises(SchemaError, match=r"^column '_kafka\.row' is reserved$"):
        Json(pa.schema([("_kafka.row", pa.int64())]))
    for name in ("_KAFKA", "_Kafka.x"):  # engines ignore the case
        with pytest.raises(SchemaError, match=rf"^column '{name}' is reserved$"):
            Json(pa.schema([(name, pa.int64())]))


# --- JSON -----------------------------------------------------------------------------------------

TWO = pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_json_goes_into_the_columns_of_a_schema() -> None:
    values = [b'{"a": 1,\n "b": "x", "c": 5}', b' {"b": "\\n"}\r\n', b"null"]
    array = Json(TWO).decode(values)
    assert array.type == pa.struct(list(TWO))
    assert array.to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": "\n"}, None]


def test_json_is_inferred_without_a_schema() -> None:
    array = Json().decode([b'{"a": 1}', b'{"a": 1.5, "b": {"c": [true]}}'])
    assert array.to_pylist() == [{"a": 1.0, "b": None}, {"a": 1.5, "b": {"c": [True]}}]


@pytest.mark.parametrize(
    "value",
    [b"", b" ", b"{", b'{"a": 1} {"a": 2}', b'1} {"value": 2', b'{"a": 1}, "w": 2', b'{"a": "1"}',
     b'{"a": 1.5}', b'{"b": "\xff"}', b"x", b'{"a": 99999999999999999999}', b'{"a": 1, "a": 2}'],
)  # fmt: skip
def test_json_that_is_not_one_value_of_the_schema_is_refused(value) -> None:
    for values in ([value], [b'{"a": 1}', value, b"{}"]):
        with pytest.raises(ValueError):  # noqa: PT011 - pyarrow's
            Json(TWO).decode(values)


def test_json_in_which_two_values_would_make_up_for_each_other_is_refused() -> None:
    """A value in two halves and two values in one are as many lines as rows."""
    with pytest.raises(ValueError):  # noqa: PT011 - pyarrow's
        Json(TWO).decode([b'{"a": 1', b"}", b'{"a": 2} {"a": 3}'])


def test_json_that_would_end_the_process_is_refused() -> None:
    for value in (b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 200_000 + b"1" + b"}" * 200_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            Json().decode([value])


def test_json_may_have_many_brackets_side_by_side() -> None:
    value = json.dumps({"a": [[n] for n in range(1000)]}).encode()
    assert Json().decode([value]).to_pylist() == [{"a": [[n] for n in range(1000)]}]


def test_a_tombstone_goes_with_values_that_pyarrow_cannot_take_apart() -> None:
    kind = pa.schema([("s", pa.string_view())])
    decoded = decode(Json(kind), [b'{"s": "x"}', None, None, b'{"s": "y"}'])
    assert decoded.array.to_pylist() == [{"s": "x"}, None, None, {"s": "y"}]


def test_what_some_hundred_values_had_in_common_must_do_for_more() -> None:
    values = [b'{"a": %d}' % n for n in range(10_000)]
    assert len(decode(Json(), [*values, b'{"a": 1, "b": 2}']).array) == 10_000
    assert [field.name for field in Json().decode([b"{}", *values[:9]]).type] == ["a"]


def test_columns_that_nearly_no_value_has_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a hundred thousand values of 50 bytes were ten billion cells."""
    monkeypatch.setattr(plain.json, "_CELLS", 1 << 16)
    values = [b'{"%s": 1}' % b"".join(b"%04d" % n for _ in range(10)) for n in range(375)]
    assert 0 < len(decode(Json(), values).array) < 375
    wide = b"{%s}" % b",".join(b'"%d":1' % n for n in range(375))
    assert len(decode(Json(), [wide] + [b"{}"] * 5000).array) < 5000


def test_types_that_json_cannot_have_are_refused_at_once() -> None:
    with pytest.raises(SchemaError, match="cannot be read from JSON"):
        Json(pa.schema([("m", pa.map_(pa.string(), pa.int64()))]))


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"a": st.integers(-(1 << 63), (1 << 63) - 1), "b": st.text(max_size=9)}
        ),
        max_size=20,
    )
)
def test_json_of_any_text_is_read_as_json_reads_it(rows) -> None:
    values = [json.dumps(row, indent=1, ensure_ascii=False).encode() for row in rows]
    empty = {"a": None, "b": None}
    assert Json(TWO).decode(values).to_pylist() == [{**empty, **row} for row in rows]


# --- Arrow ----------------------------------------------------------------------------------------


LIMITS = ReadOptions()


def ipc(table: pa.Table, kind: Any, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with kind(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("kind", [pa.ipc.new_stream, pa.ipc.new_file])
def test_arrow_streams_and_files_are_tables(kind) -> None:
    table = pa.table({"n": [1, 2], "s": ["x", None]})
    assert Ipc().read(ipc(table, kind), LIMITS).equals(table)


def test_arrow_data_may_have_metadata_of_its_schema() -> None:
    table = pa.table({"n": [1]}).replace_schema_metadata({"pandas": "{}"})
    read = Ipc().read(ipc(table, pa.ipc.new_stream), LIMITS)
    assert (read.to_pylist(), read.schema.metadata) == ([{"n": 1}], {b"pandas": b"{}"})


def test_arrow_streams_of_polars_are_tables() -> None:
    sink = io.BytesIO()
    polars.DataFrame({"n": [1, None], "s": ["x", "y"]}).write_ipc_stream(sink)
    read = Ipc().read(sink.getvalue(), LIMITS)
    assert read.to_pydict() == {"n": [1, None], "s": ["x", "y"]}


@pytest.mark.parametrize(
    "value", [b"", b"nothing", b"ARROW1\0\0", ipc(pa.table({"n": [1]}), pa.ipc.new_stream)[:-30]]
)
def test_what_is_no_arrow_data_is_refused(value) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - pyarrow's
        Ipc().read(value, LIMITS)


def test_arrow_data_with_columns_that_cannot_be_told_apart_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1])] * 2, names=["n", "n"])
    with pytest.raises(ValueError, match=r"^column 'n' occurs 2 times$"):
        Ipc().read(ipc(table, pa.ipc.new_stream), LIMITS)
    for name in ("_kafka", "_kafka.offset"):
        table = pa.table({name: pa.array([1])})
        with pytest.raises(ValueError, match=rf"^column '{name}' is reserved$"):
            Ipc().read(ipc(table, pa.ipc.new_stream), LIMITS)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize(
    ("table", "limit", "says"),
    [
        (pa.table({"n": [1, 2, 3]}), {"max_rows": 2}, r"3 rows; columnar\.max\.rows is 2"),
        (pa.table({"n": pa.nulls(1 << 21)}), {}, r"columnar\.max\.rows is 1048576"),
        (pa.table({"l": [[1] * 9]}), {"max_values": 8}, r"9 values; columnar\.max\.values is 8"),
        (
            pa.table({"n": [0] * 9000}),
            {"max_decoded_bytes": 1000},
            r"columnar\.max\.decoded\.bytes is",
        ),
        (
            pa.table({"d": pa.array(["x" * 5000]).dictionary_encode()}),
            {"max_decoded_bytes": 1000},
            r"columnar\.max\.decoded\.bytes is",
        ),
    ],
    ids=["rows", "rows of nothing", "values", "bytes", "dictionary"],
)
def test_arrow_data_that_comes_to_more_than_is_allowed_is_refused(
    table, limit, says, compression
) -> None:
    value = ipc(table, pa.ipc.new_stream, compression)
    with pytest.raises(ValueError, match=says):
        Ipc().read(value, ReadOptions(**limit))
    if limit:
        assert Ipc().read(value, LIMITS).equals(table)


def test_compressed_arrow_data_is_refused_before_it_is_decompressed() -> None:
    bomb = ipc(pa.table({"n": pa.array([0] * (1 << 17))}), pa.ipc.new_stream, "zstd")
    assert len(bomb) < 1000
    before = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match="decoded"):
        Ipc().read(bomb, ReadOptions(max_decoded_bytes=1 << 19))
    assert pa.total_allocated_bytes() == before


@settings(max_examples=examples(200))
@given(st.data())
def test_arrow_data_that_was_changed_is_a_table_or_refused(data) -> None:
    table = pa.table({"n": [1, 2], "s": ["x", None], "l": [[1], []]})
    value = bytearray(ipc(table, pa.ipc.new_stream, data.draw(st.sampled_from([None, "zstd"]))))
    for _ in range(3):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        Ipc().read(bytes(value), LIMITS).to_pylist()


# --- several at once ------------------------------------------------------------------------------


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from([b"\x02", b"\x04", None, b"", b"\x02\x02"]), max_size=30))
def test_the_first_wrong_value_is_found(values) -> None:
    bad = [n for n, value in enumerate(values) if value in (b"", b"\x02\x02")]
    decoded = decode(Avro("long"), values)
    good = values[: bad[0]] if bad else values
    assert decoded.array.to_pylist() == [
        {b"\x02": 1, b"\x04": 2, None: None}[value] for value in good
    ]
    assert (decoded.error is None) == (not bad)


def test_a_value_that_does_not_go_with_those_before_it_is_told_from_a_wrong_one() -> None:
    decoded = decode(Json(), [b'{"n": 1}', b'{"n": 2}', b'{"n": "x"}'])
    assert (len(decoded.array), decoded.error) == (2, None)
    decoded = decode(Json(), [b'{"n": 1}', b"?"])
    assert len(decoded.array) == 1
    assert decoded.error is not None
