"""What Spark 4.0 and 4.1 lack is replaced or refused. `test_versions_on_spark` runs them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource
from pyspark.sql.pandas import types as spark_types
from pyspark.sql.types import StructType

import spark_sink
from columnar_kafka.errors import ConfigError
from spark_sink import older_spark, source
from spark_sink.columns import MESSAGE, RANGE

if TYPE_CHECKING:
    from types import ModuleType

TIMES = StructType().add("at", "timestamp").add("local", "timestamp_ntz")


@pytest.fixture
def in_4_0(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as Spark 4.0 would have it."""
    newer = spark_types.to_arrow_schema

    def to_arrow_schema(schema: StructType, timestamp_utc: bool = True) -> pa.Schema:
        return newer(schema, timezone="UTC" if timestamp_utc else None)

    monkeypatch.setattr(spark_types, "to_arrow_schema", to_arrow_schema)
    monkeypatch.delattr(datasource, "DataSourceStreamArrowWriter")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    spec = importlib.util.spec_from_file_location("in_4_0", Path(older_spark.__file__))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_streams_writer_is_one_that_spark_4_0_gives_batches_of_arrow(in_4_0: Any) -> None:
    assert issubclass(in_4_0.DataSourceStreamArrowWriter, datasource.DataSourceStreamWriter)
    assert issubclass(in_4_0.DataSourceStreamArrowWriter, datasource.DataSourceArrowWriter)


def test_a_reader_without_limits_needs_none_of_their_classes(in_4_0: Any) -> None:
    assert in_4_0.HAS_LIMITS is False

    class Reader(datasource.DataSourceStreamReader, in_4_0.SupportsTriggerAvailableNow):
        pass

    assert issubclass(Reader, datasource.DataSourceStreamReader)


def test_times_are_in_utc_in_all_releases(in_4_0: Any) -> None:
    expected = pa.schema([("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))])
    assert older_spark.arrow_schema(TIMES) == expected
    assert in_4_0.arrow_schema(TIMES) == expected


@pytest.mark.parametrize("option", ["maxOffsetsPerTrigger", "minoffsetspertrigger"])
def test_limits_are_refused_where_spark_does_not_tell_of_the_last_batch(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", option: "4"}
    data_source = spark_sink.KafkaSource(datasource.CaseInsensitiveDict(options))
    data_source.streamReader(MESSAGE)
    monkeypatch.setattr(source, "HAS_LIMITS", False)
    with pytest.raises(ConfigError, match=f"(?i){option}.* needs Spark 4.2"):
        data_source.streamReader(MESSAGE)


def test_a_query_without_partitions_has_no_rows() -> None:
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "mode": "ranges"}
    data_source = spark_sink.KafkaSource(datasource.CaseInsensitiveDict(options))
    reader = data_source.reader(RANGE)
    for nothing in (None, datasource.InputPartition(None)):
        assert list(reader.read(nothing)) == []
