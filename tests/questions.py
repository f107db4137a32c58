"""Asks engines for the rows of landed tables, by filters that let them pass over files.

Each engine prunes by what the table says of its files, and most also by what the files say of
themselves. `ask` compares how many rows it finds with how many there are.
"""

from __future__ import annotations

import datetime
import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import QueryBuilder
from pyiceberg import expressions as ice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Answer = Callable[["Question"], int | None]
    Engines = dict[str, tuple[Answer, bool]]
    """What counts the rows of a question by engine; None if an engine has no such question. And
    whether NaN is greater than all numbers there, and equal to itself."""

OPERATORS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NULL, VALID, NAN = "null", "valid", "nan"

_ARROW_NAMES = {"string": "Utf8", "large_string": "Utf8", "date32[day]": "Date32"}


class Question(NamedTuple):
    """Which rows have such a value in a column, or a member of structs."""

    path: tuple[str, ...]
    kind: pa.DataType
    asked: str
    value: Any = None

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} {self.asked} {self.value!r}"

    @property
    def is_comparison(self) -> bool:
        return self.asked in OPERATORS

    def count(self, values: Iterable[Any], *, ordered: bool) -> int:
        """Return how many of the column's values are such; if `ordered`, NaN is the greatest."""
        return sum(self._holds(value, ordered=ordered) for value in values)

    def _holds(self, value: Any, *, ordered: bool) -> bool:
        if self.asked in (NULL, VALID):
            return (value is None) == (self.asked == NULL)
        if value is None:
            return False
        if self.asked == NAN:
            return is_nan(value)
        if ordered and isinstance(value, float):
            return bool(OPERATORS[self.asked](_place(value), _place(self.value)))
        return bool(OPERATORS[self.asked](value, self.value))


def _place(value: float) -> tuple[bool, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def leaves(table: pa.Table) -> Iterator[tuple[tuple[str, ...], pa.DataType, list[Any]]]:
    """Yield path, type and values of each column that is asked about, and of structs' members."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield from _leaves((name,), column.combine_chunks())


def _leaves(
    path: tuple[str, ...], column: pa.Array
) -> Iterator[tuple[tuple[str, ...], pa.DataType, list[Any]]]:
    kind = column.type
    if pa.types.is_struct(kind):
        for field, child in zip(kind, column.flatten(), strict=True):
            yield from _leaves((*path, field.name), child)
    yield path, kind, _values(column)


def _values(column: pa.Array) -> list[Any]:
    """Return a column's values; times that Python does not have as numbers, which are not asked."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        width = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
        return list(column.cast(width).to_pylist())


def questions(
    table: pa.Table, values: int | None = None, comparisons: Iterable[str] = tuple(OPERATORS)
) -> Iterator[tuple[Question, list[Any]]]:
    """Yield questions about each column, with the column's values.

    Args:
        table: the rows that are there.
        values: ask for so many of a column's values, the least and the greatest among them; by
            default for all.
        comparisons: how to compare with each of them.
    """
    for path, kind, column_values in leaves(table):
        for asked in (NULL, VALID, *([NAN] if pa.types.is_floating(kind) else [])):
            yield Question(path, kind, asked), column_values
        for value in _asked_for(kind, column_values, values):
            for asked in ("=",) if pa.types.is_boolean(kind) else comparisons:
                yield Question(path, kind, asked, value), column_values


def _asked_for(kind: pa.DataType, column_values: Iterable[Any], count: int | None) -> list[Any]:
    if pa.types.is_nested(kind):
        return []
    values = {value for value in column_values if value is not None}
    if pa.types.is_temporal(kind) and any(isinstance(value, int) for value in values):
        return []  # Python lacks some of them
    numbers = sorted(value for value in values if not is_nan(value))
    if count is not None and len(numbers) > count:
        step = (len(numbers) - 1) / max(1, count - 1)
        numbers = sorted({numbers[round(n * step)] for n in range(count)})
    return numbers + [math.nan] * any(map(is_nan, values))


def ask(lake: Any, expected: pa.Table, **how: Any) -> int:
    """Check that each engine finds exactly the rows of each question; return how many were asked.

    `expected` are all rows of the table, in any order; the rest goes to `questions`.
    """
    asked = 0
    wrong = []
    engines = lake.engines()
    for question, column_values in questions(expected, **how):
        counts = {
            ordered: question.count(column_values, ordered=ordered) for ordered in (True, False)
        }
        for name, (answer, ordered) in engines.items():
            if is_nan(question.value) and not ordered:
                continue
            if (count := answer(question)) is None:
                continue
            asked += 1
            if count != counts[ordered]:
                wrong.append(f"{name}: {question}: {count} rows of {counts[ordered]}")
    assert not wrong, "\n".join([f"{len(wrong)} of {asked} answers are wrong", *wrong[:40]])
    return asked


# --- engines --------------------------------------------------------------------------------------


def arrow_engine(dataset: Any) -> Answer:
    """Ask a dataset of pyarrow's."""

    def answer(question: Question) -> int:
        return int(dataset.count_rows(filter=_arrow_filter(question)))

    return answer


def _arrow_filter(question: Question) -> pc.Expression:
    field = ds.field(*question.path)
    if question.asked == NULL:
        return field.is_null()
    if question.asked == VALID:
        return field.is_valid()
    if question.asked == NAN:
        return pc.is_nan(field)
    value = pa.scalar(question.value, question.kind)
    condition: pc.Expression = OPERATORS[question.asked](field, value)
    return condition


_TAKES_NULLS_FOR_VALUES = duckdb.__version__ == "2.0.0"
"""In a text column of a file with one value and nulls, whoever wrote it."""
_COMPARES_IN_PYARROW = int(duckdb.__version__.partition(".")[0]) < 2
"""What it asks of a dataset: then NaN is no longer greater than every number."""


def duckdb_engine(source: Any) -> Answer:
    """Ask duckdb about a dataset of pyarrow's, or about files, as its SQL names them."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    reads_files = isinstance(source, str)
    if not reads_files:
        connection.register("dataset", source)
        source = "dataset"

    def answer(question: Question) -> int | None:
        if reads_files and question.asked in (NULL, VALID) and _TAKES_NULLS_FOR_VALUES:
            return None
        compares = question.is_comparison and pa.types.is_floating(question.kind)
        if not reads_files and compares and _COMPARES_IN_PYARROW:
            return None
        place = ".".join(['"' + part.replace('"', '""') + '"' for part in question.path])
        condition = _condition(place, question, lambda value: _duckdb_literal(value, question.kind))
        sql = f"SELECT count(*) FROM {source} AS t WHERE {condition}"
        return int(connection.execute(sql).fetchall()[0][0])

    return answer


def spark_condition(question: Question) -> str:
    """Return a question as a filter of Spark's SQL."""
    place = ".".join(f"`{part}`" for part in question.path)
    return _condition(place, question, lambda value: _spark_literal(value, question.kind))


def _spark_literal(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "decode(X'" + value.encode().hex() + "', 'UTF-8')"
    name = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT"}.get(
        str(kind), str(kind).upper()
    )
    if pa.types.is_date32(kind):
        name = "DATE"
    elif pa.types.is_decimal(kind):
        name = f"DECIMAL({kind.precision}, {kind.scale})"
    elif pa.types.is_timestamp(kind):
        name = "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    return f"CAST({_quoted(value)} AS {name})"


def _condition(place: str, question: Question, literal: Callable[[Any], str]) -> str:
    if question.asked == NULL:
        return f"{place} IS NULL"
    if question.asked == VALID:
        return f"{place} IS NOT NULL"
    if question.asked == NAN:
        return f"isnan({place})"
    return f"{place} {question.asked} {literal(question.value)}"


def _quoted(value: Any) -> str:
    shown = value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else str(value)
    return "'" + shown.replace("'", "''") + "'"


def _duckdb_literal(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, bool):
        return str(value).lower()
    name = {
        "float": "FLOAT",
        "double": "DOUBLE",
        "date32[day]": "DATE",
        "time64[us]": "TIME",
        "string": "VARCHAR",
        "large_string": "VARCHAR",
        "int8": "TINYINT",
        "int16": "SMALLINT",
        "int32": "INTEGER",
        "int64": "BIGINT",
    }.get(str(kind))
    if pa.types.is_decimal(kind):
        name = f"DECIMAL({kind.precision}, {kind.scale})"
    elif pa.types.is_timestamp(kind):
        name = "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    return f"CAST({_quoted(value)} AS {name})"


def datafusion_engine(table: Any) -> Answer:
    """Ask DataFusion, as deltalake has it."""
    builder = QueryBuilder().register("t", table)

    def answer(question: Question) -> int:
        name, *members = question.path
        place = '"' + name.replace('"', '""') + '"' + "".join(f"['{member}']" for member in members)
        condition = _condition(place, question, lambda value: _arrow_literal(value, question.kind))
        counted = builder.execute(f'SELECT count(*) AS "found" FROM t WHERE {condition}').read_all()
        return int(pa.table(counted)["found"][0].as_py())

    return answer


def _arrow_literal(value: Any, kind: pa.DataType) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, bool):
        return str(value).lower()
    name = _ARROW_NAMES.get(str(kind), str(kind).capitalize())
    if pa.types.is_floating(kind):
        name = f"Float{kind.bit_width}"
    elif pa.types.is_decimal(kind):
        name = f"Decimal128({kind.precision}, {kind.scale})"
    elif pa.types.is_timestamp(kind):
        # Not from text: that goes through nanoseconds, which end in 2262.
        zone = 'Some("UTC")' if kind.tz else "None"
        return f"arrow_cast({_microseconds(value)}, 'Timestamp(Microsecond, {zone})')"
    return f"arrow_cast({_quoted(value)}, '{name}')"


def _microseconds(value: datetime.datetime) -> int:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
    return (value - epoch) // datetime.timedelta(microseconds=1)


def polars_engine(scan: Callable[[], pl.LazyFrame]) -> Answer:
    """Ask polars."""

    def answer(question: Question) -> int:
        column = pl.col(question.path[0])
        for member in question.path[1:]:
            column = column.struct.field(member)
        if question.asked == NULL:
            condition = column.is_null()
        elif question.asked == VALID:
            condition = column.is_not_null()
        elif question.asked == NAN:
            condition = column.is_nan()
        else:
            kind = pl.from_arrow(pa.array([], _microsecond(question.kind))).dtype
            condition = OPERATORS[question.asked](column, pl.lit(question.value, kind))
        return int(scan().filter(condition).select(pl.len()).collect().item())

    return answer


def _microsecond(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else kind


def iceberg_engine(table: Any) -> Answer:
    """Ask pyiceberg, which has no filters of structs, and takes infinity for no ``float``."""

    def answer(question: Question) -> int | None:
        if pa.types.is_nested(question.kind):
            return None
        if pa.types.is_float32(question.kind) and question.value in (math.inf, -math.inf):
            return None
        name = ".".join(question.path)
        if (condition := _iceberg_filter(name, question)) is None:
            return None
        return int(table.scan(row_filter=condition).to_arrow().num_rows)

    return answer


_ICEBERG = {
    "=": ice.EqualTo,
    "<": ice.LessThan,
    "<=": ice.LessThanOrEqual,
    ">": ice.GreaterThan,
    ">=": ice.GreaterThanOrEqual,
}


def _iceberg_filter(name: str, question: Question) -> Any:
    if question.asked == NULL:
        return ice.IsNull(name)
    if question.asked == VALID:
        return ice.NotNull(name)
    if question.asked == NAN:
        return ice.IsNaN(name)
    value = question.value
    if isinstance(value, datetime.datetime):
        value = value.isoformat(timespec="microseconds")
    elif isinstance(value, datetime.date | datetime.time):
        value = value.isoformat()
    return _ICEBERG[question.asked](name, value)


def read_by(lake: Any, column: str, value: Any) -> int:
    """Return how many files a reader opens to find a value."""
    if lake.spark_options()["table.format"] == "delta":
        dataset = lake.load().to_pyarrow_dataset()
        return len(list(dataset.get_fragments(filter=ds.field(column) == value)))
    return len(list(lake.load().scan(row_filter=ice.EqualTo(column, value)).plan_files()))
