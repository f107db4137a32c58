"""The partitions of a table, and which of them a segment's rows belong to.

A partition is known without decoding where Kafka says it, or where the statistics in a segment's
footer prove that all rows have one value. Other segments are decoded and split.
"""

from __future__ import annotations

import datetime
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

import pyarrow as pa

from columnar_kafka.errors import LakeError
from columnar_kafka.schema import FILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from columnar_kafka.lake.model import PartitionColumn, PartitionValues, SourcePartition
    from columnar_kafka.segment.segment import Segment

__all__ = [
    "STRADDLE",
    "PartitionTerm",
    "Straddle",
    "check_same",
    "divide",
    "is_filled",
    "parse_terms",
    "shared_partition",
]

_EPOCH: Final = datetime.date(1970, 1, 1)
_TERM: Final = re.compile(r"(?:(\w+)\((?:(\d+), *)?)?([^(),]+)(\))?")

Straddle = Literal["split", "stop", "dead-letter"]
"""What becomes of a segment that has rows of several partitions."""
STRADDLE: Final[tuple[Straddle, ...]] = get_args(Straddle)


class PartitionTerm(NamedTuple):
    """What a new table is to be partitioned by: a column, or a transform of one."""

    column: str
    transform: str = "identity"
    width: int | None = None


def parse_terms(texts: Iterable[str]) -> tuple[PartitionTerm, ...]:
    """Parse ``column`` and ``transform(column)``, where ``truncate(4, column)`` has a width.

    Raises:
        LakeError: a text is neither.
    """
    terms = []
    for text in texts:
        match = _TERM.fullmatch(text.strip())
        if match is None or bool(match[1]) != bool(match[4]):
            raise LakeError(
                f"partition {text!r}: it must be a column, or a transform such as day(column)"
            )
        width = None if match[2] is None else int(match[2])
        terms.append(PartitionTerm(match[3].strip(), match[1] or "identity", width))
    return tuple(terms)


def check_same(wanted: Sequence[str], existing: Sequence[str]) -> None:
    """Check what a table that exists is partitioned by; nothing is wanted of it by default.

    Raises:
        LakeError: the user wants another partitioning.
    """
    if wanted and list(wanted) != list(existing):
        raise LakeError(
            f"the table is partitioned by {', '.join(existing) or 'nothing'}, not by "
            f"{', '.join(wanted)}: leave out table.partition.by, or land in another table"
        )


def is_filled(name: str, schema: pa.Schema) -> bool:
    """Return whether a partition column is one that segments of `schema` do not have."""
    return name in FILLED and name not in schema.names


def shared_partition(
    columns: Iterable[PartitionColumn],
    segment: Segment,
    source: SourcePartition,
    today: datetime.date,
) -> PartitionValues | None:
    """Return the partition of all rows of a segment; None if that takes decoding to tell.

    Raises:
        LakeError: a value cannot be a partition's.
    """
    partition: list[tuple[str, Any]] = []
    for column in columns:
        if is_filled(column.path[0], segment.schema):
            value = _filled(column, source, today)
        elif column.path[0] not in segment.schema.names:
            value = None
        else:
            known = (segment.statistics({column.path[0]}) or {}).get(column.path)
            if known is None:
                return None
            value = None
            if known.least is not None and known.greatest is not None:
                value = _plain(known.least)
                greatest = _plain(known.greatest)
                is_one = value == greatest or (
                    column.is_ordered and _value(column, value) == _value(column, greatest)
                )
                if known.has_nulls or not is_one:
                    return None
        partition.append((column.name, None if value is None else _value(column, value)))
    return tuple(partition)


def divide(
    columns: Sequence[PartitionColumn],
    table: pa.Table,
    source: SourcePartition,
    today: datetime.date,
) -> Iterator[tuple[PartitionValues, pa.Table]]:
    """Yield each partition of a segment's rows, and these rows in their order.

    Raises:
        LakeError: a value cannot be a partition's.
    """
    codes: dict[str, pa.Array] = {}
    values: list[list[Any]] = []
    for number, column in enumerate(columns):
        if is_filled(column.path[0], table.schema):
            array = pa.repeat(pa.scalar(_filled(column, source, today)), table.num_rows)
        else:
            array = _column(table, column.path)
        codes[f"{number}"], distinct = _coded(array, partial(_value, column))
        values.append(distinct)
    names = list(codes)
    codes["row"] = pa.array(range(table.num_rows), pa.int64())
    groups = pa.table(codes).group_by(names, use_threads=False)
    for group in groups.aggregate([("row", "list")]).to_pylist():
        partition = tuple(
            (column.name, values[number][group[f"{number}"]])
            for number, column in enumerate(columns)
        )
        yield partition, table.take(pa.array(group["row_list"], pa.int64()))


def _value(column: PartitionColumn, value: Any) -> Any:
    """Return what a partition has for a value.

    Raises:
        LakeError: it has nothing for it, such as a date after the year 9999.
    """
    try:
        return column.value(value)
    except (ValueError, OverflowError) as error:
        name = ".".join(column.path)
        raise LakeError(
            f"partition column {name!r}: {value} cannot be a partition's: {error}"
        ) from error


def _filled(column: PartitionColumn, source: SourcePartition, today: datetime.date) -> Any:
    known = {
        "_kafka_topic": source.topic,
        "_kafka_partition": source.partition,
        "_ingest_date": (today - _EPOCH).days,
    }
    return known[column.path[0]]


def _column(table: pa.Table, path: Sequence[str]) -> pa.Array:
    """Return a column, or a struct's member, null where the struct is; nulls if there is none."""
    if path[0] not in table.schema.names:
        return pa.nulls(table.num_rows, pa.int32())
    array = table.column(path[0]).combine_chunks()
    for name in path[1:]:
        index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        if index < 0:
            return pa.nulls(table.num_rows, pa.int32())
        array = array.flatten()[index]
    return array


def _coded(column: pa.Array, value: Callable[[Any], Any]) -> tuple[pa.Array, list[Any]]:
    """Return a number for each row, and the partition's value for each number."""
    encoded = _as_plain(column).dictionary_encode()
    distinct: dict[Any, int] = {None: 0}
    numbers = [
        distinct.setdefault(value(entry), len(distinct)) for entry in encoded.dictionary.to_pylist()
    ]
    numbers.append(0)  # of the rows that are null
    indices = encoded.indices.fill_null(len(numbers) - 1)
    return pa.array(numbers, pa.int32()).take(indices), list(distinct)


def _as_plain(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def _plain(value: pa.Scalar) -> Any:
    """Return a scalar as `PartitionColumn.value` takes it."""
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.timestamp("us", value.type.tz)).value
    return value.value if pa.types.is_date32(value.type) else value.as_py()
