"""The measured process of a competitor that produces, and the check of what it sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import TopicPartition

from benchmarks import data
from benchmarks.child import Child, Clock, Cost
from benchmarks.competitors import competitor as make_competitor
from benchmarks.competitors.base import SECONDS, consume, consumer_config
from benchmarks.measured import Digest, UnequalError

if TYPE_CHECKING:
    from benchmarks.bench import Bench

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


@dataclass
class Sent:
    """What a child has sent to one topic."""

    producer: Any
    rows: int
    first: int = 0
    rounds: int = 0


class Sending:
    """Sends the same rows in every round; lives in a child."""

    def __init__(self, competitor: str, dataset: str, servers: str, rows: int) -> None:
        self.data = data.load(dataset)
        self.competitor = make_competitor(competitor, self.data)
        self.servers, self.rows = servers, rows
        self.shared = self.data.block(rows, fresh=False)
        self._topics: dict[str, Sent] = {}

    def connect(
        self,
        topic: str,
        batch_rows: int | None = None,
        linger_ms: float | None = None,
        rows: int | None = None,
    ) -> None:
        """Make a topic's producer, and close those of other topics.

        Args:
            topic: where to.
            batch_rows: the most in a batch or segment; each side's default without it.
            linger_ms: how old a batch or segment may become; each side's default without it.
            rows: how many a round sends; all without it.
        """
        for sent in self._topics.values():
            sent.producer.close()
        make = self.competitor.producer
        producer = make(self.servers, [topic], rows=batch_rows, linger_ms=linger_ms)
        self._topics = {topic: Sent(producer, self.rows if rows is None else rows)}

    def send(self, topic: str, fresh: bool, full: bool) -> Cost:
        """Measure one round, from the first `produce` until all records are reported."""
        sent = self.topic(topic)
        block = self.block(sent.rows, fresh=fresh, full=full)
        sent.first = end_of(self.servers, topic)
        sent.rounds += 1
        reports = Reports()
        clock = Clock()
        if full:
            self.competitor.send_full(sent.producer, topic, block, reports)
        else:
            self.competitor.send(sent.producer, topic, block)
        clock.calls_end()
        left = sent.producer.flush(FLUSH_SECONDS)
        cost = clock.stop()
        if left or reports.errors or reports.delivered != (sent.rows if full else 0):
            raise UnequalError(f"{topic}: {left} records left, {reports.errors[:1]}")
        return cost

    def check(self, topic: str, full: bool) -> None:
        """Compare the last round's records with the rows, and count those of all rounds.

        Raises:
            UnequalError: a record is missing, twice, or changed.
        """
        sent = self.topic(topic)
        records = self.data.records(self.shared[: sent.rows])
        consumer = self.competitor.consumer(self.servers)
        self.competitor.assign(consumer, topic, sent.first)
        received = self.competitor.records(consumer, sent.rows)
        if full:
            Digest(map(tuple, records)).compare(Digest(received), topic)
        else:
            values = Digest(record.value for record in records)
            values.compare(Digest(value for value, *_ in received), topic)
        consumer.close()
        count, wanted = count_of(self.servers, topic), sent.rows * sent.rounds
        if count != wanted:
            raise UnequalError(f"{topic}: {wanted:,} records sent, {count:,} in the topic")

    def topic(self, name: str) -> Sent:
        """Return what was sent to a topic; connect with each side's defaults if nothing was."""
        if name not in self._topics:
            self.connect(name)
        return self._topics[name]

    def block(self, rows: int, *, fresh: bool, full: bool) -> list[Any]:
        """Return what a round sends: the same rows, or fresh ones with the same values."""
        made = self.data.block(rows, fresh=True) if fresh else self.shared[:rows]
        return self.competitor.prepare(self.data.records(made) if full else made)


def send_repeatedly(bench: Bench, who: str, dataset: str, topic: str, rows: int, times: int) -> int:
    """Send the same rows so many times, in a child; return the offset after the last message."""
    bench.say(f"sending, {who}")
    child = Child(Sending, who, dataset, bench.servers, rows)
    try:
        for _ in range(times):
            child.call("send", topic, False, False)
    finally:
        child.close()
    return end_of(bench.servers, topic)


def end_of(servers: str, topic: str) -> int:
    """Return the offset after a topic's last message."""
    consumer = confluent_kafka.Consumer(consumer_config(servers))
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS)
    consumer.close()
    return int(high)


def first_value(servers: str, topic: str) -> bytes:
    """Return the value of a topic's first message."""
    consumer = confluent_kafka.Consumer(consumer_config(servers))
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = next(consume(consumer, 1))
    consumer.close()
    return bytes(message.value())


def count_of(servers: str, topic: str, first: int = 0) -> int:
    """Return how many records a topic has from an offset on, by its messages' headers."""
    consumer = confluent_kafka.Consumer(consumer_config(servers))
    consumer.assign([TopicPartition(topic, 0, first)])
    count = 0
    for messages in consume(consumer, end_of(servers, topic) - first):
        for message in messages:
            count += int(dict(message.headers() or []).get("columnar.rows", 1))
    consumer.close()
    return count
