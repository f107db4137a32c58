"""A value of a topic whose schema is yet to be inferred, on its way to a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import RowError
from columnar_kafka.producing.accepting.given_value import given_row
from columnar_kafka.producing.accepting.item import Item
from columnar_kafka.producing.accepting.record import Record
from columnar_kafka.producing.reporting.outcome import FailedRecord
from columnar_kafka.producing.reporting.report import OneRow
from columnar_kafka.producing.sending.messages import PlainMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from columnar_kafka.producing.engine.base import Metadata, TopicFormat
    from columnar_kafka.producing.reporting.outcome import Outcome

__all__ = ["UNSETTLED_BYTES", "UnsettledValue"]

UNSETTLED_BYTES: Final = 400
"""The memory of one's objects, in addition to the bytes of the value."""


@dataclass(slots=True, eq=False)
class UnsettledValue(Item):
    """A value that waits for its topic's schema. Each owner in turn: the caller, accumulator."""

    topic_format: TopicFormat
    partition: int
    value: bytes | None
    metadata: Metadata
    charged_bytes: int
    accepted_at: float
    _refusal: RowError | None = None

    def end_batches(self, open_batches: Any) -> None:
        """See `Item`: the schema may be known by now."""
        open_batches.close(self.topic, self.partition, self.metadata[0])

    def enter(self, accumulator: Any, now: float) -> None:
        """See `Item`."""
        accumulator.add_unsettled(self)

    def settled(self, topic_format: TopicFormat, tell: Callable[[Any], object]) -> Item:
        """See `Item`: a record, or the plain message that it is."""
        if self.value is not None and topic_format.values is not None:
            try:
                values, metadata, _ = given_row(topic_format, self.value, self.metadata)
            except RowError as error:
                assert topic_format.misfits is not None
                if not topic_format.misfits.are_sent:
                    self._refusal = error
                    return self
                if (log := topic_format.misfits.add(topic_format.topic, error.reason)) is not None:
                    tell(log)
            else:
                return Record(
                    topic_format,
                    self.partition,
                    values,
                    metadata,
                    self.charged_bytes,
                    self.accepted_at,
                )
        return PlainMessage.of(
            topic_format,
            self.partition,
            self.value,
            self.metadata,
            self.charged_bytes,
            self.accepted_at,
        )

    def place(self, accumulator: Any) -> None:
        """See `Item`: it does not fit the schema, and is not to be sent as it is."""
        assert self._refusal is not None
        accumulator.give_up(self, self._refusal.kafka_error)

    def outcome(self, error: KafkaError) -> Outcome:
        """See `Item`."""
        key, timestamp, headers, callback, _ = self.metadata
        row = OneRow((self.value, key, timestamp, headers))
        failed = FailedRecord(self.topic, self.partition, row, error, callback, self.accepted_at)
        return failed.outcome(self.charged_bytes)
