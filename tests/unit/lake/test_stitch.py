"""Stitching: the new file decodes as the inputs one after another, or there is none."""

from __future__ import annotations

import datetime as dt
import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import examples

from columnar_kafka import native
from columnar_kafka.columns.older_arrow import HAS_PAGE_ROWS, VERSION
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.stitching import parquet_footer
from columnar_kafka.lake.stitching import stitch as stitch_module
from columnar_kafka.lake.stitching.parquet_footer import Footer, _encode_key_value, read_footer
from columnar_kafka.lake.stitching.row_groups import StitchError
from columnar_kafka.lake.stitching.stitch import MAX_ROW_GROUPS, Stitched, Stitcher, stitch
from columnar_kafka.segment.parquet import thrift
from columnar_kafka.segment.parquet.thrift import BINARY, I64, LIST, STRUCT, Cursor

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

T = TypeVar("T")

GOLDEN = Path(__file__).parents[2] / "golden"
FLAT = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "carrier": pa.array([("UA", "AA", None)[i % 3] for i in range(1000)]),
        "delay": pa.array([None if i % 7 == 0 else i / 3 for i in range(1000)]),
        "at": pa.array(
            [dt.datetime(2013, 1, 1, i % 24, tzinfo=dt.timezone.utc) for i in range(1000)]
        ),
        "nothing": pa.nulls(1000, pa.int32()),
    }
)
NESTED = pa.table(
    {
        "tags": pa.array([[], None, ["a", None], ["b"]] * 50),
        "point": pa.array([{"x": 1, "y": [{"z": b"q"}]}, None, {"x": None, "y": None}, {}] * 50),
        "map": pa.array(
            [[("k", 1)], None, [], [("l", None)]] * 50, pa.map_(pa.string(), pa.int32())
        ),
    }
)


def has_bloom_filters() -> bool:
    """Say whether pyarrow writes bloom filters: since 24."""
    try:
        parquet(FLAT, bloom_filter_options={"id": True})
    except TypeError:
        return VERSION >= (24, 0)
    return True


def parquet(table: pa.Table, metadata: dict[str, str] | None = None, **options: Any) -> bytes:
    options = {"compression": "zstd", "write_page_checksum": True} | options
    rows = options.pop("row_group_size", 1 << 20)
    out = io.BytesIO()
    with pq.ParquetWriter(out, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=rows)
        writer.add_key_value_metadata(metadata or {})
    return out.getvalue()


HAS_BLOOM_FILTERS = has_bloom_filters()
BLOOM_FILTER = {"bloom_filter_options": {"id": True}} if HAS_BLOOM_FILTERS else {}


def stitched(*files: bytes, **metadata: str) -> bytes:
    out = io.BytesIO()
    stitch(files, out, metadata=metadata)
    return out.getvalue()


def read(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data), page_checksum_verification=True)


def file_metadata(data: bytes) -> pq.FileMetaData:
    return pq.read_metadata(io.BytesIO(data))


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def with_footer(data: bytes, footer: bytes) -> bytes:
    body = data[: len(data) - 8 - len(footer_of(data))]
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


Fields = dict[int, tuple[int, bytes]]


def fields_of(encoded: bytes) -> Fields:
    """Take a struct apart: encoded values by field id."""
    cursor = Cursor(encoded)
    return {fid: (kind, cursor.span(kind)) for fid, kind in cursor.fields({})}


def encoded(fields: Fields) -> bytes:
    return thrift.encode_struct((fid, *fields[fid]) for fid in sorted(fields))


def elements_of(encoded_list: bytes) -> list[bytes]:
    cursor = Cursor(encoded_list)
    kind, count = cursor.list_head()
    return [cursor.span(kind) for _ in range(count)]


def edited(data: bytes, *, struct: str, **changes: tuple[int, bytes] | None) -> bytes:
    """Set (or, with None, remove) fields `f<id>` of the file, its row groups or their columns."""
    change = {int(name[1:]): value for name, value in changes.items()}

    def apply(fields: Fields, name: str) -> bytes:
        if name == struct:
            merged = fields | {fid: value for fid, value in change.items() if value}
            fields = {fid: merged[fid] for fid in merged if change.get(fid, 1) is not None}
        return encoded(fields)

    def column(data: bytes) -> bytes:
        chunk = fields_of(data)
        if 3 in chunk:
            chunk[3] = (STRUCT, apply(fields_of(chunk[3][1]), "meta"))
        return apply(chunk, "chunk")

    def group(data: bytes) -> bytes:
        fields = fields_of(data)
        columns = [column(one) for one in elements_of(fields[1][1])]
        fields[1] = (LIST, thrift.encode_list(STRUCT, columns))
        return apply(fields, "group")

    fields = fields_of(footer_of(data))
    groups = [group(one) for one in elements_of(fields[4][1])]
    fields[4] = (LIST, thrift.encode_list(STRUCT, groups))
    return with_footer(data, apply(fields, "file"))


def column_fields(data: bytes, index: int = 0, *, group: int = 0) -> tuple[Fields, Fields]:
    """A column's chunk and metadata, as fields."""
    groups = elements_of(fields_of(footer_of(data))[4][1])
    chunk = fields_of(elements_of(fields_of(groups[group])[1][1])[index])
    return chunk, fields_of(chunk[3][1])


@pytest.mark.parametrize("table", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row_group_size": 77},
        {"use_dictionary": False},
        {"write_statistics": False},
        {"data_page_version": "2.0"},
        {"version": "1.0", "compression": "none"},
        {"write_page_index": True},
        *([{"max_rows_per_page": 20, "write_page_index": True}] if HAS_PAGE_ROWS else []),
        {"store_schema": False},
    ],
    ids=str,
)
def test_it_decodes_as_the_inputs_in_order(table: pa.Table, options: dict[str, Any]) -> None:
    parts = [table.slice(0, 90), table.slice(90, 1), table.slice(91)]
    data = stitched(*(parquet(part, **options) for part in parts))
    whole = read(stitched(parquet(table, **options)))
    assert read(data).equals(whole)
    assert pl.read_parquet(data).equals(pl.read_parquet(parquet(table, **options)))


def test_what_is_returned_is_what_the_file_has() -> None:
    out = io.BytesIO()
    result = stitch([parquet(FLAT, row_group_size=400)] * 2, out, metadata={})
    assert result == Stitched(rows=2000, nbytes=len(out.getvalue()), row_groups=6, files=2)
    footer = file_metadata(out.getvalue())
    assert (footer.num_rows, footer.num_row_groups) == (2000, 6)
    assert footer.created_by == file_metadata(parquet(FLAT)).created_by


def test_what_was_stitched_can_be_stitched_again() -> None:
    once = stitched(parquet(FLAT), parquet(FLAT))
    assert read(stitched(once, once)).equals(pa.concat_tables([FLAT] * 4))


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_is_taken(buffer: Any) -> None:
    assert read(stitched(buffer(parquet(FLAT)))).equals(FLAT)


def test_the_body_bytes_are_the_inputs_own() -> None:
    data = parquet(FLAT)
    body = data[4 : -8 - len(footer_of(data))]
    assert stitched(data, data).startswith(b"PAR1" + body + body)


def test_statistics_stay_with_their_row_group() -> None:
    data = stitched(parquet(FLAT.slice(0, 100)), parquet(FLAT.slice(100, 200)))
    for group, (low, high) in enumerate([(0, 99), (100, 299)]):
        statistics = file_metadata(data).row_group(group).column(0).statistics
        assert (statistics.min, statistics.max, statistics.null_count) == (low, high, 0)
    rows = pq.read_table(io.BytesIO(data), filters=[("id", ">", 250)])
    assert rows.column("id").to_pylist() == list(range(251, 300))


def test_page_checksums_still_find_a_flipped_bit() -> None:
    data = bytearray(stitched(parquet(FLAT), parquet(FLAT)))
    column = file_metadata(bytes(data)).row_group(1).column(2)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    with pytest.raises(OSError, match=r"CRC|checksum"):
        read(bytes(data))


@pytest.mark.skipif(
    not HAS_BLOOM_FILTERS, reason=f"pyarrow {pa.__version__} writes no bloom filter"
)
def test_bloom_filters_move_along() -> None:
    parts = [FLAT.slice(0, 100), FLAT.slice(100, 100)]
    files = [parquet(part, bloom_filter_options={"id": True, "carrier": True}) for part in parts]
    data = stitched(*files)
    assert read(data).equals(pa.concat_tables(parts))
    for group, file in enumerate(files):
        here = Cursor(column_fields(data, group=group)[1][14][1]).integer()
        there = Cursor(column_fields(file)[1][14][1]).integer()
        assert here - there == group * (len(files[0]) - 12 - len(footer_of(files[0])))
        assert data[here : here + 1000][:100] == file[there : there + 100]


def test_page_indexes_are_no_longer_referred_to() -> None:
    column = file_metadata(stitched(parquet(FLAT, write_page_index=True))).row_group(0).column(0)
    assert not column.has_offset_index
    assert not column.has_column_index


def test_inputs_without_rows_add_nothing() -> None:
    empty = parquet(FLAT.slice(0, 0))
    assert stitched(empty, parquet(FLAT), empty) == stitched(parquet(FLAT))
    out = io.BytesIO()
    assert stitch([empty, empty], out, metadata={}).row_groups == 0
    assert read(out.getvalue()).equals(FLAT.slice(0, 0))


def test_row_groups_without_rows_are_left_out() -> None:
    out = io.BytesIO()
    with pq.ParquetWriter(out, FLAT.schema) as writer:
        for table in (FLAT.slice(0, 0), FLAT, FLAT.slice(0, 0)):
            writer.write_table(table)
    assert file_metadata(out.getvalue()).num_row_groups == 3
    data = stitched(out.getvalue())
    assert file_metadata(data).num_row_groups == 1
    assert read(data).equals(FLAT)


def test_a_file_without_columns_keeps_its_rows() -> None:
    nothing = FLAT.select([])
    data = parquet(nothing)
    assert file_metadata(stitched(data, data)).num_rows == 2 * file_metadata(data).num_rows


def test_metadata_is_the_callers_and_the_arrow_schema() -> None:
    data = stitched(parquet(FLAT, {"columnar.segment": "a"}), parquet(FLAT, {"b": "c"}), x="ü")
    metadata = file_metadata(data).metadata
    assert set(metadata) == {b"ARROW:schema", b"x"}
    assert metadata[b"x"] == "ü".encode()
    with pytest.raises(ValueError, match="ARROW:schema"):
        stitched(parquet(FLAT), **{"ARROW:schema": "x"})


def test_a_duration_stays_a_duration() -> None:
    table = pa.table({"d": pa.array([1, None], pa.duration("s"))})
    assert read(stitched(parquet(table), parquet(table))).schema == table.schema


def test_sorting_columns_stay() -> None:
    data = parquet(FLAT, sorting_columns=[pq.SortingColumn(0)])
    assert file_metadata(stitched(data, data)).row_group(1).sorting_columns == (
        pq.SortingColumn(0),
    )


def test_ordinals_are_numbered_anew() -> None:
    data = parquet(FLAT, row_group_size=500)
    data = edited(data, struct="group", f7=(thrift.I16, thrift.encode_integer(9)))
    groups = elements_of(fields_of(footer_of(stitched(data, data)))[4][1])
    assert [Cursor(fields_of(one)[7][1]).integer() for one in groups] == [0, 1, 2, 3]


def test_the_row_groups_position_moves_with_its_first_page() -> None:
    data = stitched(parquet(FLAT), parquet(FLAT))
    group = fields_of(elements_of(fields_of(footer_of(data))[4][1])[1])
    column = file_metadata(data).row_group(1).column(0)
    assert Cursor(group[5][1]).integer() == column.dictionary_page_offset


@pytest.mark.parametrize("zero", [b"\0", b"\x80\0"], ids=["short", "long"])
def test_a_dictionary_position_of_zero_means_none(zero: bytes) -> None:
    data = parquet(FLAT, use_dictionary=False)
    data = edited(data, struct="meta", f11=(I64, zero))
    result = outcome(data, data)
    assert isinstance(result, bytes)
    assert Cursor(column_fields(result, group=1)[1][11][1]).integer() == 0
    assert read(result).equals(pa.concat_tables([FLAT, FLAT]))


@pytest.mark.parametrize("offset", [4, 1 << 40])
def test_the_deprecated_file_offset_becomes_zero(offset: int) -> None:
    data = edited(parquet(FLAT), struct="chunk", f2=(I64, thrift.encode_integer(offset)))
    assert outcome(data) == outcome(parquet(FLAT))


@pytest.mark.parametrize("struct", ["file", "group", "chunk", "meta"])
def test_unknown_fields_that_may_hold_positions_are_left_out(struct: str) -> None:
    data = edited(parquet(FLAT), struct=struct, f18=(BINARY, thrift.encode_binary(b"unknown")))
    assert stitched(data, data) == stitched(parquet(FLAT), parquet(FLAT))


def test_unknown_fields_further_inside_are_carried_along() -> None:
    data = parquet(FLAT)
    statistics = fields_of(column_fields(data)[1][12][1]) | {
        15: (BINARY, thrift.encode_binary(b"new"))
    }
    data = edited(data, struct="meta", f12=(STRUCT, encoded(statistics)))
    kept = fields_of(column_fields(stitched(data))[1][12][1])
    assert kept == statistics


def refused(*files: bytes) -> str:
    """Return why files cannot be stitched, which each way of reading footers must say."""
    reason = outcome(*files)
    assert isinstance(reason, str)
    assert reason.startswith("StitchError: ")
    return reason


def counted(run: Callable[[], T]) -> tuple[T, int]:
    """Return a result, and how many steps it took to walk footers in Python.

    Loops within a step, and the native core's steps, are not counted.
    """
    count = 0

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == thrift.__file__

    sys.setprofile(watch)
    try:
        return run(), count
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"x" * 100, parquet(FLAT)[:-1]])
def test_what_is_no_parquet_file_is_refused(data: bytes) -> None:
    assert "not a complete Parquet file" in refused(data)


@pytest.mark.parametrize("size", [1 << 31, 0xFFFFFFFF, len(parquet(FLAT)) - 11])
def test_a_footer_longer_than_the_file_is_refused(size: int) -> None:
    assert "with a footer of" in refused(parquet(FLAT)[:-8] + size.to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_footer_that_is_too_short_is_refused(size: int) -> None:
    refused(parquet(FLAT)[:-8] + size.to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("at", [0, -4])
def test_an_encrypted_footer_is_refused(at: int) -> None:
    data = bytearray(parquet(FLAT))
    data[at : at + 4 or None] = b"PARE"
    assert "encrypted footer" in refused(bytes(data))


ONE = (STRUCT, thrift.STOP)


@pytest.mark.parametrize(
    ("struct", "changes", "reason"),
    [
        ("file", {"f8": ONE}, "encrypted file"),
        ("file", {"f9": (BINARY, thrift.encode_binary(b"key"))}, "encrypted file"),
        ("chunk", {"f8": ONE}, "encrypted column"),
        ("chunk", {"f9": (BINARY, thrift.encode_binary(b"x"))}, "encrypted column"),
        ("chunk", {"f1": (BINARY, thrift.encode_binary(b"other.parquet"))}, "file_path"),
        ("chunk", {"f3": None}, "without metadata"),
        ("chunk", {"f3": (I64, thrift.encode_integer(1))}, "field 3 has the Thrift type 6, not 12"),
        ("meta", {"f9": (I64, thrift.encode_integer(3))}, "within the file's body"),
        ("meta", {"f9": (I64, thrift.encode_integer(-5))}, "within the file's body"),
        ("meta", {"f9": (I64, thrift.encode_integer(1 << 30))}, "within the file's body"),
        ("meta", {"f9": None, "f11": None}, "within the file's body"),
        ("meta", {"f7": None}, "within the file's body"),
        ("meta", {"f7": (I64, thrift.encode_integer(-1))}, "within the file's body"),
        ("meta", {"f7": (I64, thrift.encode_integer(1 << 30))}, "within the file's body"),
        ("meta", {"f10": (I64, thrift.encode_integer(1 << 30))}, "within the file's body"),
        ("meta", {"f11": (I64, thrift.encode_integer(1 << 30))}, "within the file's body"),
        ("meta", {"f14": (I64, thrift.encode_integer(1 << 30))}, "within the file's body"),
        ("group", {"f5": (I64, thrift.encode_integer(1 << 30))}, "within the file's body"),
        ("group", {"f6": (I64, thrift.encode_integer(1 << 30))}, "within the file's body"),
        ("group", {"f3": (I64, thrift.encode_integer(7))}, "1000 rows in the footer, but 7 in"),
        ("group", {"f3": (I64, thrift.encode_integer(-1))}, "-1 rows"),
        ("group", {"f1": (LIST, b"\x0c")}, "0 columns, where the schema has 5"),
        ("file", {"f2": None}, "the schema has 0"),
        ("file", {"f3": (I64, thrift.encode_integer(5))}, "5 rows in the footer"),
    ],
)
def test_a_footer_that_cannot_be_moved_is_refused(
    struct: str, changes: dict[str, Any], reason: str
) -> None:
    assert edited(parquet(FLAT), struct=struct) == parquet(FLAT)
    if struct == "group" and "f1" in changes:
        data = parquet(FLAT)
        fields = fields_of(footer_of(data))
        group = fields_of(elements_of(fields[4][1])[0]) | {1: changes["f1"]}
        fields[4] = (LIST, thrift.encode_list(STRUCT, [encoded(group)]))
        data = with_footer(data, encoded(fields))
    else:
        data = edited(parquet(FLAT), struct=struct, **changes)
    assert reason in refused(data)


def test_another_parquet_schema_is_refused() -> None:
    renamed = FLAT.rename_columns(["id", "carrier", "delay", "at", "else"])
    for other in (renamed, NESTED):
        assert "Parquet schema differs" in refused(parquet(FLAT), parquet(other))


def test_another_arrow_schema_is_refused() -> None:
    """A duration is an int64 to Parquet: only ARROW:schema tells them apart."""
    duration, number = (pa.table({"d": pa.array([1], t)}) for t in (pa.duration("s"), pa.int64()))
    assert "ARROW:schema differs" in refused(parquet(number), parquet(duration))
    bare = parquet(duration, store_schema=False)
    assert "ARROW:schema differs" in refused(parquet(duration), bare)
    assert "ARROW:schema differs" in refused(bare, parquet(duration))


def test_an_arrow_schema_that_says_nothing_more_may_be_missing() -> None:
    """As in segments, which leave it out to be smaller."""
    types = {"a": pa.list_(pa.string()), "b": pa.timestamp("ms", "UTC"), "c": pa.int8()}
    table = pa.table({name: pa.array([None], arrow) for name, arrow in types.items()})
    with_schema, bare = parquet(table), parquet(table, store_schema=False)
    for files in ([with_schema, bare, with_schema], [bare, with_schema]):
        result = read(stitched(*files))
        assert result.schema.types == table.schema.types
        assert result.num_rows == len(files)


def test_an_arrow_schema_that_cannot_be_read_is_another_one() -> None:
    table = pa.table({"a": [1]})
    pair = (b"ARROW:schema", b"no schema")
    damaged = edited(
        parquet(table),
        struct="file",
        f5=(LIST, thrift.encode_list(STRUCT, [_encode_key_value(*pair)])),
    )
    assert "ARROW:schema differs" in refused(parquet(table), damaged)


def test_other_column_orders_are_refused() -> None:
    other = edited(parquet(FLAT), struct="file", f7=None)
    assert "column orders differ" in refused(parquet(FLAT), other)


@pytest.mark.parametrize(
    ("writer", "fits"),
    [
        (b"parquet-cpp-arrow version 27.1.0", True),
        (b"parquet-cpp-arrow version 2.0.0", False),
        (b"parquet-mr version 1.7.0", False),
        (b"", False),
    ],
)
def test_readers_judge_by_the_writer_so_writers_are_not_mixed(writer: bytes, *, fits: bool) -> None:
    other = edited(parquet(FLAT), struct="file", f6=(BINARY, thrift.encode_binary(writer)))
    if fits:
        assert read(stitched(parquet(FLAT), other)).num_rows == 2000
    else:
        assert "written by" in refused(parquet(FLAT), other)


def test_two_arrow_schemas_in_one_file_are_refused() -> None:
    pairs = elements_of(fields_of(footer_of(parquet(FLAT)))[5][1])
    twice = edited(parquet(FLAT), struct="file", f5=(LIST, thrift.encode_list(STRUCT, pairs * 2)))
    assert "ARROW:schema occurs twice" in refused(twice)


def test_more_rows_than_can_be_counted_are_refused() -> None:
    many = (I64, thrift.encode_integer(1 << 62))
    data = edited(edited(parquet(FLAT), struct="file", f3=many), struct="group", f3=many)
    assert "more than 9223372036854775807 rows" in refused(data, data)


def test_sparks_legacy_calendar_is_refused() -> None:
    assert "calendar" in refused(parquet(FLAT, {"org.apache.spark.legacyDateTime": ""}))


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x15",
        b"\x80" * 1_000_000,
        b"\x16" + b"\xff" * 1_000_000,
        b"\x1c" * 100_000,
        b"\x19" * 100_000,
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x19\xf1\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00",
        b"\x59\xfc\xff\xff\xff\xff\x0f\x00",
        b"\xa8\xff\xff\xff\xff\x0f",
        b"\xab\xff\xff\xff\xff\x0f\xcc",
        b"\xa0\x00",
        b"\x15\x02\x05\x02\x00",
    ],
    ids=lambda footer: repr(footer[:8]),
)
def test_hostile_footers_are_refused_at_once(footer: bytes) -> None:
    data = with_footer(parquet(FLAT), footer)
    _, steps = counted(lambda: refused(data))
    assert steps < 100


def test_a_footer_of_one_endless_integer_is_refused() -> None:
    data = with_footer(parquet(FLAT), b"\x15" + b"\xff" * 1_000_000)
    reason = "the footer is damaged: an integer of more than 64 bits"
    assert refused(data) == f"StitchError: {reason}"


class Failing(io.BytesIO):
    fails = False

    def write(self, data: Any) -> int:
        if self.fails:
            raise OSError("disk full")
        return super().write(data)


def test_a_refused_file_leaves_the_stitcher_as_it_was() -> None:
    out = io.BytesIO()
    stitcher = Stitcher(out)
    stitcher.append(parquet(FLAT))
    before = (stitcher.nbytes, stitcher.rows, stitcher.row_groups, stitcher.files, out.tell())
    for data in (b"junk", parquet(NESTED), parquet(FLAT)[:-20] + parquet(FLAT)[-8:]):
        with pytest.raises(StitchError):
            stitcher.append(data)
    now = (stitcher.nbytes, stitcher.rows, stitcher.row_groups, stitcher.files, out.tell())
    assert now == before
    stitcher.append(parquet(FLAT))
    stitcher.finish({})
    assert read(out.getvalue()).equals(pa.concat_tables([FLAT, FLAT]))


def test_the_size_so_far_is_the_files_but_for_schema_and_metadata() -> None:
    out = io.BytesIO()
    stitcher = Stitcher(out)
    assert stitcher.nbytes == 0
    for _ in range(50):
        stitcher.append(parquet(FLAT))
    so_far = stitcher.nbytes
    assert so_far < stitcher.finish({}).nbytes < so_far + 2000


def test_after_a_failed_write_there_is_no_file() -> None:
    out = Failing()
    stitcher = Stitcher(out)
    stitcher.append(parquet(FLAT))
    out.fails = True
    with pytest.raises(OSError, match="disk full"):
        stitcher.append(parquet(FLAT))
    out.fails = False
    for call in (lambda: stitcher.append(parquet(FLAT)), lambda: stitcher.finish({})):
        with pytest.raises(StitchError, match="write has failed"):
            call()


def test_a_file_is_finished_once() -> None:
    stitcher = Stitcher(io.BytesIO())
    with pytest.raises(StitchError, match="no file was appended"):
        stitcher.finish({})
    stitcher.append(parquet(FLAT))
    stitcher.finish({})
    for call in (lambda: stitcher.append(parquet(FLAT)), lambda: stitcher.finish({})):
        with pytest.raises(StitchError, match="finished"):
            call()


def test_a_file_has_as_many_row_groups_as_ordinals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stitch_module, "MAX_ROW_GROUPS", 3)
    assert "more than 3 row groups" in refused(*[parquet(FLAT)] * 4)
    assert "more than 3 row groups" in refused(parquet(FLAT, row_group_size=250))
    assert read(stitched(*[parquet(FLAT)] * 3)).num_rows == 3000


def test_a_footer_stays_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stitch_module, "MAX_FOOTER", 1000)
    assert "footer of more than 1000 bytes" in refused(*[parquet(FLAT)] * 4)


def outcome(*files: bytes) -> bytes | str:
    """Stitch, or return the error: the same with the native core and without."""
    with pytest.MonkeyPatch.context() as patch:
        by_core = _outcome(*files)
        patch.setattr(native, "enabled", False)
        assert _outcome(*files) == by_core
    return by_core


def _outcome(*files: bytes) -> bytes | str:
    try:
        return stitched(*files)
    except LakeError as error:
        return f"{type(error).__name__}: {error}"


def files_of_known_writers(folder: Path) -> dict[str, bytes]:
    """Return files of our own writers, of stitching, and of others, by name."""
    files = {path.name: path.read_bytes() for path in GOLDEN.glob("*.parquet")}
    options: list[dict[str, Any]] = [
        {},
        {"write_statistics": False},
        {"use_dictionary": False},
        {"write_page_index": True},
        {"row_group_size": 77},
        {"sorting_columns": [pq.SortingColumn(0)]},
        BLOOM_FILTER,
    ]
    for number, option in enumerate(options):
        files[f"pyarrow {number}"] = parquet(FLAT, **option)
    files["stitched"] = stitched(parquet(NESTED), parquet(NESTED))
    pl.DataFrame({"n": [1, None], "l": [[1], []]}).write_parquet(folder / "polars")
    duckdb.sql(f"COPY (SELECT 1 AS n, [1, 2] AS l) TO '{folder / 'duckdb'}' (FORMAT parquet)")
    return files | {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(not native.enabled, reason="the native core is off")
def test_the_core_reads_the_footers_of_known_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or stitching still works, many times slower."""
    files = files_of_known_writers(tmp_path)
    expected = {name: outcome(data, data) for name, data in files.items()}
    monkeypatch.setattr(parquet_footer, "_read", None)
    assert {name: stitched(data, data) for name, data in files.items()} == expected


@given(
    which=st.integers(0, 2), at=st.integers(4, 1 << 62), ordinal=st.integers(0, MAX_ROW_GROUPS - 1)
)
def test_footers_are_moved_alike_to_any_place(which: int, at: int, ordinal: int) -> None:
    def read() -> Footer:
        return read_footer(memoryview(SMALL[which]), at=at, ordinal=ordinal, first=None)

    by_core = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "enabled", False)
        assert read() == by_core


SCALARS = st.sampled_from(
    [
        (pa.int8(), st.integers(-128, 127)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), st.floats(allow_nan=False)),
        (pa.bool_(), st.booleans()),
        (pa.string(), st.text(st.characters(codec="utf-8"), max_size=200)),
        (pa.binary(), st.binary(max_size=200)),
        (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
        (pa.date32(), st.dates()),
        (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.timezone.utc))),
        (pa.duration("ms"), st.integers(0, 2**40).map(lambda ms: dt.timedelta(milliseconds=ms))),
    ]
)
COLUMNS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda one: (pa.list_(one[0]), st.lists(st.none() | one[1], max_size=3))),
        st.tuples(inner, inner).map(
            lambda two: (
                pa.struct([("a", two[0][0]), ("b", two[1][0])]),
                st.fixed_dictionaries({"a": st.none() | two[0][1], "b": st.none() | two[1][1]}),
            )
        ),
    ),
    max_leaves=4,
)


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    """Draw tables of one random schema."""
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=4))
    schema = pa.schema([(f"c{i}", kind) for i, (kind, _) in enumerate(columns)])
    row = st.fixed_dictionaries({f"c{i}": st.none() | one for i, (_, one) in enumerate(columns)})
    parts = draw(st.lists(st.lists(row, max_size=8), min_size=1, max_size=4))
    return [pa.Table.from_pylist(rows, schema) for rows in parts]


OPTIONS = st.fixed_dictionaries(
    {
        "use_dictionary": st.booleans(),
        "write_statistics": st.booleans(),
        "write_page_index": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "row_group_size": st.sampled_from([2, 1000]),
    }
)


@given(parts=tables(), options=OPTIONS)
def test_any_tables_come_back(parts: list[pa.Table], options: dict[str, Any]) -> None:
    data = outcome(*(parquet(part, **options) for part in parts))
    assert isinstance(data, bytes)
    assert read(data).equals(pa.concat_tables(parts))


MUTATIONS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from("sdi"), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)
SMALL = [
    parquet(FLAT.slice(0, 20), write_page_index=True, **BLOOM_FILTER),
    parquet(FLAT.slice(0, 20)),
    parquet(NESTED.slice(0, 20)),
]


@settings(max_examples=examples(500))
@given(which=st.integers(0, 2), mutations=MUTATIONS, first=st.booleans())
@example(which=0, mutations=[(0.763671875, "s", 47)], first=False)  # a name that is not UTF-8
def test_a_damaged_footer_is_refused_or_left_to_the_reader(
    *, which: int, mutations: list[tuple[float, str, int]], first: bool
) -> None:
    footer = bytearray(footer_of(SMALL[which]))
    for where, what, value in mutations:
        at = int(where * len(footer))
        footer[at : at + (what != "i")] = b"" if what == "d" else bytes([value])
    damaged = with_footer(SMALL[which], bytes(footer))
    files = [damaged] if first else [SMALL[which], damaged]
    data, steps = counted(lambda: outcome(*files))
    assert steps < 10 * sum(map(len, files))
    if isinstance(data, bytes):
        with suppress(OSError, pa.ArrowException, UnicodeDecodeError):
            pq.read_metadata(io.BytesIO(data))


@settings(max_examples=examples(500))
@given(st.binary(max_size=200))
def test_random_bytes_are_walked_or_refused(data: bytes) -> None:
    cursor = Cursor(data)
    try:
        cursor.skip(STRUCT)
    except (thrift.ThriftError, IndexError):
        return
    assert data[cursor.pos - 1 : cursor.pos] == b"\0"  # a struct's last byte


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_are_encoded_as_they_are_decoded(value: int) -> None:
    data = thrift.encode_integer(value)
    assert Cursor(data).integer() == value


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x02\x85\x01a\x02\x01b\x02", thrift.MAP),
        (b"\x00", thrift.MAP),
        (b"\x31\x01\x02\x01", thrift.SET),
        (b"\x01\x02\x03\x04\x05\x06\x07\x08", thrift.DOUBLE),
        (bytes(16), thrift.UUID),
        (b"\x05", thrift.I8),
        (b"\x11\x12\x17" + bytes(8) + b"\x05\x60\x02\x00", STRUCT),
        (b"\x29\x15\x01\x08", LIST),
    ],
)
def test_values_of_all_kinds_are_passed_over(data: bytes, kind: int) -> None:
    cursor = Cursor(data)
    cursor.skip(kind)
    assert cursor.pos == len(data)


def test_a_column_without_a_field_id_is_refused() -> None:
    stitcher = Stitcher(io.BytesIO(), field_ids={("n",): 1})
    stitcher.append(parquet(pa.table({"n": [1], "m": [2]})))
    with pytest.raises(LakeError, match="column 'm' has no field id in the table"):
        stitcher.finish({})


def test_the_tables_field_ids_replace_those_of_the_segments() -> None:
    theirs = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "7"})])
    out = io.BytesIO()
    stitcher = Stitcher(out, field_ids={("n",): 1})
    stitcher.append(parquet(pa.table({"n": [1]}, schema=theirs)))
    stitcher.finish({})
    file = pq.ParquetFile(out)
    assert file.schema_arrow.field("n").metadata[b"PARQUET:field_id"] == b"1"
    assert file.read()["n"].to_pylist() == [1]
