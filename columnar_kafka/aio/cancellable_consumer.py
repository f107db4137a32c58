"""A consumer whose waiting calls can be ended from another thread."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, TopicPartition

from columnar_kafka.consuming.consumer import Consumer
from columnar_kafka.consuming.feed.feed import never_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from columnar_kafka.consuming.arrow.table_feed import FoundTable
    from columnar_kafka.consuming.feed.feed import Cancelled

__all__ = ["STEP", "CancellableConsumer"]

STEP: Final = 0.1
"""How long, in seconds, a call that cannot be ended waits at most."""


class CancellableConsumer(Consumer):
    """The `Consumer` inside an AIOConsumer: one thread at a time calls the methods below.

    While a call waits it asks `cancelled` several times a second, and returns when that is true.
    """

    _cancelled: Cancelled = staticmethod(never_cancelled)

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        # What replaces these methods, as a tracer does, is to see each call of them.
        self._is_watched = any(
            getattr(type(self), name) is not getattr(Consumer, name) for name in ("poll", "consume")
        )

    def ready(self) -> Iterator[Any]:
        """Return the records that any thread may take now, as `handout` says.

        There are none where a callback has raised, or librdkafka is to be served first.
        """
        feed = self._feed
        if feed is None or self._is_watched or self._errors or time.monotonic() >= feed.poller.due:
            return iter(())
        return feed.buffer.ready.left

    def poll_until(self, cancelled: Cancelled, timeout: float) -> list[Any]:
        """Return the result of `poll` in a list, which is empty when it is `cancelled`."""
        with self._cancelled_by(cancelled):
            message = self.poll(timeout if self._settings.unwraps else min(timeout, STEP))
        return [] if message is None else [message]

    def consume_until(self, cancelled: Cancelled, num_messages: int, timeout: float) -> list[Any]:
        """Return the result of `consume`, or the records there are when it is `cancelled`."""
        if not self._settings.unwraps:
            return self.consume(num_messages, min(timeout, STEP))
        # All at once: what a step had taken would be committed in the next one.
        with self._cancelled_by(cancelled):
            messages = self.consume(num_messages, timeout)
        self._needed(self._feed, "consume").publish_rest()
        return messages

    @contextmanager
    def _cancelled_by(self, cancelled: Cancelled) -> Iterator[None]:
        self._cancelled = cancelled
        try:
            yield
        finally:
            self._cancelled = never_cancelled

    def _returns_early(self) -> bool:
        return self._cancelled() or super()._returns_early()

    def find_table(self, *args: Any, cancelled: Cancelled, **kwargs: Any) -> FoundTable | None:
        """Return the result of `consume_arrow`, not handed out yet; None when it is `cancelled`."""
        return self._needed(self._arrow, "consume_arrow").find(*args, cancelled=cancelled, **kwargs)

    def open_stream(
        self, *args: Any, cancelled: Cancelled, **kwargs: Any
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema and the batches of `arrow_reader`; `cancelled` ends them too."""
        return self._needed(self._arrow, "arrow_reader").stream(
            *args, cancelled=cancelled, **kwargs
        )

    def go_back(self, place: TopicPartition) -> bool:
        """Read on at a record that was taken and not used; False if its partition has gone."""
        try:
            self.seek(place)
        except KafkaException:
            return False
        if self._commits is not None:
            self._commits.take_back(place)
        return True
