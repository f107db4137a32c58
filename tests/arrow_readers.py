"""Readers of Parquet that are not ours, as functions that return Arrow, and the types they return.

parquet-rs is read through arro3-io, which has no other reader; it is installed into the cache.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from columnar_kafka.local.java import once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_DIGITS: Final = 38
"""The most that a decimal has in most readers."""
_PARQUET_RS: Final = "arro3-io==0.9.1"
SPARK_OPTIONS: Final = {
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.timeType.enabled": "true",
}
"""Without these Spark refuses nanoseconds, and times of day."""


class RefusedError(Exception):
    """A reader refuses files with a type; the error's text is a part of the reader's."""


class Reader(NamedTuple):
    """How a file is read, and as which type a reader returns one that is not nested."""

    read: Callable[[Path], pa.Table]
    returned: Callable[[pa.DataType], pa.DataType]

    def as_read(self, values: pa.Array) -> pa.Array:
        """Return values as the reader should, without any loss."""
        return values.cast(self.returned(values.type))

    def rounds(self, arrow: pa.DataType) -> bool:
        """Whether the reader rounds values of a type, or of one that is in it."""
        if types.is_nested(arrow):
            return any(self.rounds(arrow.field(n).type) for n in range(arrow.num_fields))
        return types.is_decimal(arrow) and types.is_floating(self.returned(arrow))

    def refusal(self, arrow: pa.DataType) -> str | None:
        """Return why the reader refuses a type, or what is in it; None if it does not."""
        if types.is_nested(arrow):
            inner = (self.refusal(arrow.field(n).type) for n in range(arrow.num_fields))
            return next(filter(None, inner), None)
        try:
            self.returned(arrow)
        except RefusedError as error:
            return str(error)
        return None


def readers(spark: Any) -> dict[str, Reader]:
    """Return the readers by name.

    Args:
        spark: a session, with `SPARK_OPTIONS`.
    """
    return {
        "pyarrow": Reader(pq.read_table, lambda arrow: arrow),
        "parquet-rs": Reader(_parquet_rs(), lambda arrow: arrow),
        "duckdb": Reader(_with_duckdb, _of_duckdb),
        "polars": Reader(lambda path: pl.read_parquet(path).to_arrow(), _of_polars),
        "Spark": Reader(lambda path: spark.read.parquet(str(path)).toArrow(), _of_spark),
    }


def _parquet_rs() -> Callable[[Path], pa.Table]:
    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        subprocess.run([*pip, _PARQUET_RS], check=True)

    sys.path.append(str(once(_PARQUET_RS.replace("==", "-"), install)))
    arro3 = importlib.import_module("arro3.io")
    return lambda path: pa.table(arro3.read_parquet(str(path)))


def _with_duckdb(path: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        return connection.read_parquet(str(path)).to_arrow_table()


def _of_duckdb(arrow: pa.DataType) -> pa.DataType:
    if types.is_float16(arrow):
        return pa.float32()
    if types.is_time32(arrow):
        return pa.time64("us")
    if types.is_decimal(arrow) and arrow.precision > _DIGITS:
        return pa.float64()
    return _without_zone_or_size(arrow)


def _of_polars(arrow: pa.DataType) -> pa.DataType:
    if types.is_time(arrow):
        return pa.time64("ns")
    if arrow == pa.duration("s"):
        return pa.duration("ms")
    if types.is_timestamp(arrow):
        return pa.timestamp(arrow.unit, _POLARS_ZONES.get(arrow.tz, arrow.tz))
    if types.is_fixed_size_binary(arrow):
        return pa.binary()
    return _decimal(arrow, "precision|unreachable code|can't decode Decimal128")  # by nesting


_POLARS_ZONES: Final = {"+02:00": "Etc/GMT-2"}


def _of_spark(arrow: pa.DataType) -> pa.DataType:
    if types.is_float16(arrow) or arrow == pa.time32("ms"):
        raise RefusedError("PARQUET_TYPE_ILLEGAL")
    if types.is_time(arrow):
        return pa.time64("ns")
    if types.is_timestamp(arrow) and arrow.unit == "ns":
        return pa.int64()
    return _SIGNED.get(arrow) or _without_zone_or_size(arrow)


_SIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def _without_zone_or_size(arrow: pa.DataType) -> pa.DataType:
    """Return a type as the readers have it that store the Arrow schema nowhere."""
    if types.is_timestamp(arrow):
        return pa.timestamp("us" if arrow.unit == "ms" else arrow.unit, arrow.tz and "UTC")
    if types.is_duration(arrow):
        return pa.int64()
    if types.is_fixed_size_binary(arrow):
        return pa.binary()
    return _decimal(arrow, "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION")


def _decimal(arrow: pa.DataType, refusal: str) -> pa.DataType:
    if not types.is_decimal(arrow):
        return arrow
    if arrow.precision > _DIGITS:
        raise RefusedError(refusal)
    return pa.decimal128(arrow.precision, arrow.scale)
