"""The encoder: each leaf in the encoding that makes it smallest, whatever its name is."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from columnar_kafka.segment.encoder import ParquetEncoder

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
    found = encodings(pa.record_batch(columns))
    assert found[name] == found["s.count"] == found["l.list.element"] == {"DELTA_BINARY_PACKED"}
    assert "RLE_DICTIONARY" in found["few"]
    assert found["f"] == found["s.float"] == {"PLAIN"}
    assert found["p"] == {"DELTA_BYTE_ARRAY"}
    assert found["b"] == {"DELTA_LENGTH_BYTE_ARRAY"}


@pytest.mark.parametrize(("rows", "encoding"), [(10, "PLAIN"), (9_000, "RLE_DICTIONARY")])
def test_a_text_of_many_rows_leaves_its_dictionary_only_for_many_bytes(
    rows: int, encoding: str
) -> None:
    """It is read several times as fast from one."""
    batch = pa.record_batch({"segment": pa.repeat("53be15fdaace050166b7-0", rows)})
    sizes = ParquetEncoder("zstd")._sizes(batch, {"segment": "DICTIONARY"})
    assert ParquetEncoder("zstd")._sizes(batch, {"segment": "PLAIN"})["segment"] < sizes["segment"]
    assert encoding in encodings(batch)["segment"]


def test_two_leaves_of_one_path_are_both_dictionaries_and_harm_no_other() -> None:
    struct = pa.StructArray.from_arrays([COUNT], names=["x"])
    batch = pa.record_batch({"a.x": COUNT, "a": struct, "n": COUNT})
    found = encodings(batch)
    assert "RLE_DICTIONARY" in found["a.x"]
    assert found["n"] == {"DELTA_BINARY_PACKED"}
    value = ParquetEncoder("none").encode(batch, {})
    assert pq.read_table(pa.BufferReader(value)).equals(pa.table(batch))


def test_much_more_data_is_looked_at_again() -> None:
    """One row tells nothing: a segment of many has its own choice."""
    encoder = ParquetEncoder("none")
    small = encoder.encode(pa.record_batch({"n": COUNT[:1]}), {})
    big = encoder.encode(pa.record_batch({"n": COUNT}), {})
    assert small.size < big.size < N
