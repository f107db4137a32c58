"""How one topic's records are turned into segments, from one `set_schema` to the next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from columnar_kafka.columns.from_rows.rows_to_columns import RowColumns
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.native_format import row_format
from columnar_kafka.errors import SchemaError
from columnar_kafka.producing.limits import SegmentLimits
from columnar_kafka.schema import check_growth, fingerprint
from columnar_kafka.segment import lazy_encoding as lazy

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    import pyarrow as pa

    from columnar_kafka.broker.base import TopicLimits
    from columnar_kafka.native._core import Encoder as NativeEncoder
    from columnar_kafka.native._core import RowFormat
    from columnar_kafka.producing.settings import ProducerConfig
    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.segment.encoder import Encoder

__all__ = ["TopicFormat", "TopicFormats"]


@dataclass(frozen=True, slots=True, eq=False)
class TopicFormat:
    """How a topic's records are checked, encoded and cut, since one `set_schema`.

    `encoder` is used and `limits` are written by the sender's thread alone; the rest is fixed.
    """

    topic: str
    records: RecordSchema
    columns: RowColumns
    kafka: KafkaColumn
    schema: pa.Schema
    encoder: Encoder
    limits: SegmentLimits
    row_format: RowFormat | None = None
    """The native core's columns, where it has them all."""
    native_encoder: NativeEncoder | None = None
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", fingerprint(self.schema))

    @classmethod
    def make(
        cls, topic: str, records: RecordSchema, settings: ProducerConfig, limits: SegmentLimits
    ) -> TopicFormat:
        """Return the format of a topic by a producer's settings.

        Raises:
            SchemaError: pyarrow cannot write a type.
        """
        kafka = KafkaColumn(settings.metadata)
        schema = kafka.schema(records.arrow)
        lazy.check_can_be_written(schema)
        columns = row_format(records)
        encoder = None
        if columns is not None:
            encoder = lazy.native_encoder(schema, kafka, settings.compression)
        return cls(
            topic=topic,
            records=records,
            columns=RowColumns(records),
            kafka=kafka,
            schema=schema,
            encoder=lazy.ParquetEncoder(settings.compression),
            limits=limits,
            row_format=None if encoder is None else columns,
            native_encoder=encoder,
        )


class TopicFormats(dict[str, "TopicFormat"]):
    """The current format of each topic with a schema. Any thread may read it without a lock."""

    def __init__(self, settings: ProducerConfig, lock: threading.RLock) -> None:
        """Announce and set formats under `lock`, which the queue of what is announced has."""
        super().__init__()
        self._settings = settings
        self._lock = lock

    def set_schema(
        self,
        topic: str,
        records: RecordSchema,
        config: TopicLimits,
        announce: Callable[[TopicFormat], None],
    ) -> None:
        """Use a schema for a topic from now on; `announce` the format to the sender first.

        Raises:
            SchemaError: the topic has a schema that this one does not grow from, or is compacted;
                or pyarrow cannot write a type.
        """
        if config.compacted:
            raise SchemaError(
                f"topic {topic!r} has cleanup.policy=compact, and a segment has no key to "
                "compact by: use a topic with cleanup.policy=delete, or send plain messages"
            )
        limits = SegmentLimits.learn(
            self._settings,
            max_message_bytes=config.max_message_bytes,
            partitions=config.partitions,
        )
        is_set = False
        while not is_set:
            known = self.get(topic)
            topic_format = self._grown(known, topic, records, limits)
            with self._lock:
                if self.get(topic) is known:  # or another thread, or a handler, was faster
                    announce(topic_format)
                    self[topic] = topic_format
                    is_set = True

    def _grown(
        self,
        known: TopicFormat | None,
        topic: str,
        records: RecordSchema,
        limits: SegmentLimits,
    ) -> TopicFormat:
        """Return the format for a schema, after the one that is known so far."""
        if known is None:
            return TopicFormat.make(topic, records, self._settings, limits)
        check_growth(known.records, records)
        if known.records == records and known.records.arrow.equals(
            records.arrow, check_metadata=True
        ):
            return replace(known, limits=limits)  # keeps what its encoder has learned
        return TopicFormat.make(topic, records, self._settings, limits)
