"""Pages are walked before Arrow decodes: what claims too much is refused, by the limit it hits."""

from __future__ import annotations

import copy
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hostile
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import MIB, File, Sent, changed, emit, field, sent
from support import examples

from columnar_kafka import Segment, SegmentError
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.config import ReadOptions
from columnar_kafka.lake.stitching.stitch import stitch
from columnar_kafka.segment.decoder import InlineDecoder
from columnar_kafka.segment.parquet import metadata
from columnar_kafka.segment.parquet.page_checks import walk
from columnar_kafka.segment.parquet.thrift import BINARY, FALSE, I32, STRUCT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def segment(of: Sent, **limits: Any) -> Segment:
    decoder = InlineDecoder(ReadOptions(**limits))
    return Segment(
        topic="t", partition=3, offset=5, headers=of.headers(), value=of.value, decoder=decoder
    )


def refusal(of: Sent, **limits: Any) -> str:
    with pytest.raises(SegmentError) as raised:
        segment(of, **limits).to_table()
    assert raised.value.reason.startswith("segment at t[3]@5: ")
    return raised.value.reason.removeprefix("segment at t[3]@5: ")


# --- bombs ----------------------------------------------------------------------------------------

SAYS = {
    "dictionary": "decoded up to column s, the segment has 10485",
    "nested_dictionary": "decoded up to column l, the segment has 10485",
    "elements": "column l.list.element has 200000000 values; columnar.max.values is 16777216",
    "page_of_a_gib": "decoded up to column s, the segment has 21474",
    "lengths_of_a_gib": "decoded up to column s, the segment has 21474",
    "prefixes": "decoded up to the columns that have prefixes, the segment has 85900",
    "hidden_prefixes": "the Parquet metadata is damaged: a length is negative",
    "lengths": "2000000000 lengths of 3 values",
    "suffixes": "2000000000 lengths of 3 values",
    "null_lists": "decoded up to column l.list.element, the segment has 8000000",
    "null_bytes": "decoded up to column b, the segment has 10737418240000",
    "many_entries": "column s has 3 values and a dictionary of 2147483647 entries",
    "many_chunks": "Exceeded size limit",
    "deep": "Parquet schema too deeply nested",
    "no_codec": "column n is compressed with codec 99, which version 1 does not allow",
    "shared_name": "decoded up to its schema, the segment has 268600000 bytes",
    "unusual_name": "the Parquet metadata is damaged: field 1 after field 2",
}


@pytest.mark.parametrize("name", hostile.BOMBS)
def test_a_bomb_is_refused_and_the_error_says_why(name: str) -> None:
    before = pa.default_memory_pool().max_memory()
    bomb = hostile.BOMBS[name]()
    made = max(before, pa.default_memory_pool().max_memory())
    assert SAYS[name] in refusal(bomb)
    assert pa.default_memory_pool().max_memory() <= made + 32 * MIB


def test_a_page_without_values_is_allowed() -> None:
    column = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    one = sent(pa.table([[1, 2, 3]], column), compression="none", use_dictionary=False)

    def change(file: File) -> None:
        pages = file.chunks[0][0]
        pages.append(copy.deepcopy(pages[0]).put(0, 5, 1).fill(b""))

    assert segment(changed(one, change)).to_table()["n"].to_pylist() == [1, 2, 3]


def test_a_damaged_codec_is_found_before_pyarrow_is_asked_for_it() -> None:
    """pyarrow ends the process: this test would end with it."""
    verified = segment(hostile.no_codec())
    verified.verify()
    assert "codec 99" in refusal(hostile.no_codec())


# --- each limit, met and exceeded -----------------------------------------------------------------

NUMBERS = sent(pa.table({"n": pa.array(range(1000), pa.int64()), "s": ["abcd"] * 1000}))


def test_as_many_rows_as_allowed_are_read() -> None:
    assert segment(NUMBERS, max_rows=1000).to_table().num_rows == 1000
    assert refusal(NUMBERS, max_rows=999) == (
        "the segment has 1000 rows; columnar.max.rows is 999: only a consumer can raise it"
    )


def test_as_many_values_as_allowed_are_read() -> None:
    lists = sent(pa.table({"l": [[1, 2, 3], [4], []]}))
    assert segment(lists, max_values=5).to_table().num_rows == 3
    assert refusal(lists, max_values=4) == (
        "column l.list.element has 5 values; columnar.max.values is 4: only a consumer can raise it"
    )


def test_a_footer_as_large_as_allowed_is_read() -> None:
    size = int.from_bytes(NUMBERS.value[-8:-4], "little")
    assert segment(NUMBERS, max_footer_bytes=size).to_table().num_rows == 1000
    assert refusal(NUMBERS, max_footer_bytes=size - 1) == (
        f"the footer has {size} bytes; columnar.max.footer.bytes is {size - 1}: "
        "only a consumer can raise it"
    )


MAYBE_NULL = None if VERSION >= (25, 0) else [4, 5, 6]


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array(range(5000), pa.int64()), {"use_dictionary": False}),
        (pa.array(range(5000), pa.int64()), {"use_dictionary": True}),
        (pa.array([True, None] * 2500), {}),
        (pa.array([b"0123456789abcdef"] * 5000, pa.binary(16)), {}),
        (pa.array(["x" * 100] * 5000), {"use_dictionary": True}),
        (pa.array(["x" * 100] * 5000), {"use_dictionary": False}),
        (pa.array(["x" * 100] * 5000), {"column_encoding": {"c": "DELTA_BYTE_ARRAY"}}),
        (pa.array(["x" * 100] * 5000), {"column_encoding": {"c": "DELTA_LENGTH_BYTE_ARRAY"}}),
        (pa.array([["x" * 10, None] * 5] * 500), {"use_dictionary": True}),
        # Up to 24 pyarrow itself writes no fixed-size list that is null.
        (pa.array([[1, 2, 3], MAYBE_NULL] * 2500, pa.list_(pa.int32(), 3)), {}),
        (pa.array([[("k", 1)], []] * 2500, pa.map_(pa.string(), pa.int32())), {}),
    ],
    ids=str,
)
def test_what_decoding_takes_is_known_before(column: pa.Array, options: dict[str, Any]) -> None:
    """Not less than what the table is then; and not many times that, or good ones are refused."""
    if "column_encoding" in options:
        options = options | {"use_dictionary": False}
    of = sent(pa.table({"c": column}), **options)
    table = segment(of).to_table()
    assert table.column("c").to_pylist() == column.to_pylist()
    assert "decoded.bytes" in refusal(of, max_decoded_bytes=table.nbytes - 1)
    assert segment(of, max_decoded_bytes=5 * table.nbytes + 5000).to_table().num_rows == len(column)


TAKES = [
    # kept for rows, values and text, and then the largest page, which is there while it is decoded
    (pa.array([1, 2, 3]), {}, 3 * 8 + 30),
    (pa.array([[1, 2], [3]], pa.list_(pa.int32())), {}, 2 * 8 + 3 * (4 + 4) + 24),
    (pa.array([[[1, 2]]], pa.list_(pa.list_(pa.int16()))), {}, 8 + 2 * (4 + 8 + 4 + 2) + 21),
    (pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2)), {}, 3 * 2 * 2 * 8 + 60),
    (
        pa.array([[[1, 2]], [[3, 4]]], pa.list_(pa.list_(pa.int32(), 2))),
        {},
        2 * 8 + 4 * (4 + 2 * 2 * 4) + 29,
    ),
    (pa.array(["ab", "c"]), {}, 2 * 8 + 17 + 17),
    (pa.array(["ab", "c", "ab"]), {"use_dictionary": True}, 3 * 8 + 11 + 2 * 16 + 11),
]


@pytest.mark.parametrize(("column", "options", "nbytes"), TAKES, ids=str)
def test_what_each_type_takes_is_counted(
    column: pa.Array, options: dict[str, Any], nbytes: int
) -> None:
    """Byte for byte: a count that is too small only shows where the limit is near."""
    sink = io.BytesIO()
    plain = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(pa.table({"c": column}), sink, **plain | options)
    file = pq.ParquetFile(sink)
    size = walk(sink.getvalue(), file, ReadOptions(max_decoded_bytes=nbytes))
    assert (size.nbytes, size.parallel_nbytes) == (nbytes, nbytes)  # one column: no other beside it
    with pytest.raises(SegmentError, match=rf"has {nbytes} bytes; columnar.max.decoded.bytes is"):
        walk(sink.getvalue(), file, ReadOptions(max_decoded_bytes=nbytes - 1))


def test_the_bytes_of_an_arrow_schema_are_all_base64() -> None:
    """Arrow and we would skip what is not, each in its own way, and see two schemas."""

    def change(file: File) -> None:
        for pair in field(file.footer, 5)[2][1]:
            if field(pair, 1)[2] == b"ARROW:schema":
                value = field(pair, 2)
                value[2] = value[2][:8] + b"!" + value[2][8:]

    of = changed(sent(pa.table({"n": [1, 2, 3]})), change)
    assert refusal(of).startswith("the Parquet metadata is damaged: ")


def test_one_long_value_among_many_short_ones_is_no_bomb() -> None:
    """A dictionary's largest value times the rows would be 10 GB; it is 200 KB."""
    table = pa.table({"s": ["short", "also short"] * 5000 + ["x" * MIB]})
    of = sent(table, use_dictionary=True)
    assert segment(of, max_decoded_bytes=8 * MIB).to_table().equals(table)


def test_dictionaries_are_expanded_to_the_columns_of_the_file() -> None:
    text = pa.array(["a", None, "b"])
    pairs = pa.array([[("k", "v")], None, []], pa.map_(pa.string(), pa.string()))
    table = pa.table(
        {
            "large": text.cast(pa.large_string()),
            "bytes": text.cast(pa.binary()),
            "struct": pa.StructArray.from_arrays([text, pa.array([1, 2, 3])], names=["a", "b"]),
            "list": pa.array([["a", None], None, []], pa.large_list(pa.large_string())),
            "fixed": pa.array([["a", "b"], ["c", None], None], pa.list_(pa.string(), 2)),
            "map": pairs,
        }
    )
    whole = segment(sent(table)).to_table()
    assert whole.schema.types == table.schema.types
    assert whole.to_pydict() == table.to_pydict()
    some = segment(sent(table)).to_table(["struct.a", "large"])
    assert some.schema.field("struct").type == pa.struct([("a", pa.string())])
    assert some.to_pydict() == {
        "large": ["a", None, "b"],
        "struct": [{"a": "a"}, {"a": None}, {"a": "b"}],
    }


# --- pages, footer and file must agree ------------------------------------------------------------


def put(value: int, *path: int) -> Callable[[File], object]:
    return lambda file: file.chunks[0][0][0].put(value, *path)


def no_checksum(file: File) -> None:
    page = file.chunks[0][0][0]
    page.header.remove(field(page.header, 4))


def again(file: File) -> None:
    """The size once more, by a number that Arrow cuts to 16 bits: it would believe this one."""
    file.chunks[0][0][0].header.append([65536 + 2, I32, 1 << 30])


def meta(value: int, *path: int) -> Callable[[File], object]:
    def change(file: File) -> None:
        field(file.meta(0), *path)[2] = value

    return change


def swap(file: File) -> None:
    """Two columns of one type, each where the other is: every page is as it was."""
    first, second = file.meta(0), file.meta(1)
    for fid in (7, 9):
        one, other = field(first, fid), field(second, fid)
        one[2], other[2] = other[2], one[2]


PLAIN = sent(
    pa.table({"n": pa.array([1, 2, 3], pa.int32()), "m": pa.array([4, 5, 6], pa.int32())}),
    use_dictionary=False,
    compression="none",
)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (no_checksum, "column n has a page at 4 without a checksum"),
        (put(1, 1), "column n has a page at 4 of the unknown type 1"),
        (put(-1, 2), "column n has a page at 4 that ends after the column chunk"),
        (put(1 << 20, 3), "column n has a page at 4 that ends after the column chunk"),
        (
            put(400, 2),
            "column n has an uncompressed page at 4 whose compressed and uncompressed sizes differ",
        ),
        (put(1 << 32, 2), "more than 32 bits"),
        (again, "field 65538 after field 5"),
        (put(2, 5, 1), "column n has 2 values in its pages, 3 in the footer"),
        (put(-3, 5, 1), "column n has a page of -3 values in encoding 0"),
        (put(5, 5, 2), "column n has a page of 3 values in encoding 5"),
        (put(4, 5, 3), "column n has a page whose levels have the encodings [4], not RLE"),
        (meta(4, 5), "column n has 4 values in 3 rows"),
        (meta(-3, 5), "column n has -3 values in 3 rows"),
    ],
)
def test_a_page_that_is_not_what_it_says_is_refused(
    change: Callable[[File], object], says: str
) -> None:
    assert says in refusal(changed(PLAIN, change))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (swap, ", not between "),
        (meta(1, 9), ", not between "),
        (meta(1 << 40, 7), ", not between "),
        (meta(10, 7), "has a page at 4 that ends after the column chunk"),
    ],
)
def test_a_column_that_is_not_where_the_footer_says_is_refused(
    change: Callable[[File], object], says: str
) -> None:
    file = File.load(PLAIN.value)
    change(file)
    assert says in refusal(replace(PLAIN, value=file.bytes()))


@pytest.mark.parametrize("rows", [-1, 4])
def test_row_groups_that_do_not_have_the_files_rows_are_refused(rows: int) -> None:
    file = File.load(PLAIN.value)
    field(file.footer, 4, 0, 3)[2] = rows
    of = replace(PLAIN, value=file.bytes())
    assert "in a row group" in refusal(of) or f"3 values in {rows} rows" in refusal(of)


def test_a_dictionary_that_is_not_plain_is_refused() -> None:
    of = changed(sent(pa.table({"s": ["x", "x", "y"]})), put(3, 7, 2))
    assert refusal(of) == "column s has a dictionary that is not plain"


def test_a_column_may_have_the_name_of_arrows_schema() -> None:
    """So its name stands in the footer more often than the key does."""
    table = pa.table({"ARROW:schema": [1]})
    assert segment(sent(table)).to_table().equals(table)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_other_writers_pages_are_read(compression: str, version: str) -> None:
    table = pa.table(
        {
            "n": range(3000),
            "s": [f"value {index}" for index in range(3000)],
            "l": [["a", None], None, []] * 1000,
        }
    )
    encodings = {"n": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "l.list.element": "PLAIN"}
    for options in ({}, {"use_dictionary": False, "column_encoding": encodings}):
        of = sent(table, compression=compression, data_page_version=version,
                  data_page_size=4000, group=1000, **options)  # fmt: skip
        assert segment(of).to_table().to_pydict() == table.to_pydict()


# --- what writers may leave out -------------------------------------------------------------------

TEXTS = pa.table({"s": ["abc", "abcd", None, "abcde"] * 50})


def without_is_compressed(file: File) -> None:
    for page in file.chunks[0][0]:
        part = field(page.header, 8)[2]
        part.remove(field(part, 7))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_a_page_is_compressed_unless_it_says_not(compression: str, encoding: str) -> None:
    """As parquet-mr writes it: `is_compressed` is true by default, so it need not be there."""
    of = sent(
        TEXTS,
        compression=compression,
        data_page_version="2.0",
        use_dictionary=False,
        column_encoding={"s": encoding},
    )
    of = changed(of, without_is_compressed)
    assert pq.read_table(pa.BufferReader(of.value)).equals(TEXTS)
    assert segment(of).to_table().equals(TEXTS)


def test_levels_that_are_longer_than_their_page_are_refused() -> None:
    of = sent(
        pa.table({"s": ["a", "b"]}),
        data_page_version="2.0",
        use_dictionary=False,
        column_encoding={"s": "DELTA_BYTE_ARRAY"},
    )
    too_long = changed(of, put(1 << 20, 8, 5))
    assert "bytes whose levels have 1048576" in refusal(too_long)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_page_of_nulls_alone_may_have_nothing_to_decompress(compression: str) -> None:
    """As Spark writes it."""
    nulls = pa.table({"s": pa.nulls(5, pa.string())})
    of = sent(nulls, compression=compression, data_page_version="2.0", use_dictionary=False)

    def cut(file: File) -> None:
        [page] = file.chunks[0][0]
        nbytes = field(page.header, 8, 5)[2] + field(page.header, 8, 6)[2]
        page.fill(page.body[:nbytes], nbytes)

    if compression == "snappy" and VERSION < (20, 0):  # a user of Spark's files needs 20, too
        assert "Corrupt snappy compressed data" in refusal(changed(of, cut))
        return
    assert segment(changed(of, cut)).to_table().equals(nulls)


def test_a_page_whose_is_compressed_is_a_number_is_refused() -> None:
    """Arrow passes over it and takes the default: what it decodes would be something else."""
    of = sent(
        TEXTS,
        data_page_version="2.0",
        use_dictionary=False,
        column_encoding={"s": "DELTA_BYTE_ARRAY"},
    )

    def change(file: File) -> None:
        for page in file.chunks[0][0]:
            field(page.header, 8, 7)[1:] = [I32, 0]

    assert "field 7 has the Thrift type 5, not a boolean" in refusal(changed(of, change))


OPTIONAL = {
    "FileMetaData": {6, 7},
    "SchemaElement": {9, 10},
    "RowGroup": {4, 5, 6, 7},
    "ColumnChunk": {4, 5, 6, 7},
    "ColumnMetaData": {8, 10, 12, 13, 14, 15, 16, 17},
    "Statistics": {1, 2, 3, 4, 5, 6, 7, 8},
    "DataPageHeader": {5},
    "DictionaryPageHeader": {3},
    "DataPageHeaderV2": {7, 8},
}
"""The optional fields of parquet.thrift, by their ids, without those that version 1 wants: the
checksum of a page and the footer's key-values. Those of a schema's elements are what types are."""


def structs(file: File) -> Iterator[tuple[str, Any]]:
    """Yield what has optional fields."""
    yield "FileMetaData", file.footer
    for element in field(file.footer, 2)[2][1]:
        yield "SchemaElement", element
    for number, group in enumerate(field(file.footer, 4)[2][1]):
        yield "RowGroup", group
        for index, chunk in enumerate(field(group, 1)[2][1]):
            yield "ColumnChunk", chunk
            meta = file.meta(index, number)
            yield "ColumnMetaData", meta
            yield from (("Statistics", member[2]) for member in meta if member[0] == 12)
            for page in file.chunks[number][index]:
                for fid, name in ((5, "DataPageHeader"), (7, "DictionaryPageHeader"),
                                  (8, "DataPageHeaderV2")):  # fmt: skip
                    parts = [member[2] for member in page.header if member[0] == fid]
                    yield from ((name, part) for part in parts)
                    for part in parts:
                        at = {5: 5, 8: 8}.get(fid)
                        yield from (("Statistics", member[2]) for member in part if member[0] == at)


def with_everything(version: str, *, index: bool) -> tuple[pa.Table, Sent]:
    table = pa.table(
        {
            "n": pa.array(range(100), pa.int64()),
            "s": [None, "a", "b", "c"] * 25,
            "l": [["x", None], None, [], ["y"]] * 25,
        }
    )
    return table, sent(
        table,
        group=50,
        compression="snappy",
        data_page_version=version,
        write_page_index=index,
        sorting_columns=[pq.SortingColumn(0)],
        use_dictionary=["s"],
        column_encoding={"n": "DELTA_BINARY_PACKED", "l.list.element": "DELTA_BYTE_ARRAY"},
    )


def optional(file: File) -> Iterator[tuple[str, Any, list[Any]]]:
    """Yield each optional field there is, with the struct that it is of; pages without its default
    are not what they were."""
    for name, struct in structs(file):
        for member in struct:
            is_default = (name, *member[:2]) != ("DataPageHeaderV2", 7, FALSE)
            if member[0] in OPTIONAL[name] and is_default:
                yield name, struct, member


@pytest.mark.parametrize("index", [False, True], ids=["", "page index"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_optional_field_may_be_left_out(version: str, index: bool) -> None:
    table, of = with_everything(version, index=index)
    expected = segment(of).statistics(["n", "s"])
    assert expected is not None
    assert set(expected) == {("n",), ("s",)}
    for number, (name, _, (fid, *_)) in enumerate(optional(File.load(of.value))):
        file = File.load(of.value)
        _, struct, member = list(optional(file))[number]
        struct.remove(member)
        one = replace(of, value=file.correct().bytes())
        assert segment(one).to_table().equals(table), (name, fid)
        statistics = segment(one).statistics(["n", "s"])
        assert statistics is not None
        # What is left out is not said, and no null is doubt.
        for path, bounds in statistics.items():
            assert bounds[:2] == expected[path][:2], (name, fid)
            assert bounds.has_nulls >= expected[path].has_nulls, (name, fid)
        out = io.BytesIO()
        stitch([one.value, one.value], out, metadata={})
        assert pq.read_table(out).equals(pa.concat_tables([table, table])), (name, fid)


def test_optional_fields_are_tried_in_every_struct() -> None:
    tried = {
        (name, member[0])
        for version in ("1.0", "2.0")
        for index in (False, True)
        for name, _, member in optional(File.load(with_everything(version, index=index)[1].value))
    }
    assert {name for name, _ in tried} == set(OPTIONAL)
    is_exact = {7, 8} if VERSION >= (22, 0) else set()  # pyarrow writes them since
    assert {fid for name, fid in tried if name == "Statistics"} == {1, 2, 3, 5, 6} | is_exact
    assert {("DataPageHeaderV2", 7), ("ColumnMetaData", 12), ("RowGroup", 5)} <= tried


def test_the_place_of_a_dictionary_may_be_left_out() -> None:
    """Then the first page is it."""
    table = pa.table({"s": ["a", "b"] * 50})
    file = File.load(sent(table).value)
    meta = file.meta(0)
    field(meta, 9)[2] = field(meta, 11)[2]
    meta.remove(field(meta, 11))
    of = replace(sent(table), value=file.bytes())
    assert segment(of).to_table().equals(table)
    out = io.BytesIO()
    stitch([of.value, of.value], out, metadata={})
    assert pq.read_table(out).equals(pa.concat_tables([table, table]))


# --- a topic of them ------------------------------------------------------------------------------


@pytest.mark.long
def test_a_topic_full_of_damage_is_a_stream_of_reports_among_good_records() -> None:
    """In tests/faults there are many more, and they may take little memory."""
    outcome = hostile.main(examples(400), examples(200))["outcomes"]
    for name, counts in outcome.items():
        cases = counts.get("reported", 0) + counts.get("harmless", 0)
        assert counts == {**counts, "neighbours": cases + 1}, name
        assert "wrong" not in counts, name
    assert outcome["bombs"]["reported"] == len(hostile.BOMBS)


def test_an_arrow_schema_is_found_among_fields_that_parquet_does_not_know() -> None:
    """A writer of the future may describe each entry, with the key's name in its own words."""
    footer = File.load(sent(pa.table({"n": [1]})).value).footer
    pairs = field(footer, 5)[2][1]
    [arrow] = [pair for pair in pairs if field(pair, 1)[2] == b"ARROW:schema"]
    described = [[1, BINARY, b"k"], [2, BINARY, b"v"], [9, BINARY, b"not the ARROW:schema"]]
    pairs.insert(0, described)
    arrow.append([9, STRUCT, described])
    assert metadata.arrow_schemas(emit(footer)) == [field(arrow, 2)[2]]
