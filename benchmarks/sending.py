"""The measured process of a competitor that produces, and the check of what it sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import TopicPartition

from benchmarks import data
from benchmarks.child import Clock, Cost
from benchmarks.competitors import competitor as make_competitor
from benchmarks.competitors.base import SECONDS, consume, consumer_config
from benchmarks.measured import Digest, UnequalError

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_SECONDS = 120.0


class Reports:
    """Counts delivery reports: the callback of every record."""

    def __init__(self) -> None:
        self.delivered = 0
        self.errors: list[Any] = []

    def __call__(self, error: Any, _: Any) -> None:
        """Count one."""
        if error is None:
            self.delivered += 1
        else:
            self.errors.append(error)


class Sending:
    """Sends the same rows in every round; lives in a child."""

    def __init__(
        self,
        competitor: str,
        dataset: str,
        servers: str,
        rows: int,
        batch_rows: int | None = None,
        linger_ms: float | None = None,
    ) -> None:
        self.data = data.load(dataset)
        self.competitor = make_competitor(competitor, self.data)
        self.servers, self.rows = servers, rows
        self._batch = {"rows": batch_rows, "linger_ms": linger_ms}
        self.shared = self.data.block(rows, fresh=False)
        self._producers: dict[str, Any] = {}
        self._first: dict[str, int] = {}
        self._rounds: dict[str, int] = {}

    def send(self, topic: str, fresh: bool, full: bool) -> Cost:
        """Measure one round, from the first `produce` until all records are reported."""
        producer, block = self._producer(topic), self.block(fresh=fresh, full=full)
        self._first[topic] = end_of(self.servers, topic)
        self._rounds[topic] = self._rounds.get(topic, 0) + 1
        reports = Reports()
        clock = Clock()
        if full:
            self.competitor.send_full(producer, topic, block, reports)
        else:
            self.competitor.send(producer, topic, block)
        clock.calls_end()
        left = producer.flush(FLUSH_SECONDS)
        cost = clock.stop()
        if left or reports.errors or reports.delivered != (self.rows if full else 0):
            raise UnequalError(f"{topic}: {left} records left, {reports.errors[:1]}")
        return cost

    def check(self, topic: str, full: bool) -> None:
        """Compare the last round's records with the rows, and count those of all rounds.

        Raises:
            UnequalError: a record is missing, twice, or changed.
        """
        consumer = self.competitor.consumer(self.servers)
        self.competitor.assign(consumer, topic, self._first[topic])
        found = self.competitor.records(consumer, self.rows)
        sent = self.data.records(self.shared)
        if full:
            Digest(map(tuple, sent)).compare(Digest(found), topic)
        else:
            values = Digest(record.value for record in sent)
            values.compare(Digest(value for value, *_ in found), topic)
        consumer.close()
        count, wanted = count_of(self.servers, topic), self.rows * self._rounds[topic]
        if count != wanted:
            raise UnequalError(f"{topic}: {wanted:,} records sent, {count:,} in the topic")

    def _producer(self, topic: str) -> Any:
        if topic not in self._producers:
            make: Callable[..., Any] = self.competitor.producer
            self._producers[topic] = make(self.servers, [topic], **self._batch)
        return self._producers[topic]

    def block(self, *, fresh: bool, full: bool) -> list[Any]:
        """Return what a round sends: the same rows, or fresh ones with the same values."""
        rows = self.data.block(self.rows, fresh=True) if fresh else self.shared
        return self.competitor.prepare(self.data.records(rows) if full else rows)


def end_of(servers: str, topic: str) -> int:
    """Return the offset after a topic's last message."""
    consumer = confluent_kafka.Consumer(consumer_config(servers))
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS)
    consumer.close()
    return int(high)


def count_of(servers: str, topic: str) -> int:
    """Return how many records a topic has, by its messages' headers."""
    consumer = confluent_kafka.Consumer(consumer_config(servers))
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = 0
    for messages in consume(consumer, end_of(servers, topic)):
        for message in messages:
            count += int(dict(message.headers() or []).get("columnar.rows", 1))
    consumer.close()
    return count
