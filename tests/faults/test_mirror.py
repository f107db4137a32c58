"""The KIP's replicator: MirrorMaker 2 between two brokers, and everybody who reads behind it."""

from __future__ import annotations

import itertools
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition
from matrix import CELLS, CONSUMERS, CONTENTS, SCHEMA, as_bytes, check, fill_all, messages, reader
from support import eventually

from columnar_kafka import Producer
from columnar_kafka.local import LocalKafka, find_java
from columnar_kafka.local.java import KAFKA_VERSION, jars
from columnar_kafka.local.process import GuardedProcess, tail

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

_MIRROR = f"""
<dependency org="org.apache.kafka" name="connect-mirror" rev="{KAFKA_VERSION}" conf="default"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default"/>
"""
_SECONDS = 120.0
_ROWS, _SEGMENTS = 4, 60
_MOVED, _ABORTED = "mirror-moved", "mirror-aborted"
_READ = (1, 3, 4, 30, 122, 123, 124, 235, 239)
"""After so many records groups commit on the first broker."""
_LAST = f"ours-{_READ[-1]}"


@contextmanager
def mirror_maker(source: LocalKafka, target: LocalKafka, folder: Path) -> Iterator[None]:
    """Run MirrorMaker 2, which copies topics `mirror-…` and all groups; names stay as they are."""
    properties = {
        "clusters": "source,target",
        "source.bootstrap.servers": source.bootstrap_servers,
        "target.bootstrap.servers": target.bootstrap_servers,
        "source->target.enabled": "true",
        "target->source.enabled": "false",
        "topics": "mirror-.*",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sync.group.offsets.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "offset.lag.max": "0",  # so that the newest commit is translated exactly in the end
        "tasks.max": "1",
    }
    every_second = ("sync.group.offsets", "emit.checkpoints", "refresh.topics", "refresh.groups")
    properties |= {f"{name}.interval.seconds": "1" for name in every_second}
    single = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    single += ("offset.storage", "status.storage", "config.storage")
    properties |= {f"{name}.replication.factor": "1" for name in single}
    properties["replication.factor"] = "1"
    settings, log = folder / "mm2.properties", folder / "mm2.log"
    settings.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    mirror_jars = jars(f"connect-mirror-{KAFKA_VERSION}", _MIRROR)
    command: list[str | Path] = [find_java().executable, "-Xmx512m", "-XX:+UseSerialGC"]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", f"{mirror_jars}/*", "org.apache.kafka.connect.mirror.MirrorMaker", settings]
    process = GuardedProcess(command, log=log, grace_seconds=0)
    try:
        yield
    except BaseException:
        print(tail(log))  # noqa: T201 - pytest shows it with the failure
        raise
    finally:
        process.close()


def ends(servers: str, topics: Any) -> dict[str, int]:
    """Return how many messages there are; of topics that are there and have a leader."""
    highs = {}
    with confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "ends"}) as consumer:
        there = consumer.list_topics(timeout=_SECONDS).topics
        for topic in set(topics) & set(there):
            with suppress(KafkaException):
                highs[topic] = consumer.get_watermark_offsets(TopicPartition(topic, 0), _SECONDS)[1]
    return highs


def committed(servers: str, group: str) -> int:
    """Return the Kafka offset that a group has committed of the topic that moves."""
    with confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group}) as consumer:
        return consumer.committed([TopicPartition(_MOVED, 0)], _SECONDS)[0].offset


def move_groups(source: LocalKafka) -> None:
    """Write a topic in transactions, whose markers are not mirrored, and commit inside of it."""
    servers = source.bootstrap_servers
    source.create_topic(_MOVED, 1, {"retention.ms": "-1"})
    settings = {"bootstrap.servers": servers, "columnar.encoding": "parquet"}
    with Producer({**settings, "transactional.id": _MOVED}) as producer:
        producer.init_transactions(_SECONDS)
        producer.set_schema(_MOVED, SCHEMA)
        for first in range(0, _ROWS * _SEGMENTS, _ROWS):
            producer.begin_transaction()
            for n in range(first, first + _ROWS):
                producer.produce(_MOVED, {"n": n, "text": None})
            producer.commit_transaction(_SECONDS)
    with reader(servers, "ours, parquet", _MOVED, "places") as consumer:
        records = list(messages(consumer))
        for read in _READ:
            place = TopicPartition(_MOVED, 0, records[read - 1].offset() + 1)
            with reader(servers, "ours, parquet", _MOVED, f"ours-{read}") as member:
                member.consume(
                    read, _SECONDS
                )  # or it would not know the segment that it commits in
                member.commit(offsets=[place], asynchronous=False)
    for read in _READ:
        place = TopicPartition(_MOVED, 0, records[read - 1].kafka_offset() + 1)
        with reader(servers, "stock", _MOVED, f"stock-{read}") as stock:
            stock.commit(offsets=[place], asynchronous=False)


def abort_and_commit(source: LocalKafka) -> None:
    """Write a record in a transaction that is aborted, and one in one that is not."""
    source.create_topic(_ABORTED)
    settings = {"bootstrap.servers": source.bootstrap_servers, "columnar.encoding": "parquet"}
    with Producer({**settings, "transactional.id": _ABORTED}) as producer:
        producer.init_transactions(_SECONDS)
        producer.set_schema(_ABORTED, SCHEMA)
        for n, end in enumerate((producer.abort_transaction, producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce(_ABORTED, {"n": n, "text": None})
            assert producer.flush(_SECONDS) == 0
            end(_SECONDS)


class Mirrored:
    """The topics on both brokers."""

    def __init__(self, source: LocalKafka, target: LocalKafka, topics: Any) -> None:
        self.source = source.bootstrap_servers
        self.target = target.bootstrap_servers
        self.topics: dict[tuple[str, str], str] = topics


@pytest.fixture(scope="module")
def mirrored(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrored]:
    """Topics with all contents, and groups with positions, behind a mirror."""
    topics = fill_all(kafka, "mirror")
    move_groups(kafka)
    abort_and_commit(kafka)
    sizes = {name: len(CONTENTS[content]) for (_, content), name in topics.items()}
    sizes |= {_MOVED: _SEGMENTS, _ABORTED: 2}
    with (
        LocalKafka() as target,
        mirror_maker(kafka, target, tmp_path_factory.mktemp("mirror")),
    ):
        servers = target.bootstrap_servers
        eventually(lambda: ends(servers, sizes) == sizes, seconds=_SECONDS)
        eventually(lambda: committed(servers, _LAST) == _SEGMENTS - 1, seconds=_SECONDS)
        yield Mirrored(kafka, target, topics)


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize(("producer", "content"), CELLS)
def test_behind_the_mirror_every_consumer_reads_what_every_producer_wrote(
    mirrored: Mirrored, producer: str, content: str, consumer: str
) -> None:
    check(mirrored.target, consumer, mirrored.topics[producer, content], content)


@pytest.mark.parametrize(("producer", "content"), CELLS)
def test_the_mirror_keeps_every_byte(mirrored: Mirrored, producer: str, content: str) -> None:
    """Values, keys, headers and times; so a segment that lands there is what was sent here."""
    name, copies = mirrored.topics[producer, content], []
    for servers in (mirrored.source, mirrored.target):
        with reader(servers, "stock", name, "bytes") as consumer:
            copies.append(as_bytes(messages(consumer)))
    assert copies[0] == copies[1]


@pytest.mark.parametrize(("by", "read"), list(itertools.product(("ours", "stock"), _READ)))
def test_a_position_committed_before_the_mirror_skips_no_record_behind_it(
    mirrored: Mirrored, by: str, read: int
) -> None:
    """Offsets are others there, and what MirrorMaker makes of a commit is often an earlier one."""
    done = read if by == "ours" else -(-read // _ROWS) * _ROWS  # stock commits whole segments
    group = f"{by}-{read}"
    moved = committed(mirrored.target, group)
    assert moved <= done // _ROWS
    with reader(mirrored.target, "ours, parquet", _MOVED, group) as consumer:
        numbers = [message.value()["n"] for message in messages(consumer)]
    first = numbers[0] if numbers else _ROWS * _SEGMENTS
    assert first <= done
    assert numbers == list(range(first, _ROWS * _SEGMENTS))


def test_a_position_that_the_mirror_could_translate_is_exact(mirrored: Mirrored) -> None:
    """MirrorMaker copies a commit's metadata, and that names the segment."""
    assert committed(mirrored.target, _LAST) == _SEGMENTS - 1
    with reader(mirrored.target, "ours, parquet", _MOVED, _LAST) as consumer:
        assert [message.value()["n"] for message in messages(consumer)] == [_READ[-1]]


def test_what_was_aborted_is_a_record_behind_the_mirror(mirrored: Mirrored) -> None:
    """So `docs/compatibility.md` warns of it; MirrorMaker reads what is not committed, too."""
    copies = []
    for servers in (mirrored.source, mirrored.target):
        with reader(servers, "ours, parquet", _ABORTED, "aborted") as consumer:
            copies.append([message.value()["n"] for message in messages(consumer)])
    assert copies == [[1], [0, 1]]
