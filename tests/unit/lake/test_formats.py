"""Opening tables by the name of their format."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.lake.aside.message_rows import PLAIN_MESSAGES
from columnar_kafka.lake.formats import open_table, parse_rules
from columnar_kafka.lake.tables.delta.table import DeltaLakeTable
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.lake.tables.iceberg.files import file_io_properties

if TYPE_CHECKING:
    from pathlib import Path


def test_the_format_chooses_the_class(tmp_path: Path) -> None:
    assert isinstance(open_table("parquet", str(tmp_path), allow_gaps=True), ParquetDirectory)
    assert isinstance(open_table("delta", str(tmp_path), reland=True), DeltaLakeTable)


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(
        ConfigError, match="table format 'csv' does not exist; the formats are parquet, "
    ):
        open_table("csv", "/lake")


def test_a_table_of_plain_messages_has_no_partitions(tmp_path: Path) -> None:
    rules = parse_rules(
        verify="pages",
        dead_letters=None,
        plain=f"table:{tmp_path}",
        table_format="delta",
        partition_by=["day"],
    )
    assert rules.plain_table is not None
    assert rules.plain_table.fit(PLAIN_MESSAGES).partitioning == ()


def test_a_url_is_opened_in_its_object_store() -> None:
    storage = {"aws_region": "eu-central-1"}
    for name, kind in (("parquet", ParquetDirectory), ("delta", DeltaLakeTable)):
        table = open_table(name, "s3://bucket/lake/", storage=storage)
        assert repr(table) == f"{kind.__name__}('s3://bucket/lake')"


def test_a_place_that_a_library_would_take_for_another_is_refused() -> None:
    with pytest.raises(LakeError, match="a table's path must not contain '%'"):
        open_table("delta", "s3://bucket/50%", storage={"aws_region": "eu-central-1"})


def test_keys_of_an_object_store_are_refused_for_a_path_and_where_pyiceberg_has_none() -> None:
    with pytest.raises(ConfigError, match="storage aws_region: '/lake' is not in an object store"):
        open_table("parquet", "/lake", storage={"aws_region": "eu-central-1"})
    with pytest.raises(
        ConfigError, match="storage google_service_account: the keys for Iceberg are"
    ):
        open_table("iceberg", "l.t", catalog={}, storage={"google_service_account": "x"})


def test_the_endpoint_of_icebergs_files_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    assert file_io_properties({}) == {"s3.endpoint": "http://store:9000"}
    other = "http://other:9000"
    assert file_io_properties({"aws_endpoint_url": other}) == {"s3.endpoint": other}


def test_a_missing_object_store_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "columnar_kafka.lake.tables.object_files", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match=r"obstore.*pip install 'columnar-kafka\[stores\]'"):
        open_table("delta", "s3://bucket/lake")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "columnar_kafka.lake.tables.delta.table")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"deltalake.*pip install 'columnar-kafka\[delta\]'"):
        open_table("delta", "/lake")
