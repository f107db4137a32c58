"""The writer ``columnar_kafka``: the rows of a frame as segments on Kafka's topics.

A task ends when all of its rows are stored, and Spark runs a task again that fails: so each row is
stored at least once. With a transactional id a task sends in one transaction, which commits its
epoch too: so it sends nothing that it has sent before.
"""

from __future__ import annotations

import gc
import logging
import uuid
from collections import OrderedDict
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException
from pyarrow import types
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import IntegerType, StringType, StructType

from columnar_kafka import Producer
from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError, SchemaError
from columnar_kafka.schema import KAFKA_COLUMN, RecordSchema, check_growth, is_kafka_member
from spark_sink import shared_options as opts
from spark_sink.client_cache import cached_client
from spark_sink.epochs import Epoch, EpochMarks
from spark_sink.older_spark import DataSourceStreamArrowWriter, arrow_schema
from spark_sink.reading.records import newest_segments, user_columns
from spark_sink.reading.source_options import SourceOptions
from spark_sink.reporting import log_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from confluent_kafka import Message

__all__ = ["TopicBatchWriter", "TopicStreamWriter", "WriterOptions"]

_log = logging.getLogger(__name__)

_OPTIONS: Final = ("checkpointLocation", "includeHeaders", "queryName", "topic")
_PREFIX: Final = "columnar."
_METADATA: Final = ("key", "timestamp", "headers")
_PLACE: Final = ("topic", "partition")
_GATHER_BYTES: Final = 64 << 20
"""Spark's batches have 10,000 rows. They are gathered up to this size, because each call of
`produce_arrow` makes at least one segment for each partition."""
_TRANSACTION_SECONDS: Final = 60.0
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
_NOT_IDEMPOTENT: Final = (("acks", "0"), ("acks", "1"), ("retries", "0"))
_CONNECTION: Final = (
    *("bootstrap.", "broker.", "client.", "enable.ssl.", "https.", "metadata."),
    *("oauth_cb", "reconnect.", "sasl.", "security.", "socket.", "ssl."),
)
"""What the settings of connections begin with: those that a producer and a consumer share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """The options of one query and its columns, checked. `run` is a text of no other query."""

    topic: str | None
    transactional_id: str | None
    run: str
    config: Hidden
    names: tuple[str, ...]
    schema: pa.Schema

    @classmethod
    def parse(
        cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool
    ) -> WriterOptions:
        """Check the options and the columns of a frame.

        Raises:
            ConfigError: an option is missing, unknown or not allowed; or the columns do not say
                where rows go, or leave nothing to send.
        """
        if overwrite:
            raise ConfigError('rows are appended to topics: use mode("append")')
        own = Hidden({key: option for key, option in options.items() if key.startswith(_PREFIX)})
        opts.refuse_unknown(options, [*_OPTIONS, *own])
        opts.required(options, "kafka.bootstrap.servers", "localhost:9092")
        config = opts.client_config(options)
        transactional_id = config.pop("transactional.id", None)
        topic = options.get("topic", "").strip() or None
        _check_columns(schema, topic)
        if transactional_id is None:
            _check_idempotence(config)
        rest = [field for field in schema if field.name not in _METADATA + _PLACE]
        if not rest:
            raise ConfigError(f"no columns to send besides {', '.join(schema.names)}")
        return cls(
            topic=topic,
            transactional_id=transactional_id,
            run=uuid.uuid4().hex,
            config=Hidden(
                {
                    "enable.idempotence": True,  # as Spark's own sink
                    "queue.buffering.max.kbytes": 256 << 10,
                    **({} if transactional_id is None else {"transaction.timeout.ms": 900_000}),
                    **config,
                    **own,
                    "columnar.encoding": "parquet",
                }
            ),
            names=tuple(schema.names),
            schema=pa.schema(map(_nullable, arrow_schema(StructType(rest)))),
        )


def _check_idempotence(config: Mapping[str, Any]) -> None:
    for key, value in _NOT_IDEMPOTENT:
        if "enable.idempotence" not in config and config.get(key) == value:
            raise ConfigError(
                f'option "kafka.{key}" is {value}, which idempotence does not allow. It is on by '
                'default: .option("kafka.enable.idempotence", "false")'
            )


def _check_columns(schema: StructType, topic: str | None) -> None:
    data_types = {field.name: field.dataType for field in schema}
    for name in data_types:
        if name.lower() == KAFKA_COLUMN:  # as Spark compares names
            raise ConfigError(
                f"column {name!r} says where a record was read: "
                f'drop it, .drop("{name}"), or select its members as key, timestamp and headers'
            )
        if is_kafka_member(name.lower()):
            raise ConfigError(f"column {name!r} would be a member of {KAFKA_COLUMN!r}: rename it")
    if topic is None and "topic" not in data_types:
        raise ConfigError(
            'no topic is named: set .option("topic", "flights"), or add a column topic'
        )
    for name, wanted in (("topic", StringType), ("partition", IntegerType)):
        if name in data_types and not isinstance(data_types[name], wanted):
            raise ConfigError(
                f"column {name!r} is {data_types[name].simpleString()}: it must be "
                f"{wanted().simpleString()}, because it says where rows go; rename it if it "
                "holds data"
            )


def _nullable(column: pa.Field) -> pa.Field:
    """Return a column that is required nowhere: which ones are, Spark's frames have by chance."""
    arrow = column.type
    if types.is_struct(arrow):
        arrow = pa.struct(map(_nullable, arrow))
    elif types.is_map(arrow):
        arrow = pa.map_(arrow.key_type, _nullable(arrow.item_field))
    elif types.is_list(arrow):
        arrow = pa.list_(_nullable(arrow.value_field))
    return pa.field(column.name, arrow)


@dataclass
class RowsSent(WriterCommitMessage):
    """How many rows a task has sent; `before`: it was found to have sent them before."""

    rows: int
    before: bool = False


class _TaskWriter:
    """Writes in executors, which get a pickled copy."""

    def __init__(self, options: WriterOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows. Blocks until all are stored.

        Raises:
            ConfigError: a row has no topic.
            RowError: a row does not fit: a map's key is null, a key twice in a map, …
            SchemaError: a topic's segments have columns from which these have not grown.
            KafkaException: a row could not be stored, within ``kafka.message.timeout.ms``. Others
                may be; Spark sends all rows of the task again. With a transactional id none are
                visible, or all.
        """
        # The worker collects garbage after each task; imported modules need not be scanned.
        gc.freeze()
        tables = _gathered(iterator)
        first = next(tables, None)
        if first is None:
            return RowsSent(0)
        rest = chain([first], tables)
        if self._options.transactional_id is None:
            with _producer(self._options) as sender:
                return RowsSent(sender.send_all(rest))
        return self._send_once(first, rest, self._options.transactional_id)

    def _send_once(self, first: pa.Table, tables: Iterable[pa.Table], prefix: str) -> RowsSent:
        """Send a task's rows in a transaction, unless it has done so."""
        epoch, number = self._task()
        name = f"{prefix}-{number}"
        topic = next(_by_place(first, self._options.topic))[0]
        connection = _connection(self._options.config)
        with (
            # A worker that sent for this task before cannot send any more; so none is kept.
            closing(_Sender(self._options, {"transactional.id": name})) as sender,
            closing(EpochMarks(connection, name)) as marks,
        ):
            sender.take_over()  # ends what another try of this task has left open
            if epoch.is_sent(marks.last(topic)):
                return RowsSent(0, before=True)
            with sender.transaction():
                rows = sender.send_all(tables)
                marks.add(sender.producer, topic, epoch)
        return RowsSent(rows)

    def _task(self) -> tuple[Epoch, int]:
        """Return the epoch that is sent, and the number of the task in it."""
        raise NotImplementedError


class TopicBatchWriter(_TaskWriter, DataSourceArrowWriter):
    """Writes a batch query's rows."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many rows were sent."""
        log_line(f"batch query: {_summary(messages)}")

    def _task(self) -> tuple[Epoch, int]:
        return Epoch(self._options.run, 0), _context().partitionId()


class TopicStreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
    """Writes a stream's rows."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log how many rows were sent."""
        log_line(f"batch {batchId}: {_summary(messages)}")

    def _task(self) -> tuple[Epoch, int]:
        context = _context()
        query, number = map(context.getLocalProperty, (_QUERY_ID, _BATCH_ID))
        assert query is not None
        assert number is not None
        return Epoch(query, int(number)), context.partitionId()


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


def _summary(messages: Iterable[WriterCommitMessage | None]) -> str:
    results = [message for message in messages if isinstance(message, RowsSent)]
    before = sum(result.before for result in results)
    rows = sum(result.rows for result in results)
    return f"{rows} rows sent" + (f"; {before} tasks had sent theirs before" if before else "")


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows in tables of about 64 MiB; none is empty."""
    waiting: list[pa.RecordBatch] = []
    nbytes = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            nbytes += batch.nbytes
        if nbytes >= _GATHER_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, nbytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


class _Sender:
    """A producer, and the topics that it has sent to."""

    def __init__(self, options: WriterOptions, more: Mapping[str, Any] | None = None) -> None:
        """Create a producer with the options' configuration, and `more`."""
        self._options = options
        self._topics: set[str] = set()
        self._failed: list[KafkaException] = []
        self.producer = Producer({**options.config, **(more or {})})
        self.close = self.producer.close

    def take_over(self) -> None:
        """Fence other producers with this transactional id, and end their transaction."""
        self.producer.init_transactions(_TRANSACTION_SECONDS)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is sent in this context, all of it or nothing."""
        self.producer.begin_transaction()
        try:
            yield
            self.producer.commit_transaction()
        except BaseException:
            with suppress(KafkaException):  # Kafka aborts it later, or the next try does
                self.producer.abort_transaction(_TRANSACTION_SECONDS)
            raise

    def send_all(self, tables: Iterable[pa.Table]) -> int:
        """Send the rows of tables, wait until all are stored, and return how many they are."""
        rows = 0
        for table in tables:
            self.send(table)
            rows += table.num_rows
        self.producer.flush()
        self._check()
        return rows

    def send(self, table: pa.Table) -> None:
        """Send the rows of a table, each to its topic and partition."""
        metadata = {name: name for name in _METADATA if name in table.column_names}
        for topic, partition, rows in _by_place(table, self._options.topic):
            if topic not in self._topics:
                self._begin(topic)
            while True:
                try:
                    self.producer.produce_arrow(
                        topic, rows, partition=partition, on_delivery=self._report, **metadata
                    )
                    break
                except BufferError:
                    self.producer.poll(1)
                    self._check()
        self.producer.poll(0)
        self._check()

    def _begin(self, topic: str) -> None:
        """Set a topic's schema, if that has grown from the one of its newest segments."""
        schema = self._options.schema
        try:
            for segment in newest_segments(_reading(self._options.config, topic)):
                check_growth(RecordSchema(user_columns(segment)), RecordSchema(schema))
        except SchemaError as error:
            raise SchemaError(
                f"the rows do not fit those of topic {topic!r}: {error.reason}"
            ) from error
        except KafkaException as error:
            # A topic that does not exist yet, or must not be read: the producer knows better.
            # Or its newest segment is damaged, which need not keep others from sending.
            _log.info("columns of topic %r are not checked: %s", topic, error)
        self.producer.set_schema(topic, schema)
        self._topics.add(topic)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            reason = f"rows of topic {message.topic()!r} were not stored: {error.str()}"
            self._failed.append(KafkaException(KafkaError(error.code(), reason)))

    def _check(self) -> None:
        if self._failed:
            raise self._failed[0]


def _by_place(table: pa.Table, topic: str | None) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield the rows of each topic and partition, in their order; -1 is any partition."""
    places = table.select([name for name in _PLACE if name in table.column_names])
    rows = table.drop_columns(places.column_names)
    topics = places["topic"] if topic is None else pa.repeat(topic, table.num_rows)
    if topics.null_count or pc.any(pc.equal(topics, "")).as_py():
        raise ConfigError('a row has no topic: .option("topic", "flights") sends all rows to one')
    partitions = pa.repeat(pa.scalar(-1, pa.int32()), table.num_rows)
    if "partition" in places.column_names:
        partitions = places["partition"].fill_null(-1)
    for name in pc.unique(topics).to_pylist():
        of_topic = pc.equal(topics, name)
        for number in pc.unique(partitions.filter(of_topic)).to_pylist():
            mask = pc.and_(of_topic, pc.equal(partitions, number))
            yield name, number, rows.filter(mask) if not pc.all(mask).as_py() else rows


def _connection(config: Mapping[str, Any]) -> Hidden:
    return Hidden({key: config[key] for key in config if key.startswith(_CONNECTION)})


def _reading(config: Mapping[str, Any], topic: str) -> SourceOptions:
    options = opts.HiddenOptions({"subscribe": topic, "mode": "records"})
    options.update({f"kafka.{key}": value for key, value in _connection(config).items()})
    return SourceOptions.parse(options, streaming=None)


senders: OrderedDict[tuple[Any, ...], _Sender] = OrderedDict()


@contextmanager
def _producer(options: WriterOptions) -> Iterator[_Sender]:
    """Lend this process's producer for these options; it is kept unless an error occurs."""
    key = (
        options.topic,
        options.config.key(),
        options.schema.serialize().to_pybytes(),
    )
    with cached_client(senders, key, lambda: _Sender(options)) as sender:
        yield sender
