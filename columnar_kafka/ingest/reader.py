"""A topic's messages for an ingestor, each partition from where the table's fence says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from columnar_kafka import native
from columnar_kafka.broker.watermarks import watermarks
from columnar_kafka.errors import ConfigError, LakeError, SegmentError
from columnar_kafka.lake.model import (
    UNKNOWN_SEGMENT,
    PlainMessages,
    ReadRange,
    SourceMessage,
    SourcePartition,
)
from columnar_kafka.lake.plan import check_last
from columnar_kafka.segment.headers import is_segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from columnar_kafka.broker.traced_classes import StockConsumer
    from columnar_kafka.ingest.settings import IngestSettings
    from columnar_kafka.lake.model import Fence, TopicGeneration

__all__ = ["TopicReader", "source_message"]

_TIMEOUT: Final = 30.0
_MOST_MESSAGES: Final = 4096
"""Plain messages that are fetched together; librdkafka holds no more bytes of them than it may."""


@dataclass(slots=True)
class _Progress:
    """Where a partition's range began, which offset is read next, and where it ends.

    From `begin` on messages are asked for: that is the last one that landed, if it can be checked.
    """

    source: SourcePartition
    first: int
    next: int
    end: int
    begin: int
    fence: Fence | None


class Landing(Protocol):
    """Where messages go. If it restarts the reader, the messages after it come again."""

    @property
    def room(self) -> int:
        """How many bytes of values it takes before it looks whether a commit is due."""
        ...

    def take(self, message: SourceMessage) -> None:
        """Take a message."""
        ...

    def take_plain(self, messages: PlainMessages) -> None:
        """Take plain messages of one partition."""
        ...


class TopicReader:
    """Owns how far each assigned partition has been read. For one thread.

    A range begins at the fence, or where the one before ended, so nothing lies between them.
    """

    def __init__(
        self,
        consumer: StockConsumer,
        topic: str,
        generation: TopicGeneration,
        settings: IngestSettings,
    ) -> None:
        self._consumer = consumer
        self.generation = generation
        self._topic = topic
        self._settings = settings
        self._progress: dict[int, _Progress] = {}
        self._begun = 0  # how often an assignment has begun or ended
        self._decodes = native.enabled and settings.rules.plain == "decode"
        self.is_assigned = False
        self.newest_timestamp: int | None = None  # of all messages read, in ms

    @property
    def is_at_end(self) -> bool:
        """Whether every partition was read to its end: as set, or when it was assigned."""
        return self.is_assigned and all(
            progress.next >= progress.end for progress in self._progress.values()
        )

    def begin(self, partitions: Iterable[int], fences: Mapping[str, Fence]) -> None:
        """Start to read partitions, each from its fence. Blocks for requests to Kafka.

        Raises:
            LakeError: messages that have not landed no longer exist, or not yet.
            ConfigError: the settings say nothing of where a partition starts or ends.
            KafkaException: Kafka does not answer.
        """
        numbers = tuple(partitions)
        starts = self._starts(numbers, fences)
        marks = self._watermarks(numbers)  # later: an end is not before a start
        self._progress = {
            number: self._first_progress(number, fences, starts, *marks[number])
            for number in numbers
        }
        self.is_assigned = True
        self._begun += 1
        self._assign()

    def _assign(self) -> None:
        """Have messages come from where the partitions begin."""
        places = [
            TopicPartition(self._topic, number, progress.begin)
            for number, progress in self._progress.items()
        ]
        self._consumer.assign(places)
        self._consumer.resume(places)  # a pause outlasts an assignment

    def restart(self, fences: Mapping[str, Fence]) -> None:
        """Read the assigned partitions from their fences again. Raises as `begin`."""
        self.begin(tuple(self._progress), fences)

    def end(self) -> None:
        """Forget the partitions: they are read by others."""
        self._progress = {}
        self.is_assigned = False
        self._begun += 1

    def read(self, timeout: float, landing: Landing) -> None:
        """Hand over the next message, or many plain ones; none if none comes in `timeout` seconds.

        Rebalance callbacks run in here, before anything is handed over.

        Raises:
            KafkaException: Kafka cannot be read.
            LakeError: the last message that landed is another one now.
            Exception: whatever `landing` raises.
        """
        polled = self._consumer.poll(timeout)
        if polled is None:
            return
        messages, begun = [polled], self._begun
        if self._decodes and polled.error() is None and not is_segment(polled.headers()):
            messages += self._consumer.consume(_MOST_MESSAGES - 1, 0)
            if self._begun != begun:  # nobody knows which came before that: all come again
                if self.is_assigned:
                    self._assign()
                return
        at = alone_until = 0
        while at < len(messages) and self._begun == begun:
            if at == alone_until and (plain := self._plain(messages, at, landing)) is not None:
                if self._are_wanted(plain):
                    self._advance(plain.partition, plain.last + 1)
                    self.newest_timestamp = max(self.newest_timestamp or 0, plain.core.newest)
                    at = alone_until = at + len(plain)
                    landing.take_plain(plain)
                    continue
                alone_until += len(plain)
            if (message := self._message(messages[at])) is not None:
                landing.take(message)
            at += 1
            alone_until = max(at, alone_until)

    def _plain(self, messages: list[Message], at: int, landing: Landing) -> PlainMessages | None:
        """Return the plain messages from there on that belong together; None: it is another one."""
        if not self._decodes:
            return None
        core = native.core.read_messages(messages, at, Message, landing.room)
        return None if core is None else PlainMessages(self._topic, core)

    def _are_wanted(self, messages: PlainMessages) -> bool:
        """Return whether all of these are to be read, as messages mostly are."""
        progress = self._progress.get(messages.partition)
        if progress is None or messages.first < progress.first:
            return False
        return self._settings.end_offsets is None or messages.last < progress.end

    def _message(self, polled: Message) -> SourceMessage | None:
        """Return a message as the lake takes it, and note it as read; None: it is not wanted."""
        error = polled.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        partition, offset = polled.partition(), polled.offset()
        assert partition is not None
        assert offset is not None
        if error is not None:
            self._advance(partition, offset)  # all before it was delivered, or was aborted
            return None
        if (fence := self._fence_past(partition, offset)) is not None:
            _check_last(source_message(polled), fence)
            return None
        if self._is_past_end(partition, offset):
            return None
        self._advance(partition, offset + 1)
        self.newest_timestamp = max(self.newest_timestamp or 0, polled.timestamp()[1])
        return source_message(polled)

    def ranges(self) -> list[ReadRange]:
        """Return what has been read since the last `landed`."""
        return [
            ReadRange(progress.source, progress.first, progress.next)
            for progress in self._progress.values()
            if progress.next > progress.first
        ]

    def landed(self) -> None:
        """Begin new ranges: all that was read has landed."""
        for progress in self._progress.values():
            progress.first = progress.next

    def commit(self) -> None:
        """Commit to Kafka what has landed. Raises KafkaException."""
        offsets = [
            TopicPartition(self._topic, number, progress.first)
            for number, progress in self._progress.items()
        ]
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=False)

    def _advance(self, partition: int, offset: int) -> None:
        if (progress := self._progress.get(partition)) is not None:
            if self._settings.end_offsets is not None:
                offset = min(offset, progress.end)
            progress.next = max(progress.next, offset)

    def _fence_past(self, partition: int, offset: int) -> Fence | None:
        """Return the fence of a partition if a message there has landed."""
        progress = self._progress.get(partition)
        fence = None if progress is None else progress.fence
        return fence if fence is not None and offset < fence.next else None

    def _is_past_end(self, partition: int, offset: int) -> bool:
        """Return whether a message lies where no one wants it; all before it was read."""
        progress = self._progress.get(partition)
        if self._settings.end_offsets is None or progress is None or offset < progress.end:
            return False
        self._advance(partition, offset)
        self._consumer.pause([TopicPartition(self._topic, partition)])
        return True

    def _first_progress(
        self,
        number: int,
        fences: Mapping[str, Fence],
        starts: Mapping[int, int],
        low: int,
        end: int,
    ) -> _Progress:
        source = self._source(number)
        if (fence := fences.get(source.fence)) is not None:
            first = fence.next
            if first > end:
                raise LakeError(
                    f"{source}: messages up to offset {first - 1} have landed, but Kafka has none "
                    f"from {end} on: it has lost them (an unclean election, a restored cluster?). "
                    "New ones would be taken for those that have landed. Land the topic under "
                    "another path; or move the fence back: columnar-kafka fence reset --force"
                )
        else:
            first = self._start(number, low, end, starts)
        if (ends := self._settings.end_offsets) is not None:
            end = _named(ends, number, "end_offsets")
        if first < low:
            if not self._settings.allow_gaps:
                raise LakeError(
                    f"{source}: Kafka has deleted the messages from offset {first} to {low - 1} "
                    "before they landed (retention?). To go on without them, set table.gap=allow"
                )
            first = low
        can_check = fence is not None and fence.segment != UNKNOWN_SEGMENT and low < first
        return _Progress(source, first, first, end, first - can_check, fence)

    def _start(self, number: int, low: int, end: int, starts: Mapping[int, int]) -> int:
        """Return where a partition begins of which the table has nothing."""
        start = self._settings.start
        if start == "earliest":
            return low
        if start == "latest":
            return min(starts.get(number, low), end)  # one without a start was added since
        if isinstance(start, datetime):
            return starts.get(number, end)
        return _named(start, number, "start")

    def _starts(self, numbers: tuple[int, ...], fences: Mapping[str, Fence]) -> Mapping[int, int]:
        """Return where partitions start of which the table has nothing, if Kafka is to say."""
        start = self._settings.start
        new = [number for number in numbers if self._source(number).fence not in fences]
        if new and start == "latest":
            return self._group_starts(numbers, fences)
        return self._starts_at(new, start) if new and isinstance(start, datetime) else {}

    def _starts_at(self, numbers: Iterable[int], start: datetime) -> Mapping[int, int]:
        """Return the first offset from a time on, of each partition that has one."""
        time = int(start.timestamp() * 1000)
        asked = [TopicPartition(self._topic, number, time) for number in numbers]
        places = self._consumer.offsets_for_times(asked, timeout=_TIMEOUT)
        return {place.partition: place.offset for place in places if place.offset >= 0}

    def _group_starts(
        self, numbers: tuple[int, ...], fences: Mapping[str, Fence]
    ) -> Mapping[int, int]:
        """Return where the group goes on in partitions of which the table may have nothing.

        A group that starts at the end begins with all partitions of the topic at once, and commits
        where: what comes from then on has to land, though this process may die before its first
        commit. So a partition that is not among them was added later.
        """
        metadata = self._consumer.list_topics(self._topic, timeout=_TIMEOUT)
        everywhere = {*metadata.topics[self._topic].partitions, *numbers}
        starts = self._committed(everywhere)
        # Committed offsets expire; then the fences tell that landing did not begin now.
        if starts or any(self._source(number).fence in fences for number in everywhere):
            return starts
        ends = {key: end for key, (_, end) in self._watermarks(everywhere).items()}
        # Another process that has begun meanwhile may be ready, and have earlier ones.
        if starts := self._committed(everywhere):
            return starts
        begun = [TopicPartition(self._topic, *place) for place in sorted(ends.items())]
        self._consumer.commit(offsets=begun, asynchronous=False)
        return ends

    def _committed(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the group's committed offset of each of the partitions that have one."""
        asked = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        places = self._consumer.committed(asked, timeout=_TIMEOUT)
        return {place.partition: place.offset for place in places if place.offset >= 0}

    def _watermarks(self, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the first offset of each partition, and the one after its last."""
        asked = [TopicPartition(self._topic, number) for number in numbers]
        marks = watermarks(self._consumer, asked, _TIMEOUT) if asked else {}
        return {number: ends for (_, number), ends in marks.items()}

    def _source(self, number: int) -> SourcePartition:
        return SourcePartition(self.generation, self._topic, number)


def _check_last(message: SourceMessage, fence: Fence) -> None:
    """Check that a message that has landed is the one that its fence names, if it is a segment."""
    with suppress(SegmentError):
        check_last(message, message.segment().id, fence)


def _named(offsets: Mapping[int, int], partition: int, setting: str) -> int:
    if partition not in offsets:
        raise ConfigError(
            f"{setting} has no offset for partition {partition}: name every partition"
        )
    return offsets[partition]


def source_message(message: Message) -> SourceMessage:
    """Return a message as the lake takes it."""
    headers: Any = message.headers()
    key: Any = message.key()
    kind, milliseconds = message.timestamp()
    return SourceMessage(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        headers=headers,
        value=message.value(),
        key=key,
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds,
    )
