"""How a producer ends: flushed, closed, dropped, at the program's exit, or in a forked child."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.errors import ForkError
from columnar_kafka.runtime import lifecycle
from columnar_kafka.runtime.deadline import next_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.producing.pipeline import Pipeline
    from columnar_kafka.producing.settings import ProducerConfig

__all__ = ["LONGEST_STEP", "Shutdown"]

LONGEST_STEP: Final = 0.2
"""Seconds of one wait inside librdkafka, so that reports it knows nothing of are not late.

confluent-kafka itself waits no longer at once, so that it sees signals: shorter steps would only
wake an idle producer more often.
"""

_NAMED: Final = 5
"""How many topics a line in the log names."""


class Shutdown:
    """Flushes a producer to its end. For any thread.

    Implements `lifecycle.Client`. It does not keep the producer alive.
    """

    def __init__(
        self,
        producer: Any,
        owner: Any,
        pipeline: Pipeline,
        settings: ProducerConfig,
        inner: dict[str, Any],
    ) -> None:
        """Flush `producer` with the methods of the class `owner`, not those of a subclass."""
        self._producer = weakref.ref(producer)
        self._owner = owner
        self._pipeline = pipeline
        servers = inner.get("bootstrap.servers") or inner.get("metadata.broker.list")
        self._servers = servers or "no bootstrap.servers"
        self.longest_wait = settings.message_timeout
        self.flush_interrupted = False
        self._plain_left = 0  # messages of topics without a schema, in librdkafka after a flush

    def __len__(self) -> int:
        producer = self._producer()
        return 0 if producer is None else len(producer)

    @property
    def working(self) -> bool:
        """See `lifecycle.Client`."""
        return self._pipeline.sender.working

    def accept_only(self, *threads: int) -> None:
        """See `lifecycle.Client`: the last flush must find all records there are."""
        self._pipeline.queue.close(allowed_threads=threads)

    def flush(
        self, stock_flush: Callable[[float], int], deadline: float, *, commits: bool = False
    ) -> int:
        """Send and report all that is buffered, until `deadline`; return how much is left.

        `stock_flush` is librdkafka's own. When it `commits`, it ends as soon as the transaction can
        only be aborted: librdkafka has given up its queue then, but a message that came to it just
        at that time stays there until the abort, or until it times out after a minute.
        """
        try:
            remaining = self._flush(stock_flush, deadline, commits=commits)
        except KeyboardInterrupt:
            self.flush_interrupted = True
            raise
        self.flush_interrupted = self.flush_interrupted and remaining > 0
        return remaining

    def _flush(self, stock_flush: Callable[[float], int], deadline: float, *, commits: bool) -> int:
        sender, delivery = self._pipeline.sender, self._pipeline.delivery
        if sender.interrupted:
            sender.seal()
            return len(self)
        while True:
            sender.wait_progress(0.0)  # what ended before is not what is waited for
            sender.seal()
            left = next_step(deadline - time.monotonic(), LONGEST_STEP)
            # The sender goes first: acknowledgements would take the GIL from it, and it from them.
            sender.wait_progress(left if len(self) else 0.0)
            inside = delivery.serve(stock_flush, left)
            sender.collect()
            # Here, for it has just served its own events, which count too.
            self._plain_left = max(0, inside - delivery.in_librdkafka)
            delivery.run()
            remaining = len(self)
            # Inside a report there is no end to wait for: the record it reports is outstanding.
            if not remaining or delivery.reporting or time.monotonic() >= deadline:
                return remaining
            if commits and self._pipeline.transaction.rejected:
                return remaining

    def flush_fully(self) -> list[BaseException]:
        """Flush until every report has run; return the first exception of a report, if any.

        Where a flush was interrupted before and Kafka takes nothing any more, purge what is left.

        Raises:
            KeyboardInterrupt: at once.
        """
        try:
            return self._flush_fully()
        except KeyboardInterrupt:  # also one that did not come in `flush`
            self.flush_interrupted = True
            raise

    def _flush_fully(self) -> list[BaseException]:
        failures: list[BaseException] = []

        def failed(error: BaseException) -> None:
            if not failures:  # each keeps its report in memory
                failures.append(error)

        tells = threading.current_thread() is threading.main_thread()
        wait = lifecycle.Wait([self], tells=tells)
        lifecycle.flush_fully(wait, failed)
        if len(self):
            wait.give_up()
            self._owner.purge(self._producer())
            lifecycle.flush_fully(lifecycle.Wait([self], tells=tells), failed)
        return failures

    def flush_for(self, seconds: float) -> BaseException | None:
        """See `lifecycle.Client`."""
        try:
            self._owner.flush(self._producer(), seconds)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the other reports have to run too
            if self._pipeline.unusable is None:  # or another thread has flushed and closed it
                return error
        return None

    def describe_outstanding(self) -> str:
        """See `lifecycle.Client`."""
        records = self._pipeline.queue.records
        relayed = self._pipeline.delivery.relayed
        plain = relayed + min(self._plain_left, max(0, len(self) - records - relayed))
        parts = []
        if records:
            topics = sorted(self._pipeline.sender.topics())
            more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
            named = f" of {', '.join(topics[:_NAMED])}{more}" if topics else ""
            parts.append(f"{records} records{named}")
        if plain:
            parts.append(f"{plain} messages of topics without a schema")
        return f"{' and '.join(parts)} ({self._servers})" if parts else ""

    def dropped(self, producer: Any, outstanding: int) -> None:
        """Close a producer that nobody has any more, when its records are sent."""
        self._producer = weakref.ref(producer)  # garbage collection may have cleared it
        lifecycle.hold_until_closed(producer, self, outstanding)

    # --- forking --------------------------------------------------------------------------------

    def wait_for_step(self) -> None:
        """See `lifecycle.Client`."""
        self._pipeline.sender.wait_for_step()

    def abandon(self) -> None:
        """See `lifecycle.Client`: what is buffered here is the parent's to send."""
        error = ForkError.of("producer")
        self._pipeline.end(error)
        self._pipeline.delivery.abandon(error)
