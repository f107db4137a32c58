"""The source's mode ``records``: the records of segments as rows, in columns that are fixed."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructType

from columnar_kafka.columns.kafka_column import TIMESTAMP
from columnar_kafka.columns.layouts import cast_to_grown, one_array
from columnar_kafka.columns.older_arrow import arange
from columnar_kafka.errors import ConfigError, SchemaError, SegmentError
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema, check_growth
from columnar_kafka.schema.type_families import family
from spark_sink.columns import HEADER
from spark_sink.older_spark import arrow_schema
from spark_sink.reading import planning
from spark_sink.reading.lookup import Lookup
from spark_sink.reading.reading import read
from spark_sink.reading.source_options import EARLIEST, LATEST, Boundary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message
    from pyspark.sql.types import DataType

    from columnar_kafka import Segment
    from columnar_kafka.schema.type_families import Family
    from spark_sink.reading.planning import OffsetRange
    from spark_sink.reading.source_options import Partition, SourceOptions

__all__ = ["RecordRows", "check_columns", "newest_schema", "newest_segments", "user_columns"]

_BATCH_ROWS: Final = 10_000
_WINDOWS: Final = (1, 8, 64)
"""How many of a partition's last offsets are searched for a segment: each in turn until there is
one, in all partitions together. Transaction markers and plain messages have offsets too."""

_NUMBERS: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
"""The types for numbers that Spark does not have: as Spark reads them from Parquet."""
_TYPES: Final[dict[Family | None, pa.DataType]] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "local timestamp": pa.timestamp("us"),
    "duration": pa.duration("us"),
}
"""The types for values that Arrow has in several layouts or units."""
_MEMBERS: Final = (
    *("topic", "partition", "offset", "key", "timestamp", "headers"),
    *("segment", "row"),
)
_PRECISION: Final = 38


def newest_schema(options: SourceOptions) -> StructType:
    """Return a query's columns: those of the newest segments, and ``_kafka``. All are nullable.

    Called in the driver. Reads the last messages of each partition. Where their columns differ,
    one segment must have grown from all others.

    Raises:
        ConfigError: there is no segment, segments do not go together, or Spark lacks a type.
        SegmentError: a segment cannot be read.
    """
    segments = newest_segments(options)
    if not segments:
        raise ConfigError(
            'option "mode" is records, but there is no segment to take the columns from: name '
            'them, .schema("carrier STRING, delay INT")'
        )
    widest = None
    for segment in segments:
        schema = spark_columns(segment)
        if widest is None or not _differences(widest, schema):
            widest = schema
        elif differences := _differences(schema, widest):
            raise ConfigError(
                f"segment at {segment.address} does not fit the other segments of the query: "
                f"{differences}. Read these topics in queries of their own"
            )
    return _with_kafka(
        from_arrow_schema(widest, prefer_timestamp_ntz=True), headers=options.headers
    )


def newest_segments(options: SourceOptions) -> list[Segment]:
    """Return a segment for each schema that a partition's last one has. Blocks for Kafka.

    Raises:
        ConfigError: a topic does not exist.
        SegmentError: a segment's headers cannot be read.
    """
    with closing(Lookup(options)) as lookup:
        first = lookup.at(Boundary(option="mode", everywhere=EARLIEST))
        end = lookup.at(Boundary(option="mode", everywhere=LATEST))
    left = planning.ranges({**dict.fromkeys(end.next, 0), **first.next}, end, end.next)
    schemas: dict[Partition, str] = {}
    segments: dict[str, Segment] = {}  # one for each schema: there may be many partitions
    for window in _WINDOWS:
        last = [
            offsets._replace(start=max(offsets.start, offsets.end - window)) for offsets in left
        ]
        for segment in _segments(last, options):
            schema = segment.header.schema
            schemas[segment.topic, segment.partition] = schema
            segments.setdefault(schema, segment)
        left = [
            offsets
            for offsets in left
            if offsets[:2] not in schemas and offsets.end - window > offsets.start
        ]
        if not left:
            break
    return [segments[first] for first in dict.fromkeys(schemas[place] for place in sorted(schemas))]


def user_columns(segment: Segment) -> pa.Schema:
    """Return a segment's columns without ``_kafka``."""
    return pa.schema([field for field in segment.schema if field.name != KAFKA_COLUMN])


def check_columns(schema: StructType) -> None:
    """Check the columns of a query, which may be those that the user named. Called in the driver.

    Raises:
        ConfigError: a column or a part of one is not nullable: Spark believes that, and segments
            may have nulls or lack it. Or ``_kafka`` is no struct, or has a member that no record
            has.
    """
    for path in _required(schema):
        raise ConfigError(f"column {path!r} is NOT NULL: columns of mode records must be nullable")
    if KAFKA_COLUMN in schema.names:
        kafka = schema[KAFKA_COLUMN].dataType
        if not isinstance(kafka, StructType):
            raise ConfigError(f"_kafka is {kafka.simpleString()}: it must be a struct")
        for name in kafka.names:
            if name not in _MEMBERS:
                raise ConfigError(f"_kafka has no member {name!r}; it has {', '.join(_MEMBERS)}")


def _required(spark: DataType, path: str = "") -> Iterator[str]:
    """Yield what is not nullable in a type, without the keys of maps, which never are."""
    if isinstance(spark, StructType):
        parts = [(field.name, field.dataType, field.nullable) for field in spark]
    elif isinstance(spark, ArrayType):
        parts = [("element", spark.elementType, spark.containsNull)]
    elif isinstance(spark, MapType):
        parts = [("key", spark.keyType, True), ("value", spark.valueType, spark.valueContainsNull)]
    else:
        return
    for name, part, nullable in parts:
        at = f"{path}.{name}" if path else name
        if not nullable:
            yield at
        yield from _required(part, at)


class RecordRows:
    """Makes rows of the records in messages, for one query. Not thread-safe."""

    def __init__(self, schema: StructType) -> None:
        """Begin with the columns of the query, which `check_columns` has seen."""
        self._schema = arrow_schema(schema)
        self._columns = pa.schema([field for field in self._schema if field.name != KAFKA_COLUMN])
        self._checked: set[str] = set()

    def batches(self, messages: Sequence[Message]) -> Iterator[pa.RecordBatch]:
        """Yield the records of messages, up to 10,000 at a time.

        Raises:
            SegmentError: a message is no segment, or one that cannot be read.
            SchemaError: a segment has columns that the query has not, or others of their types.
        """
        for message in messages:
            segment = _segment(message)
            if segment is None:
                raise SegmentError(
                    f"{source_message(message)} is a plain message, and mode records reads only "
                    'segments. Use .option("mode", "segments")'
                )
            yield from self._rows(segment).to_batches(_BATCH_ROWS)

    def _rows(self, segment: Segment) -> pa.Table:
        self._check(segment)
        table = segment.to_table()
        there = set(table.schema.names)
        columns = []
        for field in self._schema:
            if field.name == KAFKA_COLUMN:
                columns.append(_kafka(segment, table, field.type))
            elif field.name in there:
                columns.append(self._cast(segment, table[field.name], field))
            else:
                columns.append(pa.nulls(table.num_rows, field.type))
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _check(self, segment: Segment) -> None:
        """Refuse a segment with other columns than the query's; each schema is checked once."""
        if segment.header.schema in self._checked:
            return
        if differences := _differences(spark_columns(segment), self._columns):
            raise SchemaError(
                f"segment at {segment.address} has columns that the query does not have: "
                f"{differences}. Nothing of the segment was read. Start the query again: it begins "
                "with the newest segment's columns. If that one has fewer, name the columns, "
                '.schema("carrier STRING, delay INT")'
            )
        self._checked.add(segment.header.schema)

    def _cast(self, segment: Segment, column: pa.ChunkedArray, to: pa.Field) -> pa.Array:
        try:
            return cast_to_grown(one_array(column), to.type)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"segment at {segment.address}: a value of column {to.name!r} is not {to.type}: "
                f"{error}"
            ) from error


def spark_columns(segment: Segment) -> pa.Schema:
    """Return a segment's columns in the types that Spark has, all nullable.

    Raises:
        ConfigError: Spark has no such type; names the column.
    """
    return pa.schema(
        [
            pa.field(column.name, _spark_type(column.type, column.name))
            for column in user_columns(segment)
        ]
    )


def _spark_type(arrow: pa.DataType, path: str) -> pa.DataType:
    kind = family(arrow)
    if data_type := _NUMBERS.get(arrow) or _TYPES.get(kind):
        return data_type
    if kind == "struct":
        return pa.struct(
            [(field.name, _spark_type(field.type, f"{path}.{field.name}")) for field in arrow]
        )
    if kind == "map":
        key = _spark_type(arrow.key_type, f"{path}.key")
        return pa.map_(key, _spark_type(arrow.item_type, f"{path}.value"))
    if kind == "list":
        return pa.list_(pa.field("element", _spark_type(arrow.value_type, f"{path}.item")))
    if kind == "decimal" and arrow.precision <= _PRECISION:
        return pa.decimal128(arrow.precision, arrow.scale)
    if kind in ("decimal", "time"):
        raise ConfigError(
            f"column {path!r} is {arrow}, a type that Spark does not have: read the topic in mode "
            "segments, or land it and read the files"
        )
    return arrow


def _differences(columns: pa.Schema, grown: pa.Schema) -> str:
    """Say which columns rows of `grown` cannot hold; empty if there are none."""
    differences = []
    for column in columns:
        index = grown.get_field_index(column.name)
        if index < 0:
            differences.append(f"{column.name!r} ({column.type}) is new")
            continue
        try:
            check_growth(_record(column), _record(grown.field(index)))
        except SchemaError:
            differences.append(
                f"{column.name!r} is {column.type}, and was {grown.field(index).type}"
            )
    return ", ".join(differences)


def _record(field: pa.Field) -> RecordSchema:
    return RecordSchema(pa.schema([field.with_nullable(True)]))


def _with_kafka(schema: StructType, *, headers: bool) -> StructType:
    members = StructType().add("topic", "string").add("partition", "integer").add("offset", "long")
    members.add("key", "binary").add("timestamp", "timestamp")
    if headers:
        members.add("headers", ArrayType(HEADER))
    return schema.add(KAFKA_COLUMN, members)


def _kafka(segment: Segment, table: pa.Table, to: pa.StructType) -> pa.Array:
    """Return the ``_kafka`` column, with the members of `to`.

    Where the segment lacks one, it is null; its time is that of the segment's latest record.
    """
    rows = table.num_rows
    first = segment.offset
    members: dict[str, pa.Array] = {
        "topic": pa.repeat(segment.topic, rows),
        "partition": pa.repeat(segment.partition, rows),
        "offset": arange(first, first + rows),
        "timestamp": pa.repeat(pa.scalar(segment.header.timestamp_max, TIMESTAMP), rows),
    }
    if KAFKA_COLUMN in table.schema.names:
        kafka = one_array(table[KAFKA_COLUMN])
        members |= {field.name: kafka.field(field.name) for field in kafka.type}
    arrays = [
        cast_to_grown(members[field.name], field.type)
        if field.name in members
        else pa.nulls(rows, field.type)
        for field in to
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(to))


def _segments(ranges: Sequence[OffsetRange], options: SourceOptions) -> Iterator[Segment]:
    """Yield the segments of ranges, which are read together; those of a partition in order."""
    messages = read(
        ranges,
        options.config,
        poll_timeout=options.poll_timeout,
        lost=partial(planning.lost, fail=False),
    )
    return filter(None, map(_segment, messages))


def _segment(message: Message) -> Segment | None:
    source = source_message(message)
    return None if source.is_plain else source.segment()
