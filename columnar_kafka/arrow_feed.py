"""The feed's second way out: records as Arrow tables, in the same order and from the same queue.

What is to become a table stays among the messages that are held, and counts as handed out when the
table is taken. So a rebalance, a seek, an exception or a cancelled call meanwhile neither loses nor
doubles a record, and what does not go with the rest just stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from columnar_kafka import position, wire
from columnar_kafka.errors import ColumnarError, RowError, SegmentError
from columnar_kafka.feed import (
    HELD_BYTES,
    Feed,
    Open,
    Taking,
    bytes_of,
    never,
    offset_of,
    partition_of,
)
from columnar_kafka.record import event_error
from columnar_kafka.table import Batch, plain_rows, segment_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from confluent_kafka import Message, TopicPartition

    from columnar_kafka.config import Limits
    from columnar_kafka.feed import Stops
    from columnar_kafka.ledger import Partition
    from columnar_kafka.plain.base import Formats
    from columnar_kafka.selection import Selection

__all__ = ["ArrowFeed", "Found", "Request"]

_RUN: Final = 1 << 20
"""Plain messages that are decoded at once, at most."""

_FETCH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one call wants as a table: up to `most` records, as soon as there are `least`.

    They take about as much memory as one segment may, and have the `schema` if there is one. With
    `single` they are out of one segment, or out of plain messages.
    """

    selection: Selection
    formats: Formats
    limits: Limits
    least: int
    most: int
    single: bool = False
    schema: pa.Schema | None = None


class Found:
    """The next records as a table, or the error that comes instead of them."""

    def __init__(
        self,
        hand_out: Callable[[], None],
        table: pa.Table | None = None,
        error: KafkaException | None = None,
        *,
        is_all: bool = False,
    ) -> None:
        """`is_all` says that nothing is held that is not in the table."""
        self.rows = 0 if table is None else table.num_rows
        self.table = table
        self.is_all = is_all
        self._hand_out = hand_out
        self._error = error

    def take(self) -> pa.Table:
        """Return the table, or raise the error: it counts as handed out from now on.

        Nothing else may have been done with the feed since it was found.
        """
        self._hand_out()  # a function of Python's: see `Feed._hand_out`
        if self._error is not None:
            raise self._error
        return self.table


@dataclass(slots=True)
class _Pass:
    """Kafka messages the rows of which are in a table, and the positions after these rows."""

    messages: int
    after: dict[Partition, int]
    last: dict[Partition, Message]
    opened: Open | None = None
    resumed: list[TopicPartition] = field(default_factory=list)


class ArrowFeed(Feed):
    """Hands out messages one by one, and tables. One thread at a time."""

    _run = _RUN
    # So many messages in front of what is held are of one topic and plain; the last of them.
    _known_plain: tuple[int, Message | None] = (0, None)

    def find(self, request: Request, timeout: float, stops: Stops = never) -> Found | None:
        """Return the next records; None after `timeout` seconds without any, or when it `stops`.

        `Found.take` hands them out, or raises:

        * KafkaException: the next message is an error event;
        * SegmentError: it is a segment that cannot be read;
        * RowError: it is a plain message that cannot be decoded;
        * SchemaError: it does not have the columns that are asked for. Only this one stays.
        """
        deadline = self._clock() + timeout if timeout >= 0 else float("inf")
        self._changes += 1
        self._put_back()
        more = 0
        while not stops():
            self._serve_if_due()
            self._after_serving()
            is_enough = self._gather(request, more, deadline, stops)
            if stops():
                break
            found = self._found(request) if self._is_resolved(deadline) else None
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

    def _gather(self, request: Request, more: int, deadline: float, stops: Stops) -> bool:
        """Hold as many rows as are wanted and go together, or those that come by the deadline.

        Returns whether there are as many as are wanted and so many `more`.
        """
        most = min(request.most + more, self._run)
        wanted = request.least + more
        least = min(wanted, most)
        timeout = 0.0  # first what has arrived
        while True:
            changes = self._changes
            run = _Run(request.selection, self._open)
            run.add(list(islice(self._held, most)))
            while changes == self._changes:  # a callback may take some of it away: then count again
                self._known_plain = run.plain, run.last
                if run.has(most) or self._is_full(most):
                    return run.rows >= wanted
                self._serve_all(run, most, timeout)
                self._after_serving()
                is_enough = run.has(least) or self._clock() >= deadline or stops()
                if changes == self._changes and is_enough:
                    self._known_plain = run.plain, run.last
                    return run.rows >= wanted
                timeout = self._step(deadline)

    def _plain_in_front(self) -> int:
        """Return how many messages are known to be plain, if no callback has taken any of them."""
        count, last = self._known_plain
        if self._open is not None or self._unresolved or not 0 < count <= len(self._held):
            return 0
        return count if self._held[count - 1] is last else 0

    def _serve_all(self, run: _Run, most: int, timeout: float) -> None:
        """Let librdkafka run callbacks, and hold what it has until there are `most` rows."""
        self._begin_serving()
        self._resume_held_back()
        changes, count = self._changes, 1
        while True:
            before = self._held_bytes
            new = self._fetch_some(min(count, most - run.rows), timeout)
            run.add(new)
            is_enough = run.has(most) or self._is_full(most)
            if len(new) < count or is_enough or changes != self._changes:
                break
            # Not much more than is wanted, and than there is room for.
            each = (self._held_bytes - before) // len(new)
            count = min(2 * count, _FETCH, 1 + (HELD_BYTES - self._held_bytes) // each)
            timeout = 0.0
        self._served = self._clock()

    def _fetch_some(self, count: int, timeout: float) -> list[Message]:
        """Fetch up to so many messages, waiting for each; hold and return them."""
        fetched = islice(iter(partial(self._broker.poll, timeout), None), count)
        held, before, changes = self._held, len(self._held), self._changes
        try:
            if self._paused:
                return [message for message in fetched if self._keep(message)]
            # No statement of Python's for each, which would take as long as the poll. Nor one call
            # of librdkafka's for all: an exception in it would lose them, and what a callback in it
            # takes away could not be told from what came after.
            held.extend(fetched)
        except BaseException:
            self._interrupted = True
            raise
        if changes != self._changes:
            self.pause(list(self._paused))  # what came since, and was not known as paused
            self._hold(list(held), self._parked, self._open)
            return []
        new = list(islice(reversed(held), len(held) - before))[::-1]
        self._held_bytes += bytes_of(new)
        return new

    def _is_resolved(self, deadline: float) -> bool:
        """Learn where the group left off in the next message's partition, if need be."""
        if self._open is not None or not self._held:
            return True
        source = self._held[0]
        if source.error() is not None or partition_of(source) not in self._unresolved:
            return True
        if not self._resolve(deadline):
            self._serve(self._step(deadline))
            return False
        return True

    def _stopped(self) -> bool:
        """Say whether there is more, in partitions of which it is not known where they begin."""
        return bool(self._unresolved) and any(
            each.error() is None and partition_of(each) in self._unresolved for each in self._held
        )

    # --- one table ------------------------------------------------------------------------------

    def _found(self, request: Request) -> Found | None:
        """Make a table of what is open and held, as far as it goes together; None of no rows."""
        batch = Batch(
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
        found = Found(lambda: self._pass_all(passes), batch.table(), is_all=is_all)
        if not batch.rows:  # a filter left nothing of what was looked at
            found.take()
            return None
        return found

    def _runs(self, request: Request) -> Iterator[Open | list[Message]]:
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
            if is_event or wire.is_segment(message.headers()):
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

    def _longest(self, topic: str | None, request: Request) -> int:
        """Return how many plain messages of a topic are decoded at once."""
        return 1 if request.formats.are_tables(topic or "") else min(request.most, self._run)

    def _added(self, run: Open | list[Message], batch: Batch, request: Request) -> _Pass | None:
        """Add a run's rows to a table; None if they do not go with it."""
        if isinstance(run, Open):
            return _add_segment(run, batch)
        source = run[0]
        if source.error() is not None:
            raise KafkaException(event_error(source))
        if not wire.is_segment(source.headers()):
            return self._add_plain(run[: batch.left], batch, request)
        key = partition_of(source)
        segment = self.read(source)
        self._forget_start(key)
        start, resumed = self._start(key, segment)
        found = _add_segment(Open(key, source, segment, segment.offset + start), batch)
        if found is not None:
            found.messages, found.resumed = 1, resumed
        return found

    def _add_plain(self, run: list[Message], batch: Batch, request: Request) -> _Pass | None:
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

    def _pass_all(self, passes: list[_Pass]) -> None:
        """Hand out what is in a table."""
        taking = Taking(self._open)
        for each in passes:
            for key, after in each.after.items():
                self._forget_start(key)
                taking.after[key] = after
                taking.epochs[key] = each.last[key].leader_epoch()
            if each.opened is not None:
                segment, [key] = each.opened.segment, each.after
                self._ledger.mark_committed(each.resumed)
                self._ledger.opened(key, segment.kafka_offset, segment.id, segment.rows)
                taking.inside(each.opened, each.after[key])
        self._move(sum(each.messages for each in passes))
        self._hand_out(taking)

    def _failed(self, run: Open | list[Message], error: KafkaException) -> Found:
        """Go on after what is reported as an error; what is only asked for wrongly stays."""
        source = run.source if isinstance(run, Open) else run[0]
        stays = isinstance(error, ColumnarError) and not isinstance(error, SegmentError | RowError)
        return Found(lambda: None if stays else self._take_whole(source), error=error)


def _add_segment(opened: Open, batch: Batch) -> _Pass | None:
    """Add the next rows of a segment to a table."""
    segment = opened.segment
    rows = segment_rows(segment, opened.row, batch.left, batch.selection, opened.read)
    names = {wire.SCHEMA: segment.header.schema}
    if segment.header.schema_id is not None:
        names[wire.SCHEMA_ID] = str(segment.header.schema_id)
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
        if len(topics) == 1 and errors == {None} and wire.ENCODING not in names
        else None
    )


class _Run:
    """Counts the rows that may become one table, as far as their headers tell."""

    def __init__(self, selection: Selection, opened: Open | None) -> None:
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
            elif wire.is_segment(message.headers()):
                self._add_segment(message)
            else:
                self._count(message.topic(), "", 1)
            if self._is_ended:
                return

    def _add_segment(self, message: Message) -> None:
        try:
            header, _ = wire.parse(message.headers())
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
