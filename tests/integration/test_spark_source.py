"""What the source asks of Kafka and reads from it: its readers, called as Spark calls them."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import TopicPartition
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType
from spark_tasks import close_kept_clients
from support import eventually

import spark_sink
from columnar_kafka.errors import ColumnarError, ConfigError
from spark_sink.reading import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka
    from spark_sink.source import BatchReader, StreamReader

pytestmark = pytest.mark.kafka

NUMBERS = StructType([StructField("n", LongType())])

Row = tuple[str, int, int]
"""A message's topic, partition and offset."""


class Source:
    """Queries on one Kafka, as far as Spark leaves them to Python."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})

    def send(self, topic: str, count: int, partition: int = 0, start: int = 1) -> None:
        """Send messages with the values and the times `start`, `start` + 1, …; time 0 is now."""
        for n in range(start, start + count):
            self._producer.produce(topic, str(n), partition=partition, timestamp=n)
        self._producer.flush()

    def batch(self, **options: str) -> BatchReader:
        source, schema = self._source(options)
        return source.reader(schema)

    def stream(self, **options: str) -> closing[Any]:
        source, schema = self._source(options)
        reader = source.streamReader(schema)
        return _Stopped(reader)

    def _source(self, options: dict[str, str]) -> tuple[Any, Any]:
        named = {key.replace("_", "."): value for key, value in options.items()}
        servers = {"kafka.bootstrap.servers": self.servers}
        source = spark_sink.KafkaSource(CaseInsensitiveDict(servers | named))
        # Mode `records` would ask a segment, which the topics here do not have.
        return source, NUMBERS if named.get("mode") == "records" else source.schema()

    def rows(self, **options: str) -> list[Row]:
        """Return what a batch query reads."""
        reader = self.batch(**options)
        return read(reader, reader.partitions())


class _Stopped(closing):  # type: ignore[type-arg]
    def __exit__(self, *error: object) -> None:
        self.thing.stop()


def read(reader: Any, partitions: Any) -> list[Row]:
    rows = [
        row
        for partition in partitions
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


def next_batch(reader: StreamReader, start: dict[str, Any], limit: Any = None) -> tuple[Any, Any]:
    """Return a batch's rows and where it ends, through JSON as Spark keeps it."""
    end = reader.latestOffset(start, limit or reader.getDefaultReadLimit())
    end = json.loads(json.dumps(end))
    return read(reader, reader.partitions(start, end)), end


@pytest.fixture
def source(kafka: LocalKafka) -> Iterator[Source]:
    yield Source(kafka.bootstrap_servers)
    close_kept_clients()


# --- topics ---------------------------------------------------------------------------------------


def test_several_topics_are_read_a_partition_a_task(source: Source, topic: TopicFactory) -> None:
    one, other = topic(2), topic()
    source.send(one, 2, partition=1)
    source.send(other, 1)
    reader = source.batch(subscribe=f"{one}, {other}")
    partitions = reader.partitions()
    assert [partition.value[0][:4] for partition in partitions] == [
        (one, 1, 0, 2),
        (other, 0, 0, 1),
    ]
    assert read(reader, partitions) == [(one, 1, 0), (one, 1, 1), (other, 0, 0)]


def test_a_pattern_matches_whole_names(source: Source, topic: TopicFactory) -> None:
    one, other = topic(), topic()
    for name in (one, other):
        source.send(name, 1)
    assert source.rows(subscribePattern=f"{one}|.*{other[1:]}") == [(one, 0, 0), (other, 0, 0)]
    assert source.rows(subscribePattern=one[:-1]) == []


def test_assigned_partitions_are_read_and_no_others(source: Source, topic: TopicFactory) -> None:
    name = topic(3)
    for partition in range(3):
        source.send(name, 1, partition)
    assert source.rows(assign=json.dumps({name: [0, 2]})) == [(name, 0, 0), (name, 2, 0)]
    with pytest.raises(ConfigError, match=f'"assign": .{name}. has no partition 3'):
        source.rows(assign=json.dumps({name: [3]}))


def test_a_topic_that_does_not_exist_is_named_and_not_created(source: Source) -> None:
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"topic 'nowhere' cannot be read: .*Unknown topic"):
            source.rows(subscribe="nowhere")


# --- columns --------------------------------------------------------------------------------------


def test_a_row_is_a_message_with_the_ids_of_its_topic(source: Source, topic: TopicFactory) -> None:
    name = topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": source.servers})
    producer.produce(name, b"v", b"k", timestamp=5000, headers=[("h", b"x"), ("h", None)])
    producer.produce(name, None, timestamp=6000)
    producer.flush()
    reader = source.batch(subscribe=name)
    [task] = reader.partitions()
    [batch] = reader.read(task)
    row, empty = batch.to_pylist()
    assert (row["key"], row["value"], row["offset"], row["timestampType"]) == (b"k", b"v", 0, 0)
    assert row["timestamp"].timestamp() == 5
    assert row["headers"] == [{"key": "h", "value": b"x"}, {"key": "h", "value": None}]
    assert (empty["key"], empty["value"], empty["headers"]) == (None, None, None)
    admin = AdminClient({"bootstrap.servers": source.servers})
    ids = admin.describe_topics(confluent_kafka.TopicCollection([name]))[name].result(60)
    assert (row["cluster_id"], row["topic_id"]) == (
        admin.list_topics(name, 60).cluster_id,
        str(ids.topic_id),
    )


def test_headers_can_be_left_out(source: Source, topic: TopicFactory) -> None:
    name = topic()
    source.send(name, 1)
    reader = source.batch(subscribe=name, includeHeaders="false")
    [batch] = reader.read(*reader.partitions())
    assert batch.schema.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"),
        *("cluster_id", "topic_id"),
    ]


def test_ranges_are_offsets_and_nothing_of_a_message(source: Source, topic: TopicFactory) -> None:
    name = topic(2)
    source.send(name, 5)
    source.send(name, 2, partition=1)
    reader = source.batch(subscribe=name, mode="ranges", maxRecordsPerPartition="3")
    rows = [
        row
        for partition in reader.partitions()
        for b in reader.read(partition)
        for row in b.to_pylist()
    ]
    assert [tuple(row.values())[:4] for row in rows] == [
        (name, 0, 0, 2),
        (name, 0, 2, 5),
        (name, 1, 0, 2),
    ]
    assert {(row["cluster_id"], row["topic_id"]) for row in rows} == {
        tuple(partition.value[0][4:6]) for partition in reader.partitions()
    }


def test_large_values_come_in_batches_of_about_8_mib(source: Source, topic: TopicFactory) -> None:
    name = topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": source.servers})
    for _ in range(12):
        producer.produce(name, b"x" * 900_000)
        producer.flush()
    reader = source.batch(subscribe=name)
    assert [batch.num_rows for batch in reader.read(*reader.partitions())] == [10, 2]


# --- where a query starts and ends ----------------------------------------------------------------


def test_a_batch_reads_between_offsets(source: Source, topic: TopicFactory) -> None:
    name = topic(3)
    for partition in range(3):
        source.send(name, 4, partition)
    rows = source.rows(
        subscribe=name,
        startingOffsets=json.dumps({name: {"0": 1, "1": -2, "2": 4}}),
        endingOffsets=json.dumps({name: {"0": 3, "1": 1, "2": -1}}),
    )
    assert rows == [(name, 0, 1), (name, 0, 2), (name, 1, 0)]


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({"startingTimestamp": "12"}, [2, 3]),
        ({"startingTimestamp": "11", "endingTimestamp": "13"}, [1, 2]),
        ({"endingTimestamp": "99"}, [0, 1, 2, 3]),
        ({"startingOffsetsByTimestamp": '{"T": {"0": 13}}'}, [3]),
        ({"endingOffsetsByTimestamp": '{"T": {"0": 11}}'}, [0]),
        (
            {"startingTimestamp": "99", "startingOffsetsByTimestampStrategy": "latest"},
            [],
        ),
    ],
)
def test_a_batch_reads_between_times(
    source: Source, topic: TopicFactory, options: dict[str, str], offsets: list[int]
) -> None:
    name = topic()
    source.send(name, 4, start=10)
    named = {key: value.replace("T", name) for key, value in options.items()}
    assert source.rows(subscribe=name, **named) == [(name, 0, at) for at in offsets]


def test_a_start_after_the_last_message_is_an_error(source: Source, topic: TopicFactory) -> None:
    name = topic()
    source.send(name, 4, start=10)
    match = rf'"startingTimestamp": there is no message at or after that time in {name}\[0\]'
    with pytest.raises(ConfigError, match=match):
        source.rows(subscribe=name, startingTimestamp="99")


def test_a_batch_that_ends_before_it_starts_is_refused(source: Source, topic: TopicFactory) -> None:
    name = topic()
    source.send(name, 4, start=10)
    offsets = json.dumps({name: {"0": 3}})
    with pytest.raises(
        ConfigError,
        match=rf'{name}\[0\]: .* at offset 3 \("startingOffsets"\) .* at 1 \("endingTimestamp"\)',
    ):
        source.rows(subscribe=name, startingOffsets=offsets, endingTimestamp="11")


def test_an_offset_that_is_not_there_is_lost_data(source: Source, topic: TopicFactory) -> None:
    name = topic()
    source.send(name, 4)
    options = {"subscribe": name, "endingOffsets": json.dumps({name: {"0": 9}})}
    with pytest.raises(
        ColumnarError, match=rf'"endingOffsets" has offset 9 for {name}\[0\], .* from 0 to 4'
    ):
        source.rows(**options)
    assert len(source.rows(**options, failOnDataLoss="false")) == 4


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        ({}, 4),
        ({"startingOffsets": "earliest"}, 0),
        ({"startingOffsets": '{"T": {"0": 2}}'}, 2),
        ({"startingOffsets": '{"T": {"0": -1}}'}, 4),
        ({"startingTimestamp": "13"}, 3),
        ({"startingOffsetsByTimestamp": '{"T": {"0": 11}}'}, 1),
    ],
)
def test_a_stream_starts_where_its_options_say(
    source: Source, topic: TopicFactory, options: dict[str, str], offset: int
) -> None:
    name = topic()
    source.send(name, 4, start=10)
    named = {key: value.replace("T", name) for key, value in options.items()}
    with source.stream(subscribe=name, **named) as reader:
        assert reader.initialOffset()[name]["next"] == {"0": offset}


def test_only_committed_messages_are_read_unless_all_are_asked_for(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    config = {"bootstrap.servers": source.servers, "transactional.id": name}
    producer = confluent_kafka.Producer(config)
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        producer.produce(name, b"x")
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()
    assert source.rows(subscribe=name) == [(name, 0, 0), (name, 0, 4)]
    options = {"subscribe": name, "kafka_isolation_level": "read_uncommitted"}
    assert source.rows(**options) == [(name, 0, 0), (name, 0, 2), (name, 0, 4)]
    producer.begin_transaction()
    producer.produce(name, b"x")
    producer.flush()
    assert len(source.rows(subscribe=name)) == 2
    assert len(source.rows(**options)) == 4
    producer.abort_transaction()


# --- batches of a stream --------------------------------------------------------------------------


def test_a_stream_reads_on_and_an_empty_batch_ends_where_it_starts(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 2)
    with source.stream(subscribe=name, startingOffsets="earliest") as reader:
        rows, end = next_batch(reader, reader.initialOffset())
        assert rows == [(name, 0, 0), (name, 0, 1)]
        assert reader.reportLatestOffset()[name]["next"] == end[name]["next"]
        assert next_batch(reader, end) == ([], end)
        source.send(name, 1)
        assert next_batch(reader, end)[0] == [(name, 0, 2)]


def test_a_batch_has_as_many_offsets_as_the_option_allows(
    source: Source, topic: TopicFactory
) -> None:
    name = topic(2)
    source.send(name, 6)
    source.send(name, 2, partition=1)
    options = {"subscribe": name, "startingOffsets": "earliest"}
    with source.stream(**options, maxOffsetsPerTrigger="4") as reader:
        rows, end = next_batch(reader, reader.initialOffset())
        assert rows == [(name, 0, 0), (name, 0, 1), (name, 0, 2), (name, 1, 0)]
        rows, after = next_batch(reader, end)
        assert rows == [(name, 0, 3), (name, 0, 4), (name, 0, 5), (name, 1, 1)]
        assert len(next_batch(reader, end, ReadAllAvailable())[0]) == 4
        assert next_batch(reader, after) == ([], after)
        assert reader.reportLatestOffset()[name]["next"] == {"0": 6, "1": 2}


def test_spark_4_0_asks_without_arguments_and_gets_all_there_is(
    source: Source, topic: TopicFactory
) -> None:
    name = topic(2)
    source.send(name, 3)
    with source.stream(subscribe=name, startingOffsets="earliest") as reader:
        start, end = reader.initialOffset(), reader.latestOffset()
        assert end[name]["next"] == {"0": 3, "1": 0}
        assert read(reader, reader.partitions(start, end)) == [(name, 0, n) for n in range(3)]


def test_a_batch_waits_for_enough_offsets_but_not_for_ever(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    options = {"subscribe": name, "startingOffsets": "earliest", "minOffsetsPerTrigger": "3"}
    source.send(name, 1)
    with source.stream(**options) as reader:
        rows, end = next_batch(reader, reader.initialOffset())  # the first one waits for nothing
        assert rows == [(name, 0, 0)]
        source.send(name, 2)
        assert next_batch(reader, end) == ([], end)
        source.send(name, 1)
        assert len(next_batch(reader, end)[0]) == 3
    with source.stream(**options, maxTriggerDelay="0s") as reader:
        assert len(next_batch(reader, end)[0]) == 3


def test_a_query_that_ends_when_done_reads_what_is_there_when_it_starts(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 5)
    options = {"maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "3"}
    with source.stream(subscribe=name, startingOffsets="earliest", **options) as reader:
        start = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        source.send(name, 5)
        rows, end = next_batch(reader, start)
        assert len(rows) == 3
        rows, end = next_batch(reader, end)
        assert len(rows) == 2
        assert next_batch(reader, end) == ([], end)


def test_new_partitions_and_topics_are_read_from_their_first_message(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 1)
    with source.stream(subscribePattern=f"{name}.*", startingOffsets="latest") as reader:
        rows, end = next_batch(reader, reader.initialOffset())
        assert rows == []
        admin = AdminClient({"bootstrap.servers": source.servers})
        admin.create_partitions([NewPartitions(name, 2)])[name].result(60)
        admin.create_topics([confluent_kafka.admin.NewTopic(f"{name}-2", 1)])[f"{name}-2"].result()
        eventually(lambda: len(admin.list_topics(name, 60).topics[name].partitions) == 2)
        source = Source(source.servers)  # the producer of the other one may not know them yet
        source.send(name, 1, partition=1)
        source.send(f"{name}-2", 1)
        all_rows: list[Row] = []

        def both() -> bool:
            nonlocal end
            rows, end = next_batch(reader, end)
            all_rows.extend(rows)
            return len(all_rows) == 2

        eventually(both)
        assert all_rows == [(name, 1, 0), (f"{name}-2", 0, 0)]


def test_a_small_partition_count_becomes_more_tasks(source: Source, topic: TopicFactory) -> None:
    name = topic()
    source.send(name, 9)
    reader = source.batch(subscribe=name, minPartitions="3")
    partitions = reader.partitions()
    assert [partition.value[0][2:4] for partition in partitions] == [(0, 3), (3, 6), (6, 9)]
    assert len(read(reader, partitions)) == 9


# --- a first batch that was logged and did not finish ---------------------------------------------


def _grown(source: Source, topic: str, partitions: int) -> Source:
    """Add partitions to a topic; return what can send to them."""
    admin = AdminClient({"bootstrap.servers": source.servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)
    eventually(lambda: len(admin.list_topics(topic, 60).topics[topic].partitions) == partitions)
    return Source(source.servers)  # the producer of the other one may not know them yet


def _offsets_of(tasks: Any) -> list[tuple[int, int, int]]:
    """Return the partitions and offsets that tasks read, in any mode."""
    return [task.value[0][1:4] for task in tasks]


@pytest.mark.parametrize("mode", ["segments", "records", "ranges"])
@pytest.mark.parametrize("limit", [None, ReadAllAvailable()])
def test_a_first_batch_that_was_logged_is_read_again_from_where_it_began(
    source: Source, topic: TopicFactory, mode: str, limit: Any
) -> None:
    """Spark asks the restarted query anew where it starts; at the end there is more by then."""
    name = topic()
    source.send(name, 2)
    options = {"subscribe": name, "startingOffsets": "latest", "mode": mode}
    with source.stream(**options) as reader:
        first = json.loads(json.dumps(reader.initialOffset()))
        source = _grown(source, name, 2)
        source.send(name, 3)
        source.send(name, 2, partition=1)
        limit = limit or reader.getDefaultReadLimit()
        end = json.loads(json.dumps(eventually(lambda: _both(reader, first, limit))))
        planned = _offsets_of(reader.partitions(first, end))
        assert planned == [(0, 2, 5), (1, 0, 2)]
    source.send(name, 4)
    source.send(name, 4, partition=1)
    source = _grown(source, name, 3)
    source.send(name, 1, partition=2)
    with source.stream(**options) as restarted:
        anew = json.loads(json.dumps(restarted.initialOffset()))
        assert _offsets_of(restarted.partitions(anew, end)) == planned
        after = restarted.latestOffset(end, ReadAllAvailable())
        assert _offsets_of(restarted.partitions(end, after)) == [
            (0, 5, 9),
            (1, 2, 6),
            (2, 0, 1),
        ]


def _both(reader: Any, start: dict[str, Any], limit: Any) -> dict[str, Any] | None:
    """Return where a batch ends once it has both partitions: metadata take their time."""
    latest: dict[str, Any] = reader.latestOffset(start, limit)
    return latest if len(next(iter(latest.values()))["next"]) == 2 else None


@pytest.mark.parametrize("gone", [False, True])
def test_a_first_batch_that_was_logged_does_not_need_a_start_that_no_longer_is_one(
    source: Source, topic: TopicFactory, *, gone: bool
) -> None:
    """The option names too few partitions by now; or a batch that may be read has no more of it."""
    name = topic()
    source.send(name, 4)
    options = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 1}})}
    with source.stream(**options) as reader:
        first = reader.initialOffset()
        end = reader.latestOffset(first, ReadAllAvailable())
    if gone:
        admin = AdminClient({"bootstrap.servers": source.servers})
        [deleted] = admin.delete_records([TopicPartition(name, 0, 2)]).values()
        deleted.result(60)
        message = f"no longer|has offset 1 for {name}"
    else:
        source = _grown(source, name, 2)
        message = rf'"startingOffsets" lacks {name}\[1\]'
    with source.stream(**options) as restarted:
        anew = json.loads(json.dumps(restarted.initialOffset()))
        assert _offsets_of(restarted.partitions(anew, end)) == [(0, 1, 4)]
        after = restarted.latestOffset(end, ReadAllAvailable())
        assert _offsets_of(restarted.partitions(end, after)) == []
    with source.stream(**options) as reader:
        start = reader.initialOffset()
        with pytest.raises(ColumnarError, match=message):
            reader.latestOffset(start, reader.getDefaultReadLimit())
        with pytest.raises(ColumnarError, match=message):
            reader.partitions(start, {name: {"0": 4}})


def test_a_query_that_ends_when_done_begins_no_later_than_it_ends(
    source: Source, topic: TopicFactory
) -> None:
    """Spark asks for the end before it asks for the start."""
    name = topic()
    source.send(name, 2)
    options = {"subscribe": name, "startingOffsets": "latest"}
    with source.stream(**options) as reader:
        reader.prepareForTriggerAvailableNow()
        source.send(name, 3)
        source = _grown(source, name, 2)
        source.send(name, 2, partition=1)
        rows, end = next_batch(reader, reader.initialOffset())
        assert rows == []
    with source.stream(**options) as reader:
        reader.prepareForTriggerAvailableNow()
        rows, end = next_batch(reader, end)
        assert rows == [*((name, 0, n) for n in (2, 3, 4)), (name, 1, 0), (name, 1, 1)]


def test_before_spark_4_2_a_first_batch_begins_no_later_than_it_ends(
    source: Source, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These log its end before they ask for its start, after a failure once more."""
    monkeypatch.setattr("spark_sink.source.HAS_LIMITS", False)
    name = topic()
    source.send(name, 2)
    options = {"subscribe": name, "startingOffsets": "latest"}
    with source.stream(**options) as reader:
        end = reader.latestOffset()
        source.send(name, 3)
        assert reader.partitions(reader.initialOffset(), end) == []
    with source.stream(**options) as restarted:
        assert restarted.partitions(restarted.initialOffset(), end) == []
        rows, _ = next_batch_4_0(restarted, end)
        assert rows == [(name, 0, n) for n in (2, 3, 4)]


def next_batch_4_0(reader: Any, start: dict[str, Any]) -> tuple[list[Row], dict[str, Any]]:
    end = reader.latestOffset()
    return read(reader, reader.partitions(start, end)), end


def test_a_first_batch_of_an_earlier_release_whose_start_is_not_known_says_so(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 2)
    logged = {name: {"cluster_id": None, "topic_id": None, "next": {"0": 1}}}
    with (
        source.stream(subscribe=name, startingOffsets="latest") as reader,
        pytest.raises(
            ColumnarError,
            match=r"first batch, which ends at offset 1, .* where it began is not known",
        ),
    ):
        reader.partitions(reader.initialOffset(), logged)


# --- lost data ------------------------------------------------------------------------------------


def test_deleted_messages_stop_the_query_or_are_skipped(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 5)
    options = {"subscribe": name, "startingOffsets": "earliest"}
    with source.stream(**options) as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        admin = AdminClient({"bootstrap.servers": source.servers})
        [done] = admin.delete_records([TopicPartition(name, 0, 3)]).values()
        done.result(60)
        tasks = reader.partitions(start, end)
        with pytest.raises(
            ColumnarError, match=rf"{name}\[0\]: offset 0 does not exist: .* 3 to 4"
        ):
            read(reader, tasks)
    with source.stream(**options, failOnDataLoss="false") as reader:
        assert read(reader, reader.partitions(start, end)) == [(name, 0, 3), (name, 0, 4)]
        gone = [type(task)(((*task.value[0][:3], 2, *task.value[0][4:]),)) for task in tasks]
        assert read(reader, gone) == []


def test_a_topic_that_is_created_again_stops_the_query_or_is_read_anew(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 3)
    options = {"subscribe": name, "startingOffsets": "earliest"}
    with source.stream(**options) as reader:
        first = reader.initialOffset()
        start = reader.latestOffset(first, ReadAllAvailable())
        admin = AdminClient({"bootstrap.servers": source.servers})
        admin.delete_topics([name])[name].result(60)
        create = confluent_kafka.admin.NewTopic(name, 1, config={"retention.ms": "-1"})

        def created() -> bool:
            try:
                admin.create_topics([create])[name].result(60)
            except KafkaException:
                return False
            return True

        eventually(created)
        source.send(name, 5)
        end = eventually(lambda: _with(reader, start, 5))
        with pytest.raises(ColumnarError, match=f"{name}. was deleted and created again"):
            reader.partitions(start, end)
    with (
        source.stream(**options) as restarted,
        pytest.raises(ColumnarError, match=f"{name}. was deleted and created again"),
    ):
        restarted.partitions(first, start)
    with source.stream(**options, failOnDataLoss="false") as reader:
        assert reader.partitions(first, start) == []  # planned of the old topic, before a restart
        rows, end = next_batch(reader, start)
        assert rows == [(name, 0, n) for n in range(5)]
        assert len(read(reader, reader.partitions(start, end))) == 5


def test_a_planned_batch_of_which_messages_are_gone_stops_the_query_or_goes_on_with_the_rest(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 3)
    options = {"subscribePattern": name}
    start, end = ({name: {"0": 1}}, {name: {"0": 5}, f"{name}-deleted": {"0": 2}})
    with (
        source.stream(**options) as restarted,
        pytest.raises(ColumnarError, match=f"topic '{name}-deleted' was deleted"),
    ):
        restarted.partitions(start, end)
    with (
        source.stream(**options) as restarted,
        pytest.raises(ColumnarError, match=rf"{name}\[0\] ended at offset 5 .* at 3 now"),
    ):
        restarted.partitions(start, {name: {"0": 5}})
    with source.stream(**options, failOnDataLoss="false") as restarted:
        assert read(restarted, restarted.partitions(start, end)) == [(name, 0, 1), (name, 0, 2)]


def _with(reader: StreamReader, start: dict[str, Any], end: int) -> dict[str, Any] | None:
    """Return the latest offsets once they are these: metadata take their time."""
    latest = reader.latestOffset(start, ReadAllAvailable())
    return latest if list(next(iter(latest.values()))["next"].values()) == [end] else None


# --- clients --------------------------------------------------------------------------------------


def test_a_setting_that_the_client_does_not_know_is_the_clients_error(
    source: Source, topic: TopicFactory
) -> None:
    with pytest.raises(KafkaException, match=r'No such configuration property: "no\.such"'):
        source.rows(subscribe=topic(), kafka_no_such="x")
    with pytest.raises(ConfigError, match=r'"kafka\.isolation\.level" is .dirty.'):
        source.rows(subscribe=topic(), kafka_isolation_level="dirty")


def test_a_worker_keeps_its_consumers_but_not_all_of_them(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 2)
    source.rows(subscribe=name)
    [first] = reading.consumers.values()
    source.rows(subscribe=name)
    assert list(reading.consumers.values()) == [first]
    for n in range(5):
        source.rows(subscribe=name, kafka_client_id=f"{n}")
    assert len(reading.consumers) == 4
    assert first not in reading.consumers.values()


def test_a_task_waits_for_messages_as_long_as_the_option_says_and_drops_its_consumer(
    source: Source, topic: TopicFactory
) -> None:
    name = topic()
    source.send(name, 2)
    reader = source.batch(subscribe=name, kafkaConsumer_pollTimeoutMs="200")
    [task] = reader.partitions()
    too_far = type(task)(((*task.value[0][:3], 9, *task.value[0][4:]),))
    with pytest.raises(KafkaException, match=rf"{name}\[0\]: no message for 0\.2 s"):
        read(reader, [too_far])
    assert not reading.consumers
