"""What waits in the queue that is neither a batch nor data for messages of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from columnar_kafka.producing.accepting.item import Item
from columnar_kafka.producing.reporting.outcome import FailedRecord
from columnar_kafka.producing.reporting.report import OneRow

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from columnar_kafka.producing.engine.base import Metadata, TopicFormat
    from columnar_kafka.producing.reporting.outcome import Outcome

__all__ = ["NewFormat", "Record"]


@dataclass(slots=True, eq=False)
class Record(Item):
    """A record whose topic's number of partitions is unknown, or that its engine does not take.

    `partition` is -1 unless the user has chosen one; `values` are what `RowColumns.take` returned.
    """

    topic_format: TopicFormat
    partition: int
    values: tuple[Any, ...]
    metadata: Metadata
    charged_bytes: int
    accepted_at: float

    def end_batches(self, open_batches: Any) -> None:
        """See `Item`."""
        open_batches.close(self.topic, self.partition, self.metadata[0])

    def place(self, accumulator: Any) -> None:
        """See `Item`."""
        accumulator.append(self)

    def outcome(self, error: KafkaError) -> Outcome:
        """See `Item`."""
        key, timestamp, headers, callback, given = self.metadata
        value = self.topic_format.rows.row(self.values) if given is None else given
        row = OneRow((value, key, timestamp, headers))
        failed = FailedRecord(self.topic, self.partition, row, error, callback, self.accepted_at)
        return failed.outcome(self.charged_bytes)


@dataclass(slots=True, eq=False)
class NewFormat(Item):
    """A topic's format for the records behind it."""

    topic_format: TopicFormat

    def end_batches(self, open_batches: Any) -> None:
        """See `Item`."""
        topic, members = self.topic, self.topic_format.kafka.members
        open_batches.set_format(
            topic,
            self.topic_format,
            stores_keys="key" in members,
            stores_headers="headers" in members,
        )
        if self.topic_format.limits.partitions is not None:
            open_batches.set_partitions(topic, self.topic_format.limits.partitions)

    def enter(self, accumulator: Any, now: float) -> None:
        """See `Item`."""
        accumulator.set_format(self.topic_format, now)
