"""The session of a group's member: what brokers allow, and commits that take longer than it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from lakes import DirectoryLake, rows
from sending import send
from support import eventually, require_java

from columnar_kafka.ingest import Ingestor, IngestSettings
from columnar_kafka.local import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

SETTINGS = IngestSettings(roll_seconds=0.1)


@contextmanager
def running(*services: Ingestor) -> Iterator[None]:
    threads = [threading.Thread(target=service.run) for service in services]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for service in services:
            service.stop()
        for thread in threads:
            thread.join()


def test_brokers_that_allow_no_short_session_get_the_usual_one(tmp_path, caplog) -> None:
    require_java()
    with LocalKafka(config={"group.min.session.timeout.ms": "10000"}) as kafka:
        kafka.create_topic("t", 2, {"retention.ms": "-1"})
        send(kafka, "t", range(40))
        lake = DirectoryLake(tmp_path / "lake")
        config = {"bootstrap.servers": kafka.bootstrap_servers}
        ended = IngestSettings(stop_at_end=True)
        assert Ingestor(config, "t", lake.table(), ended).run().rows == 40
        assert "brokers allow no session of 6000 ms" in caplog.text
        named = config | {"session.timeout.ms": "7000"}
        with pytest.raises(KafkaException) as raised:
            Ingestor(named, "t", lake.table(), ended).run()
        assert raised.value.args[0].code() == KafkaError.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("joins", [False, True])
def test_a_commit_may_take_longer_than_a_session(tmp_path, *, joins: bool) -> None:
    """Another process that joins meanwhile waits for it."""
    require_java()
    with LocalKafka(config={"group.min.session.timeout.ms": "500"}) as kafka:
        kafka.create_topic("t", 2, {"retention.ms": "-1"})
        send(kafka, "t", range(40))
        lake, begun, goes_on = (
            DirectoryLake(tmp_path / "lake"),
            threading.Event(),
            threading.Event(),
        )
        table = lake.table()
        commit = table.commit

        def slow(staged: Any) -> Any:
            begun.set()
            goes_on.wait()
            return commit(staged)

        table.commit = slow
        config = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "g",
            "session.timeout.ms": 1000,
            "heartbeat.interval.ms": 300,
        }
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

        def owned() -> int:
            """Return how many partitions the first member has, as the broker knows it."""
            [group] = admin.describe_consumer_groups(["g"]).values()
            members = group.result(60).members
            return max(len(member.assignment.topic_partitions) for member in members)

        first, second = (
            Ingestor(config, "t", target, SETTINGS) for target in (table, lake.table())
        )
        with running(first):
            begun.wait()
            with running(*([second] * joins)):
                three_sessions = time.monotonic() + 3
                eventually(lambda: owned() == 2 and time.monotonic() > three_sessions)
                goes_on.set()
                eventually(lambda: first.stats.rows + second.stats.rows == 40)
        assert (first.stats.rows, first.stats.rows_before, second.stats.rows) == (40, 0, 0)
        assert rows(lake) == list(range(40))


def test_of_two_with_one_instance_id_the_first_ends(kafka, topic, tmp_path) -> None:
    name, lake = topic(2), DirectoryLake(tmp_path / "lake")
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.instance.id": "pod"}
    errors: list[KafkaException] = []

    def run(service: Ingestor) -> None:
        try:
            service.run()
        except KafkaException as error:
            errors.append(error)

    first, second = (Ingestor(config, name, lake.table(), SETTINGS) for _ in range(2))
    threads = [threading.Thread(target=run, args=(service,)) for service in (first, second)]
    threads[0].start()
    eventually(lambda: first.is_assigned)
    threads[1].start()
    threads[0].join()
    send(kafka, name, range(40))
    eventually(lambda: second.stats.rows == 40)
    second.stop()
    threads[1].join()
    [error] = errors
    assert "fenced" in str(error)
    assert rows(lake) == list(range(40))
