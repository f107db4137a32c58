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
from columnar_kafka.lake.tables.files import hide_password, refuse_password, refuse_passwords
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


@pytest.mark.parametrize(
    "place",
    [
        "s3://user:hunter2@bucket/t",
        "s3a://user:hun/ter2@bucket/t",
        "gs://user:hunter2@bucket",
        "abfss://container:hunter2@account.dfs.core.windows.net/t",
        "s3://key:hunter2/t",
        "s3://bucket/t?secret=hunter2",
        "https://user:hunter2@host/t",
        "https://host/t?sig=hunter2",
        "hdfs://user:hunter2@host/t",
    ],
)
def test_a_url_with_a_password_is_refused_without_it(place: str) -> None:
    """obstore and deltalake pass over it, and pyiceberg takes it for the bucket."""
    scheme = place.partition(":")[0]
    match = f"^{scheme}://…: the URL of a table must have no password, .* aws_access_key_id"
    for table_format in ("parquet", "delta", "iceberg"):
        with pytest.raises(ConfigError, match=match) as raised:
            open_table(table_format, place)
        assert "hun" not in str(raised.value)


@pytest.mark.parametrize(
    "place",
    [
        "abfss://container@account.dfs.core.windows.net/t",
        "s3://bucket/a:b@c",
        "s3://bucket/t",
        "/lake/a:b@c?d",
        "file:///lake/a:b@c",
        "hdfs://name-node:8020/a@b",
        "lake.flights",
    ],
)
def test_other_places_are_not_taken_for_urls_with_a_password(place: str) -> None:
    refuse_password(place)
    assert type(hide_password(place)) is str


def test_urls_among_the_options_of_a_store_or_catalog_have_no_password() -> None:
    """Errors of obstore, deltalake and requests would show it. Proxies and databases use it."""
    secret = "//user:hunter2@host:1/x"
    for key, value in (
        ("aws_endpoint", f"http:{secret}"),
        ("s3.endpoint", f"https:{secret}"),
        ("uri", f"http:{secret}"),
        ("warehouse", f"s3:{secret}"),
    ):
        with pytest.raises(ConfigError, match=f"^{key}: its URL must have no password"):
            refuse_passwords({"aws_region": "x", key: value})
    refuse_passwords(
        {
            "uri": f"postgresql+psycopg2:{secret}",
            "proxy_url": f"http:{secret}",
            "s3.proxy-uri": f"http:{secret}",
            "s3.endpoint": "http://host:9000/a@b",
            "warehouse": "s3://bucket/a:b@c",
            "token": "a:b@c",
        }
    )


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
