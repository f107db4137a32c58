"""Turns Arrow data from elsewhere into the columns of records, for `Producer.produce_arrow`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import types

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns import kafka_column
from columnar_kafka.columns.from_arrow.cast import Caster, check_branches, check_field_names
from columnar_kafka.columns.from_arrow.chunked import convert_chunks
from columnar_kafka.columns.layouts import as_lists, regroup, unencoded
from columnar_kafka.errors import RowError
from columnar_kafka.schema.type_families import family
from columnar_kafka.schema.unions import is_union_of_rows

if TYPE_CHECKING:
    from columnar_kafka.schema import RecordSchema

__all__ = ["ArrowRows", "conform"]


class ArrowRows(NamedTuple):
    """Records as columns, all of one length; each may be in several chunks.

    Attributes:
        columns: exactly the schema's fields, in its order.
        keys: binary; null for no key.
        timestamps: timestamp[ms, UTC]; never null.
        headers: as in the `_kafka` column; null for none.
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
    """Return the rows of `data` as records of `schema`, with every value unchanged.

    Columns match fields by name, inside records too. Types are cast if every value stays exact: to
    another width, unit or layout; integers also to floats and decimals; timestamps between time
    zones, but not from a zone to none. A column that already fits is not copied. A pandas DataFrame
    is copied, because it may change later; its index is not sent.

    Args:
        data: a `pyarrow.RecordBatch`, `Table` or `RecordBatchReader`, a pandas DataFrame, or an
            object with ``__arrow_c_stream__`` or ``__arrow_c_array__``. A stream is read to its
            end.
        schema: the topic's.
        key: the column of keys: binary, or text as UTF-8; null for no key.
        timestamp: the column of record times: timestamps (rounded down; UTC if they have no zone)
            or integers, milliseconds since the epoch; null for `now_ms`.
        headers: the column of headers: maps, or lists of pairs (``key`` or ``name`` or ``0``, and
            ``value`` or ``1``), from text to binary or text; null for none.
        extra: ``"error"``, or ``"ignore"`` to leave out columns that the schema does not have.
        now_ms: the time of records that have none, in milliseconds since the epoch.

    Raises:
        RowError: a column is missing, extra or of a wrong type, or holds a value that is invalid,
            would change or is not allowed by the schema; names the value's row.
        TypeError: `data` is none of these.
        ValueError: `extra` is neither.
        Exception: any that a stream raises.
    """
    if extra not in ("error", "ignore"):
        raise ValueError(f"extra={extra!r}: must be 'error' or 'ignore'")
    table = _read(data)
    _check_columns(table, schema, {"key": key, "timestamp": timestamp, "headers": headers}, extra)
    caster = Caster(schema, ignore_extra=extra == "ignore")
    return ArrowRows(
        _columns(table, schema.arrow, caster),
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
    # Not from_struct_array, which up to pyarrow 20 forgets where a chunk ends.
    columns = [
        pa.chunked_array([chunk.field(i) for chunk in records.chunks], field.type)
        for i, field in enumerate(records.type)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(list(records.type)))


def _read_pandas(frame: Any) -> pa.Table:
    """Return a copy of a DataFrame's columns, for pandas' can change; missing values are null."""
    try:
        return pa.Table.from_pandas(frame.copy(), preserve_index=False)
    except (ValueError, TypeError, NotImplementedError, OverflowError) as error:
        raise RowError(f"the DataFrame cannot become Arrow columns: {error}") from error


def _check_columns(
    table: pa.Table, schema: RecordSchema, named: dict[str, str | None], extra: str
) -> None:
    columns = table.column_names
    for argument, name in named.items():
        if name is not None and columns.count(name) != 1:
            raise RowError(
                f"{argument}={name!r} names {columns.count(name)} columns of the data, which has "
                f"{', '.join(columns)}"
            )
    others = set(named.values()) - set(schema.arrow.names)
    names = [name for name in columns if name not in others]
    check_field_names(names, schema.arrow, schema.defaults, ignore_extra=extra == "ignore")


def _columns(table: pa.Table, schema: pa.Schema, caster: Caster) -> pa.Table:
    present = dict(zip(table.column_names, table.columns, strict=True))
    columns = [
        _column(present[field.name], field, caster)
        if field.name in present
        else pa.chunked_array([caster.default(field, field.name, table.num_rows)])
        for field in schema
    ]
    if is_union_of_rows(schema):
        check_branches(columns, None, "each row")
    return pa.Table.from_arrays(columns, schema=schema)


def _column(column: pa.ChunkedArray, to: pa.Field, caster: Caster) -> pa.ChunkedArray:
    return convert_chunks(column, to.name, lambda chunk: caster.cast(chunk, to, to.name))


# --- keys, timestamps, headers --------------------------------------------------------------------


def _keys(table: pa.Table, name: str | None, caster: Caster) -> pa.ChunkedArray:
    if name is None:
        return pa.chunked_array([pa.nulls(table.num_rows, kafka_column.KEY)])
    return convert_chunks(table[name], name, lambda chunk: _bytes(chunk, name, "a key", caster))


def _bytes(array: pa.Array, path: str, what: str, caster: Caster) -> pa.Array:
    """Return binary, or text as UTF-8, whatever its layout; `what` names it in a message."""
    arrow = unencoded(array.slice(0, 0)).type
    to = pa.string() if family(arrow) == "string" else pa.binary()
    if family(arrow) not in ("string", "binary") and not types.is_null(arrow):
        raise RowError(f"column {path!r} is {array.type}; {what} must be binary or string")
    return caster.cast(array, pa.field(path, to), path).cast(pa.binary())


def _timestamps(table: pa.Table, name: str | None, now_ms: int) -> pa.ChunkedArray:
    now = pa.scalar(now_ms, pa.int64()).cast(kafka_column.TIMESTAMP)
    if name is None:
        return pa.chunked_array([pa.repeat(now, table.num_rows)])
    return convert_chunks(
        table[name], name, lambda chunk: _milliseconds(chunk, name).fill_null(now)
    )


def _milliseconds(array: pa.Array, path: str) -> pa.Array:
    source, array = array.type, unencoded(array)
    if types.is_timestamp(array.type):
        if array.type.unit == "s":
            return array.cast(pa.timestamp("ms", array.type.tz)).cast(kafka_column.TIMESTAMP)
        return _floor(array.view(pa.int64()), _PER_MS[array.type.unit]).cast(kafka_column.TIMESTAMP)
    if types.is_integer(array.type) or types.is_null(array.type):
        return array.cast(pa.int64()).cast(kafka_column.TIMESTAMP)
    raise RowError(
        f"column {path!r} is {source}; a record's time must be a timestamp or an integer"
    )


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
    return convert_chunks(table[name], name, lambda chunk: _pairs(chunk, name, caster))


_PAIR_NAMES: Final = (("key", "name", "0"), ("value", "1"))


def _pairs(array: pa.Array, path: str, caster: Caster) -> pa.Array:
    source, array = array.type, unencoded(array)
    if types.is_null(array.type):
        return pa.nulls(len(array), kafka_column.HEADERS)
    lists = as_lists(array)
    pairs = unencoded(lists.flatten()) if family(lists.type) in ("list", "list view") else None
    if pairs is None or not types.is_struct(pairs.type) or not _are_pairs(array, pairs):
        raise RowError(
            f"column {path!r} is {source}; headers must be a map, or a list of key and value"
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
    names = [field.name for field in pairs.type]
    return types.is_map(array.type) or (
        len(names) == len(_PAIR_NAMES) and all(map(tuple.__contains__, _PAIR_NAMES, names))
    )
