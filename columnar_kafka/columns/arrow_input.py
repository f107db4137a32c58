"""Arrow data from elsewhere to the columns of records: what `Producer.produce_arrow` sends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.cast import Caster, check_names
from columnar_kafka.columns.chunked import convert
from columnar_kafka.columns.layouts import as_lists, plain, regroup
from columnar_kafka.errors import RowError
from columnar_kafka.schema.families import family

if TYPE_CHECKING:
    from columnar_kafka.schema import RecordSchema

__all__ = ["ArrowRows", "conform"]


class ArrowRows(NamedTuple):
    """Records as columns, all of one length; each may be in several chunks.

    Attributes:
        columns: exactly the schema's fields, in its order.
        keys: binary; null: no key.
        timestamps: timestamp[ms, UTC], none null.
        headers: as in the `_kafka` column; null: none.
    """

    columns: pa.Table
    keys: pa.ChunkedArray
    timestamps: pa.ChunkedArray
    headers: pa.ChunkedArray


def conform(
    data: Any,
    schema: RecordSchema,
    *,
    key: str | None = None,
    timestamp: str | None = None,
    headers: str | None = None,
    extra: str = "error",
    now_ms: int,
) -> ArrowRows:
    """Return the rows of `data` as records of `schema`, every value as it was.

    Columns match by name, fields of records too. What a column's type and the field's both can
    hold is cast: integers, floats, decimals and times of other sizes and units, integers to floats
    (up to 2^53) and decimals, any layout of strings, binaries and lists, dictionaries and runs;
    timestamps of any zone, but not with a zone to without. What is right already is not copied. A
    pandas DataFrame is copied, for it may change later; its index is not sent.

    Args:
        data: a `pyarrow.RecordBatch`, `Table` or `RecordBatchReader`, a pandas DataFrame, or what
            has ``__arrow_c_stream__`` or ``__arrow_c_array__``. A stream is read to its end.
        schema: the topic's.
        key: the name of the column of keys: binary, or text as UTF-8; null: no key.
        timestamp: the name of the column of record times: timestamps, those without a zone in UTC,
            or integers, milliseconds since the epoch; null: `now_ms`. Finer ones are rounded down.
        headers: the name of the column of headers: maps, or lists of pairs (``key`` or ``name`` or
            ``0``, and ``value`` or ``1``), of text to binary or text; null: none.
        extra: ``"error"``, or ``"ignore"`` to leave out what the schema does not have.
        now_ms: the time of the records that have none, in milliseconds since the epoch.

    Raises:
        RowError: a column is missing, extra, of a wrong type, or holds a value (whose row is named)
            that would not stay what it is, that the schema does not allow, or that is not valid.
        TypeError: `data` is none of these.
        ValueError: `extra` is neither.
        Exception: what a stream raises.
    """
    if extra not in ("error", "ignore"):
        raise ValueError(f"extra={extra!r}: must be 'error' or 'ignore'")
    table = _read(data)
    _check_columns(table, schema, {"key": key, "timestamp": timestamp, "headers": headers}, extra)
    caster = Caster(schema, ignore_extra=extra == "ignore")
    rows = table.num_rows
    given = dict(zip(table.column_names, table.columns, strict=True))
    columns = [
        _column(given[each.name], each, caster)
        if each.name in given
        else pa.chunked_array([caster.default(each, each.name, rows)])
        for each in schema.arrow
    ]
    return ArrowRows(
        pa.Table.from_arrays(columns, schema=schema.arrow),
        _keys(table, key, caster),
        _timestamps(table, timestamp, now_ms),
        _headers(table, headers, caster),
    )


def _read(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _read_pandas(data)
    if hasattr(data, "__arrow_c_stream__"):
        records = pa.chunked_array(data)
    elif hasattr(data, "__arrow_c_array__"):
        records = pa.chunked_array([pa.array(data)])
    else:
        raise TypeError(
            "data must be a pyarrow RecordBatch, Table or RecordBatchReader, a pandas DataFrame, "
            "or have __arrow_c_stream__ or __arrow_c_array__ (polars, duckdb), "
            f"not {type(data).__name__}"
        )
    if not types.is_struct(records.type):
        raise TypeError(
            f"data must be rows of columns; this {type(data).__name__} is {records.type}"
        )
    if records.null_count:
        row = records.is_null().index(pa.scalar(value=True)).as_py()
        raise RowError(f"row {row} is null: a record cannot be")
    return pa.Table.from_struct_array(records)


def _read_pandas(frame: Any) -> pa.Table:
    """Return a DataFrame's columns, missing values as nulls; of a copy, for pandas' can change."""
    try:
        return pa.Table.from_pandas(frame.copy(), preserve_index=False)
    except (ValueError, TypeError, NotImplementedError, OverflowError) as error:
        raise RowError(f"the DataFrame cannot become Arrow columns: {error}") from error


def _check_columns(
    table: pa.Table, schema: RecordSchema, named: dict[str, str | None], extra: str
) -> None:
    given = table.column_names
    for argument, name in named.items():
        if name is not None and given.count(name) != 1:
            raise RowError(
                f"{argument}={name!r} names {given.count(name)} columns of the data, which has "
                f"{', '.join(given)}"
            )
    others = set(named.values()) - set(schema.arrow.names)
    names = [name for name in given if name not in others]
    check_names(names, schema.arrow, schema.defaults, ignore_extra=extra == "ignore")


def _column(column: pa.ChunkedArray, to: pa.Field, caster: Caster) -> pa.ChunkedArray:
    return convert(column, to.name, lambda chunk: caster.cast(chunk, to, to.name))


# --- keys, timestamps, headers --------------------------------------------------------------------


def _keys(table: pa.Table, name: str | None, caster: Caster) -> pa.ChunkedArray:
    if name is None:
        return pa.chunked_array([pa.nulls(table.num_rows, kafka_column.KEY)])
    return convert(table[name], name, lambda chunk: _bytes(chunk, name, "a key", caster))


def _bytes(array: pa.Array, path: str, what: str, caster: Caster) -> pa.Array:
    """Return binary, or text as UTF-8, in any layout."""
    arrow = plain(array.slice(0, 0)).type
    to = pa.string() if family(arrow) == "string" else pa.binary()
    if family(arrow) not in ("string", "binary") and not types.is_null(arrow):
        raise RowError(f"column {path!r} is {array.type}; {what} must be binary or string")
    return caster.cast(array, pa.field(path, to), path).cast(pa.binary())


def _timestamps(table: pa.Table, name: str | None, now_ms: int) -> pa.ChunkedArray:
    now = pa.scalar(now_ms, pa.int64()).cast(kafka_column.TIMESTAMP)
    if name is None:
        return pa.chunked_array([pa.repeat(now, table.num_rows)])
    return convert(table[name], name, lambda chunk: _milliseconds(chunk, name).fill_null(now))


def _milliseconds(array: pa.Array, path: str) -> pa.Array:
    given, array = array.type, plain(array)
    if types.is_timestamp(array.type):
        if array.type.unit == "s":
            return array.cast(pa.timestamp("ms", array.type.tz)).cast(kafka_column.TIMESTAMP)
        return _floor(array.view(pa.int64()), _PER_MS[array.type.unit]).cast(kafka_column.TIMESTAMP)
    if types.is_integer(array.type) or types.is_null(array.type):
        return array.cast(pa.int64()).cast(kafka_column.TIMESTAMP)
    raise RowError(f"column {path!r} is {given}; a record's time must be a timestamp or an integer")


_PER_MS: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}


def _floor(ticks: pa.Array, per: int) -> pa.Array:
    if per == 1:
        return ticks
    towards_zero = pc.divide(ticks, per)
    above = pc.greater(pc.multiply(towards_zero, per), ticks)
    return pc.subtract(towards_zero, above.cast(pa.int64()))


def _headers(table: pa.Table, name: str | None, caster: Caster) -> pa.ChunkedArray:
    if name is None:
        return pa.chunked_array([pa.nulls(table.num_rows, kafka_column.HEADERS)])
    return convert(table[name], name, lambda chunk: _pairs(chunk, name, caster))


_PAIR: Final = (("key", "name", "0"), ("value", "1"))


def _pairs(array: pa.Array, path: str, caster: Caster) -> pa.Array:
    given, array = array.type, plain(array)
    if types.is_null(array.type):
        return pa.nulls(len(array), kafka_column.HEADERS)
    lists = as_lists(array)
    pairs = plain(lists.flatten()) if family(lists.type) in ("list", "list view") else None
    if pairs is None or not types.is_struct(pairs.type) or not _are_pairs(array, pairs):
        raise RowError(
            f"column {path!r} is {given}; headers must be a map, or a list of key and value"
        )
    if pairs.null_count:
        raise RowError(f"column {path!r} has a null among its headers")
    keys = caster.cast(pairs.field(0), pa.field("key", pa.string(), nullable=False), f"{path}.key")
    values = _bytes(pairs.field(1), f"{path}.value", "a header's value", caster)
    struct = pa.StructArray.from_arrays(
        [keys, values], fields=list(kafka_column.HEADERS.value_type)
    )
    return regroup(lists, struct, kafka_column.HEADERS)


def _are_pairs(array: pa.Array, pairs: pa.StructArray) -> bool:
    names = [each.name for each in pairs.type]
    return types.is_map(array.type) or (
        len(names) == len(_PAIR) and all(map(tuple.__contains__, _PAIR, names))
    )
