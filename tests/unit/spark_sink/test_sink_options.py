"""The sink's options, without a Spark: what is wrong with them is said before anything runs."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, StructType

import spark_sink
from columnar_kafka.errors import ConfigError, LakeError

NEEDED = ("value", "topic", "partition", "offset", "headers")
SCHEMA = StructType()
for _name in NEEDED:
    SCHEMA.add(_name, BinaryType())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"table.format": "csv"},
            r'"table\.format" is .csv.: it must be parquet or delta or iceberg',
        ),
        (
            {"table.layout": "whole"},
            r'"table\.layout" is .whole.: it must be (stitched|verbatim) or',
        ),
        ({"table.file.bytes": "many"}, r'"table\.file\.bytes" is .many.: it must be a positive'),
        ({"table.file.bytes": "0"}, r'"table\.file\.bytes" is .0.: it must be a positive'),
        ({"table.gap": "yes"}, r'"table\.gap" is .yes.: it must be refuse or allow'),
        (
            {"table.format": "delta", "table.after.restore": "go"},
            r'"table\.after\.restore" is .go.: it must be stop or reland',
        ),
        ({"table.after.restore": "stop"}, r'"table\.after\.restore" is for delta and iceberg'),
        ({"table.partition.by": "n"}, r'"table\.partition\.by" is for delta and iceberg'),
        ({"table.straddle": "x"}, r'"table\.straddle" is \'x\': it must be split or stop'),
        ({"table.growth": "allow"}, r'"table\.growth" is for delta and iceberg'),
        ({"table.format": "delta", "table.growth": "x"}, r'"table\.growth" is \'x\': it must be'),
        (
            {"table.format": "iceberg", "path": "t", "table.catalog.type": "sql"},
            "table 't': name it with its namespace",
        ),
        ({"table.format": "iceberg"}, r'"table\.catalog\.\*" name the catalog of an iceberg table'),
        ({"table.catalog.type": "sql"}, r'"table\.catalog\.\*" name the catalog of an iceberg'),
        ({"tableformat": "parquet"}, r'"tableformat" does not exist'),
        ({"path": ""}, r'"path" is missing'),
    ],
)
def test_a_bad_option_is_named(options: dict[str, str], message: str) -> None:
    sink = spark_sink.LakeSink({"path": "/lake", **options})
    with pytest.raises((ConfigError, LakeError), match=message):
        sink.streamWriter(SCHEMA, overwrite=False)


def test_another_output_mode_than_append_is_refused() -> None:
    with pytest.raises(ConfigError, match="append"):
        spark_sink.LakeSink({"path": "/lake"}).streamWriter(SCHEMA, overwrite=True)


@pytest.mark.parametrize("name", NEEDED)
def test_a_column_that_is_missing_is_named(name: str) -> None:
    schema = StructType([each for each in SCHEMA.fields if each.name != name])
    with pytest.raises(ConfigError, match=f"column {name!r} of the Kafka source is missing"):
        spark_sink.LakeSink({"path": "/lake"}).streamWriter(schema, overwrite=False)
