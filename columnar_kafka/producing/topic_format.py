"""How one topic's records are turned into segments, from one `set_schema` to the next."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.rows_to_columns import RowColumns
from columnar_kafka.errors import SchemaError
from columnar_kafka.schema import check_growth, fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from columnar_kafka.broker.base import TopicLimits
    from columnar_kafka.columns.protocol import Columns
    from columnar_kafka.producing.settings import ProducerConfig
    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.segment.encoder import Encoder

__all__ = ["SegmentLimits", "TopicFormat", "TopicFormats"]


@dataclass(slots=True)
class SegmentLimits:
    """What Kafka says of a topic: how large its segments may be, in bytes of their value.

    `target` is aimed at, `most` is what client and topic accept, `rows` the most records. What
    librdkafka has of one partition is kept below `window`: it sends messages in batches, which the
    topic's limit counts as one, and a batch refused takes all of its messages along. `partitions`
    is their number, None while it is not known.
    """

    target: int
    most: int
    rows: int
    window: float = float("inf")
    partitions: int | None = None

    @classmethod
    def learn(
        cls, settings: ProducerConfig, *, max_message_bytes: int | None, partitions: int | None
    ) -> SegmentLimits:
        """Return the limits of a topic with this ``max.message.bytes``, None where unknown."""
        # What has more than its quarter of the memory bound would never fit.
        most = min(settings.message_max_bytes - HEADER_BYTES, settings.queue_bytes // 4)
        found = cls(
            min(settings.segment_bytes, most), most, settings.segment_rows, partitions=partitions
        )
        # librdkafka's batches, never larger than this, are small enough for most topics.
        batch_bytes = min(settings.batch_bytes, settings.message_max_bytes)
        if max_message_bytes is not None:
            found.most = min(most, max_message_bytes - HEADER_BYTES)
            found.target = min(found.target, found.most)
            if max_message_bytes < batch_bytes:
                found.window = max_message_bytes
        return found

    def lower(self, most: int) -> None:
        """Accept no more than `most` bytes from now on, nor that in one batch."""
        if most < self.most:
            self.most = most
            self.target = min(self.target, most)
            self.window = most + HEADER_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class TopicFormat:
    """What `set_schema` makes of a topic; every record is taken, encoded and cut by one of them.

    `encoder` is used and `limits` are written by the sender's thread alone; the rest is fixed.
    """

    topic: str
    records: RecordSchema
    columns: Columns
    kafka: KafkaColumn
    schema: pa.Schema
    encoder: Encoder
    limits: SegmentLimits
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", fingerprint(self.schema))

    @classmethod
    def make(
        cls, topic: str, records: RecordSchema, settings: ProducerConfig, limits: SegmentLimits
    ) -> TopicFormat:
        """Return the format of a topic as a producer is configured."""
        kafka = KafkaColumn(settings.metadata)
        return cls(
            topic=topic,
            records=records,
            columns=RowColumns(records),
            kafka=kafka,
            schema=kafka.schema(records.arrow),
            encoder=ParquetEncoder(settings.compression),
            limits=limits,
        )


class TopicFormats(dict[str, "TopicFormat"]):
    """The current format of each topic with a schema. Any thread may read it without a lock."""

    def __init__(self, settings: ProducerConfig) -> None:
        super().__init__()
        self._settings = settings
        self._setting = threading.Lock()  # one `set_schema` at a time

    def set_schema(
        self,
        topic: str,
        records: RecordSchema,
        config: TopicLimits,
        announce: Callable[[TopicFormat], None],
    ) -> None:
        """Use a schema for a topic from now on; `announce` the format to the sender first.

        Raises:
            SchemaError: the topic has a schema that this one does not grow from, or is compacted.
        """
        with self._setting:
            known = self.get(topic)
            if known is not None:
                check_growth(known.records, records)
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
            if (
                known is not None
                and known.records == records
                and known.records.arrow.equals(records.arrow, check_metadata=True)
            ):
                topic_format = replace(known, limits=limits)  # keeps what its encoder has learned
            else:
                topic_format = TopicFormat.make(topic, records, self._settings, limits)
            announce(topic_format)
            self[topic] = topic_format
