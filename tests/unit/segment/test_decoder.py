"""Decoding: what a segment holds comes out exactly; what was damaged never does, nor crashes."""

from __future__ import annotations

import decimal
import io
import itertools
import zlib
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_types import needs, storable, to_pylist
from segments import header_of, headers_of
from support import is_long

from columnar_kafka import Segment, SegmentError
from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import SegmentHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ALL = ("id", "key", "timestamp", "headers")
NOT_PARQUET = "cannot be decoded: ArrowInvalid: "


def build(
    table: pa.Table,
    *,
    members: Sequence[str] = ALL,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Any] | None = None,
    times: Sequence[int] | None = None,
    compression: str = "zstd",
) -> tuple[SegmentHeader, bytes]:
    """The segment of a table, as the sender makes it."""
    rows = table.num_rows
    batch = kafka_column.KafkaColumn(members).append_to(
        table.combine_chunks().to_batches()[0],
        segment="p-0",
        timestamps=kafka_column.timestamp_array(times or range(rows)),
        keys=kafka_column.key_array(keys or [None] * rows),
        headers=kafka_column.header_array(headers or [None] * rows),
    )
    header = SegmentHeader(
        rows=rows,
        segment="p-0",
        schema=fingerprint(batch.schema),
        timestamp_min=min(times or [0]),
        timestamp_max=max(times or [rows - 1]),
    )
    return header, ParquetEncoder(compression).encode(batch, header.footer()).to_pybytes()


def parquet(
    table: pa.Table, footer: Mapping[str, bytes], row_group_size: int | None = None, **options: Any
) -> bytes:
    """A Parquet file as somebody else would write it."""
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, write_page_checksum=True, **options) as writer:
        writer.write_table(table, row_group_size=row_group_size)
        writer.add_key_value_metadata(dict(footer))
    return out.getvalue()


def received(header: SegmentHeader, value: bytes, crc32: int | None = None) -> Segment:
    """What a consumer has of it; with `crc32`, that checksum instead of the value's own."""
    headers = headers_of(header, value)
    if crc32 is not None:
        headers[-1] = ("columnar.crc32", str(crc32).encode())
    return Segment(topic="t", partition=3, offset=5, headers=headers, value=value)


def forged(table: pa.Table, **changed: Any) -> Segment:
    """A segment whose file is not made by us, and says what its headers say."""
    header = header_of(table, **changed)
    return received(header, parquet(table, header.footer()))


def refusal(read: Callable[[], Any]) -> str:
    with pytest.raises(SegmentError) as raised:
        read()
    reason = raised.value.reason
    assert reason.startswith("segment at t[3]@5"), reason
    return reason.removeprefix("segment at t[3]@5").removeprefix(": ").removeprefix(" ")


NUMBERS = pa.table({"n": pa.array([10, 11, 12], pa.int64()), "s": ["a", None, "c"]})


@cache
def numbers() -> tuple[SegmentHeader, bytes]:
    return build(
        NUMBERS,
        keys=[b"k", None, b""],
        headers=[[("h", b"1"), ("h", None)], None, []],
        times=[7, -8, 9],
    )


# --- what comes out -------------------------------------------------------------------------------


def test_a_segment_says_where_it_is_and_what_it_holds() -> None:
    header, value = numbers()
    segment = received(header, value)
    assert (segment.topic, segment.partition, segment.kafka_offset) == ("t", 3, 5)
    assert (segment.rows, segment.id) == (3, "p-0")
    assert segment.offset == 6 * 2**20 - 3
    assert repr(segment) == f"<Segment t[3]@5 p-0: 3 rows, {len(value)} bytes>"


def test_its_bytes_are_not_copied() -> None:
    header, value = numbers()
    assert received(header, value).bytes.obj is value


def test_its_hash_is_that_of_the_bytes() -> None:
    header, _ = numbers()
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert received(header, b"abc").sha256() == expected


def test_records_come_with_their_key_time_and_headers() -> None:
    assert list(received(*numbers()).records()) == [
        (0, {"n": 10, "s": "a"}, b"k", 7, [("h", b"1"), ("h", None)]),
        (1, {"n": 11, "s": None}, None, -8, None),
        (2, {"n": 12, "s": "c"}, b"", 9, []),
    ]


@pytest.mark.parametrize("start", [0, 1, 2, 3, 4])
def test_records_from_a_row_on(start: int) -> None:
    segment = received(*numbers())
    assert [(record.row, record.value["n"]) for record in segment.records(start)] == [
        (row, 10 + row) for row in range(start, 3)
    ]


def test_records_of_many_slices_keep_their_numbers() -> None:
    """More rows than are turned into objects at once, begun in the middle of a slice."""
    rows = 5000
    segment = received(*build(pa.table({"n": range(rows)}), keys=[b"%d" % i for i in range(rows)]))
    records = [(record.row, record.value["n"], record.key) for record in segment.records(1500)]
    assert records == [(i, i, b"%d" % i) for i in range(1500, rows)]


def test_without_members_a_record_has_the_segments_time_and_nothing_else() -> None:
    segment = received(*build(NUMBERS, members=(), times=[7, -8, 9]))
    assert [record[2:] for record in segment.records()] == [(None, 9, None)] * 3
    assert segment.schema.names == ["n", "s"]


@pytest.mark.parametrize(
    "members", [c for n in range(1, 5) for c in itertools.combinations(ALL, n)], ids=",".join
)
def test_every_choice_of_members_is_read(members: tuple[str, ...]) -> None:
    header, value = build(
        NUMBERS,
        members=members,
        keys=[b"k"] * 3,
        headers=[[("h", b"1")]] * 3,
        times=[7, 8, 9],
    )
    for row, record in enumerate(received(header, value).records()):
        assert record.value["n"] == 10 + row
        assert record.key == (b"k" if "key" in members else None)
        assert record.headers == ([("h", b"1")] if "headers" in members else None)
        assert record.timestamp == (7 + row if "timestamp" in members else 9)


def test_a_table_has_all_columns_and_rows() -> None:
    table = received(*numbers()).to_table()
    assert table.select(["n", "s"]).to_pydict() == NUMBERS.to_pydict()
    assert table.column("_kafka").combine_chunks().field("row").to_pylist() == [0, 1, 2]
    assert set(table.column("_kafka").combine_chunks().field("segment").to_pylist()) == {"p-0"}


def test_a_table_of_some_columns() -> None:
    assert received(*numbers()).to_table(["s"]).to_pydict() == {"s": ["a", None, "c"]}


def test_a_member_of_the_kafka_column_alone() -> None:
    rows = received(*numbers()).to_table(["_kafka.key"]).column("_kafka").to_pylist()
    assert rows == [{"key": b"k"}, {"key": None}, {"key": b""}]


def test_a_file_of_several_row_groups_is_one_segment() -> None:
    table = pa.table({"n": range(10)})
    header = header_of(table)
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, write_page_checksum=True) as writer:
        writer.write_table(table, row_group_size=3)
        writer.add_key_value_metadata(header.footer())
    segment = received(header, out.getvalue())
    assert [record.value["n"] for record in segment.records(2)] == list(range(2, 10))


def test_text_that_repeats_is_one_object_for_many_records() -> None:
    """Each row group has values of its own."""
    groups = [["a", "b", None, "ö"] * 1500, [None, "c", "a", "a"] * 1500]
    unique = [f"{n}" for n in range(6000)]
    tables = [
        pa.table(
            {
                "repeats": group,
                "bytes": [None if text is None else text.encode() for text in group],
                "unique": unique,
                "listed": [[text] for text in group],
            },
            pa.schema(
                [
                    ("repeats", pa.string()),
                    ("bytes", pa.binary()),
                    ("unique", pa.string()),
                    ("listed", pa.list_(pa.string())),
                ]
            ),
        )
        for group in groups
    ]
    table = pa.concat_tables(tables)
    header = header_of(table)
    value = parquet(table, header.footer(), row_group_size=6000)
    values = [record.value for record in received(header, value).records(1)]
    assert [row["unique"] for row in values] == (unique * 2)[1:]
    texts = [text for group in groups for text in group][1:]
    assert [row["repeats"] for row in values] == texts
    assert [row["bytes"] and row["bytes"].decode() for row in values] == texts
    assert [row["listed"] for row in values] == [[text] for text in texts]
    assert len({id(row["repeats"]) for row in values[:5000]}) == 4


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


LISTED = required("l", pa.list_(pa.string()))
MAPPED = required("m", pa.map_(pa.string(), pa.int32()))
UNDER_A_NULL: dict[str, tuple[pa.DataType, Any]] = {
    "a record of a record of lists": (
        pa.struct([required("r", pa.struct([LISTED]))]),
        {"r": {"l": ["a", None]}},
    ),
    "a record of a record of maps": (
        pa.struct([required("r", pa.struct([MAPPED]))]),
        {"r": {"m": {"k": 1}}},
    ),
    "a list of such records": (
        pa.list_(pa.struct([required("r", pa.struct([LISTED]))])),
        [None, {"r": {"l": ["a"]}}],
    ),
    "a list of two required numbers": (pa.list_(required("item", pa.int32()), 2), [1, 2]),
    "a list of two required texts": (pa.list_(required("item", pa.string()), 2), ["a", "b"]),
    **{
        f"a list of two required {narrow}": (
            pa.list_(required("item", narrow), 2),
            [decimal.Decimal("1.25"), decimal.Decimal("-0.25")],
        )
        for narrow in storable("decimal32", 9, 2)
    },
    "a list of two required records": (
        pa.list_(required("item", pa.struct([LISTED, ("n", pa.int8())])), 2),
        [{"l": ["a"], "n": 1}, {"l": [], "n": None}],
    ),
    "a list of two required lists of two": (
        pa.list_(required("item", pa.list_(required("item", pa.int32()), 2)), 2),
        [[1, 2], [3, 4]],
    ),
}


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("kind", UNDER_A_NULL)
def test_required_values_under_a_null_are_read(kind: str, repeats: bool) -> None:
    """Arrow's reader puts nulls there; text that repeats is read as dictionaries and expanded."""
    arrow, value = UNDER_A_NULL[kind]
    text = pa.array(["a" if repeats else f"{row}" for row in range(200)])
    column = pa.array([value, None] * 100, arrow)
    table = pa.table({"t": text, "c": column})
    segment = received(*build(table))
    assert [record.value for record in segment.records()] == [
        {"t": text[row].as_py(), "c": None if row % 2 else value} for row in range(200)
    ]
    read = segment.to_table()
    read.validate(full=True)
    assert to_pylist(read["c"]) == [value, None] * 100
    assert read.cast(read.schema).equals(read)


def test_a_full_segment_starts_where_its_offset_does() -> None:
    header = numbers()[0]._replace(rows=1 << 20)
    assert received(header, b"").offset == 5 << 20


# --- what is refused before decoding --------------------------------------------------------------


def test_making_a_segment_reads_its_headers_only() -> None:
    received(numbers()[0], b"not Parquet")


def test_headers_that_cannot_be_read_name_the_place() -> None:
    header, value = numbers()
    pairs = [("columnar.version", b"2") if k == "columnar.version" else (k, v)
             for k, v in headers_of(header, value)]  # fmt: skip

    def read() -> None:
        Segment(topic="t", partition=3, offset=5, headers=pairs, value=value)

    assert refusal(read) == (
        "columnar.version is 2; this release of columnar-kafka reads version 1: upgrade it"
    )


@pytest.mark.parametrize("value", [b"", b"PAR1", b"{}", b"PAR1PAR1", b"\x00" * 100])
def test_what_is_not_parquet_is_refused(value: bytes) -> None:
    segment = received(numbers()[0], value)
    for read in (segment.verify, segment.to_table, lambda: next(segment.records())):
        assert refusal(read).startswith(NOT_PARQUET)


def test_no_value_at_all_is_refused() -> None:
    header, value = numbers()
    segment = Segment(
        topic="t", partition=3, offset=5, headers=headers_of(header, value), value=None
    )
    assert "cannot be decoded: TypeError" in refusal(segment.verify)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", 4),
        ("segment", "p-1"),
        ("schema", "1" * 32),
        ("timestamp_min", -9),
        ("timestamp_max", 10),
        ("schema_id", 4),
    ],
)
def test_headers_that_disagree_with_the_footer_are_refused(name: str, value: Any) -> None:
    header, data = numbers()
    key = f"columnar.{name.replace('_', '.')}"
    reason = refusal(received(header._replace(**{name: value}), data).verify)
    assert reason.startswith(f"{key} is {value} in the headers and ")


def test_a_registrys_id_in_the_file_alone_is_refused() -> None:
    header, data = build(NUMBERS)
    table = pq.read_table(io.BytesIO(data)).replace_schema_metadata(None)
    data = parquet(table, header._replace(schema_id=4).footer())
    expected = "columnar.schema.id is in the file and not in the headers"
    assert refusal(received(header, data).verify) == expected


@pytest.mark.parametrize("rows", [2, 4])
def test_a_wrong_number_of_rows_is_refused_though_headers_and_footer_agree(rows: int) -> None:
    reason = refusal(forged(NUMBERS, rows=rows).verify)
    assert reason == f"columnar.rows is {rows} in the headers and 3 in the file"


def test_zero_rows_are_refused() -> None:
    reason = refusal(forged(NUMBERS.slice(0, 0), rows=1).verify)
    assert reason == "columnar.rows is 1 in the headers and 0 in the file"


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert refusal(forged(table).verify) == "two columns of the file have the same name"


KAFKA = {
    "a number": pa.array([1, 2, 3]),
    "a list": pa.array([[1], [2], [3]]),
    "a nullable struct": pa.StructArray.from_arrays(
        [pa.array([b"k", b"k", b"k"])], fields=[pa.field("key", pa.binary())]
    ),
    "an unknown member": pa.StructArray.from_arrays([pa.array([1, 2, 3])], names=["offset"]),
    "a key of text": pa.StructArray.from_arrays([pa.array(["k", "k", "k"])], names=["key"]),
    "headers of numbers": pa.StructArray.from_arrays(
        [pa.array([[1], [2], [3]])], names=["headers"]
    ),
}


@pytest.mark.parametrize("kind", KAFKA)
def test_a_kafka_column_that_is_not_version_1s_is_refused(kind: str) -> None:
    nullable = kind == "a nullable struct"
    table = NUMBERS.append_column(pa.field("_kafka", KAFKA[kind].type, nullable), KAFKA[kind])
    segment = forged(table)
    for read in (segment.verify, segment.to_table, lambda: next(segment.records())):
        kind_read = str(KAFKA[kind].type).replace("item", "element")  # as Parquet calls them
        assert refusal(read) == (f"column _kafka is {kind_read}, which version 1 does not allow")


@pytest.mark.parametrize("name", ["_kafka.offset", "_kafka."])
def test_a_column_named_as_a_member_of_it_is_refused(name: str) -> None:
    segment = forged(NUMBERS.append_column(name, pa.array([1, 2, 3])))
    for read in (segment.verify, segment.to_table, lambda: next(segment.records())):
        assert refusal(read) == f"column {name!r} is named as a member of _kafka"


def test_members_in_another_order_are_not_version_1s() -> None:
    fields = [pa.field("key", pa.binary()), pa.field("row", pa.int32(), nullable=False)]
    column = pa.StructArray.from_arrays([pa.nulls(3, pa.binary()), pa.array([0, 1, 2], pa.int32())],
                                        fields=fields)  # fmt: skip
    table = NUMBERS.append_column(pa.field("_kafka", column.type, nullable=False), column)
    assert refusal(forged(table).verify).endswith(", which version 1 does not allow")


def foreign(column: pa.Array) -> Segment:
    """A segment of somebody else's, with a column `c` of any type and some fingerprint."""
    table = pa.table({"n": range(len(column)), "c": column})
    header = SegmentHeader(
        rows=len(column), segment="p-0", schema="0" * 32, timestamp_min=0, timestamp_max=9
    )
    return received(header, parquet(table, header.footer()))


TEXTS = pa.dictionary(pa.int32(), pa.string())
NOT_TAKEN: dict[str, tuple[pa.DataType, Any, pa.DataType]] = {
    "c": (pa.null(), None, pa.null()),
    "c.a.b": (pa.struct([("a", pa.struct([("b", pa.null())]))]), {"a": {"b": None}}, pa.null()),
    "c.item": (pa.list_(pa.null()), [None], pa.null()),
    "c.item.item": (pa.list_(pa.list_(pa.null(), 1)), [[None]], pa.null()),
    "c.value.x": (pa.map_(pa.string(), pa.struct([("x", TEXTS)])), [("k", {"x": "a"})], TEXTS),
    "c.key": (pa.map_(pa.string_view(), pa.int8()), [("k", 1)], pa.string_view()),
    **{
        f"c.f{number}": (pa.struct([(f"f{number}", kind)]), {f"f{number}": value}, kind)
        for number, (kind, value) in enumerate(
            [
                (TEXTS, "a"),
                (pa.string_view(), "a"),
                (pa.binary_view(), b"a"),
                (pa.list_view(pa.int8()), [1]),
                (pa.large_list_view(pa.int8()), [1]),
            ]
        )
    },
}


@pytest.mark.parametrize("path", NOT_TAKEN)
def test_a_type_that_version_1_does_not_have_is_named(path: str) -> None:
    kind, value, inner = NOT_TAKEN[path]
    try:
        segment = foreign(pa.array([value, value], kind))
    except pa.ArrowNotImplementedError as error:  # an older pyarrow
        pytest.skip(str(error))
    shown = str(inner).replace("item:", "element:")  # as Parquet calls them
    for read in (
        segment.verify,
        segment.to_table,
        lambda: next(segment.records()),
        lambda: segment.statistics(["n"]),
    ):
        assert refusal(read) == (
            f"field {path!r} has type {shown}, which no segment of version 1 has: its producer has "
            "to store another type; with fetch.raw.bytes=true the consumer hands out the file as "
            "it is"
        )


@needs("json_")
def test_an_extension_type_is_named() -> None:
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}"]))
    said = "field 'c' has type extension<arrow.json>, which no segment of version 1 has"
    assert refusal(foreign(column).to_table).startswith(said)


def test_a_list_of_fixed_size_that_arrow_cannot_read_is_named() -> None:
    """Required, in a record that is null: no producer of ours takes it."""
    pair = pa.field("l", pa.list_(pa.int8(), 2), nullable=False)
    kind = pa.struct([("r", pa.struct([pair]))])
    segment = forged(pa.table({"c": pa.array([{"r": {"l": [1, 2]}}, {"r": None}], kind)}))
    for read in (segment.to_table, lambda: next(segment.records())):
        reason = refusal(read)
        assert reason.startswith("cannot be decoded: ArrowInvalid: Expected all lists to be of siz")
        assert reason.endswith(
            "; field 'c.r.l' is a fixed-size list that cannot be null, inside a record: "
            "make it nullable, or a list"
        )


NO_DICT = {
    "field 'c.item.a' occurs 2 times": pa.ListArray.from_arrays(
        [0, 1, 1], pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    ),
    "field 'c.m' has map keys of type struct<k: int8>": pa.array(
        [{"m": [({"k": 1}, 1)]}, None],
        pa.struct([("m", pa.map_(pa.struct([("k", pa.int8())]), pa.int8()))]),
    ),
}


@pytest.mark.parametrize("what", NO_DICT)
def test_what_no_dict_can_hold_is_read_as_columns(what: str) -> None:
    table = pa.table({"c": NO_DICT[what]})
    segment = forged(table)
    assert refusal(lambda: next(segment.records())) == (
        f"{what}; a Python dict cannot hold that: read the segment as columns, with to_table or "
        "consume_arrow"
    )
    assert segment.to_table()["c"].equals(table["c"].cast(segment.schema.field("c").type))


# --- what is refused while decoding ---------------------------------------------------------------


def test_text_that_is_not_utf8_is_found_before_any_record_is_handed_out() -> None:
    """It is the last of 3,000 rows, far behind those that are turned into objects first."""
    text = pa.array([b"ok"] * 2999 + [b"\xff"]).view(pa.string())
    segment = received(*build(pa.table({"s": text})))
    segment.verify()
    records = segment.records()
    assert "Invalid UTF8 sequence at string index" in refusal(lambda: next(records))
    assert "Invalid UTF8" in refusal(segment.to_table)


def test_nested_text_that_is_not_utf8_is_found_too() -> None:
    text = pa.array([[b"ok", b"\xc3"]]).view(pa.list_(pa.string()))
    assert "Invalid UTF8" in refusal(received(*build(pa.table({"l": text}))).to_table)


def test_a_header_key_that_is_not_utf8_is_found_too() -> None:
    key = pa.array([b"\xff"]).view(pa.string())
    struct = pa.StructArray.from_arrays([key, pa.array([b"1"])], names=["key", "value"])
    item = pa.field("item", struct.type, nullable=False)
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), struct, type=pa.list_(item))
    column = pa.StructArray.from_arrays([headers], fields=[pa.field("headers", headers.type)])
    table = pa.table({"n": [1]}).append_column(
        pa.field("_kafka", column.type, nullable=False), column
    )
    segment = forged(table)
    assert "Invalid UTF8" in refusal(lambda: next(segment.records()))


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_map_with_a_key_twice_is_found_before_any_record_is_handed_out(is_nested: bool) -> None:
    """It is the last of 10,000 rows. As columns they can be had."""
    maps = pa.array([[("k", 1)]] * 9999 + [[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    if is_nested:
        maps = pa.StructArray.from_arrays([maps], names=["m"])
    segment = received(*build(pa.table({"m": maps})))
    records = segment.records()
    assert "key" in refusal(lambda: next(records))
    assert segment.to_table().num_rows == 10_000


@pytest.mark.parametrize("kind", [pa.time32("ms"), pa.time64("us"), pa.time64("ns")], ids=str)
def test_a_time_of_day_outside_the_day_is_refused(kind: pa.DataType) -> None:
    """Python would show it as another time."""
    storage = pa.int32() if kind.bit_width == 32 else pa.int64()
    table = pa.table({"t": pa.array([-5], storage).view(kind)})
    assert "is not within the acceptable range" in refusal(received(*build(table)).to_table)


NO_OBJECT = {
    pa.timestamp("ms", "UTC"): 253_402_300_800_000,  # the year 10000
    pa.timestamp("us"): -62_135_596_800_000_001,  # before the year 1
    pa.date32(): 3_000_000,
    pa.duration("s"): 1 << 62,
    pa.timestamp("ns", "UTC"): 1,
    pa.time64("ns"): 1,
    pa.duration("ns"): 1,
}


@pytest.mark.parametrize("kind", NO_OBJECT, ids=str)
def test_a_time_that_python_cannot_hold_exactly_is_its_number(kind: pa.DataType) -> None:
    """As `produce` takes a number for such a field: the record is neither skipped nor changed."""
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    table = pa.table({"t": pa.array([NO_OBJECT[kind]], storage).view(kind)})
    [record] = received(*build(table)).records()
    assert record.value == {"t": NO_OBJECT[kind]}


# --- damage ---------------------------------------------------------------------------------------


def small() -> tuple[SegmentHeader, bytes]:
    """One of each kind of column, in few bytes."""
    rows = 4
    table = pa.table(
        {
            "i": pa.array(range(rows), pa.int64()),
            "s": ["UA", None, "AA", "UA"],
            "at": pa.array(range(rows), pa.timestamp("us")),
            "l": pa.array([[1, None], None, [], [2]], pa.list_(pa.int32())),
        }
    )
    return build(table, members=("key", "headers"), keys=[b"k"] * rows,
                 headers=[[("h", b"x")]] * rows)  # fmt: skip


def flips(data: bytes) -> list[tuple[int, int]]:
    return [(at, bit) for at in range(len(data)) for bit in range(8)]


def flipped(data: bytes, at: int, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[at] ^= 1 << bit
    return bytes(damaged)


@pytest.mark.long
def test_every_flipped_bit_is_found_by_the_checksum() -> None:
    header, data = small()
    crc32 = zlib.crc32(data)
    places = flips(data)
    assert len(places) > 10_000
    for at, bit in places[:: 1 if is_long() else 7]:
        segment = received(header, flipped(data, at, bit), crc32)
        with pytest.raises(SegmentError, match="the bytes are damaged"):
            segment.verify()


def test_every_truncation_is_found_by_the_checksum() -> None:
    header, data = small()
    crc32 = zlib.crc32(data)
    for length in range(len(data)):
        with pytest.raises(SegmentError, match="the bytes are damaged"):
            received(header, data[:length], crc32).verify()


def test_every_truncation_with_an_honest_checksum_is_no_parquet_file() -> None:
    header, data = small()
    for length in range(0, len(data), 7):
        with pytest.raises(SegmentError):
            received(header, data[:length]).verify()


@pytest.mark.long
def test_flipped_bits_with_an_honest_checksum_are_found_or_change_nothing() -> None:
    """Damage before the checksum was taken: pages have their own; headers and footer agree."""
    header, data = small()
    expected = list(received(header, data).records())
    refused = harmless = 0
    # The long form has at least one bit of each byte. Both have all eight bits alike.
    for at, bit in flips(data)[:: 5 if is_long() else 19]:
        try:
            records = list(received(header, flipped(data, at, bit)).records())
        except SegmentError:
            refused += 1
        else:
            harmless += 1
            assert records == expected, (at, bit)
    # Older versions of pyarrow write more that nobody reads.
    assert refused > (2 if VERSION >= (23, 0) else 1) * harmless > 0


def test_garbage_between_parquets_marks_raises_nothing_but_segment_errors() -> None:
    header, data = numbers()
    for seed in range(200):
        noise = zlib.compress(b"%d" % seed) * 4
        for value in (b"PAR1" + noise + b"PAR1", data[:-40] + noise + data[-8:], noise + data):
            segment = received(header, value)
            try:
                list(segment.records())
            except SegmentError:
                continue
            assert value.endswith(data)  # bytes before a file change nothing but its offsets
