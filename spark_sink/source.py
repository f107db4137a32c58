"""The source ``columnar_kafka``: committed Kafka messages for Spark streams.

Its rows have the columns of Spark's own ``kafka`` source with ``includeHeaders``, and the ids of
cluster and topic, by which a sink notices that a topic was deleted and created again.
"""

from __future__ import annotations

import gc
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from columnar_kafka.broker.client_classes import StockConsumer
from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest.topic_id import admin_client, generation
from spark_sink import options as opts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

__all__ = ["KafkaSource"]

SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "cluster_id STRING, topic_id STRING"
)
_OPTIONS: Final = ("subscribe", "startingoffsets")
_BATCH_BYTES: Final = 8 << 20
"""Values move from Python to Spark fastest in batches of about this size."""
_TIMEOUT: Final = 30.0


class KafkaSource(DataSource):
    """Options: ``kafka.bootstrap.servers``, ``subscribe`` (topics, by comma), ``startingOffsets``.

    ``startingOffsets`` is ``latest`` (the default, as in Spark's source) or ``earliest``; other
    ``kafka.`` options go to the client. Only committed messages are delivered.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "columnar_kafka"

    def schema(self) -> str:
        """Return the columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> KafkaReader:  # noqa: N802 - Spark's name
        """Return the reader for a stream.

        Raises:
            ConfigError: an option is missing, unknown, or has a value that is not allowed.
        """
        opts.refuse_unknown(self.options, _OPTIONS)
        opts.required(self.options, "kafka.bootstrap.servers", "localhost:9092")
        topics = opts.required(self.options, "subscribe", "flights").split(",")
        starting = self.options.get("startingOffsets", "latest")
        if starting not in ("earliest", "latest"):
            raise ConfigError(
                f'option "startingOffsets" is {starting!r}: it must be earliest or latest'
            )
        return KafkaReader(
            topics=[topic.strip() for topic in topics],
            config=opts.client_config(self.options),
            earliest=starting == "earliest",
            schema=schema,
        )


class OffsetRange(InputPartition):
    """The messages of one partition from offset `start` to before `end`."""

    def __init__(
        self, topic: str, partition: int, start: int, end: int, ids: list[str | None]
    ) -> None:
        super().__init__((topic, partition, start, end, ids))


class _OffsetLookup:
    """Asks Kafka for the offsets of topics, with clients that live until the stream stops."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._clients = ExitStack()
        self._consumer = self._clients.enter_context(_consumer(config))
        self._admin = self._clients.enter_context(admin_client(config))

    def offsets(self, topic: str, *, latest: bool) -> dict[str, Any]:
        """Return the first or the end offsets of a topic's partitions, and the topic's ids."""
        partitions = self._consumer.list_topics(topic, _TIMEOUT).topics[topic].partitions
        if not partitions:
            raise ConfigError(f"topic {topic!r} does not exist")
        marks = {
            str(each): _watermarks(self._consumer, topic, each)[latest]
            for each in sorted(partitions)
        }
        return {"ids": json.dumps(generation(self._admin, topic)), "next": marks}

    def close(self) -> None:
        """Close the clients."""
        self._clients.close()


class KafkaReader(DataSourceStreamReader):
    """Plans in the driver's worker, reads in the executors'. A pickled copy has no clients."""

    def __init__(
        self, *, topics: list[str], config: dict[str, Any], earliest: bool, schema: StructType
    ) -> None:
        self._topics = topics
        self._config = config
        self._earliest = earliest
        self._schema = schema
        self._lookup: _OffsetLookup | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lookup": None}

    # Offsets are {topic: {"ids": JSON, "next": {partition: offset}}}; JSON has text keys only.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offsets where a new stream starts. Blocks for requests to Kafka."""
        return self._offsets(latest=not self._earliest)

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: dict[str, Any],
        limit: ReadLimit,
    ) -> dict[str, Any]:
        """Return the offsets up to which partitions can be read. Blocks for requests to Kafka."""
        return self._offsets(latest=True)

    def _offsets(self, *, latest: bool) -> dict[str, Any]:
        if self._lookup is None:
            self._lookup = _OffsetLookup(self._config)
        lookup = self._lookup
        return {topic: lookup.offsets(topic, latest=latest) for topic in self._topics}

    def stop(self) -> None:
        """Close the clients."""
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one range for each partition that has new messages.

        Raises:
            ConfigError: a topic was deleted and created again, or is another cluster's. The stream
                stops: no message is skipped.
        """
        return [each for topic in end for each in _ranges(topic, start.get(topic), end[topic])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a range's messages. Called in an executor.

        Raises:
            KafkaException: Kafka cannot be read.
            ConfigError: the first messages of the range no longer exist.
        """
        # The worker collects garbage after each task; imported modules need not be scanned.
        gc.freeze()
        topic, number, start, end, ids = partition.value
        config = {**self._config, "enable.partition.eof": True}
        # Spark's timestamps have a time zone, which is UTC between Python and the JVM.
        schema = to_arrow_schema(self._schema, timezone="UTC")
        consumer = _consumer(config)
        try:
            low, _ = _watermarks(consumer, topic, number)
            if low > start:
                raise ConfigError(
                    f"{topic}[{number}]: messages {start} to {low - 1} no longer exist (deleted by "
                    "retention?). Start a new query, and consider a longer retention.ms"
                )
            consumer.assign([TopicPartition(topic, number, start)])
            for messages in _read(consumer, end):
                yield _batch(messages, ids, schema)
        finally:
            consumer.close()


def _ranges(topic: str, start: dict[str, Any] | None, end: dict[str, Any]) -> list[OffsetRange]:
    if start is not None and start["ids"] != end["ids"]:
        raise ConfigError(
            f"topic {topic!r} was deleted and created again, or is another cluster's: "
            f"{start['ids']} before, {end['ids']} now. Start a new query with a new checkpoint"
        )
    begin = {} if start is None else start["next"]
    return [
        OffsetRange(topic, int(number), begin.get(number, 0), stop, json.loads(end["ids"]))
        for number, stop in end["next"].items()
        if stop > begin.get(number, 0)
    ]


def _consumer(config: dict[str, Any]) -> StockConsumer:
    return StockConsumer(
        {
            # Spark keeps the offsets. The client requires a group id, but never joins the group.
            "group.id": "columnar-kafka-spark",
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            **config,
            "enable.auto.commit": False,
        }
    )


def _watermarks(consumer: StockConsumer, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset, and the one after the last committed message."""
    return consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT)


def _read(consumer: StockConsumer, end: int) -> Iterator[list[Message]]:
    """Yield the messages before offset `end` in batches of about `_BATCH_BYTES`.

    It stops at that offset or at the partition's end, since transactions leave gaps in offsets.
    """
    batch: list[Message] = []
    nbytes = 0
    while True:
        message = consumer.poll(_TIMEOUT)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no message for 30 s"))
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        offset = message.offset() or 0
        last = offset >= end - (error is None)
        if error is None and offset < end:
            batch.append(message)
            nbytes += len(message.value() or b"")
        if batch and (last or nbytes >= _BATCH_BYTES):
            yield batch
            batch, nbytes = [], 0
        if last:
            return


def _batch(messages: list[Message], ids: list[str | None], schema: pa.Schema) -> pa.RecordBatch:
    cluster, topic = ids
    columns: dict[str, list[Any]] = {
        "key": [each.key() for each in messages],
        "value": [each.value() for each in messages],
        "topic": [each.topic() for each in messages],
        "partition": [each.partition() for each in messages],
        "offset": [each.offset() for each in messages],
        "timestamp": [each.timestamp()[1] * 1000 for each in messages],
        # Spark counts from 0 what librdkafka counts from 1.
        "timestampType": [each.timestamp()[0] - 1 for each in messages],
        "headers": [_headers(each) for each in messages],
        "cluster_id": [cluster] * len(messages),
        "topic_id": [topic] * len(messages),
    }
    arrays = [pa.array(columns[each.name], type=each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(message: Message) -> list[dict[str, Any]] | None:
    headers = message.headers()
    if headers is None:
        return None
    pairs = headers.items() if isinstance(headers, dict) else headers
    return [{"key": key, "value": value} for key, value in pairs]
