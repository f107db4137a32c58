"""Rows of mode `ranges` in the sink, whose writers are called as Spark calls them: a real Kafka."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import confluent_kafka
import polars
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from lakes import DeltaLake, DirectoryLake, IcebergLake, letters, place_at, rows
from spark_tasks import SCHEMA, Query, close_kept_clients, send
from support import eventually

from columnar_kafka import Producer, native
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import Stager
from columnar_kafka.lake.model import NotLandedError
from spark_sink.landing import ranges
from spark_sink.reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support import TopicFactory

    from columnar_kafka.lake.model import PlainMessages
    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_kept_clients()


def test_ranges_of_several_partitions_are_read_together_and_land_once(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(4)
    send(kafka, name, range(40))
    lake = DirectoryLake(tmp_path)
    query = Query(kafka, name, str(tmp_path))
    first, *others = query.ranges()
    query.land([first], others)
    assert rows(lake) == list(range(40))
    [consumer] = reading.consumers.values()
    send(kafka, name, range(40, 48))
    query.land(query.ranges(), [])  # again what has landed, and more
    assert rows(lake) == list(range(48))
    assert list(reading.consumers.values()) == [consumer]
    assert {fence.next for fence in lake.table().fences().values()} == {6}


def test_parts_of_a_partition_are_read_one_after_the_other(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(2)
    send(kafka, name, range(40))
    query = Query(kafka, name, str(tmp_path))
    cut = query.ranges(maxRecordsPerPartition="3")
    assert len(cut) == 8
    query.land(cut[::3], [*cut[1::3], cut[1]], cut[2::3], cut[:1])
    assert rows(DirectoryLake(tmp_path)) == list(range(40))


def test_ranges_land_in_a_delta_table(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    send(kafka, name, range(8))
    query = Query(kafka, name, str(tmp_path), **{"table.format": "delta"})
    query.land(query.ranges())
    assert sorted(polars.read_delta(str(tmp_path))["n"]) == list(range(8))


def test_ranges_land_in_an_iceberg_table(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    send(kafka, name, range(8))
    lake = IcebergLake(tmp_path)
    query = Query(kafka, name, **lake.spark_options())
    query.land(query.ranges())
    assert rows(lake) == list(range(8))


def test_aborted_records_do_not_land_and_the_fence_moves_over_them(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    query = Query(kafka, name, str(tmp_path))
    with Producer(config | {"transactional.id": name}) as producer:
        producer.set_schema(name, SCHEMA)
        producer.init_transactions()
        for n in range(4):
            producer.begin_transaction()
            producer.produce(name, {"n": n})
            producer.flush()
            if n % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    query.land(query.ranges())
    assert rows(DirectoryLake(tmp_path)) == [0, 2]
    [fence] = DirectoryLake(tmp_path).table().fences().values()
    assert fence.next == 8


def test_a_range_that_starts_past_what_has_landed_is_refused_unless_told(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    send(kafka, name, range(4))
    query = Query(kafka, name, str(tmp_path))
    query.land(query.ranges())
    send(kafka, name, range(4, 12))
    _, later = query.ranges(startingOffsets=f'{{"{name}": {{"0": 2}}}}', minPartitions="2")
    with pytest.raises(NotLandedError, match="from offset 4, but the table's next offset is 2"):
        query.land([later])
    assert not list(tmp_path.glob("_columnar/staged/*"))
    query = Query(kafka, name, str(tmp_path), **{"table.gap": "allow"})
    query.land([later])
    assert rows(DirectoryLake(tmp_path)) == [*range(4), *range(8, 12)]


def test_deleted_messages_stop_the_task_or_are_given_up(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(2)
    send(kafka, name, range(20))
    query = Query(kafka, name, str(tmp_path))
    batches = query.ranges()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    [done] = admin.delete_records([TopicPartition(name, 1, 2)]).values()
    done.result(60)
    with pytest.raises(
        LakeError, match=rf"{name}\[1\]: offset 0 does not exist: .* 2 to 4 .*gap=allow"
    ):
        query.land(batches)
    query = Query(kafka, name, str(tmp_path), **{"table.gap": "allow"})
    query.land(batches)
    lost = (1, 3, 5, 7)
    assert rows(DirectoryLake(tmp_path)) == [n for n in range(20) if n not in lost]
    assert {fence.next for fence in DirectoryLake(tmp_path).table().fences().values()} == {5}


def test_a_plain_message_stops_the_task_and_nothing_is_left(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    send(kafka, name, range(2))
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(name, b"plain")
    plain.flush()
    query = Query(kafka, name, str(tmp_path))
    with pytest.raises(LakeError, match=rf"{name}\[0\]@1 is a plain message"):
        query.land(query.ranges())
    assert not list(tmp_path.glob("_columnar/staged/*"))


def test_another_generation_of_the_topic_is_refused(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    send(kafka, name, range(4))
    query = Query(kafka, name, str(tmp_path))
    [batch] = query.ranges()
    query.land([batch])
    [row] = batch.to_pylist()
    other = pa.RecordBatch.from_pylist([{**row, "topic_id": "other"}], schema=query.arrow)
    with pytest.raises(LakeError, match="the topic was deleted and created again"):
        query.land([other])


@pytest.mark.parametrize("differs", ["cluster_id", "topic_id"])
def test_of_another_topic_than_the_ranges_are_of_nothing_lands(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path, differs: str
) -> None:
    name = topic()
    send(kafka, name, range(4))
    query = Query(kafka, name, str(tmp_path))
    [batch] = query.ranges()
    [row] = batch.to_pylist()
    other = pa.RecordBatch.from_pylist([{**row, differs: "other"}], schema=query.arrow)
    with pytest.raises(NotLandedError, match=rf"{name}.: the ranges are of \(.*'other'.*, but the"):
        query.land([other])
    assert not list(tmp_path.glob("_columnar/staged/*"))
    named = Query(kafka, name, str(tmp_path), **{"table.topic.generation": "1"})
    named.land([other])
    assert rows(DirectoryLake(tmp_path)) == [0, 1, 2, 3]


def test_of_a_topic_that_is_gone_nothing_lands(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic()
    send(kafka, name, range(4))
    query = Query(kafka, name, str(tmp_path))
    messages = query.stage(query.ranges())
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_topics([name])[name].result(60)
    eventually(lambda: name not in admin.list_topics(timeout=60).topics)
    with pytest.raises(NotLandedError, match="not known whether the tasks have read"):
        query.commit(messages)
    assert not list(tmp_path.glob("_columnar/staged/*"))


@pytest.mark.parametrize("together", [True, False])
def test_plain_messages_are_decoded_together_and_one_by_one_alike(
    kafka: LocalKafka,
    topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    together: bool,
) -> None:
    names = sorted([topic(2), topic(2)])
    add, calls = Stager.add_plain, []

    def counted(self: Stager, messages: PlainMessages) -> None:
        calls.append((messages.topic, len(messages)))
        add(self, messages)

    monkeypatch.setattr(Stager, "add_plain", counted)
    if not together:
        monkeypatch.setattr(ranges, "native", SimpleNamespace(enabled=False))
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(40):
        for name in names:
            value = b"{" if number == 7 else b'{"n": %d}' % number
            plain.produce(name, value, partition=number % 2)
    plain.flush()
    for name in names:
        send(kafka, name, range(40, 44))
    options = {"plain": "decode", "plain.format": "json", "plain.schema": AVRO}
    options |= {"dead.letters": str(tmp_path / "letters")}
    named = {f"table.{option}": value for option, value in options.items()}
    query = Query(kafka, ",".join(names), str(tmp_path / "lake"), **named)
    query.land(query.ranges())
    expected = sorted(2 * [number for number in range(44) if number != 7])
    assert rows(DirectoryLake(tmp_path / "lake")) == expected
    refused = letters(place_at(tmp_path / "letters"))
    assert sorted((letter["topic"], letter["offset"]) for letter in refused) == [
        (name, 3) for name in names
    ]
    if native.enabled and together:
        assert sum(count for _, count in calls) == 80
        assert {name for name, _ in calls} == set(names)
    else:
        assert calls == []


AVRO = json.dumps({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})


def test_the_driver_decides_the_schema_which_grows_in_the_tasks(
    kafka: LocalKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(2)
    lake = DeltaLake(tmp_path / "lake")
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    options = {"plain": "decode", "plain.format": "json", "plain.schema": "infer"}
    options |= {"plain.fields": "lenient", "plain.unknown": "grow"}
    named = {f"table.{option}": value for option, value in options.items()}
    for number in range(3):  # a writer is made for each batch
        for n in range(4):
            row = {"n": 4 * number + n, f"f{number}": {"x": n}}
            plain.produce(name, json.dumps(row), partition=n % 2)
        plain.flush()
        where = {"subscribe": name, "table.format": "delta"}
        query = Query(kafka, name, str(lake.root), **where, **named)
        query.land(*([one] for one in query.ranges()))
    landed = sorted(lake.read().to_pylist(), key=lambda row: row["n"])
    assert [row["n"] for row in landed] == list(range(12))
    for row in landed:
        number, n = divmod(row["n"], 4)
        names = {field for field in ("f0", "f1", "f2") if row[field] is not None}
        assert (names, row[f"f{number}"], row["_rest"]) == ({f"f{number}"}, {"x": n}, None)
