"""The native core's Parquet files, beside those of pyarrow's writer."""

from __future__ import annotations

import io
import math
import struct
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_types import storable
from hypothesis import given, settings
from hypothesis import strategies as st
from support import by_profile, examples

from columnar_kafka import native
from columnar_kafka.columns.kafka_column import (
    KafkaColumn,
    header_array,
    key_array,
    timestamp_array,
)
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.columns.older_arrow import VERSION
from columnar_kafka.config import ReadOptions
from columnar_kafka.schema import RecordSchema
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.native_encoder import native_encoder
from columnar_kafka.segment.parquet.page_checks import check_arrow_schema, footer_bytes, walk
from columnar_kafka.segment.parquet.statistics import bounds

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    VERSION < (26, 0), reason=f"compares with the files of pyarrow 26; {pa.__version__} is older"
)

KAFKA = KafkaColumn(("id", "key", "timestamp", "headers"))
FOOTER = {"columnar.segment": b"abc-1", "columnar.rows": b"1"}
LIMITS = ReadOptions(max_decoded_bytes=1 << 40, max_values=1 << 30)


def plain(value: Any, arrow: pa.DataType) -> Any:
    """Return a value as the core takes it: a record is a tuple, a map its pairs."""
    if value is None:
        return None
    if pa.types.is_struct(arrow):
        return tuple(plain(value[field.name], field.type) for field in arrow)
    if pa.types.is_map(arrow):
        return [(plain(k, arrow.key_type), plain(v, arrow.item_type)) for k, v in value]
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return [plain(item, arrow.value_type) for item in value]
    return value


class Pair:
    """The same rows for both writers, one segment after the other."""

    def __init__(
        self, schema: pa.Schema, compression: str = "zstd", *, messages_are_compressed: bool = False
    ) -> None:
        self.schema = schema
        whole = pa.schema([*schema, KAFKA.field])
        self.encoder = native_encoder(
            whole, KAFKA, compression, messages_are_compressed=messages_are_compressed
        )
        self.reference = ParquetEncoder(compression)
        self.columns = row_format(RecordSchema.parse(schema))

    def block(self, rows: list[dict[str, Any]]) -> Any:
        batch = native.core.Batch(self.columns, len(rows), 1 << 40)
        usage = native.core.Usage(1 << 40)
        types = self.schema.types
        for number, row in enumerate(rows):
            values = tuple(map(plain, map(row.get, self.schema.names), types))
            key = b"%d" % number if number % 3 else None
            headers: list[tuple[str, bytes | None]] | None = [("h", b"")] if number % 3 else None
            assert batch.append(values, key, 1_700_000_000_000 + number, headers, None, usage)
        return batch.seal()

    def expected(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        values = pa.array(rows, pa.struct(list(self.schema)))
        numbers = range(len(rows))
        return KAFKA.append_to(
            pa.RecordBatch.from_struct_array(values),
            segment="abc-1",
            timestamps=timestamp_array([1_700_000_000_000 + i for i in numbers]),
            keys=key_array([b"%d" % i if i % 3 else None for i in numbers]),
            headers=header_array([[("h", b"")] if i % 3 else None for i in numbers]),
        )

    def check(self, rows: list[dict[str, Any]]) -> tuple[bytes, bytes]:
        """Compare both files of the same rows; return them."""
        batch = self.expected(rows)
        ours = self.encoder.encode(self.block(rows), "abc-1", FOOTER)
        theirs = self.reference.encode(batch, FOOTER).to_pybytes()
        check_file(ours, theirs, batch)
        return ours, theirs


def check_file(ours: bytes, theirs: bytes, batch: pa.RecordBatch) -> None:
    """Read a file with all readers, and compare it with the rows, and with pyarrow's file."""
    file = pq.ParquetFile(io.BytesIO(ours), page_checksum_verification=True)
    table = file.read()
    table.validate(full=True)
    assert file.schema_arrow.equals(pq.read_schema(io.BytesIO(theirs)))
    assert same(table, pa.Table.from_batches([batch]))
    check_arrow_schema(ours, LIMITS)
    walk(ours, file, LIMITS)
    assert polars_rows(ours) == polars_rows(theirs)
    names = batch.schema.names
    stated = bounds(footer_bytes(ours), batch.schema, names)
    for path, bound in bounds(footer_bytes(theirs), batch.schema, names).items():
        assert repr(stated[path]) == repr(bound)
    pages = pq.read_metadata(io.BytesIO(ours)).row_group(0)
    theirs_pages = pq.read_metadata(io.BytesIO(theirs)).row_group(0)
    for number in range(pages.num_columns):
        column, other = pages.column(number), theirs_pages.column(number)
        assert (column.path_in_schema, column.num_values) == (
            other.path_in_schema,
            other.num_values,
        )
        if other.statistics is not None:
            assert column.statistics.null_count == other.statistics.null_count


def same(ours: pa.Table, theirs: pa.Table) -> bool:
    """Compare tables; NaN equals NaN, and zeros of other signs differ."""
    return repr(ours.to_pylist()) == repr(theirs.to_pylist())


def polars_rows(file: bytes) -> str:
    """Return what polars reads; polars 2 panics at some decimals in lists, of both files."""
    try:
        return repr(pl.read_parquet(io.BytesIO(file)).to_dicts())
    except pl.exceptions.PanicException:
        return "a panic"


def schema_of(*types: pa.DataType, nullable: bool = True) -> pa.Schema:
    return pa.schema([pa.field(f"f{i}", arrow, nullable) for i, arrow in enumerate(types)])


# --- any types ------------------------------------------------------------------------------------

LEAVES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, (1 << 16) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.uint32(): st.integers(0, (1 << 32) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 9),
    pa.uint64(): st.integers(0, (1 << 64) - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=90) | st.sampled_from(["", "a", "ab"]),
    pa.binary(): st.binary(max_size=70),
    pa.binary(4): st.binary(min_size=4, max_size=4),
    pa.float16(): st.floats(width=16),
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.time64("ns"): st.integers(0, 86_399_999_999_999),
    pa.duration("ms"): st.integers(-(1 << 46), 1 << 46),
    pa.timestamp("us", "Europe/Berlin"): st.integers(0, 1 << 50),
    **{
        kind: st.decimals(-(10**3), 10**3, places=2)
        for kind in (*storable("decimal32", 9, 2), pa.decimal128(20, 2), pa.decimal256(30, 2))
    },
}


@st.composite
def fields(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, bool, st.SearchStrategy[Any]]:
    """Draw a type, whether it is nullable, and its values."""
    nullable = draw(st.booleans())
    shapes = ["leaf", "list", "fixed", "struct", "map"] if depth else ["leaf"]
    shape = draw(st.sampled_from(shapes))
    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    if shape == "leaf":
        arrow, values = draw(st.sampled_from(list(LEAVES.items())))
    elif shape == "list":
        item, item_nullable, items = draw(fields(depth - 1))
        arrow, values = pa.list_(pa.field("item", item, item_nullable)), st.lists(items, max_size=4)
    elif shape == "fixed":
        item, item_nullable, items = draw(fields(depth - 1))
        arrow = pa.list_(pa.field("item", item, item_nullable), 2)
        nullable, values = True, st.lists(items, min_size=2, max_size=2)
    elif shape == "map":
        item, item_nullable, items = draw(fields(depth - 1))
        arrow = pa.map_(pa.string(), pa.field("value", item, item_nullable))
        pairs = st.lists(st.tuples(st.text(max_size=3), items), max_size=4)
        values = pairs.map(lambda pairs: list(dict(pairs).items()))
    else:
        members = draw(st.lists(fields(depth - 1), min_size=1, max_size=3))
        arrow = pa.struct([pa.field(f"m{i}", *member[:2]) for i, member in enumerate(members)])
        values = st.fixed_dictionaries({f"m{i}": member[2] for i, member in enumerate(members)})
    return arrow, nullable, st.none() | values if nullable else values


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_any_rows_of_any_types_are_read_back(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(fields(), min_size=1, max_size=3))
    schema = pa.schema([pa.field(f"f{i}", *column[:2]) for i, column in enumerate(drawn)])
    row = st.fixed_dictionaries({f"f{i}": column[2] for i, column in enumerate(drawn)})
    rows = data.draw(st.lists(row, min_size=1, max_size=30))
    pair = Pair(schema)
    pair.check(rows)
    pair.check(rows * data.draw(st.sampled_from([1, 3, 40])))


# --- corner cases ---------------------------------------------------------------------------------

CODECS = ["none", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize(
    ("messages_are_compressed", "rows", "codec"),
    [
        (False, 31, "UNCOMPRESSED"),
        (False, 33, "ZSTD"),
        (True, 255, "UNCOMPRESSED"),
        (True, 257, "ZSTD"),
    ],
)
def test_small_columns_are_not_compressed_and_larger_ones_not_twice(
    messages_are_compressed: bool, rows: int, codec: str
) -> None:
    schema = pa.schema([pa.field("a", pa.float32(), nullable=False)])
    pair = Pair(schema, messages_are_compressed=messages_are_compressed)
    # Too many different values for a dictionary, which begin alike.
    ours, _ = pair.check([{"a": 1 + i / (1 << 20)} for i in range(rows)])
    assert pq.read_metadata(io.BytesIO(ours)).row_group(0).column(0).compression == codec


@pytest.mark.parametrize(
    ("messages_are_compressed", "rows", "has_statistics", "has_dictionary"),
    [
        (False, 7, True, False),
        (False, 8, True, True),
        (True, 63, False, False),
        (True, 127, False, True),
        (True, 128, True, True),
    ],
)
def test_few_rows_in_compressed_messages_have_no_statistics(
    messages_are_compressed: bool, rows: int, has_statistics: bool, has_dictionary: bool
) -> None:
    schema = schema_of(pa.string())
    pair = Pair(schema, messages_are_compressed=messages_are_compressed)
    block = pair.block([{"f0": "the same text in every row"}] * rows)
    metadata = pq.read_metadata(io.BytesIO(pair.encoder.encode(block, "abc-1", FOOTER)))
    column = metadata.row_group(0).column(0)
    assert column.is_stats_set == has_statistics
    assert column.has_dictionary_page == has_dictionary


@pytest.mark.parametrize("compression", CODECS)
def test_every_compression_is_read_back(compression: str) -> None:
    pair = Pair(schema_of(pa.int64(), pa.string(), pa.list_(pa.float64())), compression)
    rows = [{"f0": i % 90, "f1": f"text {i % 70}", "f2": [i / 8] * (i % 4)} for i in range(5_000)]
    ours, theirs = pair.check(rows)
    assert len(ours) <= len(theirs)


@pytest.mark.parametrize(
    ("arrow", "rows"),
    [*((leaf, 600) for leaf in LEAVES), *((pa.int64(), rows) for rows in (1, 7, 8))],
    ids=str,
)
def test_columns_without_a_value_are_read_back(arrow: pa.DataType, rows: int) -> None:
    schema = schema_of(arrow, pa.list_(arrow), pa.struct([("a", arrow)]))
    pair = Pair(schema)
    pair.check([dict.fromkeys(schema.names)] * rows)
    pair.check([{"f0": None, "f1": [], "f2": {"a": None}}] * rows)


def test_empty_texts_are_read_back() -> None:
    pair = Pair(schema_of(pa.string(), pa.binary()))
    pair.check([{"f0": "", "f1": b""}] * 3_000)
    pair.check([{"f0": "" if i % 2 else None, "f1": b"\0" * (i % 3)} for i in range(3_000)])


@pytest.mark.long
def test_many_rows_have_several_pages_of_one_megabyte() -> None:
    count = by_profile(1 << 18, 1 << 20)
    pair = Pair(schema_of(pa.int64(), pa.string()))
    rows = [{"f0": i * i, "f1": str(i % 1000)} for i in range(count)]
    ours = pair.encoder.encode(pair.block(rows), "abc-1", FOOTER)
    table = pq.read_table(io.BytesIO(ours), page_checksum_verification=True)
    assert table["f0"].equals(pa.chunked_array([[i * i for i in range(count)]]))
    assert table["f1"].equals(pa.chunked_array([[str(i % 1000) for i in range(count)]]))
    assert table["_kafka"].combine_chunks().field("row").equals(pa.array(range(count), pa.int32()))
    walk(ours, pq.ParquetFile(io.BytesIO(ours)), LIMITS)


def test_lists_are_never_cut_over_two_pages() -> None:
    pair = Pair(schema_of(pa.list_(pa.int64())))
    rows = [{"f0": [i * 7919 % 1_000_003 << 20] * (i % 300)} for i in range(3_000)]
    pair.check(rows)


@pytest.mark.long
def test_values_of_a_megabyte_are_read_back() -> None:
    pair = Pair(schema_of(pa.binary(), pa.string()))
    count = by_profile(10, 40)
    pair.check([{"f0": bytes([i]) * (1 << 20), "f1": "x" * (i << 16)} for i in range(count)])
    pair.check([{"f0": b"\xff" * (1 << 20), "f1": ""}] * count)


def test_a_dictionary_that_grows_too_large_is_none() -> None:
    pair = Pair(schema_of(pa.string(), pa.int64()))
    rows = [
        {"f0": f"{i % 4} of {i * 7919 % 30_011:050}", "f1": i * 7919 << 30} for i in range(30_000)
    ]
    pair.check([{"f0": "a", "f1": 1}] * 4_000)
    pair.check(rows)


def test_a_thousand_columns_are_read_back() -> None:
    pair = Pair(schema_of(*[pa.int64(), pa.string()] * 500))
    rows = [dict.fromkeys(pair.schema.names, i if i % 7 else None) for i in range(40)]
    rows = [
        {name: str(v) if v is not None and int(name[1:]) % 2 else v for name, v in row.items()}
        for row in rows
    ]
    pair.check(rows)


def test_slices_of_a_block_are_files_of_their_rows() -> None:
    types = (pa.int32(), pa.string(), pa.bool_(), pa.list_(pa.int64()), pa.binary(2))
    pair = Pair(schema_of(*types))
    rows = [
        {
            "f0": i % 5 or None,
            "f1": str(i % 50) if i % 3 else None,
            "f2": i % 2 == 0,
            "f3": [i] * (i % 4),
            "f4": b"%02d" % (i % 100),
        }
        for i in range(1_000)
    ]
    block = pair.block(rows)
    table = pa.Table.from_batches([pair.expected(rows)]).drop(["_kafka"])
    for start, stop in [(0, 1000), (0, 1), (1, 2), (333, 999), (999, 1000), (5, 40)]:
        file = pair.encoder.encode(block.slice(start, stop), "abc-1", FOOTER)
        read = pq.read_table(io.BytesIO(file), page_checksum_verification=True)
        assert read.drop(["_kafka"]).equals(table.slice(start, stop - start))
        assert read["_kafka"].combine_chunks().field("row").to_pylist() == [*range(stop - start)]


def test_floats_with_nan_have_no_bounds_and_zeros_have_those_of_both_signs() -> None:
    pair = Pair(schema_of(pa.float64(), pa.float64()))
    ours, _ = pair.check([{"f0": math.nan, "f1": 0.0}, {"f0": 1.0, "f1": 0.0}])
    group = pq.read_metadata(io.BytesIO(ours)).row_group(0)
    assert not group.column(0).statistics.has_min_max
    zeros = group.column(1).statistics
    assert [struct.pack("<d", zero) for zero in (zeros.min, zeros.max)] == [
        struct.pack("<d", -0.0),
        struct.pack("<d", 0.0),
    ]


def test_duckdb_reads_the_same_rows(tmp_path: Path) -> None:
    pair = Pair(schema_of(pa.int64(), pa.string(), pa.float64(), pa.list_(pa.string())))
    rows = [
        {"f0": i // 9, "f1": f"{i % 300}", "f2": i % 600 / 100, "f3": [str(i)] * (i % 3)}
        for i in range(4_000)
    ]
    ours, _ = pair.check(rows)
    path = tmp_path / "segment.parquet"
    path.write_bytes(ours)
    read = duckdb.read_parquet(str(path)).project("f0, f1, f2, f3").fetchall()
    assert read == [tuple(row.values()) for row in rows]
