"""Rows of the source's mode ``ranges``: the sink's task reads their messages from Kafka itself."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, Message

from columnar_kafka import native
from columnar_kafka.errors import LakeError
from columnar_kafka.ingest.reader import source_message
from columnar_kafka.ingest.topic_id import admin_client, generations
from columnar_kafka.lake.aside.set_aside import discard_staged
from columnar_kafka.lake.landing.stage import Stager
from columnar_kafka.lake.model import NotLandedError, PlainMessages, ReadRange, SourcePartition
from columnar_kafka.lake.plan import Planner
from columnar_kafka.segment.headers import is_segment
from spark_sink.reading.planning import OffsetRange, TopicIds
from spark_sink.reading.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import pyarrow as pa

    from columnar_kafka.lake.aside.rules import Rules
    from columnar_kafka.lake.model import StageResult, TopicGeneration
    from columnar_kafka.lake.plan import Layout
    from columnar_kafka.lake.tables.base import LakeTable

    Identify = Callable[[str, str | None, str | None], TopicGeneration]

__all__ = ["ranges_of", "refuse_other_topics", "stage_ranges"]

_POLL_TIMEOUT: Final = 120.0
_MOST_TOGETHER: Final = 4096
_BYTES_TOGETHER: Final = 1 << 20
"""The plain messages that are staged in one call, at most, and their bytes, but for the last."""


def ranges_of(batches: Iterable[pa.RecordBatch]) -> tuple[OffsetRange, ...]:
    """Return the ranges that rows are."""
    return tuple(OffsetRange(**row) for batch in batches for row in batch.to_pylist())


def stage_ranges(
    offset_ranges: Collection[OffsetRange],
    *,
    table: LakeTable,
    layout: Layout,
    rules: Rules,
    config: Mapping[str, Any],
    identify: Identify,
    allow_gaps: bool,
) -> tuple[StageResult, ...]:
    """Read the ranges of one task together, and stage their messages. Blocks for Kafka.

    Args:
        offset_ranges: the ranges.
        table: where they land.
        layout: how.
        rules: what may land, and where the rest goes.
        config: the consumer's.
        identify: returns the generation of a topic, given the ids in its rows.
        allow_gaps: skip messages that Kafka has deleted.

    Returns:
        One result for each round of reading: a consumer reads one range of a partition at a time,
        and no file spans two ranges, because what lies between may be another task's.

    Raises:
        LakeError: a message cannot land, or is gone; the error names topic, partition and offset.
        KafkaException: Kafka cannot be read. After any exception no file of the task is left.
    """
    generations: dict[str, TopicGeneration] = {}
    for offsets in offset_ranges:
        if offsets.topic not in generations:
            generations[offsets.topic] = identify(
                offsets.topic, offsets.cluster_id, offsets.topic_id
            )
    fences = table.fences()

    def lost(what: str) -> None:
        if not allow_gaps:
            raise LakeError(f"{what}. To go on without them, set table.gap=allow")

    done: list[StageResult] = []
    try:
        for together in _rounds(offset_ranges):
            ranges = [
                ReadRange(SourcePartition(generations[topic], topic, partition), start, end)
                for topic, partition, start, end, *_ in together
            ]
            planner = Planner(fences=fences, generations=generations, layout=layout)
            attempt = Stager(table=table, planner=planner, rules=rules)
            try:
                with closing(
                    read(together, config, poll_timeout=_POLL_TIMEOUT, lost=lost)
                ) as messages:
                    _stage(messages, attempt, decodes=native.enabled and rules.plain == "decode")
                done.append(attempt.finish(ranges))
            except BaseException:
                attempt.discard()
                raise
    except BaseException:
        discard_staged(table, done, rules)
        raise
    return tuple(done)


def _stage(messages: Iterable[Message], attempt: Stager, *, decodes: bool) -> None:
    """Stage messages; plain ones many at once if the core `decodes` them."""
    for run in _runs(messages) if decodes else ([message] for message in messages):
        at = 0
        while at < len(run):
            core = native.core.read_messages(run, at, Message, _BYTES_TOGETHER) if decodes else None
            if core is None:
                attempt.add(source_message(run[at]))
                at += 1
            else:
                attempt.add_plain(PlainMessages(run[at].topic() or "", core))
                at += len(core)


def _runs(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield plain messages of one topic that follow each other, and each segment alone."""
    run: list[Message] = []
    nbytes = 0
    for message in messages:
        is_alone = is_segment(message.headers())
        is_full = len(run) >= _MOST_TOGETHER or nbytes >= _BYTES_TOGETHER
        if run and (is_alone or is_full or message.topic() != run[0].topic()):
            yield run
            run, nbytes = [], 0
        if is_alone:
            yield [message]
        else:
            run.append(message)
            nbytes += len(message)
    if run:
        yield run


def refuse_other_topics(config: Mapping[str, Any], ranges: Iterable[OffsetRange]) -> None:
    """Check that what tasks have read was of the topics whose ids are in their ranges.

    Called in the driver when all tasks are done: so it notices a topic that was created again
    before they read it, or meanwhile, and options that name another cluster. Blocks for Kafka.

    Raises:
        NotLandedError: it was not, or Kafka cannot tell.
    """
    planned = {
        (offsets.topic, TopicIds(offsets.cluster_id, offsets.topic_id)) for offsets in ranges
    }
    topics = sorted({topic for topic, _ in planned})
    if not topics:
        return
    try:
        with admin_client(config) as admin:
            there = generations(admin, topics)
    except KafkaException as error:
        raise NotLandedError(
            f"it is not known whether the tasks have read the topics of their ranges: {error}"
        ) from error
    for topic, ids in planned:
        if ids.differ(TopicIds(*there[topic])):
            raise NotLandedError(
                f"topic {topic!r}: the ranges are of {tuple(ids)}, but the sink's cluster has "
                f"{there[topic]}. Give the sink the source's kafka.bootstrap.servers. If it has "
                "those, the topic was deleted and created again: land it under another path"
            )


def _rounds(ranges: Iterable[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Yield the ranges in groups that have a partition once; those that touch become one."""
    joined: list[OffsetRange] = []
    for offsets in sorted(ranges, key=lambda offsets: offsets[:4]):
        if joined and joined[-1][:2] == offsets[:2] and joined[-1].end == offsets.start:
            joined[-1] = joined[-1]._replace(end=offsets.end)
        else:
            joined.append(offsets)
    while joined:
        together = {offsets[:2]: offsets for offsets in reversed(joined)}
        yield list(together.values())
        joined = [offsets for offsets in joined if offsets is not together[offsets[:2]]]
