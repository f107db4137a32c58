"""Messages that a call took in the executor's thread, until the caller on the loop has them."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicPartition

from columnar_kafka.runtime.deadline import deadline_after
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.aio.cancellable_consumer import CancellableConsumer
    from columnar_kafka.consuming.feed.feed import Cancelled

__all__ = ["Take", "Undelivered"]

Take = Callable[[int, float, "Cancelled"], list[Any]]
"""Takes up to so many messages, within so many seconds or until cancelled."""


class Undelivered:
    """What the last call took, which the next call takes again if the last one was cancelled.

    Every method belongs to the call whose turn it is; none is thread-safe.
    """

    def __init__(self, consumer: CancellableConsumer) -> None:
        self._consumer = consumer
        self.taken: list[Any] = []
        self._kept: list[Any] = []  # undelivered, and cannot be read again
        self._error: Exception | None = None  # of a call that had messages to return

    def __bool__(self) -> bool:
        """Whether the next call has something to do with what the last one took, or raised."""
        return bool(self.taken or self._kept or self._error)

    def raise_pending(self) -> None:
        """Raise what the last call could not raise."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def take_ready(self, ready: Iterator[Any], count: int) -> list[Any]:
        """Take `count` records that are ready; none where there are fewer."""
        if not 0 < count <= length_hint(ready):
            return []
        self.taken.extend(islice(ready, count))  # in one step: see `handout`
        return self.taken

    def take(
        self, take: Take, count: int, timeout: float, *, cancelled: Cancelled, closing: Cancelled
    ) -> list[Any] | None:
        """Take up to `count` messages, until `timeout` seconds have passed or either says so.

        None if it is `closing`, and there is no message.

        Raises:
            Exception: what `take` raises; the next call raises it where there are messages.
        """
        self.raise_pending()
        deadline = deadline_after(timeout)
        messages: list[Any] = []

        def is_over() -> bool:
            return closing() or cancelled()

        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                messages += take(count - len(messages), left, is_over)
            except Exception as error:
                if not messages:
                    raise
                self._error = error  # or what was taken would be lost
                break
            is_closing = closing()
            if len(messages) >= count or time.monotonic() >= deadline or cancelled():
                break
            if is_closing:
                if not messages:
                    return None
                break
        self.taken = messages
        return messages

    def take_kept_first(
        self, take: Take, count: int, timeout: float, cancelled: Cancelled
    ) -> list[Any]:
        """Return the messages that were kept, or else what `take` takes."""
        if not self._kept:
            return take(count, timeout, cancelled)
        messages, self._kept = self._kept[:count], self._kept[count:]
        return messages

    def delivered(self) -> None:
        """Forget what was taken: the caller has it."""
        self.taken = []

    def give_back(self) -> None:
        """Read on before what was taken for a call that was cancelled then."""
        taken, self.taken = self.taken, []
        ours: dict[tuple[str, int], bool] = {}
        for message in taken:
            place = _place(message)
            if place is None:
                continue
            key = place.topic, place.partition
            if key not in ours:
                ours[key] = self._consumer.go_back(place)
            if not ours[key] and not isinstance(message, Segment):
                # It may have been committed when the partition was given back: nobody else gets it.
                self._kept.append(message)


def _place(taken: Any) -> TopicPartition | None:
    """Return where a message, an event or a segment is; None for an event of no partition."""
    if isinstance(taken, Segment):
        return TopicPartition(taken.topic, taken.partition, taken.offset)
    topic, partition, offset = taken.topic(), taken.partition(), taken.offset()
    if topic is None or partition is None or offset is None or offset < 0:
        return None
    return TopicPartition(topic, partition, offset)
