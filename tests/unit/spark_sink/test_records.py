"""The columns of mode ``records`` that a user names, without a Spark and without a Kafka."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

import spark_sink
from columnar_kafka.errors import ConfigError

SOURCE = spark_sink.KafkaSource(
    CaseInsensitiveDict(
        {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "mode": "records"}
    )
)
INNER = StructType([StructField("n", IntegerType(), nullable=False)])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (INNER, "column 'n' is NOT NULL"),
        (StructType().add("a", INNER), r"column 'a\.n' is NOT NULL"),
        (StructType().add("a", ArrayType(StringType(), False)), r"'a\.element' is NOT NULL"),
        (StructType().add("a", ArrayType(INNER)), r"'a\.element\.n' is NOT NULL"),
        (
            StructType().add("a", MapType(StringType(), StringType(), False)),
            r"'a\.value' is NOT NULL",
        ),
        (StructType().add("a", MapType(INNER, StringType())), r"'a\.key\.n' is NOT NULL"),
        (StructType().add("_kafka", StructType().add("key", "binary", False)), r"'_kafka\.key' is"),
        (StructType().add("_kafka", "string"), "_kafka is string: it must be a struct"),
        (
            StructType().add("_kafka", StructType().add("time", "long")),
            "_kafka has no member 'time'; it has topic, part",
        ),
    ],
)
def test_columns_that_no_query_can_have_are_refused(schema: StructType, message: str) -> None:
    for reader in (SOURCE.reader, SOURCE.streamReader):
        with pytest.raises(ConfigError, match=message):
            reader(schema)


def test_nullable_columns_are_taken() -> None:
    schema = StructType().add("m", MapType(StringType(), ArrayType(StructType().add("n", "long"))))
    SOURCE.reader(schema.add("_kafka", StructType().add("offset", "long")))
