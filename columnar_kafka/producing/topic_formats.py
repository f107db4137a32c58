"""The formats of a producer's topics, from one `set_schema` to the next."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.broker.base import TopicLimits
from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.errors import SchemaError
from columnar_kafka.producing import lazy_values
from columnar_kafka.producing.engine.base import TopicFormat
from columnar_kafka.producing.engine.choice import choose_engine
from columnar_kafka.producing.engine.no_columns import NO_COLUMNS
from columnar_kafka.producing.misfits import Misfits
from columnar_kafka.producing.segment_limits import SegmentLimits
from columnar_kafka.schema import RecordSchema, check_growth
from columnar_kafka.segment import lazy_encoding as lazy

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from columnar_kafka.producing.engine.base import ValueColumns
    from columnar_kafka.producing.settings import ProducerConfig

__all__ = ["TopicFormats", "make_format"]

_log: Final = logging.getLogger(__name__)


def make_format(
    topic: str,
    records: RecordSchema,
    limits: SegmentLimits,
    *,
    members: tuple[str, ...],
    compression: str,
    messages_are_compressed: bool = False,
    values: ValueColumns | None = None,
    misfits: Misfits | None = None,
) -> TopicFormat:
    """Return the format of a topic whose segments store these `members` of the metadata.

    Args:
        topic: the topic.
        records: the columns of its segments.
        limits: how large they may be.
        members: see above.
        compression: the name of ``columnar.encoding.compression``.
        messages_are_compressed: by librdkafka, once more.
        values: the same columns, if values are read into them that are no rows.
        misfits: what becomes of such values that do not fit.

    Raises:
        SchemaError: pyarrow cannot write a type, or values cannot be read into it.
    """
    kafka = KafkaColumn(members)
    schema = kafka.schema(records.arrow)
    lazy.check_can_be_written(schema)
    engine, reason = choose_engine(
        records, kafka, schema, compression, values, messages_are_compressed=messages_are_compressed
    )
    if reason is not None:
        _log.info("topic %r: its records are encoded without the native core: %s", topic, reason)
    return TopicFormat(
        topic=topic,
        records=records,
        columns=RowColumns(records),
        kafka=kafka,
        schema=schema,
        encoder=lazy.ParquetEncoder(compression),
        limits=limits,
        engine=engine,
        values=None if values is None else values.reader(engine.habits),
        misfits=misfits,
    )


class TopicFormats(dict[str, "TopicFormat"]):
    """The current format of each topic with a schema. Any thread may read it without a lock."""

    def __init__(self, settings: ProducerConfig, lock: threading.RLock) -> None:
        """Announce and set formats under `lock`, which the queue of what is announced has."""
        super().__init__()
        self._settings = settings
        self._lock = lock
        self.misfits = Misfits(are_sent=settings.value_misfit == "plain")
        """Those of all topics."""

    def set_schema(
        self,
        topic: str,
        records: RecordSchema,
        config: TopicLimits,
        announce: Callable[[TopicFormat], None],
        value_format: str | None = None,
        given: Any = None,
        schema_id: int | None = None,
    ) -> None:
        """Use a schema for a topic from now on; `announce` the format to the sender first.

        `value_format` is one of `VALUE_FORMATS`, or None: as it was, or that of the settings.
        `given` is the schema as the user has it, and `schema_id` its id in a registry.

        Raises:
            SchemaError: the topic has a schema that this one does not grow from, or is compacted;
                or pyarrow cannot write a type.
        """
        limits, made, known = self._limits_of(topic, config), None, None
        while made is None or known is not made:  # or another thread, or a handler, was faster
            known = self.get(topic)
            made = self.grown(known, topic, records, limits, value_format, given, schema_id)
            known = self.replaced(known, made, announce)

    def check(
        self,
        topic: str,
        records: RecordSchema,
        config: TopicLimits,
        value_format: str | None,
        given: Any,
    ) -> None:
        """Raise what `set_schema` would now."""
        limits = self._limits_of(topic, config)
        self.grown(self.get(topic), topic, records, limits, value_format, given)

    def _limits_of(self, topic: str, config: TopicLimits) -> SegmentLimits:
        if config.compacted:
            raise SchemaError(
                f"topic {topic!r} has cleanup.policy=compact, and a segment has no key to "
                "compact by: use a topic with cleanup.policy=delete, or send plain messages"
            )
        return self.limits(config)

    def replaced(
        self,
        known: TopicFormat | None,
        made: TopicFormat,
        announce: Callable[[TopicFormat], None],
    ) -> TopicFormat:
        """Use a format in place of the one that is known; return the one that is used from now on.

        That is another one, if it came before.
        """
        with self._lock:
            newest = self.get(made.topic)
            if newest is not None and newest is not known:
                return newest
            announce(made)
            self[made.topic] = made
            return made

    def limits(self, config: TopicLimits) -> SegmentLimits:
        """Return how large segments may be, by what Kafka tells of their topic."""
        return SegmentLimits.of(
            self._settings,
            max_message_bytes=config.max_message_bytes,
            partitions=config.partitions,
        )

    def awaiting(self, topic: str) -> TopicFormat:
        """Return the format of a topic until its schema is inferred."""
        return replace(self.plain(topic, TopicLimits()), awaits_schema=True)

    def plain(self, topic: str, config: TopicLimits) -> TopicFormat:
        """Return the format of a topic that has plain messages only."""
        return TopicFormat(
            topic=topic,
            records=RecordSchema(pa.schema([])),
            columns=NO_COLUMNS,
            kafka=KafkaColumn(self._settings.metadata),
            schema=pa.schema([]),
            encoder=lazy.ParquetEncoder("none"),
            limits=self.limits(config),
            engine=NO_COLUMNS,
        )

    def inferred(self, topic: str, records: RecordSchema, limits: SegmentLimits) -> TopicFormat:
        """Return the format of a topic whose schema is inferred.

        Raises:
            SchemaError: it has the rest's column, or one that cannot be written.
        """
        values = lazy_values.JsonColumns(records, self._settings.rest_column, is_inferred=True)
        return self._made(topic, values.records, limits, values)

    def grown(
        self,
        known: TopicFormat | None,
        topic: str,
        records: RecordSchema,
        limits: SegmentLimits,
        value_format: str | None = None,
        given: Any = None,
        schema_id: int | None = None,
    ) -> TopicFormat:
        """Return the format for a schema, after the one that is known so far."""
        settings = self._settings
        if value_format is None:
            value_format = settings.value_format if known is None else known.value_format
        values = self._columns(records, value_format, given, schema_id)
        records = records if values is None else values.records
        if known is not None and not known.is_inferred:
            check_growth(known.records, records)
            is_same = known.records == records and known.records.arrow.equals(
                records.arrow, check_metadata=True
            )
            if is_same and known.value_format == value_format and _is_like(known, values):
                # It keeps what its encoder has learned.
                return replace(known, limits=limits, schema_id=schema_id)
        return replace(self._made(topic, records, limits, values), schema_id=schema_id)

    def _columns(
        self, records: RecordSchema, value_format: str, given: Any, schema_id: int | None
    ) -> ValueColumns | None:
        """Return the columns of values in a format; None: they are rows."""
        if value_format == "json":
            keeps_rest = self._settings.value_fields == "lenient"
            rest = self._settings.rest_column if keeps_rest else None
            return lazy_values.JsonColumns(records, rest)
        if value_format == "avro":
            return lazy_values.AvroColumns(records, given, schema_id)
        return None

    def _made(
        self,
        topic: str,
        records: RecordSchema,
        limits: SegmentLimits,
        values: ValueColumns | None,
    ) -> TopicFormat:
        settings = self._settings
        return make_format(
            topic,
            records,
            limits,
            members=settings.metadata,
            compression=settings.compression,
            messages_are_compressed=settings.messages_are_compressed,
            values=values,
            misfits=None if values is None else self.misfits,
        )


def _is_like(known: TopicFormat, values: ValueColumns | None) -> bool:
    return values is None or (known.values is not None and known.values.is_like(values))
