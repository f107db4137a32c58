"""What the queue holds, on its way to Kafka: each kind of item takes the steps in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError

    from columnar_kafka.producing.reporting.outcome import Outcome

__all__ = ["Item"]


class Item:
    """A batch, a record that has none, a plain message, Arrow data, or a topic's new format.

    The steps are in their order. An item takes those that there are for it: a batch is never
    placed, and a format ends with `enter`.
    """

    __slots__ = ()
    topic_format: Any
    partition: int
    """-1: none, or none yet."""
    accepted_at: float
    """On the monotonic clock."""
    taken_per_row: float | None = None
    """The bytes of a record in memory, where `RowColumns.take` has measured them."""

    @property
    def topic(self) -> str:
        """The topic it goes to."""
        topic: str = self.topic_format.topic
        return topic

    def end_batches(self, open_batches: Any) -> None:
        """Have the records behind it go to other batches, as it comes into the queue."""
        raise NotImplementedError

    def enter(self, accumulator: Any, now: float) -> None:
        """Have the accumulator take it over. What this raises has it tried again."""
        accumulator.add_unplaced(self)

    def settled(self, topic_format: Any, tell: Any) -> Item:
        """Return what it is now that its topic's schema is known; `tell` gets what logs."""
        return self

    def place(self, accumulator: Any) -> None:
        """Go where it belongs, now that the topic's number of partitions is known."""
        raise NotImplementedError

    def encode(self, segmenter: Any, ready: Any) -> bool:
        """Append its next messages to `ready`; return whether nothing is left of it."""
        ready.extend(segmenter.encode(self))
        return True

    def unsent(self, segmenter: Any) -> Iterator[Any]:
        """Yield what there is to be failed, each with an `outcome`."""
        yield self

    def outcome(self, error: KafkaError) -> Outcome:
        """Return what became of its records, which have failed with this error."""
        raise NotImplementedError
