"""The feed's second way out: records as Arrow tables, in the same order and from the same buffer.

What is to become a table stays among the messages that are buffered, and counts as handed out when
the table is taken. So a rebalance, a seek, another thread, an exception or a cancelled call
meanwhile neither loses nor doubles a record, and what does not go with the rest just stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import KafkaException

from columnar_kafka import native, position
from columnar_kafka.consuming.arrow.fetched_rows import FetchedRows, UnusualError
from columnar_kafka.consuming.arrow.rows_ahead import RowsAhead
from columnar_kafka.consuming.arrow.table_builder import (
    TableBuilder,
    fetched_rows,
    plain_rows,
    segment_rows,
)
from columnar_kafka.consuming.feed.feed import never_cancelled
from columnar_kafka.consuming.feed.handout import Found, Progress
from columnar_kafka.consuming.feed.kafka_message import address_of, offset_of, partition_of
from columnar_kafka.consuming.feed.open_segment import OpenSegment
from columnar_kafka.consuming.feed.together import are_together
from columnar_kafka.errors import ColumnarError, RowError, SegmentError
from columnar_kafka.message import event_error
from columnar_kafka.runtime.deadline import deadline_after
from columnar_kafka.segment.headers import SCHEMA_HEADER, SCHEMA_ID_HEADER, is_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from confluent_kafka import Message, TopicPartition

    from columnar_kafka.config import ReadOptions
    from columnar_kafka.consuming.arrow.projection import Projection, SelectedRows
    from columnar_kafka.consuming.feed.feed import Cancelled, Feed
    from columnar_kafka.offsets import Partition
    from columnar_kafka.plain.base import Formats

__all__ = ["FoundTable", "TableFeed", "TableRequest"]

_LONGEST_SPAN: Final = 1 << 20
"""Plain messages that are decoded at once, at most."""

_FETCH: Final = 200
"""Messages that are fetched at once, at most."""

_MOST_ALONE: Final = 63
"""Calls without messages that are together, at most, after such were unusual again."""

Span = OpenSegment | list["Message"]
"""What is decoded at once: the open segment, several plain messages, or one other message."""


class TableRequest(NamedTuple):
    """What one call wants as a table: up to `most` records, as soon as there are `least`.

    They take about as much memory as one segment may, and have the `schema` if there is one. With
    `single` they are out of one segment, or out of plain messages.
    """

    projection: Projection
    formats: Formats
    options: ReadOptions
    least: int
    most: int
    single: bool = False
    schema: pa.Schema | None = None


class FoundTable(Found):
    """The next records as a table, or the error that comes instead of them."""

    def __init__(
        self,
        progress: Progress | None,
        table: pa.Table | None = None,
        error: KafkaException | None = None,
        *,
        is_all: bool = False,
        begins: tuple[Partition, int] | None = None,
    ) -> None:
        """Hold a table that `begins` at a position; `is_all` says that nothing else is buffered."""
        super().__init__(progress, table, error)
        self.rows = 0 if table is None else table.num_rows
        self.table = table
        self.is_all = is_all
        self.begins = begins
        self.is_empty = error is None and not self.rows


@dataclass(slots=True)
class _Slice:
    """Kafka messages whose rows are in a table, and the positions after these rows."""

    messages: int
    after: dict[Partition, int]
    last: dict[Partition, Message]
    opened: OpenSegment | None = None
    committed: list[TopicPartition] = field(default_factory=list)
    rest: Sequence[Message] = ()  # see `Progress`
    changes: bool = False  # see `SelectedRows`


class TableFeed:
    """Hands out tables of what a feed has. Thread-safe, under the feed's lock."""

    def __init__(self, feed: Feed) -> None:
        """Take tables from where `feed` takes messages."""
        self._feed = feed
        self._lock = feed.lock
        self._buffer = feed.buffer
        self._starts = feed.starts
        self._poller = feed.poller
        self._longest_span = _LONGEST_SPAN
        # How many messages at the front of the buffer are plain and of one topic; the last of them.
        self._known_plain: tuple[int, Message | None] = (0, None)
        # For how many calls each message is to be by itself, and for how many it was to be last.
        self._alone = self._last_alone = 0

    def at_end(self) -> set[Partition]:
        """Return the partitions of which nothing was handed out since their end was told."""
        return self._feed.at_end()

    def find(
        self, request: TableRequest, timeout: float, cancelled: Cancelled = never_cancelled
    ) -> FoundTable | None:
        """Return the next records; None after `timeout` seconds without any, or if `cancelled`.

        `FoundTable.take` hands them out, or raises:

        * KafkaException: the next message is an error event;
        * SegmentError: it is a segment that cannot be read;
        * RowError: it is a plain message that cannot be decoded;
        * SchemaError: it does not have the columns that are asked for. Only this one stays.
        """
        clock = self._feed.clock
        deadline = deadline_after(timeout, clock())
        more = 0
        together = self._may_be_together(request)
        while not cancelled():
            self._poller.serve_if_due()
            self._feed.after_serving()
            is_enough = self._buffer_rows(request, more, deadline, cancelled, together=together)
            if cancelled():
                return None
            records = self._find_next(request) if self._may_begin(deadline) else None
            if records is not None:
                is_short = records.rows < request.least
                if is_short and self._awaits_lookup() and self._poller.look_up(deadline):
                    continue
                missing = request.least - records.rows if records.is_all else 0
                if not is_enough or missing <= 0:
                    return records
                more += missing  # segments that are begun in the middle were counted whole
            elif clock() >= deadline:
                break
        return None

    # --- waiting --------------------------------------------------------------------------------

    def _may_be_together(self, request: TableRequest) -> bool:
        """Say whether plain messages are worth to be fetched together: of late they were usual."""
        is_alone = self._alone > 0
        self._alone -= is_alone
        return native.enabled and not is_alone and not request.formats.have_tables

    def _buffer_rows(
        self,
        request: TableRequest,
        more: int,
        deadline: float,
        cancelled: Cancelled,
        *,
        together: bool,
    ) -> bool:
        """Buffer as many rows as are wanted and go together, or those that come by the deadline.

        Returns whether there are as many as are wanted and so many `more`.
        """
        most = min(request.most + more, self._longest_span)
        wanted = request.least + more
        least = min(wanted, most)
        ahead = self._count(None, request.projection, most)
        timeout = 0.0  # first what has arrived
        while not (ahead.has(most) or self._buffer.is_full(most)):
            ahead = self._fetch_rows(ahead, request.projection, most, timeout, together=together)
            self._feed.after_serving()
            if ahead.has(least) or self._feed.clock() >= deadline or cancelled():
                break
            timeout = self._poller.step(deadline)
        return ahead.rows >= wanted

    def _count(self, ahead: RowsAhead | None, projection: Projection, most: int) -> RowsAhead:
        """Count the rows of what was buffered since; or of all, if some was taken away."""
        buffer = self._buffer
        with self._lock:
            if ahead is None or ahead.generation != buffer.generation:
                buffer.put_back()
                ahead = RowsAhead(projection, buffer.open, buffer.generation)
                ahead.add(list(islice(buffer.buffered, most)))
            else:
                new = islice(reversed(buffer.buffered), len(buffer.buffered) - ahead.messages)
                ahead.add(list(new)[::-1])
            self._known_plain = ahead.plain, ahead.last_plain
            return ahead

    def _fetch_rows(
        self,
        ahead: RowsAhead,
        projection: Projection,
        most: int,
        timeout: float,
        *,
        together: bool,
    ) -> RowsAhead:
        """Let librdkafka run callbacks, and buffer what it has until there are `most` rows."""
        buffer, count = self._buffer, 1
        while True:
            before, counted = buffer.nbytes, ahead
            asked = min(count, most - ahead.rows)
            fetched = self._poller.fetch(
                asked, timeout, resumes=True, throttles=False, together=together
            )
            ahead = self._count(counted, projection, most)
            is_enough = ahead.has(most) or buffer.is_full(most)
            if len(fetched) < count or is_enough or ahead is not counted:
                return ahead
            # Not much more than is wanted, and than there is room for.
            size = max(1, (buffer.nbytes - before) // len(fetched))
            count = min(2 * count, _FETCH, buffer.room_for(size))
            timeout = 0.0

    def _may_begin(self, deadline: float) -> bool:
        """Look up where the next message's partition begins, if need be; False to try again."""
        if not self._feed.awaits_lookup() or self._poller.look_up(deadline):
            return True
        self._poller.serve(self._poller.step(deadline))
        return False

    def _awaits_lookup(self) -> bool:
        """Say whether any buffered message waits for where its partition begins."""
        with self._lock:
            awaiting = self._starts.awaiting_lookup
            return bool(awaiting) and any(
                message.error() is None and partition_of(message) in awaiting
                for message in self._buffer.buffered
            )

    # --- one table ------------------------------------------------------------------------------

    def _find_next(self, request: TableRequest) -> FoundTable | None:
        """Find a table of what comes next, as far as it goes together; None of no rows."""
        with self._lock:
            self._buffer.put_back()
            self._buffer.found = records = self._find_usual(request)
            # A filter may have left nothing of what was looked at.
            if records is not None and records.is_empty:
                records.take()
                self._buffer.note()
                return None
            return records

    def _find_usual(self, request: TableRequest) -> FoundTable | None:
        """Find a table, also of messages that are together, unless one of them is unusual."""
        if request.formats.have_tables:
            self._buffer.apart()
        else:
            self._buffer.together()
        try:
            return self._build(request)
        except UnusualError:
            self._buffer.apart()
            self._alone = self._last_alone = min(2 * self._last_alone + 1, _MOST_ALONE)
        return self._build(request)

    def _build(self, request: TableRequest) -> FoundTable | None:
        builder = TableBuilder(
            request.projection,
            most=request.most,
            nbytes=request.options.max_decoded_bytes,
            schema=request.schema,
        )
        slices: list[_Slice] = []
        is_all = False
        spans: Iterator[Any] = self._spans(request)
        rest: Any = None
        while span := rest or next(spans, None):
            if not builder.left or (request.single and builder.rows):
                break
            try:
                added = self._add(span, builder, request)
            except KafkaException as error:
                if not slices:
                    return self._failed(span, error)
                break  # the next call will meet it
            if added is None:
                break
            slices.append(added)
            rest = span[added.messages :] if added.changes else []
            if isinstance(span, list) and (added.rest or added.messages + len(rest) < len(span)):
                break
        else:
            is_all = (
                builder.left > 0
                and request.projection.condition is None
                # None of them waits for where its partition begins.
                and sum(part.messages for part in slices) == len(self._buffer.buffered)
            )
        if not slices:
            return None
        progress, begins = self._pass(slices), self._begins()
        return FoundTable(progress, builder.table(), is_all=is_all, begins=begins)

    def _begins(self) -> tuple[Partition, int]:
        """Return the partition and position of what comes next; there is something."""
        opened = self._buffer.open
        if opened is not None:
            return partition_of(opened.source), opened.at
        source = self._buffer.buffered[0]
        return partition_of(source), position.start(offset_of(source))

    def _spans(self, request: TableRequest) -> Iterator[Span]:
        """Yield what is open, then what is buffered: plain messages together, others alone."""
        if self._buffer.open is not None:
            yield self._buffer.open
        buffered = iter(self._buffer.buffered)
        known = self._plain_in_front()
        while known > 0:
            longest = self._longest(self._buffer.buffered[0].topic(), request)
            span = list(islice(buffered, min(known, longest)))
            known -= len(span)
            yield span
        span, room = [], 0
        awaiting = self._starts.awaiting_lookup
        for message in buffered:
            is_event = message.error() is not None
            if awaiting and not is_event and partition_of(message) in awaiting:
                break  # where it begins is looked up when it is the first
            if is_event or is_segment(message.headers()):
                if span:
                    yield span
                yield [message]
                span, room = [], 0
            elif room and message.topic() == span[0].topic():
                span.append(message)
                room -= 1
            else:
                if span:
                    yield span
                span, room = [message], self._longest(message.topic(), request) - 1
        if span:
            yield span

    def _plain_in_front(self) -> int:
        """Return how many messages are known to be plain, if no callback has taken any of them."""
        (count, last), buffered = self._known_plain, self._buffer.buffered
        if self._buffer.open is not None or self._starts.awaiting_lookup:
            return 0
        if self._buffer.has_together:
            return 0
        return count if 0 < count <= len(buffered) and buffered[count - 1] is last else 0

    def _longest(self, topic: str | None, request: TableRequest) -> int:
        """Return how many plain messages of a topic are decoded at once."""
        return (
            1 if request.formats.are_tables(topic or "") else min(request.most, self._longest_span)
        )

    def _add(self, span: Span, builder: TableBuilder, request: TableRequest) -> _Slice | None:
        """Add a span's rows to a table; None if they do not go with it."""
        if isinstance(span, OpenSegment):
            return _add_segment(span, builder)
        source = span[0]
        if self._buffer.has_together and any(map(are_together, span)):
            return self._add_together(span, builder, request)
        if source.error() is not None:
            raise KafkaException(event_error(source))
        if not is_segment(source.headers()):
            return self._add_plain(span[: builder.left], builder, request)
        key = partition_of(source)
        segment = self._feed.read(source)
        self._starts.pass_start(key)
        row, committed = self._starts.row_of(key, segment)
        added = _add_segment(self._feed.open_segment(key, source, segment, row), builder)
        if added is not None:
            added.messages, added.committed = 1, committed
        return added

    def _add_plain(
        self, messages: list[Message], builder: TableBuilder, request: TableRequest
    ) -> _Slice | None:
        formats = request.formats
        try:
            rows = plain_rows(messages, formats, builder.projection, request.options)
        except RowError:
            # Many may be as bad: what one costs must not grow with what is buffered.
            self._longest_span = 1
            raise
        good = rows.examined
        self._note_good(good, is_all=good == len(messages))
        if not _add_rows(rows, messages[0], builder, formats):
            return None
        topic = messages[0].topic() or ""
        messages = messages[:good]
        newest = dict(
            zip([message.partition() or 0 for message in messages], messages, strict=True)
        )
        last = {(topic, key): message for key, message in newest.items()}
        after = {key: position.start(offset_of(message) + 1) for key, message in last.items()}
        return _Slice(good, after, last, changes=rows.changes)

    def _note_good(self, count: int, *, is_all: bool) -> None:
        """Note how many plain messages could be decoded at once, and whether that was all."""
        longest = min(_LONGEST_SPAN, 2 * max(self._longest_span, count)) if is_all else 2 * count
        self._longest_span = longest

    def _add_together(
        self, span: Sequence[Any], builder: TableBuilder, request: TableRequest
    ) -> _Slice | None:
        """Add messages that are together, as many as there is room for; with a filter, of rows."""
        if not all(map(are_together, span)):
            raise UnusualError  # what is decoded at once must not depend on how it was fetched
        projection, left = builder.projection, builder.left
        messages = list(span) if projection.condition is not None else _up_to(left, span)[0]
        rows = fetched_rows(FetchedRows(messages), request.formats, projection, left)
        messages, rest = _up_to(rows.examined, span)
        if not _add_rows(rows, messages[0], builder, request.formats):
            return None
        self._last_alone = 0
        self._note_good(rows.examined, is_all=True)
        last = {partition_of(message): message for message in messages}
        after = {key: position.start(message.last + 1) for key, message in last.items()}
        return _Slice(len(messages), after, last, rest=rest)

    # --- what is handed out ---------------------------------------------------------------------

    def _pass(self, slices: list[_Slice]) -> Progress:
        """Return what to record once a table of these slices has been handed out."""
        progress = Progress(self._buffer.open)
        for part in slices:
            for key, after in part.after.items():
                progress.pass_message(part.last[key], after)
            if part.opened is not None:
                self._feed.note_opened(part.opened, part.committed)
                progress.pass_records(part.opened, part.after[part.opened.key])
        progress.messages = sum(part.messages for part in slices)
        progress.rest = slices[-1].rest
        return progress

    def _failed(self, span: Span, error: KafkaException) -> FoundTable:
        """Go on after what is reported as an error; what is only asked for wrongly stays."""
        source = span.source if isinstance(span, OpenSegment) else span[0]
        stays = isinstance(error, ColumnarError) and not isinstance(error, SegmentError | RowError)
        return FoundTable(None if stays else self._buffer.pass_first(source), error=error)


def _up_to(most: int, span: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the first messages of some that are together, and what is left of the last of them."""
    messages: list[Any] = []
    for message in span:
        if message.count >= most:
            first, *rest = message.split(most) if message.count > most else [message]
            return [*messages, first], rest
        messages.append(message)
        most -= message.count
    return messages, []


def _add_rows(rows: SelectedRows, first: Message, builder: TableBuilder, formats: Formats) -> bool:
    """Add the rows of plain messages to a table; False if they do not go with it."""
    topic = first.topic() or ""
    where = _where("plain message", first, position.pack(offset_of(first)))
    return rows.table is None or builder.add(rows.table, topic, formats.name(topic), where)


def _add_segment(opened: OpenSegment, builder: TableBuilder) -> _Slice | None:
    """Add the next rows of a segment to a table."""
    segment = opened.segment
    rows = segment_rows(segment, opened.row, builder.left, builder.projection, opened.read)
    names = {SCHEMA_HEADER: segment.header.schema}
    if segment.header.schema_id is not None:
        names[SCHEMA_ID_HEADER] = str(segment.header.schema_id)
    where = _where("segment", opened.source, opened.at)
    if rows.table is not None and not builder.add(rows.table, segment.topic, names, where):
        return None
    after = {opened.key: opened.at + rows.examined}
    return _Slice(0, after, {opened.key: opened.source}, opened)


def _where(what: str, source: Message, at: int) -> str:
    return f"{what} at {address_of(source)} (position {at})"
