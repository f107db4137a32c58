"""`FakeKafka`: a cluster in memory with the classes of its clients."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.config import Arguments
from columnar_kafka.consuming.consumer import Consumer
from columnar_kafka.consuming.feed.feed import Feed
from columnar_kafka.consuming.feed.offset_store import OffsetStore
from columnar_kafka.errors import ForkError
from columnar_kafka.plain.registry_client import client_of
from columnar_kafka.producing.producer import Producer
from columnar_kafka.runtime import lifecycle
from columnar_kafka.testing.consumer import ConsumerOnMemory
from columnar_kafka.testing.memory import MemoryConsumer, MemoryKafka
from columnar_kafka.testing.memory.cluster import Fault
from columnar_kafka.testing.producer import ProducerOnMemory, RoundRobinPartitioner

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import KafkaError
    from typing_extensions import Self

    from columnar_kafka.broker.base import ConsumerBroker, ProducerBroker
    from columnar_kafka.message import Message

__all__ = ["FakeKafka"]

_ALL: Final = 1 << 62


class FakeProducer(Producer, ProducerOnMemory):
    """`columnar_kafka.Producer`, whose messages go to memory; `memory` has its own faults.

    Its bases put `ProducerOnMemory` where the class in C stands, for what this package leaves to
    confluent-kafka's methods. Segments go to `memory` itself: a real producer also asks an
    AdminClient for a topic's limits, which no base class can answer.
    """

    _clients: weakref.WeakSet[FakeProducer]
    _flushes_at_exit = False  # the exit must not wait for producers that a test has left open

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        arguments, args, kwargs = Arguments(args, kwargs), (), {}  # which show passwords
        super().__init__(arguments.merged())
        self._clients.add(self)
        lifecycle.abandon_in_children(self, FakeProducer._refuse_all)

    def _refuse_all(self) -> None:
        """Refuse everything: this is a forked child's copy, and its thread is not there."""
        self._pipeline.end(ForkError.of("producer"))

    def _connect(self, inner: dict[str, Any]) -> ProducerBroker:
        return self.memory

    def _choose_partitions(self, name: str) -> RoundRobinPartitioner:
        return RoundRobinPartitioner(name)

    def __del__(self) -> None:
        """Send outstanding records as a real producer does; held ones nobody can release now."""
        if self.is_open and self.memory.holds:
            self.abandon()
        super().__del__()

    def abandon(self) -> None:
        """Stop the thread; buffered records are lost."""
        self._pipeline.close()
        self._memory = None


class FakeConsumer(Consumer, ConsumerOnMemory):
    """`columnar_kafka.Consumer`, whose messages come from memory; `memory` has its own faults."""

    def _connect(self, inner: dict[str, Any]) -> ConsumerBroker:
        return self.memory


class FakeKafka(MemoryKafka):
    """A Kafka in memory, for unit tests. Thread-safe; it has no thread and no socket.

    `Producer` and `Consumer` are its clients' classes, subclasses of this package's: patch them
    into the code under test. ``bootstrap.servers`` and security settings are ignored; librdkafka
    checks everything else.

    A topic that a producer asks for is created with one partition, as brokers do by default.
    Without `auto_create_topics` its messages fail, and records wait as for a real cluster.
    """

    Producer: type[FakeProducer]
    Consumer: type[FakeConsumer]

    def __init__(self, *, auto_create_topics: bool = True) -> None:
        super().__init__(auto_create_topics=auto_create_topics)
        self._producers: weakref.WeakSet[FakeProducer] = weakref.WeakSet()
        bound = {"_kafka": self, "_clients": self._producers, "__module__": __name__}
        self.Producer = type("Producer", (FakeProducer,), bound)
        self.Consumer = type("Consumer", (FakeConsumer,), {"_kafka": self, "__module__": __name__})

    @cached_property
    def registry(self) -> Any:
        """A schema registry in memory, of this cluster alone: confluent-kafka's mock of its client.

        It takes every schema: whether one may follow another it does not know.

        Raises:
            ConfigError: the extra ``registry`` is not installed.
        """
        return client_of({"url": "mock://memory"})

    # --- stored records -------------------------------------------------------------------------

    def records(
        self, topic: str, partition: int | None = None, *, committed: bool = True
    ) -> list[Message]:
        """Return the records and plain messages of a topic, or of one of its partitions.

        They come in the order in which they arrived; offsets are positions. An unreadable segment
        is one message whose `error()` is set.

        Args:
            topic: the topic.
            partition: only this partition.
            committed: leave out aborted records, and those at or after an open transaction.

        Raises:
            KeyError: the topic does not exist.
        """
        if topic not in self.topics():
            known = ", ".join(sorted(self.topics())) or "none at all"
            raise KeyError(f"there is no topic {topic!r}; there are: {known}")
        messages = self.arrived(topic, committed=committed)
        chosen = [message for message in messages if partition in (None, message.partition())]
        return Feed(_Replay(self, chosen), OffsetStore(auto_store=False)).take(_ALL, 0)

    # --- faults, for all producers --------------------------------------------------------------

    def fail_next(self, error: KafkaError, *, count: int = 1, stored: bool = False) -> None:
        """Let the next Kafka messages fail with `error`: a segment, with all of its records.

        With `stored` they are in the topic all the same, as when an acknowledgement is lost.
        """
        with self.lock:
            self.faults.extend([Fault(error, stored=stored)] * count)

    def refuse_next(self, error: KafkaError | None = None, *, count: int = 1) -> None:
        """Let sending the next messages raise: KafkaException, or BufferError without `error`."""
        with self.lock:
            self.faults.extend([Fault.refusal(error)] * count)

    def hold(self) -> None:
        """Hold messages from now on, neither stored nor reported, until `release`."""
        with self.lock:
            self.held = True

    def release(self) -> None:
        """Send the held messages, in order for each producer."""
        with self.lock:
            self.held = False
            for producer in list(self._producers):
                if producer.is_open:
                    producer.memory.release()

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop the threads of producers that are still open; their buffered records are lost."""
        for producer in list(self._producers):
            producer.abandon()

    def __enter__(self) -> Self:
        """Return this cluster."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()


class _Replay(MemoryConsumer):
    """Returns these messages and then None."""

    def __init__(self, kafka: MemoryKafka, messages: list[confluent_kafka.Message]) -> None:
        super().__init__(kafka)
        self._messages = iter(messages)

    def poll(self, timeout: float) -> confluent_kafka.Message | None:
        """Return the next one."""
        return next(self._messages, None)
