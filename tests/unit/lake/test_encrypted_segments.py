"""Segments with encrypted columns land as they came, in files of their own."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import GENERATIONS, DeltaLake, DirectoryLake, IcebergLake, letters, place_at
from pyarrow.parquet import encryption
from segments import ROWS, numbers, segment, segments

from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.segment.encoder import ParquetEncoder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from columnar_kafka.lake.model import SourceMessage

_KMS = encryption.KmsConnectionConfig()
_ENCRYPTION = encryption.EncryptionConfiguration(
    footer_key="footer", column_keys={"column": ["n"]}, plaintext_footer=True
)


class OpenKms(encryption.KmsClient):  # type: ignore[misc]
    """Hides no key: it shows that files need one."""

    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped)


_FACTORY = encryption.CryptoFactory(OpenKms)


class EncryptingEncoder(ParquetEncoder):
    """Writes files with another key each."""

    def encode(self, batch: pa.RecordBatch, footer: Mapping[str, bytes]) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        keys = _FACTORY.file_encryption_properties(_KMS, _ENCRYPTION)
        with pq.ParquetWriter(
            sink, batch.schema, write_page_checksum=True, encryption_properties=keys
        ) as writer:
            writer.write_batch(batch)
            writer.add_key_value_metadata(dict(footer))
        return sink.getvalue()


def encrypted(offset: int, *part: str) -> SourceMessage:
    """Return the segment that `segments` has at an offset, but with n encrypted.

    It has a column of what it is a `part` of, unless that is left out.
    """
    encoder = EncryptingEncoder("zstd")
    rows = {"n": pa.array(numbers([offset]), pa.int64())}
    if part:
        rows["part"] = pa.array(part)
    return segment(pa.table(rows), offset=offset, number=offset, encoder=encoder)


def decrypted(data: bytes) -> pa.Table:
    keys = _FACTORY.file_decryption_properties(_KMS, encryption.DecryptionConfiguration())
    return pq.read_table(pa.BufferReader(data), decryption_properties=keys)


MESSAGES = [*segments([0]), encrypted(1), *segments([2])]


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.mark.parametrize("verify", ["headers", "pages"])
def test_they_land_as_they_came_beside_stitched_files(lake: Any, verify: Any) -> None:
    table = lake.table()
    result = land(MESSAGES, table=table, generations=GENERATIONS, rules=Rules(verify=verify))
    assert (result.landed.messages, len(result.files)) == (3, 3)
    files = {path: (lake.root / path).read_bytes() for path in lake.data_files()}
    [unchanged] = [data for data in files.values() if data == MESSAGES[1].value]
    assert decrypted(unchanged)["n"].to_pylist() == numbers([1])
    others = [pq.read_table(pa.BufferReader(file)) for file in files.values() if file != unchanged]
    assert sorted(pa.concat_tables(others)["n"].to_pylist()) == numbers([0, 2])


@pytest.mark.parametrize("kind", [DeltaLake, IcebergLake])
def test_they_land_in_the_partition_that_a_plain_column_tells(kind: Any, tmp_path: Path) -> None:
    lake, place = kind(tmp_path / "lake"), place_at(tmp_path / "dead")
    sent = [encrypted(0, *["a"] * ROWS), encrypted(1, *["b"] * ROWS), encrypted(2, *"aab")]
    result = land(
        sent,
        table=lake.table(partition_by=["part"]),
        generations=GENERATIONS,
        rules=Rules(dead_letters=place),
    )
    assert (result.landed.messages, result.dead_letters) == (2, 1)
    files = [(lake.root / path).read_bytes() for path in lake.data_files()]
    assert sorted(files) == sorted(message.value for message in sent[:2])
    head = lake.table().head()
    landed = {file.read(): file.partition for file in lake.table().landed_files(head)}
    assert [landed[message.value]["part"].as_py() for message in sent[:2]] == ["a", "b"]
    [letter] = letters(place)
    assert "t[0]@2: it has encrypted columns, and would have to be decoded" in letter["reason"]


def test_they_are_refused_where_every_value_is_decoded(lake: Any) -> None:
    with pytest.raises(LakeError, match=r"t\[0\]@1.* has encrypted columns, which cannot be dec"):
        land(MESSAGES, table=lake.table(), generations=GENERATIONS, rules=Rules(verify="decode"))
    assert lake.data_files() == []


def test_compacting_changes_no_table_in_which_they_are_among_others(lake: Any) -> None:
    table = lake.table()
    land(MESSAGES, table=table, generations=GENERATIONS)
    before = {path: (lake.root / path).read_bytes() for path in lake.data_files()}
    with suppress(LakeError):  # Iceberg has nothing to merge: the others have its field ids
        table.compact(1 << 20)
    assert {path: (lake.root / path).read_bytes() for path in lake.data_files()} == before
