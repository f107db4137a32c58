"""The future of a record, which is its delivery report's callback, too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from columnar_kafka.aio.inbox import Inbox

__all__ = ["DeliveryFuture"]


class DeliveryFuture(asyncio.Future[Any]):
    """A record's future, which is called with its report, in any thread, and done on the loop then.

    All in one object, and none for a call on the loop: Python's garbage collector visits whatever
    waits for reports again and again.
    """

    __slots__ = ("_error", "_inbox", "_message", "_on_delivery")
    _inbox: Inbox
    _on_delivery: Callable[..., Any] | None
    _error: KafkaError | None
    _message: Any

    @classmethod
    def make(cls, inbox: Inbox, on_delivery: Callable[..., Any] | None) -> DeliveryFuture:
        """Return a future of the loop that `inbox` leads to; `on_delivery` is called there."""
        future = cls(loop=inbox.loop)
        future._inbox, future._on_delivery = inbox, on_delivery
        return future

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        """Leave the report for the loop."""
        self._error, self._message = error, message
        self._inbox.leave(self)

    def run(self) -> None:
        """Hand the report to the callback and to who waits for it; it may have been cancelled."""
        error, message = self._error, self._message
        self._message = None
        if self._on_delivery is not None:
            self._inbox.run(self._on_delivery, error, message)
        if self.done():
            return
        if error is None:
            self.set_result(message)
        else:
            self.set_exception(KafkaException(error))
