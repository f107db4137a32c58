"""The kinds of producer that the same tests run on, and how each writes and reads a value."""

from __future__ import annotations

import base64
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
import pyarrow as pa
import pytest
from clients import Maker
from confluent_kafka import KafkaError, KafkaException, TopicPartition

import columnar_kafka
from columnar_kafka import position
from columnar_kafka.producing import pipeline
from columnar_kafka.producing.sending import sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "HELD",
    "KINDS",
    "ON_KAFKA",
    "PRODUCERS",
    "UNREACHABLE",
    "ProducerKind",
    "ProducerMaker",
    "failure",
    "record_failure",
]

SCHEMA: Final = pa.schema([("v", pa.binary())])
_JSON: Final = b'{"v":"'
UNREACHABLE: Final = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
HELD: Final = {"linger.ms": 30_000}
"""Messages stay in the queue until a flush; `ProducerMaker` sets our own linger to match."""


@dataclass(frozen=True)
class ProducerKind:
    """One way of being a producer."""

    cls: Any
    encoding: bool = False
    schema: bool = False  # the topics have one
    records: bool = False  # the tests produce records, no plain messages
    json: bool = False  # and these are bytes: serialized already


PRODUCERS: Final = {
    "confluent": ProducerKind(confluent_kafka.Producer),
    "ours, no schema": ProducerKind(columnar_kafka.Producer, encoding=True),
    "ours, schema": ProducerKind(columnar_kafka.Producer, encoding=True, schema=True, records=True),
    "ours, json": ProducerKind(
        columnar_kafka.Producer, encoding=True, schema=True, records=True, json=True
    ),
    "ours, plain": ProducerKind(columnar_kafka.Producer, encoding=True, schema=True),
}
KINDS: Final = ("confluent", "ours, no schema", "ours, schema", "ours, json")
"""Those that every test runs on; where plain messages beside records may differ, all do.

`test_not_encoding.py` has ours without an encoding, whose calls are confluent-kafka's own.
"""
ON_KAFKA: Final = ("confluent", "ours, no schema", "ours, schema", "ours, json")


@dataclass(kw_only=True)
class ProducerMaker(Maker):
    """Makes producers of one kind. `value` turns bytes into what the kind produces."""

    of: ProducerKind
    monkeypatch: pytest.MonkeyPatch
    topics: list[str] = field(default_factory=lambda: ["t"])

    def __call__(self, *args: Any, cls: Any = None, **config: Any) -> Any:
        """Make a producer that knows the schemas of `topics`."""
        given = {"bootstrap.servers": self.servers, **config}
        if self.of.encoding:
            given = {
                "columnar.encoding": "parquet",
                "columnar.linger.ms": HELD["linger.ms"] if config.items() >= HELD.items() else 5,
                **({"columnar.value.format": "json"} if self.of.json else {}),
                **given,
            }
        made = (cls or self.kind)(*args, given)
        self.made.append(made)
        if self.of.schema:
            if given["bootstrap.servers"] != self.servers:
                # No test waits for what an unreachable broker would answer.
                self.monkeypatch.setattr(pipeline, "_TOPIC_CONFIG_TIMEOUT", 0.01)
                self.monkeypatch.setattr(sender, "_LOOKUP_TIMEOUT", 0.01)
            for topic in self.topics:
                made.set_schema(topic, SCHEMA)
        return made

    def transactional(self, **config: Any) -> Any:
        """Make one with a transactional id of the test's own, ready for `begin_transaction`."""
        made = self(**{"transactional.id": self.name, **config})
        made.list_topics(timeout=10)  # or init_transactions first waits 0.5 s for a connection
        made.init_transactions(20)
        return made

    def topic(self, partitions: int = 1) -> str:
        """Create a topic of the test's own; producers made from now on know its schema."""
        name = f"{self.name}-{len(self.topics)}"
        self.create_topic(name, partitions)
        self.topics.append(name)
        return name

    def value(self, data: bytes | str | None) -> Any:
        """Return what to produce for `data`: a record where the kind sends records."""
        if data is None or not self.of.records:
            return data
        stored = data.encode() if isinstance(data, str) else data
        if self.of.json:
            return b'{"v":"%s"}' % base64.b64encode(stored)
        return {"v": stored}

    def read(self, value: Any) -> Any:
        """Return the bytes that `value` had."""
        if self.of.json and value is not None and value.startswith(_JSON):
            return base64.b64decode(value[len(_JSON) : -2])
        return super().read(value)

    def offset(self, message: Any) -> int | None:
        """Return a report's offset in Kafka; a topic with a schema reports positions."""
        offset: int | None = message.offset()
        return offset if offset is None or not self.of.encoding else position.unpack(offset).offset

    def messages(self, topic: str, *, partition: int = 0, **config: Any) -> Iterator[Any]:
        """Yield the messages of a partition for ever, as this kind's consumer has them."""
        given = {"bootstrap.servers": self.servers, "group.id": self.name, **config}
        own = {"columnar.encoding": "parquet"}
        own |= {"columnar.value.format": "json"} if self.of.json else {}
        consumer: Any = (
            columnar_kafka.Consumer({**given, **own})
            if self.of.encoding
            else confluent_kafka.Consumer(given)
        )
        with consumer:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(20)
                assert message is not None, "no more messages came"
                assert message.error() is None
                yield message

    def received(self, topic: str, count: int, *, partition: int = 0) -> list[Any]:
        """Return the first `count` messages of a partition."""
        with closing(self.messages(topic, partition=partition)) as messages:
            return list(islice(messages, count))

    def give_up(self, client: Any) -> None:
        """Drop what the producer has queued and close it."""
        with suppress(RuntimeError, KafkaException):  # closed by the test, or fenced
            client.purge()
            client.close()


def failure(call: Callable[..., Any], *args: Any, **kwargs: Any) -> KafkaError:
    """Return the error of the KafkaException that a call must raise."""
    with pytest.raises(KafkaException) as raised:
        call(*args, **kwargs)
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    return error


def record_failure(made: Any, topic: str, value: Any, **given: Any) -> Any:
    """Return why a message failed: the error that `produce` raised, or that of its report.

    Where it is refused may differ (a record's own size is known when its segment is encoded).
    """
    errors: list[Any] = []
    try:
        made.produce(topic, value, on_delivery=lambda error, _: errors.append(error), **given)
    except KafkaException as error:
        return error.args[0]
    made.flush(20)
    [error] = errors
    return error
