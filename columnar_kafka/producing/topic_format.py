"""How one topic's records are turned into segments, from one `set_schema` to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.rows_to_columns import RowColumns
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.encoder import ParquetEncoder
from columnar_kafka.segment.headers import HEADER_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.columns.protocol import Columns
    from columnar_kafka.producing.settings import ProducerConfig
    from columnar_kafka.schema import RecordSchema
    from columnar_kafka.segment.encoder import Encoder

__all__ = ["SegmentLimits", "TopicFormat"]


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
