"""Which offsets a batch reads, and in how many tasks. Pure: Kafka's answers are arguments."""

from __future__ import annotations

import heapq
import logging
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError

from columnar_kafka.errors import ColumnarError, ConfigError
from spark_sink.reading.source_options import partition_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_sink.reading.source_options import Partition

__all__ = [
    "OffsetRange",
    "Offsets",
    "TopicIds",
    "batch_start",
    "following",
    "grouped",
    "limited",
    "lost",
    "ranges",
    "split",
    "still_there",
    "within",
]

_log = logging.getLogger(__name__)


class TopicIds(NamedTuple):
    """The ids of a topic and of its cluster; None where they are not known."""

    cluster_id: str | None
    topic_id: str | None

    def differ(self, other: TopicIds) -> bool:
        """Whether they are ids of another topic, for certain."""
        pairs = zip(self, other, strict=True)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


@dataclass(frozen=True, slots=True)
class Offsets:
    """The next offset of each partition: what Spark keeps in a stream's checkpoint.

    As JSON: ``{topic: {"cluster_id": …, "topic_id": …, "next": {partition: offset}}}``.
    A checkpoint of Spark's own source has ``{topic: {partition: offset}}``: its ids are not known.

    `start`, in JSON too, is where a stream's first batch begins. Spark logs only where a batch
    ends, and if the first one does not finish, it asks the query that is started again where it
    begins: there may be more in the topic by then. So the end of that batch says where it began.
    """

    ids: Mapping[str, TopicIds]
    next: Mapping[Partition, int]
    start: Mapping[Partition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, parsed: Mapping[str, Any]) -> Offsets:
        """Return the offsets of parsed JSON.

        Raises:
            ConfigError: they are those of another source.
        """
        try:
            return cls(
                ids={
                    name: TopicIds(topic.get("cluster_id"), topic.get("topic_id"))
                    for name, topic in parsed.items()
                },
                next={
                    (name, int(number)): int(offset)
                    for name, topic in parsed.items()
                    for number, offset in topic.get("next", topic).items()
                },
                start={
                    (name, int(number)): int(offset)
                    for name, topic in parsed.items()
                    for number, offset in topic.get("start", {}).items()
                },
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError(
                f"the checkpoint's offsets are not those of Kafka's topics: {parsed}. It belongs "
                "to another query: choose another checkpointLocation"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return the offsets in one order for `json.dumps`: Spark compares the texts."""
        topics: dict[str, Any] = {
            topic: {**self.ids[topic]._asdict(), "next": {}} for topic in sorted(self.ids)
        }
        for (topic, number), offset in sorted(self.next.items()):
            topics[topic]["next"][str(number)] = offset
        for (topic, number), offset in sorted(self.start.items()):
            topics[topic].setdefault("start", {})[str(number)] = offset
        return topics

    def moved_to(self, offsets: Mapping[Partition, int]) -> Offsets:
        """Return these topics with other offsets."""
        return replace(self, next=offsets)

    def started_at(self, start: Mapping[Partition, int]) -> Offsets:
        """Return these offsets as the end of the first batch, which begins at `start`."""
        return replace(self, start=start)

    @property
    def is_start(self) -> bool:
        """Whether nothing was read yet: what ends next is the first batch with messages."""
        return self.start == self.next

    def is_at(self, other: Offsets) -> bool:
        """Whether these are the same offsets of the same topics."""
        return (self.ids, self.next) == (other.ids, other.next)


class OffsetRange(NamedTuple):
    """The messages of one partition from offset `start` to before `end`, for one task.

    `latest` is where the partition ended when this was planned.
    """

    topic: str
    partition: int
    start: int
    end: int
    cluster_id: str | None
    topic_id: str | None
    latest: int

    def __str__(self) -> str:
        return partition_name((self.topic, self.partition))


def lost(what: str, *, fail: bool) -> None:
    """Report that messages may be lost: raise, or with ``failOnDataLoss=false`` log a warning.

    Raises:
        ColumnarError: naming the option.
    """
    if fail:
        raise ColumnarError(
            f"{what}. Messages may be lost. Start a new query with a new checkpoint, or go on "
            'without them: .option("failOnDataLoss", "false")',
            code=KafkaError.OFFSET_OUT_OF_RANGE,
        )
    _log.warning("%s. Messages may be lost", what)


def following(
    start: Offsets,
    end: Offsets,
    earliest: Callable[[Iterable[Partition]], Mapping[Partition, int]],
    *,
    fail: bool,
) -> dict[Partition, int]:
    """Return where each partition of `end` starts. One that is not in `start` is new.

    `earliest` returns the first offsets of partitions; it is called for new ones only.

    Raises:
        ColumnarError: messages may be lost: a topic was deleted or created again, a partition is
            gone or has fewer messages than before, or the first messages of a new one are gone.
    """
    known = dict(start.next)
    for topic in start.ids:
        if topic not in end.ids:
            lost(f"topic {topic!r} was deleted", fail=fail)
        elif start.ids[topic].differ(end.ids[topic]):
            lost(
                f"topic {topic!r} was deleted and created again, or belongs to another cluster: "
                f"{tuple(start.ids[topic])} before, {tuple(end.ids[topic])} now",
                fail=fail,
            )
            known = {key: offset for key, offset in known.items() if key[0] != topic}
    new = [key for key in end.next if key not in known]
    firsts = dict(earliest(new)) if new else {}
    for key, offset in firsts.items():
        if offset > 0:
            lost(
                f"{partition_name(key)} is new, but its messages 0 to {offset - 1} are gone",
                fail=fail,
            )
    for key, offset in end.next.items():
        if offset < known.get(key, offset):
            lost(
                f"{partition_name(key)} ended at offset {known[key]} before, and ends at "
                f"{offset} now",
                fail=fail,
            )
    for key in known.keys() - end.next.keys():
        if key[0] in end.ids:
            lost(f"{partition_name(key)} is gone", fail=fail)
    return {key: known[key] if key in known else firsts[key] for key in end.next}


def within(start: Offsets, end: Offsets) -> Offsets:
    """Return a stream's start for an `end` that was asked for before it.

    It begins there at the latest: what came between is read next, and so are new partitions.
    """
    return Offsets(
        {topic: ids for topic, ids in start.ids.items() if topic in end.ids},
        {key: min(offset, end.next[key]) for key, offset in start.next.items() if key in end.next},
    )


def batch_start(start: Offsets, end: Offsets, *, may_follow: bool, fail: bool) -> Offsets:
    """Return where a batch begins that was planned up to `end`.

    Args:
        start: where Spark says it does; for the first batch it has asked for that just now.
        end: where it ends, as it is in the checkpoint.
        may_follow: whether Spark asks for the end of a first batch before it asks for its start.
        fail: whether lost messages stop the query.

    Raises:
        ColumnarError: messages may be lost: nobody knows where the first batch began.
    """
    if end.start:
        return start if start == end else Offsets(end.ids, end.start)
    if not start.is_start:
        return start
    ends = {key: offset for key, offset in end.next.items() if key in start.next}
    # It had messages: if no partition has any from this start on, all of them began earlier.
    has_any = any(start.next[key] < offset for key, offset in ends.items())
    for key, offset in ends.items():
        if not may_follow and (offset < start.next[key] or not has_any):
            lost(
                f"{partition_name(key)}: the query's first batch, which ends at offset {offset}, "
                "did not finish, and where it began is not known: an earlier release has planned "
                "it, or Spark's own source",
                fail=fail,
            )
    return within(start, end)


def still_there(planned: Offsets, latest: Offsets) -> Offsets:
    """Return what there still is of a planned end: no other topic, and nothing past its `latest`.

    `following` has reported the rest.
    """
    ids = {
        topic: topic_ids
        for topic, topic_ids in planned.ids.items()
        if topic in latest.ids and not topic_ids.differ(latest.ids[topic])
    }
    ends = {
        key: min(offset, latest.next[key])
        for key, offset in planned.next.items()
        if key[0] in ids and key in latest.next
    }
    return Offsets(ids, ends)


def limited(
    start: Mapping[Partition, int], end: Mapping[Partition, int], most: int
) -> dict[Partition, int]:
    """Return ends at most `end`, so that about `most` offsets are between start and end in all.

    Each partition gets its share by how much it has; one that has something gets at least one.
    """
    sizes = {key: max(0, end[key] - start[key]) for key in end}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    return {
        key: start[key] + min(size, max(1, most * size // total)) if size else end[key]
        for key, size in sizes.items()
    }


def ranges(
    start: Mapping[Partition, int], end: Offsets, latest: Mapping[Partition, int]
) -> list[OffsetRange]:
    """Return a range for each partition that has messages between start and end."""
    return [
        OffsetRange(
            topic,
            number,
            start[topic, number],
            stop,
            *end.ids[topic],
            latest.get((topic, number), stop),
        )
        for (topic, number), stop in sorted(end.next.items())
        if stop > start[topic, number]
    ]


def split(
    offset_ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Cut large ranges: none has more than `max_records`, and there are about `min_partitions`.

    As in Spark's source, ranges that are too small for a part of their own are left whole.
    """
    if max_records is not None:
        offset_ranges = [
            part
            for offsets in offset_ranges
            for part in _cut(offsets, math.ceil((offsets.end - offsets.start) / max_records))
        ]
    if min_partitions is None or len(offset_ranges) >= min_partitions:
        return list(offset_ranges)
    parts = _parts(offset_ranges, min_partitions)
    large = [offsets for offsets, count in zip(offset_ranges, parts, strict=True) if count > 1]
    wanted = max(1, min_partitions - (len(offset_ranges) - len(large)))
    cut = dict(zip(large, _parts(large, wanted), strict=True))
    return [part for offsets in offset_ranges for part in _cut(offsets, cut.get(offsets, 1))]


def _parts(offset_ranges: Sequence[OffsetRange], wanted: int) -> list[int]:
    total = sum(offsets.end - offsets.start for offsets in offset_ranges)
    # Rounded as Java does.
    return [
        max(1, math.floor((offsets.end - offsets.start) / total * wanted + 0.5))
        for offsets in offset_ranges
    ]


def _cut(offsets: OffsetRange, parts: int) -> list[OffsetRange]:
    size = offsets.end - offsets.start
    places = [offsets.start + size * part // parts for part in range(parts + 1)]
    return [
        offsets._replace(start=start, end=end) for start, end in pairwise(places) if end > start
    ]


def grouped(
    offset_ranges: Sequence[OffsetRange], most: int | None
) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges in at most so many groups, which have about as many offsets each.

    The largest range goes first, each to the group that has least. Without a number each range is a
    group.
    """
    if most is None or len(offset_ranges) <= most:
        return [(offsets,) for offsets in offset_ranges]
    groups: list[list[OffsetRange]] = [[] for _ in range(most)]
    sizes = [(0, number) for number in range(most)]
    for offsets in sorted(offset_ranges, key=lambda offsets: offsets.start - offsets.end):
        size, number = heapq.heappop(sizes)
        groups[number].append(offsets)
        heapq.heappush(sizes, (size + offsets.end - offsets.start, number))
    return [tuple(sorted(group)) for group in groups]
