"""Lenient JSON against Spark's `from_json`: where both have a value, it is the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from drifting import ODD

from columnar_kafka.plain import Lenient
from columnar_kafka.plain.row_formats import ROW_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "decimal(7,2)": pa.decimal128(7, 2),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
    "array<bigint>": pa.list_(pa.int64()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "struct<a:bigint>": pa.struct([("a", pa.int64())]),
}
VALUES = [
    *ODD,
    *('"2024-01-02"', '"2024-01-02T03:04:05Z"', '"2024-01-02 03:04:05"', '"12:00"', "3000000000"),
    *("9223372036854775807", "9223372036854775808", "1e3", "12.5", "12.345", '"12.5"', '"NaN"'),
    *('"AQ=="', "[1,2]", '[1,"x"]', "[1.0,null]", '{"a":"x"}', '{"a":2,"b":3}', '{"a":1.5}'),
]
BROKEN = ["{", "", "[1]", '"x"', "1", '{"k": 1} {"k": 2}', '{"k": 1, "k": 2}', "{'k': 1}"]


def both(spark: SparkSession, ddl: str, messages: list[str]) -> list[tuple[Any, Any]]:
    """Return the rows of messages here and by `from_json`; None here is a dead letter."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - where Spark is

    schema = pa.schema([("k", pa.int64()), ("f", TYPES[ddl])])
    rows = ROW_FORMATS["json"].open(schema, lenient=Lenient())
    table, errors = rows.decode([message.encode() for message in messages])
    made = iter(table.to_pylist())
    ours = [None if index in errors else next(made) for index in range(len(messages))]
    frame = spark.createDataFrame(list(enumerate(messages)), "number int, message string")
    read = sql.from_json("message", f"k bigint, f {ddl}", {"mode": "PERMISSIVE"})
    theirs = frame.select("number", read.alias("row")).orderBy("number").toArrow()["row"]
    return list(zip(ours, theirs.to_pylist(), strict=True))


ZERO_FRACTION = "7.0 and 1e2 are integers here; Spark: null"
DIGITS = "a number that the column would round is in the rest; Spark rounds it, or has infinity"
TEXTS = "a text column has texts only; Spark: the JSON of any value, numbers as Java writes them"
SURROGATES = "a text with a lone surrogate is in the rest; Spark: a question mark"
NUMBERS_IN_TEXTS = "a number in a text is in the rest; Spark reads decimals, NaN and Infinity there"
UNITS = "a number is a time in the column's unit; Spark: seconds, or null for a date"
DATES = "a date or time needs the column's form; Spark takes dates for times, and times for dates"
ONE_ITEM = "an item that does not fit is null in its list or map; Spark: the list or map is null"
BASE64 = "text that is no base64 is in the rest; Spark: all columns of the row are null"


def difference(ddl: str, text: str, ours: Any, theirs: Any) -> str:
    """Return the name of a difference; empty if it has none."""
    is_text, is_number = text.startswith('"'), ddl in ("double", "float", "decimal(7,2)")
    if "\\udc00" in text or ("\\ud" in text and ours is None):
        return SURROGATES
    names = [
        (DATES if is_text else UNITS, ddl in ("date", "timestamp")),
        (TEXTS, ddl == "string" and not is_text and ours is None),
        (NUMBERS_IN_TEXTS if is_text else DIGITS, is_number and ours is None),
        (ZERO_FRACTION, ddl in ("bigint", "int") and theirs is None),
        (ONE_ITEM, ddl.startswith(("array", "map")) and theirs is None),
    ]
    return next((name for name, holds in names if holds), "")


def test_where_both_have_a_value_it_is_the_same(spark: SparkSession) -> None:
    seen = set()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for ddl in TYPES:
        is_time = ddl in ("date", "timestamp")
        # Spark has times that Python does not have.
        values = [text for text in VALUES if not (is_time and text[-1].isdigit() and len(text) > 5)]
        found = both(spark, ddl, [f'{{"k": 1, "f": {text}}}' for text in values])
        for text, (ours, theirs) in zip(values, found, strict=True):
            assert ours["k"] == 1
            if ddl == "binary" and theirs["k"] is None:
                seen.add(BASE64)
            elif not same(ours["f"], theirs["f"]):
                name = difference(ddl, text, ours["f"], theirs["f"])
                assert name, (ddl, text, ours, theirs)
                seen.add(name)
    assert seen == {
        *(ZERO_FRACTION, DIGITS, TEXTS, SURROGATES, NUMBERS_IN_TEXTS, UNITS, DATES, ONE_ITEM),
        BASE64,
    }


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) and math.isnan(theirs):
        return ours is None
    return bool(ours == theirs)


def test_missing_and_unknown_fields_are_the_same(spark: SparkSession) -> None:
    messages = ["{}", '{"f": {"a": 1}}', '{"f": {}, "k": 1, "x": 2}', '{"f": {"a": 1, "b": 2}}']
    for ours, theirs in both(spark, "struct<a:bigint>", messages):
        assert (ours["k"], ours["f"]) == (theirs["k"], theirs["f"])


def test_what_is_no_object_is_a_dead_letter_and_a_row_of_nulls_to_spark(
    spark: SparkSession,
) -> None:
    *broken, twice, quotes = zip(BROKEN, both(spark, "bigint", BROKEN), strict=True)
    for text, (ours, theirs) in broken:
        assert ours is None, text
        assert theirs is None or theirs["f"] is None, text
    # It also has the last of two values, and takes other quotes than JSON's.
    assert (twice[1][0], twice[1][1]["k"]) == (None, 2)
    assert (quotes[1][0], quotes[1][1]["k"]) == (None, 1)
