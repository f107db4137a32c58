"""`docs/segment-format.md`, `schemas/segment-v1.json` and the code say the same of version 1."""

from __future__ import annotations

import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_types import needs, optional, storable
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka import SchemaError, SegmentError, position, schema
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.producing.settings import COMPRESSIONS
from columnar_kafka.schema import RecordSchema, canonical, fingerprint
from columnar_kafka.segment.avro_layout import AVRO_KEY, AvroLayout
from columnar_kafka.segment.declared_types import declared_schema, needs_help
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import HEADER_BYTES, SegmentHeader, parse_headers, with_checksum
from columnar_kafka.segment.json_layout import JSON_KEY, JsonLayout
from columnar_kafka.segment.parquet.page_checks import footer_bytes

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/segment-format.md").read_text(encoding="utf-8")
V1 = json.loads((ROOT / "schemas/segment-v1.json").read_text(encoding="utf-8"))
HEADERS = {header["name"]: header for header in V1["headers"]}
MEMBERS = V1["kafka_column"]["members"]
GOOD = SegmentHeader(
    rows=3, segment="p-0", schema="0" * 32, timestamp_min=-5, timestamp_max=5, schema_id=4
)


def good() -> dict[str, str]:
    return {key: value.decode() for key, value in with_checksum(GOOD.footer(), b"value").items()}


def accepted(name: str, text: str) -> bool:
    """Whether `parse_headers` takes a header's text, all else being good."""
    try:
        parse_headers(good() | {name: text})
    except SegmentError:
        return False
    return True


def allowed(name: str, text: str) -> bool:
    """Whether the data says that a header may have this text, all else being good."""
    header = HEADERS[name]
    if not re.fullmatch(header["pattern"], text, re.ASCII):
        return False
    if "minimum" in header and not header["minimum"] <= int(text) <= header["maximum"]:
        return False
    if name == "columnar.timestamp.min":
        return int(text) <= 5
    return name != "columnar.timestamp.max" or int(text) >= -5


# --- the data and the code ------------------------------------------------------------------------


def test_the_headers_are_those_that_are_written() -> None:
    assert list(good()) == [
        *(name for name, header in HEADERS.items() if header["in_footer"] and header["required"]),
        "columnar.schema.id",
        "columnar.crc32",
    ]
    assert set(good()) == set(HEADERS)


def test_the_footer_has_those_that_are_said_to_be_in_it() -> None:
    assert set(GOOD.footer()) == {name for name, header in HEADERS.items() if header["in_footer"]}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_required_as_it_says(name: str) -> None:
    pairs = {key: text for key, text in good().items() if key != name}
    if HEADERS[name]["required"]:
        with pytest.raises(SegmentError, match=f"header {re.escape(name)} is missing"):
            parse_headers(pairs)
    else:
        parse_headers(pairs)


@pytest.mark.parametrize("name", HEADERS)
@settings(max_examples=examples(100))
@given(data=st.data())
def test_a_header_takes_what_its_pattern_and_range_allow(name: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(HEADERS[name]["pattern"], re.ASCII), fullmatch=True))
    assert accepted(name, text) == allowed(name, text)


@pytest.mark.parametrize("name", HEADERS)
@settings(max_examples=examples(100))
@given(data=st.data())
def test_a_header_takes_nothing_else(name: str, data: st.DataObject) -> None:
    """Near misses: an allowed text with a character more, less or changed."""
    text = data.draw(st.from_regex(re.compile(HEADERS[name]["pattern"], re.ASCII), fullmatch=True))
    at = data.draw(st.integers(0, len(text)))
    noise = data.draw(st.text("0159-+ .aGz\n\x00é٣", max_size=2))
    text = text[:at] + noise + text[at + data.draw(st.integers(0, 1)) :]
    assert accepted(name, text) == allowed(name, text)


@pytest.mark.parametrize("name", [name for name in HEADERS if "minimum" in HEADERS[name]])
def test_a_headers_range_ends_where_it_says(name: str) -> None:
    low, high = HEADERS[name]["minimum"], HEADERS[name]["maximum"]
    for number in (low - 1, low, high, high + 1):
        assert accepted(name, str(number)) == allowed(name, str(number))


def test_the_members_of_columnar_json_are_the_codes() -> None:
    said = V1["json"]
    assert said["footer_key"].encode() == JSON_KEY
    assert tuple(member["name"] for member in said["members"]) == JsonLayout._fields


def test_the_members_of_columnar_avro_are_the_codes() -> None:
    said = V1["avro"]
    assert said["footer_key"].encode() == AVRO_KEY
    assert tuple(member["name"] for member in said["members"]) == AvroLayout._fields


def test_the_limits_are_the_codes() -> None:
    assert V1["limits"] == {
        "rows": position.MAX_ROWS,
        "segment_id_characters": 40,
        "nesting": schema.MAX_NESTING,
        "header_bytes": HEADER_BYTES,
        "commit_metadata_characters": 64,
    }
    assert HEADERS["columnar.rows"]["maximum"] == position.MAX_ROWS
    longest = position.commit_metadata(position.MAX_ROWS, "x" * 40)
    assert len(longest) <= V1["limits"]["commit_metadata_characters"]


def test_the_pages_message_is_that_of_the_data() -> None:
    rows = dict(re.findall(r"^\| (key|value|timestamp) \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows == {part: text or "null" for part, text in V1["message"].items()}


def test_the_pages_compressions_are_those_of_the_data() -> None:
    [text] = re.findall(r"^- Compression (.*?);", PAGE, re.MULTILINE)
    assert re.findall("[a-z0-9]{3,}", re.sub(r"\(.*?\)|or", "", text)) == V1["compressions"]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("rows", r"records in the file, 1 to (\d+) "),
        ("segment_id_characters", r"\{1,(\d+)\}` \| the segment's id"),
        ("nesting", r"The Parquet schema has at most (\d+) levels"),
        ("header_bytes", r"together take less than (\d+) bytes on the wire"),
        ("commit_metadata_characters", r"columnar\.segment>`, at most (\d+) characters"),
    ],
)
def test_the_pages_limits_are_those_of_the_data(limit: str, said: str) -> None:
    assert re.findall(said, PAGE.replace("\n", " ")) == [str(V1["limits"][limit])]


def test_the_pages_optional_headers_are_those_of_the_data() -> None:
    named = re.findall(r"^\| `(.*?)` \| \w+ \| `.*?` \| optional:", PAGE, re.MULTILINE)
    assert named == [name for name, header in HEADERS.items() if not header["required"]]


def test_the_compressions_are_those_that_can_be_configured() -> None:
    assert tuple(V1["compressions"]) == COMPRESSIONS


def test_the_kafka_columns_members_are_those_that_can_be_configured() -> None:
    assert tuple(MEMBERS) == METADATA_MEMBERS


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_of_the_kafka_column_has_these_fields(member: str) -> None:
    column = KafkaColumn([member]).field
    assert (column.name, column.nullable) == (
        V1["kafka_column"]["name"],
        V1["kafka_column"]["nullable"],
    )
    described = [
        {"name": field.name, "arrow": str(field.type), "nullable": field.nullable}
        for field in column.type
    ]
    assert described == MEMBERS[member]


def test_all_members_stand_in_the_order_of_the_data() -> None:
    column = KafkaColumn(METADATA_MEMBERS).field
    expected = [field["name"] for fields in MEMBERS.values() for field in fields]
    assert [field.name for field in column.type] == expected


# --- the page -------------------------------------------------------------------------------------


def test_the_pages_table_of_headers_is_the_data() -> None:
    rows = re.findall(
        r"^\| `(columnar\.[a-z0-9.]+)` \| (yes|no) \| `(.+?)` \| ", PAGE, flags=re.MULTILINE
    )
    assert [(name, footer, pattern.replace("\\|", "|")) for name, footer, pattern in rows] == [
        (header["name"], "yes" if header["in_footer"] else "no", header["pattern"])
        for header in V1["headers"]
    ]


def test_the_pages_table_of_the_kafka_column_is_the_data() -> None:
    rows = re.findall(r"^\| (`\w+`)? ?\| `(\w+)` \| (.+?) \| (yes|no) \|", PAGE, flags=re.MULTILINE)
    nulls = [(name, null) for _, name, _, null in rows]
    assert nulls == [
        (field["name"], "yes" if field["nullable"] else "no")
        for fields in MEMBERS.values()
        for field in fields
    ]
    assert [member.strip("`") for member, *_ in rows if member] == list(MEMBERS)


def test_the_pages_table_of_columnar_json_is_the_data() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ((?:(?:list|object) of )?strings?|boolean) \|", PAGE, flags=re.MULTILINE
    )
    assert rows == [(member["name"], member["type"]) for member in V1["json"]["members"]]


def test_the_pages_parquet_schema_is_what_is_written() -> None:
    user = pa.table({"n": [1]})
    column = KafkaColumn(METADATA_MEMBERS).field
    table = user.append_column(column, pa.array([_kafka_row()], column.type))
    out = io.BytesIO()
    pq.write_table(table, out)
    text = str(pq.ParquetFile(out).schema)
    text = re.sub(r" field_id=-1|, is_from_converted_type=\w+|, force_set_\w+=\w+", "", text)
    match = re.search(r"  (required group _kafka \{.*^  \})", text, flags=re.MULTILINE | re.DOTALL)
    assert match is not None
    assert re.sub(r"^  ", "", match[1], flags=re.MULTILINE) in PAGE


def _kafka_row() -> dict[str, Any]:
    return {"segment": "p-0", "row": 0, "key": None, "timestamp": 0, "headers": None}


def example() -> tuple[pa.Schema, str, str]:
    """The page's worked example: the schema with its `_kafka`, its text and its fingerprint."""
    _, after = PAGE.split("<!-- checked: test_the_worked_example -->\n")
    code, text = re.findall(
        r"^```(?:python|text)\n(.*?)^```", after, flags=re.MULTILINE | re.DOTALL
    )
    user = eval(code, {"pa": pa})  # the page is ours
    match = re.search(r"^columnar\.schema = ([0-9a-f]{32})$", after, flags=re.MULTILINE)
    assert match is not None
    return KafkaColumn(["id", "timestamp"]).schema(user), text, match[1]


def test_the_worked_example() -> None:
    columns, text, digest = example()
    assert canonical(columns) == text
    assert fingerprint(columns) == digest == hashlib.sha256(text.encode()).hexdigest()[:32]


@needs("decimal32")
def test_the_pages_words_for_types_are_the_codes() -> None:
    """Each type that can be stored is written as one of them; with its own numbers and zones."""
    table = PAGE.split("Types have these names and no others:")[1].split("Other layouts")[0]
    words = set(re.findall(r"`([^`]+)`", table))
    expected = {
        re.search(r'^0 "f" (.+)\?$', canonical(pa.schema([("f", kind)])), flags=re.MULTILINE)[1]
        for kind in TYPES
    }
    assert words == expected


NARROW = [*optional("decimal32", 9, 2), *optional("decimal64", 18, 2)]
TYPES = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.date32()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(16)),
    *(pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8())),
    *(pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_(pa.int8(), 3)),
    *NARROW,
    *(pa.decimal128(38, 10), pa.decimal256(76, 0)),
    *(pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns")),
    *(pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Berlin")),
]


# --- the canonical text ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("n", '0 "n" int8?'),
        ("a b", '0 "a b" int8?'),
        ('"\\/', '0 "\\"\\\\/" int8?'),
        ("\n\t\x00\x7f", '0 "\\n\\t\\u0000\\u007f" int8?'),
        ("naïve ☃", '0 "na\\u00efve \\u2603" int8?'),
        ("\U0001f600", '0 "\\ud83d\\ude00" int8?'),
    ],
)
def test_names_are_json_strings_in_ascii(name: str, line: str) -> None:
    assert canonical(pa.schema([(name, pa.int8())])) == line + "\n"


def test_metadata_is_sorted_and_taken_as_latin_1() -> None:
    columns = pa.schema(
        [pa.field("n", pa.int8(), metadata={b"b": b"\xff", b"a": b"1"})], metadata={b"z": b"\x00"}
    )
    assert canonical(columns).splitlines() == [
        '0 "n" int8?',
        '1 @ ["a", "1"]',
        '1 @ ["b", "\\u00ff"]',
        '0 @ ["z", "\\u0000"]',
    ]


def test_the_names_inside_lists_and_maps_do_not_count() -> None:
    one = pa.schema(
        [
            ("l", pa.list_(pa.field("element", pa.int8()))),
            ("m", pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int8()))),
        ]
    )
    other = pa.schema([("l", pa.list_(pa.int8())), ("m", pa.map_(pa.string(), pa.int8()))])
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    "changed",
    [
        pa.schema([pa.field("n", pa.int64(), nullable=False), ("s", pa.string())]),
        pa.schema([("n", pa.int32()), ("s", pa.string())]),
        pa.schema([("s", pa.string()), ("n", pa.int64())]),
        pa.schema([("n", pa.int64()), ("S", pa.string())]),
        pa.schema([("n", pa.int64())]),
        pa.schema([("n", pa.int64()), ("s", pa.large_string())]),
        pa.schema([("n", pa.int64()), ("s", pa.string())], metadata={"a": "b"}),
        pa.schema([pa.field("n", pa.int64(), metadata={"a": "b"}), ("s", pa.string())]),
    ],
)
def test_whatever_else_differs_changes_the_fingerprint(changed: pa.Schema) -> None:
    assert fingerprint(changed) != fingerprint(pa.schema([("n", pa.int64()), ("s", pa.string())]))


LEAVES = st.sampled_from(
    [*(kind for kind in TYPES if not pa.types.is_nested(kind) and kind not in NARROW),
     *storable("decimal32", 9, 2), *storable("decimal64", 18, 2), pa.timestamp("ms"),
     pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.timestamp("us", "+01:30")]
)  # fmt: skip
NAMES = st.text(min_size=1, max_size=4)
NOTES = st.none() | st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=3))


def fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    return st.builds(pa.field, NAMES, types, st.booleans(), NOTES)


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    child = fields(types)
    return st.one_of(
        child.map(pa.list_),
        child.map(pa.large_list),
        st.builds(pa.list_, child, st.integers(1, 3)),
        st.lists(child, min_size=1, max_size=3, unique_by=lambda field: field.name).map(pa.struct),
        st.builds(pa.map_, st.just(pa.string()), child),
    )


@given(
    st.lists(
        fields(st.recursive(LEAVES, nested, max_leaves=4)),
        min_size=1,
        max_size=4,
        unique_by=lambda field: field.name,
    ),
    NOTES,
)
def test_the_text_can_be_taken_from_the_file(columns: list[pa.Field], notes: Any) -> None:
    """Any schema, written and read back, has the text that it had: readers can check it."""
    try:
        parsed = RecordSchema.parse(pa.schema(columns, metadata=notes))
    except SchemaError:
        return
    written = KafkaColumn(METADATA_MEMBERS).schema(parsed.arrow)
    out = io.BytesIO()
    with pq.ParquetWriter(out, written) as writer:
        writer.write_table(written.empty_table())
        writer.add_key_value_metadata(GOOD.footer())
    read = pq.ParquetFile(out).schema_arrow
    if needs_help(read):
        read = declared_schema(footer_bytes(out.getvalue()), read)
    assert canonical(read) == canonical(written)


def test_a_schema_taken_from_a_segment_does_not_bring_its_footer_along() -> None:
    read = pa.schema([("n", pa.int64())], metadata=GOOD.footer() | {"owner": "ops"})
    assert RecordSchema.parse(read).arrow.metadata == {b"owner": b"ops"}


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_files_codec_is_the_configured_one(name: str) -> None:
    batch = pa.record_batch({"n": [1, 2, 3]})
    data = ParquetEncoder(name).encode(batch, {})
    codec = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0).compression
    assert codec == {"none": "UNCOMPRESSED"}.get(name, name.upper())
