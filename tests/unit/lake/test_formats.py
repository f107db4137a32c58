"""Opening tables by the name of their format."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.delta import DeltaLakeTable
from columnar_kafka.lake.directory import ParquetDirectory
from columnar_kafka.lake.formats import open_table

if TYPE_CHECKING:
    from pathlib import Path


def test_the_format_chooses_the_class(tmp_path: Path) -> None:
    assert isinstance(open_table("parquet", str(tmp_path), allow_gaps=True), ParquetDirectory)
    assert isinstance(open_table("delta", str(tmp_path), reland=True), DeltaLakeTable)


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(ConfigError, match="table format 'csv' does not exist; there are parquet, "):
        open_table("csv", "/lake")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "columnar_kafka.lake.delta")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ConfigError, match=r"deltalake.*pip install 'columnar-kafka\[delta\]'"):
        open_table("delta", "/lake")
