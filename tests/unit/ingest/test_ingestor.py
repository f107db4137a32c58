"""Ingesting from a Kafka in memory: where reading starts, when it commits, what stops it."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from ingest_fakes import ingest_from
from lakes import DeltaLake, DirectoryLake, IcebergLake, rows
from support import eventually

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.ingest import (
    Decoding,
    Ingestor,
    IngestSettings,
    IngestStats,
    Rules,
    ingestor,
    open_dead_letters,
    open_table,
    reader,
    recreated_topic,
)
from columnar_kafka.ingest.reader import TopicReader
from columnar_kafka.ingest.settings import landing_config
from columnar_kafka.lake.model import MayHaveLandedError, NotLandedError
from columnar_kafka.lake.plan import Layout
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.lake.tables.local_files import LocalFiles
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
CONFIG = {"bootstrap.servers": "memory"}
GROUP = {"group.id": "g"}
FENCE = "kafka:named:g/t:0"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    with FakeKafka() as kafka:
        kafka.create_topic("t", 1)
        ingest_from(kafka, monkeypatch)
        yield kafka


@pytest.fixture(params=[DirectoryLake, DeltaLake, IcebergLake], ids=["parquet", "delta", "iceberg"])
def every_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "lake")


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryLake:
    return DirectoryLake(tmp_path / "lake")


def send(
    kafka: FakeKafka,
    numbers: Iterable[int],
    *,
    partition: int = 0,
    timestamp: int = 0,
    **config: Any,
) -> None:
    """Send rows of {n}, two a segment."""
    settings = {"columnar.encoding": "parquet", "columnar.segment.rows": 2}
    with kafka.Producer(CONFIG | settings | config) as producer:
        producer.set_schema("t", SCHEMA)
        for n in numbers:
            producer.produce("t", {"n": n}, partition=partition, timestamp=timestamp)


def ingest(table: Any, config: dict[str, Any] | None = None, **settings: Any) -> IngestStats:
    """Land what is in the topic now."""
    return to_the_end(table, config, **settings).run()


def to_the_end(table: Any, config: dict[str, Any] | None = None, **settings: Any) -> Ingestor:
    chosen = {"partitions": (0,), "stop_at_end": True, "topic_generation": "g", **settings}
    return Ingestor(CONFIG | GROUP | (config or {}), "t", table, IngestSettings(**chosen))


def committed(kafka: FakeKafka, partition: int = 0) -> int:
    return kafka.committed("g", "t", partition).offset


def test_every_row_lands_once_and_the_next_run_goes_on(kafka: FakeKafka, every_lake: Any) -> None:
    send(kafka, range(5))
    first = ingest(every_lake.table())
    assert (first.rows, first.segments, first.files, first.commits) == (5, 3, 1, 1)
    assert rows(every_lake) == list(range(5))
    assert every_lake.table().fences()[FENCE].next == committed(kafka) == 3
    send(kafka, range(5, 8))
    second = ingest(every_lake.table())
    assert (second.rows, second.rows_before) == (3, 0)
    assert rows(every_lake) == list(range(8))


@pytest.mark.parametrize("messages", [2, 3])
def test_a_topic_that_has_lost_what_landed_is_not_landed_from_there_on(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch, messages: int
) -> None:
    """As after an unclean election, or in a cluster that was restored."""
    send(kafka, range(6))
    ingest(lake.table())
    with FakeKafka() as restored:
        restored.create_topic("t", 1)
        monkeypatch.setattr(ingestor, "StockConsumer", restored.Consumer)
        send(restored, range(2 * messages))
        if messages < 3:
            with pytest.raises(LakeError, match=r"to offset 2 have landed, but .* from 2 on"):
                ingest(lake.table())
        send(restored, range(10, 14))
        with pytest.raises(LakeError, match=r"t\[0\]@2 is segment .* the topic was rewritten"):
            ingest(lake.table())
    assert rows(lake) == list(range(6))


def test_the_tables_fence_decides_and_not_kafkas_committed_offset(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(4))
    ingest(lake.table())
    for wrong in 0, 1:
        kafka.commit("g", [TopicPartition("t", 0, wrong)])
        assert ingest(lake.table()) == IngestStats()
    kafka.commit("g", [TopicPartition("t", 0, 2)])
    other = DirectoryLake(lake.root.parent / "other")
    assert ingest(other.table()).rows == 4
    assert rows(other) == list(range(4))


class NothingAppears(LocalFiles):
    """As a process that is killed between a directory's log and the names of its files."""

    def link(self, old: Path, new: Path) -> None:
        if new.suffix == ".parquet":
            raise OSError(28, "No space left on device")
        super().link(old, new)


def test_a_start_shows_what_a_killed_commit_has_landed_though_nothing_new_comes(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(4))
    with pytest.raises(LakeError, match="No space left on device"):
        ingest(ParquetDirectory(lake.root, files=NothingAppears()))
    assert not [path for path in lake.root.rglob("*.parquet") if "_columnar" not in path.parts]
    assert ingest(lake.table()) == IngestStats()
    assert rows(lake) == [0, 1, 2, 3]


def test_without_a_fence_it_may_start_at_the_end(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(4))
    assert ingest(lake.table(), start="latest") == IngestStats()


def test_what_came_since_it_began_at_the_end_lands_though_nothing_had_landed(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(4))
    assert ingest(lake.table(), start="latest") == IngestStats()
    send(kafka, range(4, 6))
    table = FailingTable(lake.table(), MayHaveLandedError("no answer"), count=2)
    with pytest.raises(MayHaveLandedError):
        ingest(table, start="latest")
    send(kafka, range(6, 8))
    table = FailingTable(lake.table(), MayHaveLandedError("no answer"), count=1)
    assert ingest(table, start="latest").rows == 4
    assert rows(lake) == [4, 5, 6, 7]


@pytest.mark.parametrize("has_landed", [False, True])
def test_a_partition_that_was_added_since_is_read_from_its_beginning(
    kafka: FakeKafka, lake: DirectoryLake, *, has_landed: bool
) -> None:
    """However late it is noticed, and by whichever process."""
    send(kafka, range(4))
    ingest(lake.table(), start="latest", partitions=None)
    if has_landed:
        send(kafka, range(4, 6))
        assert ingest(lake.table(), start="latest", partitions=None).rows == 2
    kafka.create_topic("t", 2)
    send(kafka, range(6, 11), partition=1)
    assert ingest(lake.table(), start="latest", partitions=None).rows == 5
    send(kafka, range(11, 14), partition=1)
    ingest(lake.table(), start="latest", partitions=None)
    assert rows(lake) == list(range(4 if has_landed else 6, 14))


def test_a_partition_that_was_added_is_read_though_kafka_has_forgotten_the_group(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    """Committed offsets expire; the table tells that landing did not begin now."""
    ingest(lake.table(), start="latest", partitions=None)
    send(kafka, range(2))
    ingest(lake.table(), start="latest", partitions=None)
    kafka.create_topic("t", 2)
    send(kafka, range(2, 4), partition=1)
    ingest(lake.table(), {"group.id": "other"}, start="latest", partitions=None)
    assert rows(lake) == list(range(4))


@pytest.mark.parametrize("known", ["in the group", "in the table"])
def test_if_only_some_partitions_are_known_the_others_are_read_from_their_beginnings(
    kafka: FakeKafka, lake: DirectoryLake, known: str
) -> None:
    """As after another start in the group: in doubt nothing is skipped."""
    kafka.create_topic("t", 2)
    for partition in range(2):
        send(kafka, range(10 * partition, 10 * partition + 4), partition=partition)
    if known == "in the group":
        kafka.commit("g", [TopicPartition("t", 0, 1)])
    else:
        ingest(lake.table(), {"group.id": "other"}, stop_at_end=False, end_offsets={0: 1})
    assert ingest(lake.table(), start="latest", partitions=None).rows == 6
    assert [n for n in rows(lake) if n > 1] == [2, 3, 10, 11, 12, 13]


def test_a_crash_after_some_partitions_have_landed_loses_nothing_of_the_others(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    """They begin where the first process began, and what was added since at its beginning."""
    kafka.create_topic("t", 2)
    for partition in range(2):
        send(kafka, range(4), partition=partition)
    ingest(lake.table(), start="latest", partitions=None)
    send(kafka, range(4, 6), partition=0)
    ingest(lake.table(), start="latest", partitions=(0,))
    send(kafka, range(6, 8), partition=1)
    kafka.create_topic("t", 3)
    send(kafka, range(8, 10), partition=2)
    failing = FailingTable(lake.table(), MayHaveLandedError("no answer"), count=2)
    with pytest.raises(MayHaveLandedError):
        ingest(failing, start="latest", partitions=None)
    assert rows(lake) == [4, 5]
    ingest(lake.table(), start="latest", partitions=None)
    assert rows(lake) == list(range(4, 10))


def test_it_starts_with_all_partitions_at_once(kafka: FakeKafka, lake: DirectoryLake) -> None:
    kafka.create_topic("t", 2)
    for partition in range(2):
        send(kafka, range(4), partition=partition)
    ingest(lake.table(), start="latest", partitions=(0,))
    send(kafka, range(4, 6), partition=1)
    assert ingest(lake.table(), start="latest", partitions=(1,)).rows == 2
    assert rows(lake) == [4, 5]


def test_a_start_that_another_process_has_committed_meanwhile_stays(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is produced after a process is ready lands, though all die before their first commit."""
    send(kafka, range(2))
    at_times = kafka.Consumer.offsets_for_times

    def overtaken(self: Any, *arguments: Any) -> Any:
        offsets = at_times(self, *arguments)
        monkeypatch.setattr(kafka.Consumer, "offsets_for_times", at_times)
        ingest(DirectoryLake(lake.root.parent / "never").table(), start="latest")
        send(kafka, range(2, 4))
        return offsets

    monkeypatch.setattr(kafka.Consumer, "offsets_for_times", overtaken)
    ingest(lake.table(), start="latest")
    assert rows(lake) == [2, 3]
    assert committed(kafka) == 2


def test_without_a_fence_it_may_start_at_an_offset(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(6))
    assert ingest(lake.table(), start={0: 1}).rows == 4
    assert rows(lake) == [2, 3, 4, 5]
    ingest(lake.table(), start={0: 0})  # now the table says where
    assert rows(lake) == [2, 3, 4, 5]


def test_without_a_fence_it_may_start_at_a_time(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(2), timestamp=1_000)
    send(kafka, range(2, 4), timestamp=5_000)
    time = datetime.fromtimestamp(3, tz=timezone.utc)
    assert ingest(lake.table(), start=time).rows == 2
    assert rows(lake) == [2, 3]
    other = DirectoryLake(lake.root.parent / "other")
    assert ingest(other.table(), start=time + timedelta(seconds=9)).rows == 0


def test_it_ends_before_an_offset(kafka: FakeKafka, every_lake: Any) -> None:
    send(kafka, range(6))
    first = ingest(every_lake.table(), stop_at_end=False, end_offsets={0: 2})
    assert (first.rows, rows(every_lake)) == (4, [0, 1, 2, 3])
    assert every_lake.table().fences()[FENCE].next == 2
    again = ingest(every_lake.table(), stop_at_end=False, end_offsets={0: 1})
    assert again == IngestStats()
    ingest(every_lake.table())
    assert rows(every_lake) == list(range(6))


def test_it_waits_for_an_offset_that_is_not_there_yet(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(2))
    service = to_the_end(lake.table(), stop_at_end=False, end_offsets={0: 2}, roll_seconds=0.001)
    thread = threading.Thread(target=service.run)
    thread.start()
    eventually(lambda: service.stats.rows == 2)
    send(kafka, range(2, 6))
    thread.join()
    assert rows(lake) == [0, 1, 2, 3]


@pytest.mark.parametrize("chosen", [{"start": {1: 0}}, {"end_offsets": {1: 0}}])
def test_offsets_name_every_partition(
    kafka: FakeKafka, lake: DirectoryLake, chosen: dict[str, Any]
) -> None:
    send(kafka, range(2))
    with pytest.raises(ConfigError, match="has no offset for partition 0: name every partition"):
        ingest(lake.table(), stop_at_end=False, **chosen)


def test_the_counts_tell_what_waits_and_how_new_the_table_is(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka, range(4), timestamp=7_000)
    service = to_the_end(lake.table())
    read, seen = TopicReader.read, []

    def seen_before(self: TopicReader, timeout: float, landing: Any) -> None:
        seen.append(service.stats)
        read(self, timeout, landing)

    monkeypatch.setattr(TopicReader, "read", seen_before)
    done = service.run()
    sizes = [len(message.value()) for message in kafka.messages("t")]
    assert [(stats.staged_segments, stats.staged_nbytes) for stats in seen[:2]] == [
        (0, 0),
        (1, sizes[0]),
    ]
    assert (done.rows, done.segments, done.commits) == (4, 2, 1)
    assert (done.newest_timestamp, done.staged_segments, done.staged_nbytes) == (7_000, 0, 0)


def test_it_commits_when_enough_bytes_are_staged(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(6))
    assert ingest(lake.table(), roll_bytes=1).commits == 3
    size = len(kafka.messages("t")[0].value())
    other = DirectoryLake(lake.root.parent / "other")
    assert ingest(other.table(), roll_bytes=size + 1).commits == 2


def test_it_commits_when_the_first_segment_is_old_enough(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(6))
    assert ingest(lake.table(), roll_seconds=1e-9).commits == 3


def test_what_is_staged_lands_though_nothing_more_comes(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    """And a stop ends the wait for more."""
    send(kafka, range(2))
    service = to_the_end(lake.table(), stop_at_end=False, roll_seconds=0.01)
    thread = threading.Thread(target=service.run)
    thread.start()
    eventually(lambda: service.stats.rows == 2)
    service.stop()
    thread.join()
    assert rows(lake) == [0, 1]


def test_a_stop_lands_what_was_read(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(6))
    table = lake.table()
    service = to_the_end(table, stop_at_end=False, layout=Layout(small_bytes=0))
    create = table.create

    def stopping(*arguments: Any) -> Any:
        service.stop()
        return create(*arguments)

    table.create = stopping
    assert service.run().rows == 2
    assert rows(lake) == [0, 1]


def test_the_fence_passes_aborted_segments(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(2))
    config = {"columnar.encoding": "parquet", "transactional.id": "x", **CONFIG}
    with kafka.Producer(config) as producer:
        producer.set_schema("t", SCHEMA)
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("t", {"n": 99})
        producer.flush()
        producer.abort_transaction()
    end = kafka.end("t", 0, committed=True)
    assert ingest(lake.table()).rows == 2
    assert rows(lake) == [0, 1]
    assert lake.table().fences()["kafka:named:g/t:0"].next == end > 1
    send(kafka, range(2, 4))
    ingest(lake.table())
    assert rows(lake) == list(range(4))


def test_messages_deleted_before_they_landed_stop_it(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka, range(2))
    ingest(lake.table())
    send(kafka, range(2, 8))
    monkeypatch.setattr(reader, "watermarks", lambda *_: {("t", 0): (3, 4)})
    with pytest.raises(LakeError, match=r"deleted the messages from offset 1 to 2 .*table\.gap"):
        ingest(lake.table())
    with pytest.raises(NotLandedError, match="from offset 3, but the table's next offset is 1"):
        ingest(lake.table(), allow_gaps=True)
    ingest(lake.table(allow_gaps=True), allow_gaps=True)
    assert rows(lake) == [0, 1, 6, 7]


@pytest.mark.parametrize(
    ("start", "requests"), [("earliest", 2), (datetime(2024, 1, 1, tzinfo=timezone.utc), 3)]
)
def test_of_all_partitions_is_asked_at_once(
    kafka: FakeKafka,
    lake: DirectoryLake,
    monkeypatch: pytest.MonkeyPatch,
    start: Any,
    requests: int,
) -> None:
    """One after the other, hundreds of partitions would outlast `max.poll.interval.ms`."""
    asked: list[int] = []

    class Asking(kafka.Consumer):
        def offsets_for_times(self, partitions: Any, timeout: float = -1) -> Any:
            asked.append(len(partitions))
            return super().offsets_for_times(partitions, timeout)

    monkeypatch.setattr(ingestor, "StockConsumer", Asking)
    kafka.create_topic("wide", 30)
    settings = IngestSettings(stop_at_end=True, topic_generation="g", start=start)
    Ingestor(CONFIG, "wide", lake.table(), settings).run()
    assert asked == [30] * requests


def test_a_plain_message_stops_it_and_is_named(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(2))
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", b"plain")
    with pytest.raises(LakeError, match=r"t\[0\]@1 is a plain message"):
        ingest(lake.table())
    assert [path for path in lake.root.rglob("*") if path.is_file()] == []


def test_what_cannot_land_is_set_aside_and_counted(
    kafka: FakeKafka, every_lake: Any, tmp_path: Path
) -> None:
    dead = open_dead_letters(str(tmp_path / "dead"))
    rules = Rules(dead_letters=dead, plain="dead-letter")
    send(kafka, range(2))
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", b"plain", key=b"k", timestamp=1234)
    damaged = kafka.messages("t")[0]
    kafka.append("t", 0, damaged.value()[:-1] + b"?", headers=damaged.headers())
    send(kafka, range(2, 4))
    stats = ingest(every_lake.table(), rules=rules)
    assert (stats.rows, stats.segments, stats.dead_letters, stats.skipped) == (4, 2, 2, 0)
    assert rows(every_lake) == list(range(4))
    assert every_lake.table().fences()[FENCE].next == 4
    again = ingest(every_lake.table(), rules=rules)
    assert (again.rows, again.dead_letters) == (0, 0)
    letters = pq.read_table(tmp_path / "dead" / "t").to_pylist()
    assert [(letter["offset"], letter["key"]) for letter in letters] == [(1, b"k"), (2, None)]
    assert letters[0]["timestamp"].timestamp() == 1.234


def test_a_topic_that_ends_with_skipped_messages_is_read_to_its_end(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(2))
    ingest(lake.table())
    with kafka.Producer(CONFIG) as producer:
        for _ in range(3):
            producer.produce("t", b"plain")
    service = to_the_end(lake.table(), rules=Rules(plain="skip"), roll_bytes=5)
    assert service.run().skipped == 3
    assert lake.table().fences()[FENCE].next == committed(kafka) == 4
    send(kafka, range(2, 4))
    assert ingest(lake.table()).rows == 2


def test_a_topic_made_again_while_it_runs_stops_it(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka, range(2))
    ids = iter(["one", "two"])
    monkeypatch.setattr(recreated_topic, "generation", lambda *_: ("cluster", next(ids)))
    with pytest.raises(LakeError, match="topic 't' was deleted and created again"):
        ingest(lake.table(), topic_generation=None)
    assert lake.table().fences() == {}


@pytest.mark.usefixtures("kafka")
def test_a_topic_without_an_id_needs_a_name(
    lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recreated_topic, "generation", lambda *_: ("cluster", None))
    with pytest.raises(ConfigError, match=r"Kafka does not report its id\. Set topic_generation"):
        ingest(lake.table(), topic_generation=None)


def test_kafkas_ids_name_the_fence(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka, range(2))
    monkeypatch.setattr(recreated_topic, "generation", lambda *_: ("cluster", "id"))
    ingest(lake.table(), topic_generation=None)
    assert list(lake.table().fences()) == ["kafka:cluster:id:0"]


@pytest.mark.usefixtures("kafka")
def test_an_error_of_the_consumers_stops_it(lake: DirectoryLake) -> None:
    with pytest.raises(KafkaException, match="Unknown partition"):
        ingest(lake.table(), partitions=(7,))


def test_a_failed_commit_to_kafka_is_only_logged(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    send(kafka, range(2))

    def fails(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "not allowed"))

    monkeypatch.setattr(kafka.Consumer, "commit", fails)
    assert ingest(lake.table()).rows == 2
    assert "landed, but not committed to Kafka" in caplog.text


def test_each_commit_is_logged(kafka: FakeKafka, lake: DirectoryLake, caplog: Any) -> None:
    send(kafka, range(2))
    with caplog.at_level(logging.INFO, logger="columnar_kafka.ingest"):
        ingest(lake.table())
    [line] = [message for message in caplog.messages if "landed" in message]
    assert line.startswith("t: 2 records in ")
    assert " landed in 1 files; so far IngestStats(rows=2," in line


# --- commits that fail ----------------------------------------------------------------------------


class FailingTable:
    """A table whose next commits fail, after they landed or before."""

    def __init__(self, table: Any, error: Exception, *, count: int, landed: bool = False) -> None:
        self._table = table
        self._error = error
        self._count = count
        self._landed = landed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def commit(self, staged: Any) -> Any:
        if self._count:
            self._count -= 1
            if self._landed:
                self._table.commit(staged)
            raise self._error
        return self._table.commit(staged)


def test_what_is_read_again_after_its_end_was_seen_lands(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(8))
    table = FailingTable(lake.table(), MayHaveLandedError("no answer"), count=1)
    assert ingest(table, stop_at_end=False, end_offsets={0: 2}).rows == 4


@pytest.mark.parametrize("landed", [False, True])
def test_an_unknown_outcome_is_read_again_from_where_the_table_ends(
    kafka: FakeKafka, every_lake: Any, *, landed: bool
) -> None:
    send(kafka, range(8))
    error = MayHaveLandedError("no answer")
    table = FailingTable(every_lake.table(), error, count=1, landed=landed)
    ingest(table, roll_bytes=1)
    assert rows(every_lake) == list(range(8))


def test_two_unknown_outcomes_in_a_row_stop_it(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(2))
    table = FailingTable(lake.table(), MayHaveLandedError("no answer"), count=2)
    with pytest.raises(MayHaveLandedError, match="no answer"):
        ingest(table)
    assert ingest(lake.table()).rows == 2


def test_the_loser_of_two_on_one_partition_says_so(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(4))
    table = lake.table()
    create = table.create

    def overtaken(*arguments: Any) -> Any:
        table.create = create
        ingest(lake.table(), roll_bytes=1, partitions=(0,))
        send(kafka, range(4, 6))
        return create(*arguments)

    table.create = overtaken
    size = sum(len(message.value()) for message in kafka.messages("t"))
    layout = Layout(small_bytes=0)
    service = to_the_end(table, stop_at_end=False, roll_bytes=size + 1, layout=layout)
    with pytest.raises(NotLandedError, match="have landed meanwhile: stage the input again"):
        service.run()
    assert rows(lake) == list(range(4))
    assert list(lake.root.glob("_columnar/staged/*")) == []


def test_in_a_group_it_is_read_again(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(4))
    table = FailingTable(lake.table(), NotLandedError("another was faster"), count=1)
    assert ingest(table, partitions=None).rows == 4
    table = FailingTable(lake.table(), NotLandedError("another was faster"), count=2)
    send(kafka, range(4, 6))
    with pytest.raises(NotLandedError, match="another was faster"):
        ingest(table, partitions=None)


# --- a consumer group -----------------------------------------------------------------------------


def test_ingestors_of_a_group_share_the_partitions(lake: DirectoryLake, kafka: FakeKafka) -> None:
    kafka.create_topic("u", 4)
    settings = {"columnar.encoding": "parquet", "columnar.segment.rows": 2}
    group = IngestSettings(topic_generation="g", roll_seconds=0.01)
    services = [Ingestor(CONFIG, "u", lake.table(), group) for _ in range(2)]
    threads = [threading.Thread(target=service.run) for service in services]
    with kafka.Producer(CONFIG | settings) as producer:
        producer.set_schema("u", SCHEMA)
        for n in range(200):
            producer.produce("u", {"n": n}, partition=n % 4)
            if n in (50, 100):  # the second joins while the first is at work
                producer.flush()
                threads[n // 100].start()
    eventually(lambda: sum(service.stats.rows for service in services) == 200)
    for service, thread in zip(services, threads, strict=True):
        service.stop()
        thread.join()
    assert rows(lake) == list(range(200))


@pytest.fixture
def steps(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have a group rebalance until it was asked about three times; return what was done."""
    done: list[str] = []

    class Joining(kafka.Consumer):  # type: ignore[name-defined, misc]
        def subscribe(self, *arguments: Any, **callbacks: Any) -> None:
            done.append("joined")
            super().subscribe(*arguments, **callbacks)

    def is_rebalancing(_: object, group: str) -> bool:
        done.append(group)
        return len(done) < 3

    monkeypatch.setattr(ingestor, "StockConsumer", Joining)
    monkeypatch.setattr(ingestor, "is_rebalancing", is_rebalancing)
    monkeypatch.setattr(ingestor, "_POLL_SECONDS", 0.001)
    return done


def test_a_process_does_not_join_while_its_group_shares_out_partitions(
    kafka: FakeKafka, lake: DirectoryLake, steps: list[str]
) -> None:
    """If it was killed then, the others might wait for its session."""
    send(kafka, range(4))
    assert ingest(lake.table(), partitions=None).rows == 4
    assert steps == ["g", "g", "g", "joined"]


def test_it_joins_at_last(
    lake: DirectoryLake, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestor, "_REBALANCE_SECONDS", 0.0)
    ingest(lake.table(), partitions=None)
    assert steps == ["joined"]


@pytest.mark.parametrize(
    ("config", "partitions", "expected"),
    [({"group.instance.id": "0"}, None, ["joined"]), ({}, (0,), [])],
)
def test_one_that_has_its_place_does_not_wait(
    lake: DirectoryLake,
    steps: list[str],
    config: dict[str, Any],
    partitions: tuple[int, ...] | None,
    expected: list[str],
) -> None:
    ingest(lake.table(), config, partitions=partitions)
    assert steps == expected


def test_one_that_waits_can_be_stopped(
    kafka: FakeKafka, lake: DirectoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka, range(4))
    service = to_the_end(lake.table(), partitions=None)

    def is_rebalancing(*_: object) -> bool:
        service.stop()
        return True

    monkeypatch.setattr(ingestor, "is_rebalancing", is_rebalancing)
    assert service.run() == IngestStats()


def test_tables_that_name_no_group_each_get_the_whole_topic(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(4))
    other = DirectoryLake(lake.root.parent / "other")
    settings = IngestSettings(topic_generation="g", roll_seconds=0.01)
    services = [Ingestor(CONFIG, "t", target.table(), settings) for target in (lake, other)]
    threads = [threading.Thread(target=service.run) for service in services]
    for thread in threads:
        thread.start()
    eventually(lambda: [service.stats.rows for service in services] == [4, 4])
    for service, thread in zip(services, threads, strict=True):
        service.stop()
        thread.join()


@pytest.mark.parametrize(
    ("table_format", "group"),
    [
        ("parquet", "columnar-kafka-ingest-flights-77affe45"),
        ("delta", "columnar-kafka-ingest-flights-4a62ef8c"),
    ],
)
def test_the_group_of_a_table_stays_what_it_is_in_running_services(
    table_format: str, group: str
) -> None:
    table = open_table(table_format, "/lake")
    assert landing_config({}, "flights", table)["group.id"] == group


def test_tables_of_one_name_in_two_catalogs_have_a_group_each() -> None:
    """However the catalogs differ; who logs in to one does not count."""
    dev = {"name": "dev", "uri": "postgresql://catalog", "warehouse": "dev"}
    others = [{**dev, key: "other"} for key in dev]
    users = [
        {**dev, "uri": "postgresql://user:secret@catalog?password=secret"},
        {**dev, "token": "x"},
    ]
    tables = [
        open_table("iceberg", "lake.flights", catalog=catalog) for catalog in (dev, *others, *users)
    ]
    groups = [landing_config({}, "flights", table)["group.id"] for table in tables]
    assert (len({*groups}), {*groups[4:]}) == (4, {groups[0]})
    assert "secret" not in f"{tables}"


def test_what_is_staged_lands_before_a_partition_is_given_up(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    send(kafka, range(4))
    table = lake.table()
    service = to_the_end(table, partitions=None, stop_at_end=False)
    thread = threading.Thread(target=service.run)
    thread.start()
    eventually(lambda: service.stats.staged_segments)
    other = kafka.Consumer(CONFIG | GROUP)
    other.subscribe(["t"])
    eventually(lambda: other.poll(0.01) or rows_or_none(lake) == list(range(4)))
    other.close()
    service.stop()
    thread.join()
    assert rows(lake) == list(range(4))


def rows_or_none(lake: DirectoryLake) -> list[int]:
    return rows(lake) if list(lake.root.glob("t/*")) else []


# --- plain messages -------------------------------------------------------------------------------


def test_plain_messages_land_as_rows_and_are_counted(kafka: FakeKafka, every_lake: Any) -> None:
    rules = Rules(plain="decode", decoding=Decoding("json", SCHEMA))
    with kafka.Producer(CONFIG) as producer:
        send(kafka, range(2))
        for n in range(2, 5):
            producer.produce("t", b'{"n": %d}' % n, partition=0)
    first = ingest(every_lake.table(), rules=rules)
    assert (first.rows, first.segments, first.decoded, first.files) == (5, 1, 3, 1)
    with kafka.Producer(CONFIG) as producer:
        producer.produce("t", b'{"n": 5}', partition=0)
    second = ingest(every_lake.table(), rules=rules)
    assert (second.rows, second.segments, second.decoded, second.rows_before) == (1, 0, 1, 0)
    assert rows(every_lake) == list(range(6))
    assert every_lake.table().fences()[FENCE].next == committed(kafka) == 5


def test_plain_messages_that_wait_land_when_a_commit_is_due(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    rules = Rules(plain="decode", decoding=Decoding("json", SCHEMA))
    with kafka.Producer(CONFIG) as producer:
        for n in range(4):
            producer.produce("t", b'{"n": %d}' % n, partition=0)
    stats = ingest(lake.table(), rules=rules, roll_bytes=2 * len(b'{"n": 0}'))
    assert (stats.rows, stats.commits) == (4, 2)
    assert rows(lake) == list(range(4))


def test_one_that_cannot_be_decoded_ends_it_and_is_named(
    kafka: FakeKafka, lake: DirectoryLake
) -> None:
    rules = Rules(plain="decode", decoding=Decoding("json", SCHEMA))
    with kafka.Producer(CONFIG) as producer:
        for value in b'{"n": 0}', b'{"n": "x"}', b'{"n": 2}':
            producer.produce("t", value, partition=0)
    with pytest.raises(LakeError, match=r"plain message at t\[0\]@1: field 'n' is str 'x'"):
        ingest(lake.table(), rules=rules)
    assert [path for path in lake.root.rglob("*") if path.is_file()] == []


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"start": "now"}, "start is 'now': it must be earliest or latest"),
        ({"start": datetime(2026, 1, 1)}, "needs a time zone, as in 2026-01-01 00:00:00Z"),  # noqa: DTZ001
        ({"stop_at_end": True, "end_offsets": {}}, "contradict each other"),
        ({"roll_bytes": 0}, "must be positive"),
        ({"roll_seconds": 0}, "must be positive"),
        ({"partitions": ()}, "partitions is empty"),
    ],
)
def test_a_bad_setting_is_named(changed: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        IngestSettings(**changed)


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"enable.auto.commit": True}, "enable.auto.commit=True: an ingestor needs false"),
        ({"auto.offset.reset": "earliest"}, "auto.offset.reset=earliest: an ingestor needs error"),
        ({"group.protocol": "consumer"}, "group.protocol=consumer: an ingestor needs partitions"),
    ],
)
def test_a_key_that_contradicts_it_is_named(
    lake: DirectoryLake, config: dict[str, Any], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        to_the_end(lake.table(), config)


def test_the_keys_it_sets_itself_may_be_given(kafka: FakeKafka, lake: DirectoryLake) -> None:
    send(kafka, range(2))
    config = {"enable.auto.commit": "false", "auto.offset.reset": "error"}
    assert ingest(lake.table(), config).rows == 2


def test_a_session_is_short_unless_the_user_says_how_long(lake: DirectoryLake) -> None:
    def session(**config: Any) -> list[Any]:
        named = {key.replace("_", "."): value for key, value in config.items()}
        consumer_config = landing_config(named, "t", lake.table())
        return [consumer_config.get(key) for key in ("session.timeout.ms", "heartbeat.interval.ms")]

    assert session() == [6_000, 1_000]
    assert session(session_timeout_ms="45000") == ["45000", None]
    assert session(heartbeat_interval_ms=5_000) == [None, 5_000]


def test_little_is_fetched_in_advance_unless_the_user_says_how_much(lake: DirectoryLake) -> None:
    config = landing_config({"queued.max.messages.kbytes": "70000"}, "t", lake.table())
    assert config["queued.max.messages.kbytes"] == "70000"
    assert config["fetch.queue.backoff.ms"] == 50
    assert landing_config({}, "t", lake.table())["queued.max.messages.kbytes"] == 16_384


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ({"max.poll.interval.ms": "5000"}, ("5000", "6000")),
        ({"max.poll.interval.ms": 9_000, "heartbeat.interval.ms": 500}, ("9000", "45000")),
        ({"session.timeout.ms": "400000"}, ("300000", "400000")),
    ],
)
def test_a_session_longer_than_a_commit_may_take_is_named(
    lake: DirectoryLake, config: dict[str, Any], values: tuple[str, str]
) -> None:
    longest, session = values
    match = f"max.poll.interval.ms={longest} is less than session.timeout.ms={session}:"
    with pytest.raises(ConfigError, match=match):
        to_the_end(lake.table(), config)


def test_librdkafka_judges_a_value_that_is_no_number(lake: DirectoryLake) -> None:
    with pytest.raises(KafkaException, match=r"max\.poll\.interval\.ms"):
        to_the_end(lake.table(), {"max.poll.interval.ms": "x"}, partitions=None).run()


@pytest.fixture
def strict(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Have brokers that allow no session below 10 s; return the sessions that were asked for."""
    asked: list[Any] = []

    class Strict(kafka.Consumer):  # type: ignore[name-defined, misc]
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__(config)
            asked.append(session := config.get("session.timeout.ms"))
            if session is not None and int(session) < 10_000:
                self.memory.event(KafkaError(KafkaError.INVALID_SESSION_TIMEOUT))

    monkeypatch.setattr(ingestor, "StockConsumer", Strict)
    return asked


def test_brokers_that_allow_no_short_session_get_the_usual_one(
    kafka: FakeKafka, lake: DirectoryLake, strict: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka, range(4))
    service = to_the_end(lake.table(), partitions=None)
    assert service.run().rows == 4
    assert strict == [6_000, None]
    assert "group.min.session.timeout.ms" in caplog.text
    assert service.has_ended


@pytest.mark.usefixtures("kafka")
def test_a_session_of_the_users_that_brokers_do_not_allow_is_an_error(
    lake: DirectoryLake, strict: list[Any]
) -> None:
    with pytest.raises(KafkaException, match="INVALID_SESSION_TIMEOUT"):
        ingest(lake.table(), {"session.timeout.ms": "7000"}, partitions=None)
    assert strict == ["7000"]


def test_a_table_is_opened_by_its_format(tmp_path: Path) -> None:
    assert open_table("parquet", str(tmp_path)).fences() == {}
