"""The encoder: each leaf in the encoding that makes it smallest, whatever its name is."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.config import METADATA_MEMBERS
from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import canonical
from columnar_kafka.segment.encoder import (
    ParquetEncoder,
    check_can_be_written,
    needs_arrow_schema,
)

N = 5000
RANDOM = random.Random(7)
COUNT = pa.array(range(N))
FEW = pa.array([RANDOM.choice([10**12, 5, 77_777]) for _ in range(N)])
FLOATS = pa.array([RANDOM.random() for _ in range(N)])
PATHS = pa.array([f"/a/long/way/to/{n:08}/file" for n in range(N)])
BYTES = pa.array([RANDOM.randbytes(RANDOM.randrange(1, 40)) for _ in range(N)])


def encodings(batch: pa.RecordBatch) -> dict[str, set[str]]:
    value = ParquetEncoder("none").encode(batch, {})
    group = pq.read_metadata(pa.BufferReader(value)).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    return {chunk.path_in_schema: {*chunk.encodings} - {"RLE"} for chunk in chunks}


@pytest.mark.parametrize("name", ["plain", "with.dot", "list.element"])
def test_each_leaf_has_the_encoding_that_makes_it_smallest(name: str) -> None:
    nested = pa.StructArray.from_arrays([COUNT, FLOATS], names=["count", "float"])
    lists = pa.ListArray.from_arrays(pa.array(range(N + 1), pa.int32()), COUNT)
    columns = {
        name: COUNT,
        "few": FEW,
        "f": FLOATS,
        "p": PATHS,
        "b": BYTES,
        "s": nested,
        "l": lists,
    }
    chosen = encodings(pa.record_batch(columns))
    assert chosen[name] == chosen["s.count"] == chosen["l.list.element"] == {"DELTA_BINARY_PACKED"}
    assert "RLE_DICTIONARY" in chosen["few"]
    assert chosen["f"] == chosen["s.float"] == {"PLAIN"}
    assert chosen["p"] == {"DELTA_BYTE_ARRAY"}
    assert chosen["b"] == {"DELTA_LENGTH_BYTE_ARRAY"}


@pytest.mark.parametrize(("rows", "encoding"), [(10, "PLAIN"), (9_000, "RLE_DICTIONARY")])
def test_a_text_of_many_rows_leaves_its_dictionary_only_for_many_bytes(
    rows: int, encoding: str
) -> None:
    """It is read several times as fast from one."""
    batch = pa.record_batch({"segment": pa.repeat("53be15fdaace050166b7-0", rows)})
    sizes = ParquetEncoder("zstd").sizes(batch, {"segment": "DICTIONARY"})
    assert ParquetEncoder("zstd").sizes(batch, {"segment": "PLAIN"})["segment"] < sizes["segment"]
    assert encoding in encodings(batch)["segment"]


def test_two_leaves_of_one_path_are_both_dictionaries_and_harm_no_other() -> None:
    struct = pa.StructArray.from_arrays([COUNT], names=["x"])
    batch = pa.record_batch({"a.x": COUNT, "a": struct, "n": COUNT})
    chosen = encodings(batch)
    assert "RLE_DICTIONARY" in chosen["a.x"]
    assert chosen["n"] == {"DELTA_BINARY_PACKED"}
    value = ParquetEncoder("none").encode(batch, {})
    assert pq.read_table(pa.BufferReader(value)).equals(pa.table(batch))


def test_much_more_data_is_looked_at_again() -> None:
    """One row tells nothing: a segment of many has its own choice."""
    encoder = ParquetEncoder("none")
    small = encoder.encode(pa.record_batch({"n": COUNT[:1]}), {})
    big = encoder.encode(pa.record_batch({"n": COUNT}), {})
    assert small.size < big.size < N


UTC = pa.timestamp("us", "UTC")
PLAIN = {
    "number": pa.uint8(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(3),
    "time": UTC,
    "local time": pa.timestamp("ns"),
    "date": pa.date32(),
    "time of day": pa.time64("us"),
    "decimal": pa.decimal128(30, 2),
    "list": pa.list_(pa.field("item", pa.struct([("x", UTC), ("y", pa.list_(pa.int8()))]))),
}
DECLARED = {
    "duration": pa.duration("ms"),
    "zone": pa.timestamp("us", "Europe/Berlin"),
    "large text": pa.large_string(),
    "large list": pa.large_list(pa.int8()),
    "fixed list": pa.list_(pa.int8(), 2),
    "small decimal": pa.decimal256(5, 2),
    "map": pa.map_(pa.string(), pa.int8()),
    "inside": pa.struct([("list", pa.list_(pa.duration("s")))]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_an_arrow_schema_that_says_nothing_more_is_left_out(name: str) -> None:
    schema = pa.schema([pa.field(name, PLAIN[name], nullable=False), ("b", PLAIN[name])])
    schema = KafkaColumn(METADATA_MEMBERS).schema(schema)
    batch = pa.RecordBatch.from_pylist([], schema)
    value = ParquetEncoder("zstd").encode(batch, {"own": b"x"})
    assert dict(pq.read_metadata(pa.BufferReader(value)).metadata) == {b"own": b"x"}
    stored = pq.read_schema(pa.BufferReader(value)).remove_metadata()
    assert (stored, canonical(stored)) == (schema, canonical(schema))


@pytest.mark.parametrize(
    "schema",
    [
        *(pa.schema([(name, DECLARED[name])]) for name in DECLARED),
        pa.schema([pa.field("n", pa.int8(), metadata={"unit": "m"})]),
        pa.schema([("n", pa.int8())], metadata={"owner": "ops"}),
    ],
    ids=[*DECLARED, "a field's metadata", "the schema's metadata"],
)
def test_an_arrow_schema_that_says_more_is_stored(schema: pa.Schema) -> None:
    assert needs_arrow_schema(schema)
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(schema.names)], schema)
    value = ParquetEncoder("zstd").encode(batch, {"own": b"x"})
    assert pq.read_metadata(pa.BufferReader(value)).metadata.keys() == {
        b"ARROW:schema",
        b"own",
        *(schema.metadata or {}),
    }
    assert canonical(pq.read_schema(pa.BufferReader(value)).remove_metadata()) == canonical(
        schema.remove_metadata()
    )


def test_an_encoder_that_gets_another_schema_asks_again_what_has_to_be_stored() -> None:
    encoder = ParquetEncoder("zstd")
    for kind, keys in ((pa.int64(), {b"own"}), (pa.duration("s"), {b"own", b"ARROW:schema"})):
        value = encoder.encode(pa.record_batch({"n": pa.array([1], kind)}), {"own": b"x"})
        assert pq.read_metadata(pa.BufferReader(value)).metadata.keys() == keys


def test_a_type_that_pyarrow_cannot_write_is_refused_before_a_row_is_taken() -> None:
    spans = pa.schema([("span", pa.month_day_nano_interval())])
    with pytest.raises(
        SchemaError, match=rf"^pyarrow {pa.__version__} cannot write it: .*interval"
    ):
        check_can_be_written(spans)
