"""The writer: what its tasks send, called as Spark calls them, on a real Kafka."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType
from reading import everything
from spark_tasks import close_kept_clients

import spark_sink
from columnar_kafka import Consumer
from columnar_kafka.errors import ColumnarError, ConfigError, RowError, SchemaError
from spark_sink import writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from support import TopicFactory

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PAIRS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    close_kept_clients()


def write(kafka: LocalKafka, rows: pa.Table, batches: int = 1, **options: str) -> int:
    """Write a table as one task does; return how many rows it says that it has sent."""
    schema = from_arrow_schema(rows.schema)
    named = {"kafka.bootstrap.servers": kafka.bootstrap_servers} | options
    source = spark_sink.KafkaSource(CaseInsensitiveDict(named))
    task = pickle.loads(pickle.dumps(source.writer(schema, overwrite=False)))
    sent = rows.cast(to_arrow_schema(schema, timezone="UTC"))
    result = task.write(iter(sent.to_batches(max(1, -(-rows.num_rows // batches)))))
    return int(result.rows)


def read(kafka: LocalKafka, topic: str, count: int) -> list[Any]:
    """Return a topic's records: value, key, time, headers and partition."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic}
    config |= {"auto.offset.reset": "earliest", "columnar.encoding": "parquet"}
    with Consumer(config) as consumer:
        consumer.subscribe([topic])
        messages = consumer.consume(count, 60)
    return [
        (
            message.value(),
            message.key(),
            message.timestamp()[1],
            message.headers(),
            message.partition(),
        )
        for message in messages
    ]


def test_columns_are_the_record_and_some_are_its_metadata(kafka, topic) -> None:
    name = topic(2)
    at = dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.timezone.utc)
    rows = pa.table(
        {
            "n": pa.array([1, 2], pa.int32()),
            "legs": pa.array([["a"], None], pa.list_(pa.field("element", pa.string(), False))),
            "key": ["k", None],
            "timestamp": pa.array([at, at], pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "h", "value": b"v"}], None], PAIRS),
            "partition": pa.array([1, 0], pa.int32()),
        }
    )
    assert write(kafka, rows, topic=name) == 2
    assert sorted(read(kafka, name, 2), key=str) == [
        ({"n": 1, "legs": ["a"]}, b"k", 5000, [("h", b"v")], 1),
        ({"n": 2, "legs": None}, None, 5000, None, 0),
    ]


def test_rows_go_to_the_topic_that_they_name_unless_an_option_names_one(kafka, topic) -> None:
    one, other = topic(), topic()
    rows = pa.table({"n": [1, 2, 3], "topic": [one, other, one]})
    write(kafka, rows)
    assert [value["n"] for value, *_ in read(kafka, one, 2)] == [1, 3]
    assert [value for value, *_ in read(kafka, other, 1)] == [{"n": 2}]
    third = topic()
    write(kafka, rows, topic=third)
    assert [value["n"] for value, *_ in read(kafka, third, 3)] == [1, 2, 3]


def test_batches_become_one_segment_and_settings_are_the_producers(kafka, topic) -> None:
    name = topic()
    rows = pa.table({"n": list(range(100))})
    assert write(kafka, rows, batches=10, topic=name) == 100
    assert write(kafka, rows, batches=10, topic=name, **{"columnar.segment.rows": "50"}) == 100
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": name}
    config |= {"auto.offset.reset": "earliest", "columnar.encoding": "parquet"}
    with Consumer(config) as consumer:
        consumer.subscribe([name])
        assert [consumer.poll_segment(60).rows for _ in range(3)] == [100, 50, 50]


def test_a_task_without_rows_sends_nothing(kafka) -> None:
    assert write(kafka, pa.table({"n": pa.array([], pa.int64())}), topic="nowhere") == 0
    assert not writer.senders


def test_a_worker_keeps_its_producer_until_an_error(kafka, topic) -> None:
    name = topic()
    write(kafka, pa.table({"n": [1]}), topic=name)
    [first] = writer.senders.values()
    write(kafka, pa.table({"n": [2]}), topic=name)
    assert list(writer.senders.values()) == [first]
    bad = pa.table({"n": [3], "headers": pa.array([[None]], PAIRS)})
    with pytest.raises(RowError, match="null among its headers"):
        write(kafka, bad, topic=name)
    assert not writer.senders


def test_rows_must_have_grown_from_those_that_the_topic_has(kafka, topic) -> None:
    name = topic()
    write(kafka, pa.table({"n": pa.array([1], pa.int32())}), topic=name)
    write(kafka, pa.table({"n": [2], "more": ["a"]}), topic=name)
    with pytest.raises(SchemaError, match=f"do not fit those of topic '{name}': field 'more'"):
        write(kafka, pa.table({"n": [3]}), topic=name)
    with pytest.raises(SchemaError, match=f"topic '{name}': field 'n' was int64 or null"):
        write(kafka, pa.table({"n": ["3"], "more": ["b"]}), topic=name)
    assert [value for value, *_ in read(kafka, name, 2)] == [{"n": 1}, {"n": 2, "more": "a"}]


def test_what_could_not_be_stored_fails_the_task(kafka, topic) -> None:
    name = topic(1, {"max.message.bytes": "1000"})
    rows = pa.table({"text": [bytes(range(256)) * 10], "topic": [name]})
    with pytest.raises(KafkaException, match=f"rows of topic '{name}' were not stored"):
        write(kafka, rows)
    assert not writer.senders
    with pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        write(kafka, pa.table({"n": [1], "partition": pa.array([7], pa.int32())}), topic=topic())


def test_a_row_without_a_topic_is_refused(kafka) -> None:
    for missing in (None, ""):
        with pytest.raises(ConfigError, match="a row has no topic"):
            write(kafka, pa.table({"n": [1], "topic": pa.array([missing], pa.string())}))


# --- exactly once ---------------------------------------------------------------------------------


class Task(NamedTuple):
    """A task of a stream, as Spark's context describes it."""

    query: str
    epoch: int
    number: int

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.number

    def getLocalProperty(self, key: str) -> str:  # noqa: N802 - Spark's name
        return {"sql.streaming.queryId": self.query, "streaming.sql.batchId": str(self.epoch)}[key]


class Stream:
    """A stream into a topic, with a transactional id, as far as Spark leaves it to Python."""

    def __init__(self, kafka: LocalKafka, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._servers = kafka.bootstrap_servers
        self._topic = topic
        self._monkeypatch = monkeypatch

    def write(
        self,
        numbers: Iterable[int],
        epoch: int,
        number: int = 0,
        query: str = "q",
        topic: str | None = None,
    ) -> Any:
        """Send the rows of a task, each in a table of its own; return what it reports."""
        options = {
            "kafka.bootstrap.servers": self._servers,
            "kafka.transactional.id": f"id-{self._topic}",
            "topic": topic or self._topic,
        }
        source = spark_sink.KafkaSource(CaseInsensitiveDict(options))
        task = pickle.loads(pickle.dumps(source.streamWriter(FRAME, overwrite=False)))
        with self._monkeypatch.context() as patched:
            patched.setattr(writer, "_GATHER_BYTES", 1)
            patched.setattr(writer.TaskContext, "get", lambda: Task(query, epoch, number))
            return task.write(pa.RecordBatch.from_pydict({"n": [n]}) for n in numbers)

    def rows(self, **settings: Any) -> list[int]:
        """Return the committed rows; all that there are, with another isolation level."""
        messages = everything(self._servers, self._topic, **settings)
        return sorted(message.value()["n"] for message in messages)


@pytest.fixture
def stream(kafka: LocalKafka, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(kafka, topic(), monkeypatch)


def test_a_task_that_has_sent_an_epoch_does_not_send_it_again(stream: Stream) -> None:
    assert stream.write([1, 2], epoch=3).rows == 2
    again = stream.write([1, 2], epoch=3)
    assert (again.rows, again.before) == (0, True)
    assert stream.write([3], epoch=3, number=1).rows == 1
    assert stream.write([4], epoch=4).rows == 1
    assert stream.write([5], epoch=3, query="another").rows == 1
    assert stream.rows() == [1, 2, 3, 4, 5]


def test_of_a_task_that_fails_no_row_is_committed(stream: Stream) -> None:
    def fails() -> Iterator[int]:
        yield from (1, 2)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        stream.write(fails(), epoch=0)
    assert stream.rows() == []
    assert stream.write([1, 2, 3], epoch=0).rows == 3
    assert stream.rows() == [1, 2, 3]


# confluent-kafka's, of a producer that can only be closed.
@pytest.mark.filterwarnings("ignore:Producer abort_transaction failed during close")
def test_of_two_tries_at_the_same_time_one_commits(stream: Stream) -> None:
    def overtaken() -> Iterator[int]:
        yield 1
        stream.write([1, 2], epoch=0)
        yield 2

    with pytest.raises(KafkaException, match="fenced"):
        stream.write(overtaken(), epoch=0)
    assert stream.rows() == [1, 2]
    assert stream.rows(**{"isolation.level": "read_uncommitted"}) in ([1, 1, 2], [1, 2])


def test_an_epoch_before_the_last_one_is_refused(stream: Stream) -> None:
    stream.write([1], epoch=5)
    with pytest.raises(ColumnarError, match="this query has already sent epoch 5, and this is ep"):
        stream.write([1], epoch=4)
    assert stream.rows() == [1]


def test_an_epoch_before_the_last_one_is_refused_whatever_its_topics(
    stream: Stream, topic: TopicFactory
) -> None:
    other = topic()
    stream.write([1], epoch=1)
    stream.write([2], epoch=2, topic=other)
    for before, where in ((1, None), (1, other), (0, topic())):
        with pytest.raises(ColumnarError, match=f"sent epoch 2, and this is epoch {before}"):
            stream.write([3], epoch=before, topic=where)
    assert stream.write([4], epoch=2).before
    assert stream.write([5], epoch=3).rows == 1
    assert stream.rows() == [1, 5]


def test_a_batch_query_is_a_run_of_its_own(kafka, topic, monkeypatch) -> None:
    name = topic()
    monkeypatch.setattr(writer.TaskContext, "get", lambda: Task("", 0, 0))
    options = {"topic": name, "kafka.transactional.id": name}
    rows = pa.table({"n": [1]})
    assert [write(kafka, rows, **options) for _ in range(2)] == [1, 1]
    assert not writer.senders
    assert [value["n"] for value, *_ in read(kafka, name, 2)] == [1, 1]


FRAME = StructType().add("n", "long")


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (FRAME, {}, 'no topic is named: set .option("topic"'),
        (
            FRAME,
            {"topic": "t", "path": "/x"},
            '"path" does not exist; the options are checkpointLoc',
        ),
        (FRAME, {"topic": "t", "kafka.bootstrap.servers": ""}, '"kafka.bootstrap.servers" is miss'),
        (FRAME, {"topic": "t", "kafka.value.serializer": "x"}, "rows are sent as segments"),
        (FRAME, {"topic": "t", "kafka.acks": "1"}, '"kafka.enable.idempotence", "false"'),
        (FRAME, {"topic": "t", "kafka.retries": "0"}, '"kafka.enable.idempotence", "false"'),
        (StructType().add("key", "string"), {"topic": "t"}, "no columns to send besides key"),
        (
            StructType().add("n", "long").add("partition", "string"),
            {"topic": "t"},
            "column 'partition' is string: it must be int",
        ),
        (
            StructType().add("n", "long").add("_kafka", StructType().add("offset", "long")),
            {"topic": "t"},
            "column '_kafka' says where a record was read",
        ),
        (
            StructType().add("n", "long").add("_KAFKA", "long"),
            {"topic": "t"},
            "column '_KAFKA' says where a record was read",
        ),
        (
            StructType().add("n", "long").add("_kafka.offset", "long"),
            {"topic": "t"},
            "column '_kafka.offset' would be a member of '_kafka': rename it",
        ),
    ],
)
def test_a_frame_or_an_option_that_cannot_be_meant_is_refused(
    frame: StructType, options: dict[str, str], message: str
) -> None:
    named = {"kafka.bootstrap.servers": "localhost:9092"} | options
    source = spark_sink.KafkaSource(CaseInsensitiveDict(named))
    for method in (source.writer, source.streamWriter):
        with pytest.raises(ConfigError) as raised:
            method(frame, overwrite=False)
        assert message in str(raised.value)


def test_who_wants_fewer_acknowledgements_gives_up_idempotence() -> None:
    settings = {"kafka.acks": "1", "kafka.enable.idempotence": "false"}
    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t", **settings}
    source = spark_sink.KafkaSource(CaseInsensitiveDict(options))
    config = source.writer(FRAME, overwrite=False)._options.config  # noqa: SLF001 - what Spark is given
    assert (config["acks"], config["enable.idempotence"]) == ("1", "false")


def test_rows_are_appended_only() -> None:
    source = spark_sink.KafkaSource(CaseInsensitiveDict({"topic": "t"}))
    with pytest.raises(ConfigError, match='mode\\("append"\\)'):
        source.writer(FRAME, overwrite=True)
