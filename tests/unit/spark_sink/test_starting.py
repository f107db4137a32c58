"""A query is started again if a Python worker was late, and only then."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

import spark_sink
from columnar_kafka.errors import ConfigError

LATE = "Timed out while waiting for the Python worker to connect back"


class Query:
    """A query whose first trigger is over, or that has failed, after some looks."""

    def __init__(self, error: str | None, looks: int = 3) -> None:
        self._error = error
        self._looks = looks

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        return None if self._looks else {"batchId": 0}

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        assert timeout > 0
        self._looks -= 1
        if self._error and not self._looks:
            raise RuntimeError(self._error)
        return False


class Writer:
    """Starts the queries that it is given, one after the other; or fails to start one."""

    def __init__(self, *outcomes: Query | Exception) -> None:
        self.left = list(outcomes)

    def start(self) -> Query:
        outcome = self.left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def start(*outcomes: Query | Exception, **attempts: int) -> tuple[Any, int]:
    writer: Any = Writer(*outcomes)
    query = spark_sink.start(writer, **attempts)
    return query, len(writer.left)


def test_a_query_whose_first_trigger_is_over_is_returned() -> None:
    query = Query(None)
    assert start(query, Query(None)) == (query, 1)


def test_a_query_is_started_again_if_a_worker_was_late() -> None:
    query = Query(None)
    assert start(Query(LATE), RuntimeError(f"boom: {LATE}"), query) == (query, 0)


def test_a_query_whose_workers_are_always_late_fails() -> None:
    with pytest.raises(RuntimeError, match=LATE):
        start(RuntimeError(LATE), RuntimeError(LATE), Query(None), attempts=2)


def test_a_query_that_fails_otherwise_is_not_started_again() -> None:
    with pytest.raises(RuntimeError, match="no such column"):
        start(Query("no such column"), Query(None))


def test_a_spark_that_is_too_old_is_refused_with_the_reason() -> None:
    old: Any = SimpleNamespace(version="3.5.1")
    with pytest.raises(
        ConfigError, match=r"4\.0 or later, the first with data sources in Python; this is 3\.5\.1"
    ):
        spark_sink.register(old)


class Session:
    """As much of a session as `register` needs."""

    version = "4.2.0"

    def __init__(self, cores: int | None, **conf: str) -> None:
        self._conf = conf
        self.registered: list[Any] = []
        self.dataSource = SimpleNamespace(register=self.registered.append)
        self.conf = SimpleNamespace(get=conf.get)
        if cores is not None:  # Spark Connect has no such attribute
            self.sparkContext = SimpleNamespace(defaultParallelism=cores)


@pytest.mark.parametrize(
    ("session", "cores"),
    [
        (Session(3), 3),
        (Session(None), None),
        (Session(3, **{"spark.dynamicAllocation.enabled": "true"}), None),
    ],
    ids=["classic", "connect", "dynamic allocation"],
)
def test_the_source_knows_the_cores_in_the_workers_that_plan(
    session: Any, cores: int | None
) -> None:
    spark_sink.register(session)
    source, sink = session.registered
    assert pickle.loads(cloudpickle.dumps(source)).cores == cores
    assert (source.name(), sink.name()) == ("columnar_kafka", "columnar_lake")
    assert spark_sink.KafkaSource.cores is None


def test_no_attempt_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="attempts is 0"):
        start(attempts=0)
