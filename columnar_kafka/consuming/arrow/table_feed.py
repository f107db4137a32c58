"""The feed's second way out: records as Arrow tables, in the same order and from the same queue.

What is to become a table stays among the messages that are held, and counts as handed out when the
table is taken. So a rebalance, a seek, another thread, an exception or a cancelled call meanwhile
neither loses nor doubles a record, and what does not go with the rest just stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from columnar_kafka import position
from columnar_kafka.consuming.arrow.table_builder import TableBuilder, plain_rows, segment_rows
from columnar_kafka.consuming.feed import HELD_BYTES, Feed, never
from columnar_kafka.consuming.handout import Found, Handed, OpenSegment, offset_of, partition_of
from columnar_kafka.errors import ColumnarError, RowError, SegmentError
from columnar_kafka.message import event_error
from columnar_kafka.segment.headers import (
    ENCODING_HEADER,
    SCHEMA_HEADER,
    SCHEMA_ID_HEADER,
    is_segment,
    parse_headers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from confluent_kafka import Message, TopicPartition

    from columnar_kafka.config import DecodeLimits
    from columnar_kafka.consuming.arrow.projection import Projection
    from columnar_kafka.consuming.feed import Stops
    from columnar_kafka.offsets import Partition
    from columnar_kafka.plain.base import Formats

__all__ = ["FoundTable", "TableFeed", "TableRequest"]

_RUN: Final = 1 << 20
"""Plain messages that are decoded at once, at most."""

_FETCH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """What one call wants as a table: up to `most` records, as soon as there are `least`.

    They take about as much memory as one segment may, and have the `schema` if there is one. With
    `single` they are out of one segment, or out of plain messages.
    """

    selection: Projection
    formats: Formats
    limits: DecodeLimits
    least: int
    most: int
    single: bool = False
    schema: pa.Schema | None = None


class FoundTable(Found):
    """The next records as a table, or the error that comes instead of them."""

    def __init__(
        self,
        handed: Handed | None,
        table: pa.Table | None = None,
        error: KafkaException | None = None,
        *,
        is_all: bool = False,
        begins: tuple[Partition, int] | None = None,
    ) -> None:
        """`is_all`: nothing is held that is not in the table, which `begins` at this position."""
        super().__init__(handed, table, error)
        self.rows = 0 if table is None else table.num_rows
        self.table = table
        self.is_all = is_all
        self.begins = begins
        self.is_empty = error is None and not self.rows


@dataclass(slots=True)
class _Pass:
    """Kafka messages the rows of which are in a table, and the positions after these rows."""

    messages: int
    after: dict[Partition, int]
    last: dict[Partition, Message]
    opened: OpenSegment | None = None
    resumed: list[TopicPartition] = field(default_factory=list)


class TableFeed(Feed):
    """Hands out messages one by one, and tables. Thread-safe."""

    _run = _RUN
    # So many messages in front of what is held are of one topic and plain; the last of them.
    _known_plain: tuple[int, Message | None] = (0, None)

    def find(
        self, request: TableRequest, timeout: float, stops: Stops = never
    ) -> FoundTable | None:
        """Return the next records; None after `timeout` seconds without any, or when it `stops`.

        `FoundTable.take` hands them out, or raises:

        * KafkaException: the next message is an error event;
        * SegmentError: it is a segment that cannot be read;
        * RowError: it is a plain message that cannot be decoded;
        * SchemaError: it does not have the columns that are asked for. Only this one stays.
        """
        deadline = self._clock() + timeout if timeout >= 0 else float("inf")
        with self.lock:
            self._put_back()
        more = 0
        while not stops():
            self._serve_if_due()
            self._after_serving()
            is_enough = self._hold_rows(request, more, deadline, stops)
            if stops():
                break
            found = self._find_next(request) if self._is_resolved(deadline) else None
            if found is not None:
                if found.rows < request.least and self._stopped() and self._resolve(deadline):
                    continue
                missing = request.least - found.rows if found.is_all else 0
                if not is_enough or missing <= 0:
                    return found
                more += missing  # segments that are begun in the middle were counted whole
            elif self._clock() >= deadline:
                break
        return None

    # --- waiting --------------------------------------------------------------------------------

    def _hold_rows(self, request: TableRequest, more: int, deadline: float, stops: Stops) -> bool:
        """Hold as many rows as are wanted and go together, or those that come by the deadline.

        Returns whether there are as many as are wanted and so many `more`.
        """
        most = min(request.most + more, self._run)
        wanted = request.least + more
        least = min(wanted, most)
        run = self._count(None, request.selection, most)
        timeout = 0.0  # first what has arrived
        while not (run.has(most) or self._is_full(most)):
            run = self._fetch_rows(run, request.selection, most, timeout)
            self._after_serving()
            if run.has(least) or self._clock() >= deadline or stops():
                break
            timeout = self._step(deadline)
        return run.rows >= wanted

    def _count(self, run: _Run | None, selection: Projection, most: int) -> _Run:
        """Count the rows of what is held since a run was counted; all, if some was taken away."""
        with self.lock:
            if run is None or run.changes != self._changes:
                self._put_back()
                run = _Run(selection, self._open, self._changes)
                run.add(list(islice(self._held, most)))
            else:
                new = islice(reversed(self._held), len(self._held) - run.messages)
                run.add(list(new)[::-1])
            self._known_plain = run.plain, run.last
            return run

    def _fetch_rows(self, run: _Run, selection: Projection, most: int, timeout: float) -> _Run:
        """Let librdkafka run callbacks, and hold what it has until there are `most` rows."""
        count = 1
        while True:
            before, counted = self._held_bytes, run
            missing = most - run.rows
            fetched = self._fetch(min(count, missing), timeout, resumes=True, pauses=False)
            run = self._count(counted, selection, most)
            is_enough = run.has(most) or self._is_full(most)
            if len(fetched) < count or is_enough or run is not counted:
                return run
            # Not much more than is wanted, and than there is room for.
            each = max(1, (self._held_bytes - before) // len(fetched))
            count = min(2 * count, _FETCH, 1 + (HELD_BYTES - self._held_bytes) // each)
            timeout = 0.0

    def _plain_in_front(self) -> int:
        """Return how many messages are known to be plain, if no callback has taken any of them."""
        count, last = self._known_plain
        if self._open is not None or self._unresolved or not 0 < count <= len(self._held):
            return 0
        return count if self._held[count - 1] is last else 0

    def _is_resolved(self, deadline: float) -> bool:
        """Learn where the group left off in the next message's partition, if need be."""
        if not self._begins_next() or self._resolve(deadline):
            return True
        self._serve(self._step(deadline))
        return False

    def _stopped(self) -> bool:
        """Say whether there is more, in partitions of which it is not known where they begin."""
        with self.lock:
            return bool(self._unresolved) and any(
                each.error() is None and partition_of(each) in self._unresolved
                for each in self._held
            )

    # --- one table ------------------------------------------------------------------------------

    def _find_next(self, request: TableRequest) -> FoundTable | None:
        """Find a table of what is open and held, as far as it goes together; None of no rows."""
        with self.lock:
            self._put_back()
            self._found = found = self._make(request)
            if found is not None and found.is_empty:  # a filter left nothing of what was looked at
                found.take()
                self._note()
                return None
            return found

    def _make(self, request: TableRequest) -> FoundTable | None:
        batch = TableBuilder(
            request.selection,
            most=request.most,
            nbytes=request.limits.decoded_bytes,
            schema=request.schema,
        )
        passes: list[_Pass] = []
        is_all = False
        for run in self._runs(request):
            if not batch.left or (request.single and batch.rows):
                break
            try:
                added = self._added(run, batch, request)
            except KafkaException as error:
                if not passes:
                    return self._failed(run, error)
                break  # the next call will meet it
            if added is None:
                break
            passes.append(added)
            if isinstance(run, list) and added.messages < len(run):
                break
        else:
            count = sum(each.messages for each in passes)
            is_all = (
                batch.left > 0
                and request.selection.condition is None
                and count == len(self._held)  # none of them is of a partition not begun as yet
            )
        if not passes:
            return None
        opened = self._open
        source = self._held[0] if opened is None else opened.source
        at = position.start(offset_of(source)) if opened is None else opened.at
        begins = partition_of(source), at
        return FoundTable(self._pass_all(passes), batch.table(), is_all=is_all, begins=begins)

    def _runs(self, request: TableRequest) -> Iterator[OpenSegment | list[Message]]:
        """Yield what is open, and then what is held: plain messages together, others alone."""
        known = self._plain_in_front()
        if self._open is not None:
            yield self._open
        held = iter(self._held)
        while known > 0:
            run = list(islice(held, min(known, self._longest(self._held[0].topic(), request))))
            known -= len(run)
            yield run
        run = []
        topic, room = None, 0
        for message in held:
            is_event = message.error() is not None
            if self._unresolved and not is_event and partition_of(message) in self._unresolved:
                break  # where it begins is asked when it is the first
            if is_event or is_segment(message.headers()):
                if run:
                    yield run
                yield [message]
                run, room = [], 0
            elif room and message.topic() == topic:
                run.append(message)
                room -= 1
            else:
                if run:
                    yield run
                run, topic = [message], message.topic()
                room = self._longest(topic, request) - 1
        if run:
            yield run

    def _longest(self, topic: str | None, request: TableRequest) -> int:
        """Return how many plain messages of a topic are decoded at once."""
        return 1 if request.formats.are_tables(topic or "") else min(request.most, self._run)

    def _added(
        self, run: OpenSegment | list[Message], batch: TableBuilder, request: TableRequest
    ) -> _Pass | None:
        """Add a run's rows to a table; None if they do not go with it."""
        if isinstance(run, OpenSegment):
            return _add_segment(run, batch)
        source = run[0]
        if source.error() is not None:
            raise KafkaException(event_error(source))
        if not is_segment(source.headers()):
            return self._add_plain(run[: batch.left], batch, request)
        key = partition_of(source)
        segment = self.read(source)
        self._forget_start(key)
        start, resumed = self._start(key, segment)
        found = _add_segment(OpenSegment(key, source, segment, segment.offset + start), batch)
        if found is not None:
            found.messages, found.resumed = 1, resumed
        return found

    def _add_plain(
        self, run: list[Message], batch: TableBuilder, request: TableRequest
    ) -> _Pass | None:
        formats = request.formats
        try:
            rows = plain_rows(run, formats, batch.selection, request.limits)
        except RowError:
            self._run = 1  # many may be as bad: what one costs must not grow with what is held
            raise
        good = rows.passed
        self._run = min(_RUN, 2 * max(self._run, good)) if good == len(run) else 2 * good
        topic = run[0].topic() or ""
        where = _where("plain message", run[0], position.pack(offset_of(run[0])))
        if rows.table is not None and not batch.add(rows.table, topic, formats.name(topic), where):
            return None
        run = run[:good]
        newest = dict(zip([each.partition() or 0 for each in run], run, strict=True))
        last = {(topic, each): message for each, message in newest.items()}
        after = {key: position.start(offset_of(each) + 1) for key, each in last.items()}
        return _Pass(good, after, last)

    # --- what is handed out ---------------------------------------------------------------------

    def _pass_all(self, passes: list[_Pass]) -> Handed:
        """Return what is noted when what is in a table has been handed out."""
        handed = Handed(self._open)
        for each in passes:
            for key, after in each.after.items():
                handed.upto(each.last[key], after)
            if each.opened is not None:
                segment, [key] = each.opened.segment, each.after
                self._ledger.mark_committed(each.resumed)
                self._ledger.opened(key, segment.kafka_offset, segment.id, segment.rows)
                handed.inside(each.opened, each.after[key])
        handed.moved = sum(each.messages for each in passes)
        return handed

    def _failed(self, run: OpenSegment | list[Message], error: KafkaException) -> FoundTable:
        """Go on after what is reported as an error; what is only asked for wrongly stays."""
        source = run.source if isinstance(run, OpenSegment) else run[0]
        stays = isinstance(error, ColumnarError) and not isinstance(error, SegmentError | RowError)
        return FoundTable(None if stays else self._whole(source), error=error)


def _add_segment(opened: OpenSegment, batch: TableBuilder) -> _Pass | None:
    """Add the next rows of a segment to a table."""
    segment = opened.segment
    rows = segment_rows(segment, opened.row, batch.left, batch.selection, opened.read)
    names = {SCHEMA_HEADER: segment.header.schema}
    if segment.header.schema_id is not None:
        names[SCHEMA_ID_HEADER] = str(segment.header.schema_id)
    where = _where("segment", opened.source, opened.at)
    if rows.table is not None and not batch.add(rows.table, segment.topic, names, where):
        return None
    after = {opened.key: opened.at + rows.passed}
    return _Pass(0, after, {opened.key: opened.source}, opened)


def _where(what: str, source: Message, at: int) -> str:
    topic, partition = partition_of(source)
    return f"{what} at {topic}[{partition}]@{offset_of(source)} (position {at})"


def _plain_topic(messages: Sequence[Message]) -> str | None:
    """Return the topic of messages all of which are plain; None if they are not, or of several.

    As a hundred thousand may be asked of, there are comprehensions and no calls of Python's.
    """
    topics = {each.topic() for each in messages}
    found: Any = [each.headers() for each in messages]
    names = {pair[0] for headers in found if headers for pair in headers}
    errors = {each.error() for each in messages}
    return (
        topics.pop()
        if len(topics) == 1 and errors == {None} and ENCODING_HEADER not in names
        else None
    )


class _Run:
    """Counts the rows that may become one table, as far as their headers tell."""

    def __init__(self, selection: Projection, opened: OpenSegment | None, changes: int) -> None:
        self.changes = changes  # until there are more of them
        self.messages = 0
        self.rows = 0
        self.plain = 0
        self.last: Message | None = None  # of the plain ones
        self._may_differ = selection.promote or selection.columns is not None
        self._is_ended = False
        self._topic: str | None = None
        self._schema = ""
        if opened is not None:
            segment = opened.segment
            self._count(segment.topic, segment.header.schema, segment.rows - opened.row)

    def has(self, rows: int) -> bool:
        """Say whether there are so many, or there is something that cannot go with them."""
        return self._is_ended or self.rows >= rows

    def add(self, messages: Sequence[Message]) -> None:
        """Count the rows of messages."""
        self.messages += len(messages)
        topic = _plain_topic(messages) if self.plain == self.rows else None
        if topic is not None and self._topic in (None, topic):
            self._topic = topic
            self.plain += len(messages)
            self.rows += len(messages)
            self.last = messages[-1]
            return
        for message in messages:
            if message.error() is not None:
                self._is_ended = True
            elif is_segment(message.headers()):
                self._add_segment(message)
            else:
                self._count(message.topic(), "", 1)
            if self._is_ended:
                return

    def _add_segment(self, message: Message) -> None:
        try:
            header, _ = parse_headers(message.headers())
        except SegmentError:
            self._is_ended = True
        else:
            self._count(message.topic(), header.schema, header.rows)

    def _count(self, topic: str | None, schema: str, rows: int) -> None:
        if self._topic is None:
            self._topic, self._schema = topic, schema
        if topic != self._topic or (schema != self._schema and not self._may_differ):
            self._is_ended = True
        self.rows += rows
