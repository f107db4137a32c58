"""Golden segments as anybody reads them: pyarrow, json and zlib; nothing of this package."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from neutral import plain_rows

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.parquet"))
HAS_ITS_TYPES = [name for name in NAMES if name != "arrow" or hasattr(pa, "decimal32")]
# A null in place of a fixed-size list: its footer can be read before.
DECODABLE = [name for name in NAMES if name != "arrow" or int(pa.__version__.split(".")[0]) >= 26]


def golden(name: str) -> tuple[bytes, dict[str, Any]]:
    meaning = json.loads((HERE / f"{name}.json").read_text(encoding="ascii"))
    return (HERE / f"{name}.parquet").read_bytes(), meaning


def read(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data), page_checksum_verification=True)


def without_kafka(table: pa.Table) -> pa.Table:
    return table.drop_columns("_kafka") if "_kafka" in table.schema.names else table


def test_there_are_golden_segments_each_with_its_meaning_and_they_are_small() -> None:
    assert len(NAMES) >= 29
    assert sorted(path.stem for path in HERE.glob("*.json")) == NAMES
    files = [*HERE.glob("*.parquet"), *HERE.glob("*.json")]
    assert sum(path.stat().st_size for path in files) < 230_000


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_that_were_written_once(name: str) -> None:
    data, meaning = golden(name)
    assert hashlib.sha256(data).hexdigest() == meaning["sha256"]


@pytest.mark.parametrize("name", NAMES)
def test_the_checksum_in_the_headers_is_the_values(name: str) -> None:
    data, meaning = golden(name)
    assert dict(meaning["headers"])["columnar.crc32"] == str(zlib.crc32(data))


@pytest.mark.parametrize("name", HAS_ITS_TYPES)
def test_the_footer_repeats_the_other_headers(name: str) -> None:
    data, meaning = golden(name)
    metadata = pq.read_metadata(pa.BufferReader(data)).metadata
    footer = {k.decode(): v.decode() for k, v in metadata.items() if k.startswith(b"columnar.")}
    parts = {"columnar.json": "json", "columnar.avro": "said_of_avro"}
    said = {key: meaning[part] for key, part in parts.items() if part in meaning}
    assert footer == {k: v for k, v in meaning["headers"] if k != "columnar.crc32"} | said


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_is_the_canonical_texts(name: str) -> None:
    _, meaning = golden(name)
    text = "".join(f"{line}\n" for line in meaning["canonical"])
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    assert dict(meaning["headers"])["columnar.schema"] == digest


@pytest.mark.parametrize("name", DECODABLE)
def test_the_users_columns_hold_the_rows(name: str) -> None:
    data, meaning = golden(name)
    assert plain_rows(without_kafka(read(data))) == meaning["rows"]


@pytest.mark.parametrize("name", DECODABLE)
def test_the_kafka_column_holds_each_records_identity_key_time_and_headers(name: str) -> None:
    data, meaning = golden(name)
    headers = dict(meaning["headers"])
    expected = []
    for row, record in enumerate(meaning["records"]):
        members = {
            "id": {"segment": headers["columnar.segment"], "row": row},
            "key": {"key": record["key"]},
            "timestamp": {"timestamp": record["timestamp"]},
            "headers": {
                "headers": record["headers"]
                and [{"key": key, "value": value} for key, value in record["headers"]]
            },
        }
        chosen: dict[str, Any] = {}
        for member in meaning["metadata"]:
            chosen |= members[member]
        expected.append(chosen)
    table = read(data)
    if meaning["metadata"]:
        assert plain_rows(table.select(["_kafka"])) == [{"_kafka": value} for value in expected]
        assert table.schema.names[-1] == "_kafka"
    else:
        assert "_kafka" not in table.schema.names


@pytest.mark.parametrize("name", HAS_ITS_TYPES)
def test_rows_and_times_are_what_the_headers_say(name: str) -> None:
    data, meaning = golden(name)
    headers = dict(meaning["headers"])
    times = [record["timestamp"] for record in meaning["records"]]
    rows = int(headers["columnar.rows"])
    assert rows == pq.read_metadata(pa.BufferReader(data)).num_rows == len(times)
    assert int(headers["columnar.timestamp.max"]) == max(times)
    assert int(headers["columnar.timestamp.min"]) <= min(times)


@pytest.mark.parametrize("name", HAS_ITS_TYPES)
def test_each_column_is_compressed_as_it_says(name: str) -> None:
    data, meaning = golden(name)
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    codecs = {group.column(i).compression for i in range(group.num_columns)}
    codec = {"none": "UNCOMPRESSED"}.get(meaning["compression"], meaning["compression"].upper())
    if name.startswith("native-"):  # columns that do not get smaller are not
        assert codecs <= {codec, "UNCOMPRESSED"}
    else:
        assert codecs == {codec}


@pytest.mark.parametrize("name", HAS_ITS_TYPES)
def test_pages_have_checksums(name: str) -> None:
    """A flipped bit in the last data page is found, though the codec may not notice it."""
    data, _ = golden(name)
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    chunk = group.column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    damaged = bytearray(data)
    damaged[start + chunk.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        read(bytes(damaged))


@pytest.mark.parametrize("name", HAS_ITS_TYPES)
def test_there_are_no_field_ids(name: str) -> None:
    data, _ = golden(name)
    schema = str(pq.ParquetFile(pa.BufferReader(data)).schema)
    assert "field_id=-1" in schema
    assert "field_id=" not in schema.replace("field_id=-1", "")


def test_they_show_every_compression_and_every_choice_of_metadata() -> None:
    cases = [golden(name)[1] for name in NAMES]
    assert {case["compression"] for case in cases} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert len({tuple(case["metadata"]) for case in cases}) == 16


def test_they_show_odd_keys_and_headers() -> None:
    records = [record for name in NAMES for record in golden(name)[1]["records"]]
    assert {None, ""} <= {record["key"] for record in records}
    headers = [record["headers"] for record in records if record["headers"]]
    assert any(len({key for key, _ in header}) < len(header) for header in headers)
    assert any(value is None for header in headers for _, value in header)
    assert any(value == "" for header in headers for _, value in header)
    assert any(record["headers"] is None for record in records)
