"""The Kafka of a run: a real one started here, the in-process one, or the user's own."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from columnar_kafka.local import EmbeddedKafka, JavaMissingError, LocalKafka, find_java
from columnar_kafka.local.java import KAFKA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Broker = Literal["kafka", "embedded"]

_ADMIN_SECONDS: Final = 30.0


class CreateTopic(Protocol):
    """Creates a topic, of which clients know when it returns."""

    def __call__(self, name: str, partitions: int, config: dict[str, str]) -> object:
        """Create it; raises KafkaException if the cluster refuses."""


@dataclass(slots=True)
class Cluster:
    """A running Kafka. Topics get names of their own, so that a shared cluster can be used."""

    name: str
    bootstrap_servers: str
    create: CreateTopic
    topics: list[str] = field(default_factory=list)
    prefix: str = field(default_factory=lambda: f"columnar-kafka-demo-{uuid.uuid4().hex[:8]}")

    def topic(self, name: str, partitions: int, config: dict[str, str] | None = None) -> str:
        """Create a topic that keeps old timestamps (the flights are of 2013); its full name."""
        topic = f"{self.prefix}-{name}"
        self.create(topic, partitions, {"retention.ms": "-1"} | (config or {}))
        self.topics.append(topic)
        return topic


def has_java() -> bool:
    """Whether there is a Java for Kafka and Spark."""
    try:
        find_java()
    except JavaMissingError:
        return False
    return True


@contextmanager
def running(
    bootstrap_servers: str | None, broker: Broker | None, *, say: Callable[[str], None]
) -> Iterator[Cluster]:
    """The user's cluster if there is one, else a broker of ours that ends with the block.

    Topics on the user's cluster are deleted at the end.

    Raises:
        JavaMissingError, JarsMissingError, LocalKafkaError: it cannot be started.
        KafkaException: the user's cluster cannot be used.
    """
    if bootstrap_servers is not None:
        with _users(bootstrap_servers) as cluster:
            yield cluster
        return
    if broker is None and not has_java():
        say("No Java 17+ here: using the embedded broker (librdkafka's mock) instead of Kafka.")
        broker = "embedded"
    if broker == "embedded":
        with EmbeddedKafka() as mock:
            yield Cluster(
                "an embedded broker (librdkafka's mock)",
                mock.bootstrap_servers,
                # It has no topic settings, and keeps whatever time stamp.
                lambda name, partitions, config: mock.create_topic(name, partitions),  # noqa: ARG005
            )
        return
    with LocalKafka() as kafka:
        yield Cluster(
            f"Apache Kafka {KAFKA_VERSION}, one node", kafka.bootstrap_servers, kafka.create_topic
        )


@contextmanager
def _users(bootstrap_servers: str) -> Iterator[Cluster]:
    with AdminClient({"bootstrap.servers": bootstrap_servers}) as admin:

        def create(name: str, partitions: int, config: dict[str, str]) -> None:
            topic = NewTopic(name, partitions, config=config)
            admin.create_topics([topic])[name].result(_ADMIN_SECONDS)

        cluster = Cluster("your Kafka", bootstrap_servers, create)
        try:
            yield cluster
        finally:
            if cluster.topics:
                for deleted in admin.delete_topics(cluster.topics).values():
                    deleted.result(_ADMIN_SECONDS)
