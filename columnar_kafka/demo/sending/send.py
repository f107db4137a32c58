"""The demo's only produce loop, so that all compared formats are sent by the same code."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import KafkaError, Message, Producer

    from columnar_kafka.demo.records import Record

_FLUSH_SECONDS = 120.0
_POLL_EVERY = 1_000
_STATISTICS_MS = 200
_STATISTICS_SECONDS = 10.0


class DeliveryError(Exception):
    """Not every record was acknowledged; the message counts them and shows a reason."""


class Reports:
    """Counts delivery reports; `__call__` is the callback of every record."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        self.reason = ""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Count one; called by `poll` and `flush`, in their thread."""
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
            self.reason = self.reason or f"{error} ({message.topic()}[{message.partition()}])"

    def check(self, produced: int) -> None:
        """Check that every record has one report, which is a success.

        Raises:
            DeliveryError: a report is missing or an error.
        """
        if self.failed or self.delivered != produced:
            raise DeliveryError(
                f"of {produced:,} records {self.delivered:,} were reported delivered and "
                f"{self.failed:,} failed{f': {self.reason}' if self.reason else ''}"
            )


def send(
    producer: Producer,
    topic: str,
    records: Iterable[Record],
    *,
    encode: Callable[[dict[str, Any]], Any],
    reports: Reports,
    partition: int = -1,
) -> int:
    """Produce every record and return their number; does not flush. Waits when buffers are full."""
    count = 0
    for value, key, timestamp, headers in records:
        while True:
            try:
                producer.produce(
                    topic,
                    value=encode(value),
                    key=key,
                    partition=partition,
                    on_delivery=reports,
                    timestamp=timestamp,
                    headers=headers,  # type: ignore[arg-type]  # lists are invariant
                )
            except BufferError:
                producer.poll(0.05)
            else:
                break
        count += 1
        if not count % _POLL_EVERY:
            producer.poll(0)
    return count


def flush(producer: Producer) -> None:
    """Block until every record is reported.

    Raises:
        DeliveryError: some are not after two minutes.
    """
    if left := producer.flush(_FLUSH_SECONDS):
        raise DeliveryError(f"{left:,} records without a report after {_FLUSH_SECONDS:.0f} s")


class Wire:
    """The bytes that one producer has sent, by librdkafka's own count of its sockets' writes.

    Everything counts: protocol headers, retries, metadata requests. `config` belongs into the
    producer's configuration.
    """

    def __init__(self) -> None:
        self.config = {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._take}
        self._count = 0
        self._latest = ""

    def _take(self, statistics: str) -> None:
        self._count += 1
        self._latest = statistics

    def settle(self, producer: Producer) -> tuple[int, int]:
        """Bytes sent and Produce requests made so far; blocks for one statistics interval.

        Raises:
            TimeoutError: there were no statistics within ten seconds.
        """
        producer.poll(0)  # statistics from before now
        before, deadline = self._count, time.monotonic() + _STATISTICS_SECONDS
        while self._count == before:
            producer.poll(0.01)
            if time.monotonic() > deadline:
                raise TimeoutError("librdkafka gave no statistics")
        brokers = json.loads(self._latest)["brokers"].values()
        return (
            sum(broker["txbytes"] for broker in brokers),
            sum(broker["req"].get("Produce", 0) for broker in brokers),
        )
