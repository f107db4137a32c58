"""Asks Kafka which topics, partitions and offsets there are. In the driver only."""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError  # up to 3.10 a class of its own
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from columnar_kafka.errors import ColumnarError, ConfigError
from columnar_kafka.ingest.topic_id import admin_client
from spark_sink.reading.planning import Offsets, TopicIds, lost
from spark_sink.reading.source_options import EARLIEST, LATEST, partition_name
from spark_sink.shared_options import check_isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka.admin import ClusterMetadata

    from spark_sink.reading.source_options import Boundary, Partition, SourceOptions

__all__ = ["Lookup"]

T = TypeVar("T")

_TIMEOUT: Final = 30.0
_FIRST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_END: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Lookup:
    """A client for one query, open until `close`. Not thread-safe.

    All methods block for requests to Kafka, and ask again as often as ``fetchOffset.numRetries``
    says. They raise KafkaException or TimeoutError if Kafka does not answer within 30 s.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        isolation = options.config.get("isolation.level", "read_committed")
        check_isolation("kafka.isolation.level", isolation)
        self._isolation = IsolationLevel[isolation.upper()]
        self._clients = ExitStack()
        self._admin = self._clients.enter_context(admin_client(options.config))

    def close(self) -> None:
        """Close the client."""
        self._clients.close()

    def at(self, boundary: Boundary) -> Offsets:
        """Return the query's topics with the offsets where it starts or ends.

        Raises:
            ConfigError: a topic does not exist; or the option does not name all partitions, or has
                a time that no message has reached.
            ColumnarError: an offset that the option names is not there.
        """
        return self._retried(lambda: self._at(boundary))

    def earliest(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """Return the first offsets of partitions."""
        specs = dict.fromkeys(partitions, _FIRST)
        return self._retried(lambda: self._offsets(specs))

    def _at(self, boundary: Boundary) -> Offsets:
        ids, partitions = self._topics()
        values = boundary.values(partitions)
        if boundary.by_time:
            return Offsets(ids, self._at_times(boundary, values))
        offsets = self._offsets(
            {key: _FIRST if at == EARLIEST else _END for key, at in values.items()}
        )
        named = {key: at for key, at in values.items() if at not in (EARLIEST, LATEST)}
        if named:
            firsts = self._offsets(dict.fromkeys(named, _FIRST))
            for key, at in named.items():
                offsets[key] = self._within(boundary, key, at, firsts[key], offsets[key])
        return Offsets(ids, offsets)

    def _within(
        self, boundary: Boundary, partition: Partition, at: int, first: int, end: int
    ) -> int:
        if not first <= at <= end:
            lost(
                f'option "{boundary.option}" has offset {at} for {partition_name(partition)}, '
                f"which has offsets from {first} to {end}",
                fail=self._options.fail_on_data_loss,
            )
        return min(max(at, first), end)

    def _at_times(self, boundary: Boundary, times: Mapping[Partition, int]) -> dict[Partition, int]:
        offsets = self._offsets({key: OffsetSpec.for_timestamp(at) for key, at in times.items()})
        missing = [key for key, offset in offsets.items() if offset < 0]
        if missing and boundary.unmatched == "error":
            shown = ", ".join(map(partition_name, sorted(missing)))
            raise ConfigError(
                f'option "{boundary.option}": there is no message at or after that time in '
                f"{shown}. Choose an earlier time, or "
                '.option("startingOffsetsByTimestampStrategy", "latest")'
            )
        return offsets | self._offsets(dict.fromkeys(missing, _END))

    def _topics(self) -> tuple[dict[str, TopicIds], list[Partition]]:
        subscription = self._options.subscription
        if subscription.pattern is None:
            names: Iterable[str] = subscription.topics
            metadata = [self._admin.list_topics(name, _TIMEOUT) for name in names]
        else:
            metadata = [self._admin.list_topics(timeout=_TIMEOUT)]
            names = [topic for topic in sorted(metadata[0].topics) if subscription.matches(topic)]
        partitions: list[Partition] = []
        for topic in names:
            there = _partitions(metadata, topic)
            assigned = there
            if subscription.partitions is not None:
                assigned = list(subscription.partitions[topic])
                if gone := sorted(set(assigned) - set(there)):
                    raise ConfigError(f'option "assign": {topic!r} has no partition {gone[0]}')
            partitions += [(topic, number) for number in assigned]
        return self._ids(list(names), metadata), partitions

    def _ids(self, topics: list[str], metadata: list[ClusterMetadata]) -> dict[str, TopicIds]:
        if not topics:
            return {}
        cluster = metadata[0]
        # librdkafka's mock names a controller that does not exist: a request would time out.
        if cluster.controller_id not in cluster.brokers:
            return dict.fromkeys(topics, TopicIds(cluster.cluster_id, None))
        futures = self._admin.describe_topics(TopicCollection(topics), request_timeout=_TIMEOUT)
        ids = {topic: futures[topic].result(_TIMEOUT).topic_id for topic in topics}
        return {
            topic: TopicIds(cluster.cluster_id, str(topic_id)) for topic, topic_id in ids.items()
        }

    def _offsets(self, specs: Mapping[Partition, OffsetSpec]) -> dict[Partition, int]:
        if not specs:
            return {}
        futures = self._admin.list_offsets(
            {TopicPartition(*key): spec for key, spec in specs.items()},
            isolation_level=self._isolation,
            request_timeout=_TIMEOUT,
        )
        return {
            (key.topic, key.partition): future.result(_TIMEOUT).offset
            for key, future in futures.items()
        }

    def _retried(self, ask: Callable[[], T]) -> T:
        for _ in range(self._options.retries):
            try:
                return ask()
            except ColumnarError:
                raise  # ours: another try says the same
            except (KafkaException, FutureTimeoutError):
                time.sleep(self._options.retry_interval)
        return ask()


def _partitions(metadata: list[ClusterMetadata], topic: str) -> list[int]:
    topic_metadata = next(cluster.topics[topic] for cluster in metadata if topic in cluster.topics)
    if not topic_metadata.partitions:
        reason = (
            "does not exist"
            if topic_metadata.error is None
            else f"cannot be read: {topic_metadata.error.str()}"
        )
        raise ConfigError(f"topic {topic!r} {reason}")
    return sorted(topic_metadata.partitions)
