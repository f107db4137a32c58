"""A consumer whose waiting calls can be ended from another thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, TopicPartition

from columnar_kafka.consuming.consumer import Consumer
from columnar_kafka.consuming.feed import never

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from columnar_kafka.consuming.arrow.table_feed import FoundTable
    from columnar_kafka.consuming.feed import Stops

__all__ = ["STEP", "CancellableConsumer"]

STEP: Final = 0.1
"""How long, in seconds, a call that cannot be ended waits at most."""


class CancellableConsumer(Consumer):
    """The `Consumer` inside an AIOConsumer: one thread at a time calls the methods below.

    `stops` is asked while a call waits, several times a second; the call ends when it is true.
    """

    _stops: Stops = staticmethod(never)

    def consume_until(self, stops: Stops, num_messages: int, timeout: float) -> list[Any]:
        """Return what `consume` returns, or what there is when it `stops`."""
        if self._feed is None:
            return self.consume(num_messages, min(timeout, STEP))
        # All at once: what a step had taken would be committed in the next one.
        self._stops = stops
        try:
            return self.consume(num_messages, timeout)
        finally:
            self._stops = never

    def _is_stopped(self) -> bool:
        return self._stops() or super()._is_stopped()

    def find_table(self, *args: Any, stops: Stops, **kwargs: Any) -> FoundTable | None:
        """Return what `consume_arrow` returns, not handed out yet; None when it `stops`."""
        return self._needed(self._arrow, "consume_arrow").find(*args, stops=stops, **kwargs)

    def open_stream(
        self, *args: Any, stops: Stops, **kwargs: Any
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema and the batches of an `arrow_reader` that also ends when it `stops`."""
        return self._needed(self._arrow, "arrow_reader").stream(*args, stops=stops, **kwargs)

    def go_back(self, place: TopicPartition) -> bool:
        """Read on at a record that was taken and not used; False if its partition has gone."""
        try:
            self.seek(place)
        except KafkaException:
            return False
        if self._commits is not None:
            self._commits.take_back(place)
        return True
