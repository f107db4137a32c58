"""What is in a table, compared with the topic in Kafka."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka.broker.traced_classes import StockConsumer
from columnar_kafka.broker.watermarks import watermarks
from columnar_kafka.config import Arguments
from columnar_kafka.errors import LakeError
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.ingest.settings import landing_config
from columnar_kafka.ingest.topic_id import admin_client, generation
from columnar_kafka.lake.audit.audit import Finding, TopicAudit
from columnar_kafka.lake.model import TopicGeneration
from columnar_kafka.lake.tables.bounds import wrong_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from columnar_kafka.lake.aside.dead_letters import DeadLetters
    from columnar_kafka.lake.aside.decoding import Decoding
    from columnar_kafka.lake.audit.audit import AuditReport
    from columnar_kafka.lake.model import Fence, SourceMessage
    from columnar_kafka.lake.tables.base import Head, LakeTable

__all__ = ["verify_topic"]

_TIMEOUT: Final = 60.0


def verify_topic(
    config: Mapping[str, Any],
    topic: str,
    table: LakeTable,
    *,
    topic_generation: str | None = None,
    dead_letters: DeadLetters | None = None,
    decoding: Decoding | None = None,
) -> AuditReport:
    """Compare a table with all committed messages of a topic that its fences cover.

    Blocks while it reads both. Landing may go on meanwhile. It takes the memory of two files that
    we have written and of one decoded segment; or, where rows are looked up by their ids, 0.3 GB
    and 0.2 KB for each segment, however large the files are.

    Args:
        config: ``bootstrap.servers`` and other keys of librdkafka's consumer.
        topic: one topic.
        table: where it has landed; one that was restored is opened with `reland`.
        topic_generation: as in `IngestSettings`.
        dead_letters: where the table's dead letters are, which need not be in it.
        decoding: how plain messages landed as rows, if they did. Without it these rows are left
            out.

    Raises:
        LakeError: the table cannot be read, has nothing of the topic, or was of another one.
        KafkaException: Kafka cannot be read.
        ConfigError, TypeError: `config` contradicts what reading needs, or is no dict.
    """
    given, config = Arguments((config,), {}), {}  # which shows passwords
    settings = landing_config(given.mapping(), topic, table)
    settings.setdefault("fetch.wait.max.ms", 10)  # a partition's first offset waits for a fetch
    head = table.head()
    fences = {name: fence for name, fence in head.fences.items() if fence.topic == topic}
    if not fences:
        raise LakeError(f"{table} has nothing of topic {topic!r}")
    _check_generation(settings, topic, fences, topic_generation)
    if decoding is not None:
        decoding = decoding.decided(table)
    audit = TopicAudit(topic, table.landed_files(head), head.fences, decoding)
    letters = {} if dead_letters is None else dead_letters.taken({})
    with closing(StockConsumer(settings)) as consumer:
        for name, fence in sorted(fences.items(), key=lambda item: item[1].partition):
            place = TopicPartition(topic, fence.partition)
            low, _ = consumer.get_watermark_offsets(place, _TIMEOUT)
            audit.compare(
                fence, low, _messages(consumer, fence, max(low, fence.first)), letters.get(name)
            )
        landed = {fence.partition for fence in fences.values()}
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions
        others = [TopicPartition(topic, number) for number in sorted(partitions.keys() - landed)]
        ends = watermarks(consumer, others, _TIMEOUT) if others else {}
        for (_, number), (low, high) in ends.items():
            if low < high:
                audit.report.outside[number] = (low, high - 1)
    report = audit.finish(
        landed,
        is_alone=all(fence.topic.partition(" ")[0] == topic for fence in head.fences.values()),
    )
    report.findings += _wrong_bounds(table, head)
    return report


def _wrong_bounds(table: LakeTable, head: Head[Any]) -> Iterator[Finding]:
    for wrong_file in wrong_files(table, head):
        names = ", ".join(wrong_file.columns)
        reason = f"filters on {names} may miss rows: columnar-kafka repair puts that right"
        yield Finding(kind="wrong bounds", reason=reason, file=wrong_file.file.path)


def _check_generation(
    settings: Mapping[str, Any], topic: str, fences: Mapping[str, Fence], name: str | None
) -> None:
    if name is not None:
        ids = str(TopicGeneration.named(name, topic))
    else:
        cluster, topic_id = generation(admin_client(settings), topic)
        ids = f"{cluster}:{topic_id}"
    for fence in fences:
        if not fence.startswith(f"kafka:{ids}:"):
            raise LakeError(
                f"the table has {fence}, but topic {topic!r} is {ids}: it was deleted and created "
                "again, or belongs to another cluster, so it cannot be compared"
            )


def _messages(consumer: StockConsumer, fence: Fence, first: int) -> Iterator[SourceMessage]:
    """Yield the committed messages from offset `first` to before the fence."""
    if first >= fence.next:
        return
    consumer.assign([TopicPartition(fence.topic, fence.partition, first)])
    while True:
        polled = consumer.poll(_TIMEOUT)
        if polled is None:
            raise LakeError(
                f"{fence.partition_address}: no message comes after offset {first - 1}, but "
                f"the table's next offset is {fence.next}"
            )
        error = polled.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        message = source_message(polled)
        if error is not None or message.offset >= fence.next:
            return
        first = message.offset + 1
        yield message
