"""Several topics in one process, and what it says about itself over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from ingest_fakes import ingest_from
from lakes import DirectoryLake, rows
from support import eventually

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.ingest import (
    HealthServer,
    Ingestor,
    IngestService,
    IngestSettings,
)
from columnar_kafka.lake.plan import Layout
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from columnar_kafka.lake.model import SourcePartition

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
CONFIG = {"bootstrap.servers": "memory"}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    """Topics a and b with two rows each."""
    with FakeKafka() as kafka:
        ingest_from(kafka, monkeypatch)
        with kafka.Producer({**CONFIG, "columnar.encoding": "parquet"}) as producer:
            for topic in "ab":
                kafka.create_topic(topic, 1)
                producer.set_schema(topic, SCHEMA)
                for n in range(2):
                    producer.produce(topic, {"n": n})
        yield kafka


def service(tmp_path: Path, **settings: Any) -> IngestService:
    chosen = IngestSettings(partitions=(0,), topic_generation="g", **settings)
    return IngestService(
        [Ingestor(CONFIG, topic, DirectoryLake(tmp_path / topic).table(), chosen) for topic in "ab"]
    )


def get(server: HealthServer, path: str, host: str = "127.0.0.1") -> tuple[int, Any]:
    try:
        with urlopen(f"http://{host}:{server.port}{path}") as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.usefixtures("kafka")
def test_every_topic_lands_in_its_table(tmp_path: Path) -> None:
    stats = service(tmp_path, stop_at_end=True).run()
    assert {topic: stat.rows for topic, stat in stats.items()} == {"a": 2, "b": 2}
    assert rows(DirectoryLake(tmp_path / "a")) == rows(DirectoryLake(tmp_path / "b")) == [0, 1]


@pytest.mark.parametrize(("group", "is_refused"), [({"group.id": "g"}, True), ({}, False)])
def test_consumers_of_one_group_cannot_have_one_instance_id(
    tmp_path: Path, group: dict[str, str], *, is_refused: bool
) -> None:
    """Each would fence the one before; without `group.id` each topic has a group of its own."""
    config = CONFIG | {"group.instance.id": "pod-0"} | group
    ingestors = [Ingestor(config, topic, DirectoryLake(tmp_path / topic).table()) for topic in "ab"]
    expected = pytest.raises(ConfigError, match=r"group\.instance\.id=pod-0: .* group 'g'")
    with expected if is_refused else nullcontext():
        IngestService(ingestors)


@pytest.mark.parametrize(
    ("one", "other", "is_refused"),
    [
        ({"bootstrap.servers": "east:9092"}, {"bootstrap.servers": "west:9092"}, False),
        ({"bootstrap.servers": "a:1,b:1"}, {"bootstrap.servers": "b:1, a:1"}, True),
        ({"bootstrap.servers": "a:1"}, {"metadata.broker.list": "a:1"}, True),
        (
            {"bootstrap.servers": "x:1", "metadata.broker.list": "a:1"},
            {"bootstrap.servers": "x:1"},
            False,
        ),
    ],
)
def test_one_instance_id_is_refused_only_in_one_cluster(
    tmp_path: Path, one: dict[str, str], other: dict[str, str], *, is_refused: bool
) -> None:
    """Each cluster has groups of its own. librdkafka takes the last of the two keys."""
    member = {"group.instance.id": "pod-0", "group.id": "g"}
    ingestors = [
        Ingestor(config | member, topic, DirectoryLake(tmp_path / topic).table())
        for topic, config in (("a", one), ("b", other))
    ]
    expected = pytest.raises(ConfigError, match=r"group\.instance\.id=pod-0: ")
    with expected if is_refused else nullcontext():
        IngestService(ingestors)


def test_with_fixed_partitions_no_group_is_joined_and_an_instance_id_is_no_matter(
    tmp_path: Path,
) -> None:
    config = CONFIG | {"group.instance.id": "pod-0", "group.id": "g"}
    fixed = IngestSettings(partitions=(0,))
    lakes = {topic: DirectoryLake(tmp_path / topic).table() for topic in "abc"}
    ingestors = [Ingestor(config, topic, lakes[topic], fixed) for topic in "ab"]
    ingestors.append(Ingestor(config, "c", lakes["c"]))  # the only one that joins
    assert IngestService(ingestors).ingestors == tuple(ingestors)


def test_an_empty_instance_id_is_none(tmp_path: Path) -> None:
    config = CONFIG | {"group.instance.id": "", "group.id": "g"}
    ingestors = [Ingestor(config, topic, DirectoryLake(tmp_path / topic).table()) for topic in "ab"]
    assert IngestService(ingestors).ingestors == tuple(ingestors)


@pytest.mark.parametrize("bad", ["a", "b"])
@pytest.mark.usefixtures("kafka")
def test_if_one_fails_the_others_land_what_they_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    good = "b" if bad == "a" else "a"
    running = service(tmp_path, layout=Layout(small_bytes=0))
    create = ParquetDirectory.create

    def created(self: ParquetDirectory, source: SourcePartition, *rest: Any) -> Any:
        if source.topic == bad:
            eventually(lambda: ingestors[good].stats.staged_segments)
            raise LakeError("it does not fit")
        return create(self, source, *rest)

    ingestors = {ingestor.topic: ingestor for ingestor in running.ingestors}
    monkeypatch.setattr(ParquetDirectory, "create", created)
    with pytest.raises(LakeError, match="it does not fit"):
        running.run()
    assert rows(DirectoryLake(tmp_path / good)) == [0, 1]
    assert not (tmp_path / bad / bad).exists()


@pytest.mark.parametrize("bad", ["a", "b"])
@pytest.mark.usefixtures("kafka")
def test_a_panic_of_a_library_ends_all_and_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    """It is no `Exception`, as pyo3's is not."""

    class Panic(BaseException):
        pass

    good = "b" if bad == "a" else "a"
    running = service(tmp_path, layout=Layout(small_bytes=0))
    create = ParquetDirectory.create

    def created(self: ParquetDirectory, source: SourcePartition, *rest: Any) -> Any:
        if source.topic == bad:
            raise Panic
        return create(self, source, *rest)

    monkeypatch.setattr(ParquetDirectory, "create", created)
    with pytest.raises(Panic):
        running.run()
    assert f"columnar-ingest-{good}" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.usefixtures("kafka")
def test_what_a_signal_raises_ends_it_though_others_are_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = service(tmp_path, stop_at_end=True)
    busy, is_over = threading.Event(), threading.Event()
    create = ParquetDirectory.create

    def created(self: ParquetDirectory, source: SourcePartition, *rest: Any) -> Any:
        if source.topic == "a":
            busy.wait()
            raise KeyboardInterrupt
        busy.set()
        is_over.wait(30)
        return create(self, source, *rest)

    monkeypatch.setattr(ParquetDirectory, "create", created)
    with pytest.raises(KeyboardInterrupt):
        running.run()
    [thread] = [thread for thread in threading.enumerate() if thread.name == "columnar-ingest-b"]
    is_over.set()
    thread.join()


def test_without_a_host_both_families_are_answered(tmp_path: Path) -> None:
    with HealthServer(service(tmp_path), 0) as server:
        hosts = ["127.0.0.1", "[::1]"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
        assert [get(server, "/health", host)[0] for host in hosts] == [200] * len(hosts)


@pytest.mark.usefixtures("kafka")
def test_health_and_readiness_are_told_over_http(tmp_path: Path) -> None:
    running = service(tmp_path, roll_seconds=0.001)
    with HealthServer(running, 0, host="127.0.0.1") as server:
        assert get(server, "/health")[0] == 200
        assert get(server, "/ready")[0] == 503
        thread = threading.Thread(target=running.run)
        thread.start()
        eventually(lambda: get(server, "/ready")[0] == 200)
        eventually(lambda: get(server, "/ready")[1]["topics"]["a"]["rows"] == 2)
        assert get(server, "/metrics")[0] == 404
        running.stop()
        thread.join()


@pytest.mark.usefixtures("kafka")
def test_one_that_hangs_is_neither_well_nor_ready(tmp_path: Path) -> None:
    running = service(tmp_path)
    with HealthServer(running, 0, host="127.0.0.1", late_seconds=-1.0) as server:
        thread = threading.Thread(target=running.run)
        thread.start()
        eventually(lambda: all(ingestor.is_assigned for ingestor in running.ingestors))
        assert [get(server, path)[0] for path in ("/health", "/ready")] == [503, 503]
        running.stop()
        thread.join()


@pytest.mark.usefixtures("kafka")
def test_one_that_has_ended_is_well_and_ready(tmp_path: Path) -> None:
    """Others may still be at work, for hours."""
    ended = IngestService(service(tmp_path, stop_at_end=True).ingestors[:1])
    with HealthServer(ended, 0, host="127.0.0.1", late_seconds=-1.0) as server:
        ended.run()
        status, content = get(server, "/health")
        assert (status, content["topics"]["a"]["has_ended"]) == (200, True)
        assert get(server, "/ready")[0] == 200
