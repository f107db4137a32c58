"""Consumers of one group against lists: no record is skipped, and none comes out of its order."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from inside import broker_of, commits_of
from segments import segment

from columnar_kafka import SegmentError, position
from columnar_kafka.consuming.feed import fetch_buffer, poller
from columnar_kafka.consuming.group import commits
from columnar_kafka.testing import FakeKafka

PARTITIONS = st.integers(0, 1)
WHO = st.integers(0, 1)
METADATA = st.just("1:1:somebody-elses") | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), max_size=40
)
MOST = 60  # entries in a partition


@dataclass(frozen=True)
class Entry:
    """A record, a plain message or a bad segment; `first` is the index of its message's first."""

    at: int
    value: Any
    first: int


@dataclass
class Place:
    """One member's view of a partition that it owns."""

    cursor: int  # the index of the next entry
    resolved: bool = False  # whether it knows what the group has committed
    taken: bool = False  # since it came, or the last seek
    moved: int | None = None  # what the next commit is of
    known: int = -1  # what is committed, as far as the member knows
    opened: set[int] = field(default_factory=set)  # the first entries of segments it has opened


class Member:
    """A consumer, and what it must know."""

    def __init__(self, group: Group, *, auto: bool, by_hand: bool) -> None:
        config = {
            "group.id": "g",
            "columnar.encoding": "parquet",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": auto,
            "auto.commit.interval.ms": 60_000,
            "enable.auto.offset.store": not by_hand,
        }
        self.auto, self.by_hand = auto, by_hand
        self.places: dict[int, Place] = {}
        self.had: set[int] = set()
        self.paused: set[int] = set()
        self.lost = False
        self.last: Any = None
        self._group = group
        self.consumer = group.kafka.Consumer(config)
        self.consumer.subscribe(
            ["t"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _assigned(self, _: Any, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self.places[partition.partition] = Place(
                self._group.committed.get(partition.partition, 0)
            )
        for partition in partitions:
            if partition.partition in self.had:  # it comes back: asked at once
                self.resolve(self.places[partition.partition])

    def _revoked(self, _: Any, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            place = self.places.pop(partition.partition)
            self.had.add(partition.partition)
            if self.auto and place.moved is not None and place.moved > place.known:
                self._group.committed[partition.partition] = place.moved

    def _lost(self, _: Any, partitions: list[TopicPartition]) -> None:
        self.lost = False
        for partition in partitions:
            del self.places[partition.partition]
            self.had.add(partition.partition)

    def expect(self, message: Any) -> None:
        """Check that it is the next entry of a partition that is this member's."""
        partition = message.partition()
        assert partition not in self.paused
        place, entries = self.places[partition], self._group.entries[partition]
        entry = entries[place.cursor]
        value = message.value()["n"] if isinstance(message.value(), dict) else message.value()
        value = message.error().name() if message.error() is not None else value
        assert (message.offset(), value) == (entry.at, entry.value)
        self.resolve(place)
        self.pass_by(place, partition, 1)
        self.last = message

    def resolve(self, place: Place) -> None:
        """When one partition has to be asked for, all are of which it is not known."""
        if not place.resolved:
            for number, other in self.places.items():
                if not other.resolved:
                    other.resolved, other.known = True, self._group.committed.get(number, -1)

    def pass_by(self, place: Place, partition: int, count: int) -> list[Entry]:
        """Go on after so many entries, and return them."""
        passed = self._group.entries[partition][place.cursor : place.cursor + count]
        place.cursor += count
        place.taken = True
        place.opened |= {entry.first for entry in passed if entry.value != "_BAD_MSG"}
        if not self.by_hand:
            place.moved = place.cursor
        return passed

    def expect_bad(self, error: SegmentError) -> None:
        """Check that the next entry of the partition named is a bad segment, and it is passed."""
        partition = int(re.findall(r"t\[(\d)\]@", str(error))[0])
        assert partition not in self.paused
        place = self.places[partition]
        [entry] = self.pass_by(place, partition, 1)
        assert entry.value == "_BAD_MSG"

    def consume_arrow(self, count: int, before: int, columns: list[str] | None) -> int:
        """Take up to `count` records before a position as a table; return how many it passed."""
        condition = pc.field("_kafka", "offset") < before if before else None
        try:
            table = self.consumer.consume_arrow(count, 0, columns, filter=condition)
        except SegmentError as error:
            partition = int(re.findall(r"t\[(\d)\]@", str(error))[0])
            self.resolve(self.places[partition])
            self.expect_bad(error)
            return 1
        offsets: dict[int, list[int]] = {0: [], 1: []}
        for value in [] if table is None else table["_kafka"].to_pylist():
            offsets[value["partition"]].append(value["offset"])
        assert table is None or 0 < table.num_rows <= count
        passed = 0
        for reached in self.consumer.position([TopicPartition("t", n) for n in self.places]):
            place, entries = self.places[reached.partition], self._group.entries[reached.partition]
            if reached.offset < 0:  # nothing was taken since it came
                assert offsets[reached.partition] == []
                continue
            at = next(n for n in range(len(entries) + 1) if n == len(entries)
                      or entries[n].at >= reached.offset)  # fmt: skip
            if at == place.cursor:
                assert offsets[reached.partition] == []
                continue
            assert reached.partition not in self.paused
            self.resolve(place)
            new = self.pass_by(place, reached.partition, at - place.cursor)
            assert not any(entry.value == "_BAD_MSG" for entry in new)
            chosen = [entry.at for entry in new if not before or entry.at < before]
            assert chosen == offsets[reached.partition]
            passed += len(new)
        if table is not None and columns is None:
            self.check_values(table)
        return passed

    def check_values(self, table: pa.Table) -> None:
        """Check that each row's value is that of the entry at its position."""
        name = "n" if "n" in table.schema.names else "value"
        for value, place in zip(table[name].to_pylist(), table["_kafka"].to_pylist(), strict=True):
            entries = self._group.entries[place["partition"]]
            assert value in [entry.value for entry in entries if entry.at == place["offset"]]

    def poll_segment(self) -> None:
        """Take the next segment whole, also one of which some records were taken already."""
        try:
            segment = self.consumer.poll_segment(0)
        except SegmentError as error:
            self.expect_bad(error)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:  # a plain message stays
                raise
        else:
            if segment is None:
                return
            assert segment.partition not in self.paused
            place = self.places[segment.partition]
            entries = self._group.entries[segment.partition]
            first = next(n for n, entry in enumerate(entries) if entry.at >= segment.offset)
            assert first <= place.cursor < first + segment.rows
            values = [record.value["n"] for record in segment.records()]
            assert values == [entry.value for entry in entries[first : first + segment.rows]]
            self.pass_by(place, segment.partition, first + segment.rows - place.cursor)

    def poll(self, count: int = 1) -> int:
        """Take up to `count` records; return how many there were."""
        messages = self.consumer.consume(count, 0)
        for message in messages:
            self.expect(message)
        return len(messages)


class Group(RuleBasedStateMachine):
    """Two partitions, up to two members, and the group's committed places as indexes."""

    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 2)
        self.entries: dict[int, list[Entry]] = {0: [], 1: []}
        self.committed: dict[int, int] = {}
        self.members: list[Member | None] = [None, None]
        self.numbers = iter(range(1_000_000))
        self.before = poller.SERVE_EVERY, fetch_buffer.MOST_MESSAGES
        poller.SERVE_EVERY, fetch_buffer.MOST_MESSAGES = 0, 3  # type: ignore[misc]

    def teardown(self) -> None:
        for member in self.members:
            if member is not None:
                member.consumer.close()
        poller.SERVE_EVERY, fetch_buffer.MOST_MESSAGES = self.before  # type: ignore[misc]

    @initialize(auto=st.booleans(), by_hand=st.booleans())
    def begin(self, *, auto: bool, by_hand: bool) -> None:
        for partition in (0, 1):
            for rows in (3, 0, 4):
                self.append(partition, rows)
        self.members[0] = Member(self, auto=auto, by_hand=by_hand)

    def member(self, who: int) -> Member | None:
        return self.members[who] or self.members[1 - who]

    def first_of(self, partition: int, index: int) -> int:
        """Return where the message begins that holds this entry, or the end."""
        entries = self.entries[partition]
        return entries[index].first if index < len(entries) else index

    # --- the topic --------------------------------------------------------------------------------

    @rule(partition=PARTITIONS, rows=st.integers(-1, 5))
    def append(self, partition: int, rows: int) -> None:
        """A segment of so many rows; 0 is a plain message, -1 a segment that is damaged."""
        entries = self.entries[partition]
        if len(entries) > MOST:
            return
        offset, first = self.kafka.end("t", partition), len(entries)
        numbers = [next(self.numbers) for _ in range(max(rows, 1))]
        if rows == 0:
            self.kafka.append("t", partition, b"%d" % numbers[0])
            entries.append(Entry(position.pack(offset), b"%d" % numbers[0], first))
            return
        made = segment(pa.table({"n": numbers}), offset=offset, number=2 * offset + partition)
        value = made.value if rows > 0 else made.value[:-1] + b"?"
        self.kafka.append("t", partition, value, headers=list(made.headers))
        if rows < 0:
            entries.append(Entry(position.pack(offset), "_BAD_MSG", first))
            return
        entries += [
            Entry(position.pack(offset, row, rows), n, first) for row, n in enumerate(numbers)
        ]

    # --- taking -----------------------------------------------------------------------------------

    @rule(who=WHO, count=st.integers(1, 6))
    def poll(self, who: int, count: int) -> None:
        member = self.member(who)
        if member is not None:
            member.poll(count)

    @rule(
        who=WHO,
        count=st.integers(1, 8),
        columns=st.sampled_from([None, ["_kafka"], ["_kafka.partition", "_kafka.offset"]]),
        data=st.data(),
    )
    def consume_arrow(
        self, who: int, count: int, columns: list[str] | None, data: st.DataObject
    ) -> None:
        member = self.member(who)
        if member is not None:
            some = [0, *(entry.at for entry in (*self.entries[0], *self.entries[1])[:40])]
            member.consume_arrow(count, data.draw(st.sampled_from(some)), columns)

    @rule(who=WHO)
    def poll_segment(self, who: int) -> None:
        member = self.member(who)
        if member is not None:
            member.poll_segment()

    @rule()
    def all_that_is_there_comes(self) -> None:
        """When nothing changes any more, every member gets to the end of what it owns."""
        members = [member for member in self.members if member is not None]
        quiet = 0
        while quiet < 6:
            quiet = 0 if sum(member.poll(50) for member in members) else quiet + 1
        owned = [partition for member in members for partition in member.places]
        assert sorted(owned) == ([0, 1] if members else [])
        for member in members:
            for partition, place in member.places.items():
                if partition not in member.paused:
                    assert place.cursor == len(self.entries[partition])

    @rule(who=WHO, partition=PARTITIONS, data=st.data())
    def seek(self, who: int, partition: int, data: st.DataObject) -> None:
        member = self.member(who)
        if member is None or partition not in member.places:
            return
        place, entries = member.places[partition], self.entries[partition]
        index = data.draw(st.integers(0, len(entries)))
        at = entries[index].at if index < len(entries) else entries[-1].at + 1
        if index < len(entries) and index == entries[index].first:
            at -= data.draw(st.integers(0, 5))  # before the first row, inside the offset
        member.consumer.seek(TopicPartition("t", partition, at))
        place.cursor, place.taken, place.resolved = index, False, True

    @rule(who=WHO, partition=PARTITIONS, pause=st.booleans())
    def pause_or_resume(self, who: int, partition: int, *, pause: bool) -> None:
        member = self.member(who)
        if member is None:
            return
        if pause:
            member.consumer.pause([TopicPartition("t", partition)])
            member.paused.add(partition)
        else:
            member.consumer.resume([TopicPartition("t", partition)])
            member.paused.discard(partition)

    # --- committing -------------------------------------------------------------------------------

    @rule(who=WHO, asynchronous=st.booleans())
    def commit(self, who: int, *, asynchronous: bool) -> None:
        member = self.member(who)
        if member is None:
            return
        wanted = {
            partition: place.moved
            for partition, place in member.places.items()
            if place.moved is not None and place.moved > place.known
        }
        if asynchronous:
            member.consumer.commit()
            refused = member.lost
        else:
            refused = not self.commits(member, wanted)
        if not refused:
            self.committed |= wanted
            for partition, index in wanted.items():
                member.places[partition].known = index
        if asynchronous:
            member.poll()  # its result is served

    def commits(self, member: Member, wanted: Any, **given: Any) -> bool:
        """Commit synchronously; say whether it was accepted, as it must be."""
        if wanted and not member.lost:
            member.consumer.commit(asynchronous=False, **given)
            return True
        with pytest.raises(KafkaException) as raised:
            member.consumer.commit(asynchronous=False, **given)
        expected = KafkaError.UNKNOWN_MEMBER_ID if wanted else KafkaError._NO_OFFSET
        assert raised.value.args[0].code() == expected
        return False

    @rule(who=WHO)
    def commit_the_last_message(self, who: int) -> None:
        member = self.member(who)
        if member is None or member.last is None:
            return
        partition = member.last.partition()
        place = member.places.get(partition)
        entries = self.entries[partition]
        [index] = [n for n, entry in enumerate(entries) if entry.at == member.last.offset()]
        if place is None or not place.resolved or entries[index].first not in place.opened:
            return
        if self.commits(member, member.last, message=member.last):
            self.committed[partition] = place.known = index + 1

    @rule(who=WHO, partition=PARTITIONS, data=st.data())
    def commit_any_place(self, who: int, partition: int, data: st.DataObject) -> None:
        """If the member has not opened the segment, its start is committed."""
        member = self.member(who)
        place = None if member is None else member.places.get(partition)
        if member is None or place is None or not place.resolved:
            return  # where it begins is asked with its first message: what is committed now counts
        entries = self.entries[partition]
        index = data.draw(st.integers(0, len(entries) - 1))
        offsets = [TopicPartition("t", partition, entries[index].at)]
        if self.commits(member, offsets, offsets=offsets):
            known = entries[index].first in place.opened
            place.known = index if known else entries[index].first
            self.committed[partition] = place.known

    @rule(who=WHO)
    def store(self, who: int) -> None:
        member = self.member(who)
        if member is None or not member.by_hand or member.last is None:
            return
        partition = member.last.partition()
        place, entries = member.places.get(partition), self.entries[partition]
        [index] = [n for n, entry in enumerate(entries) if entry.at == member.last.offset()]
        if place is not None and place.resolved and entries[index].first in place.opened:
            member.consumer.store_offsets(member.last)
            place.moved = index + 1

    @rule(partition=PARTITIONS, metadata=METADATA)
    def somebody_garbles_what_is_committed(self, partition: int, metadata: str) -> None:
        stored = self.kafka.committed("g", "t", partition)
        pending = [m for m in self.members if m and partition in m.places]
        if stored.offset < 0 or any(not member.places[partition].resolved for member in pending):
            return
        self.kafka.commit("g", [TopicPartition("t", partition, stored.offset, metadata)])
        self.committed[partition] = self.first_of(partition, self.committed[partition])

    # --- members ----------------------------------------------------------------------------------

    @rule(who=WHO, auto=st.booleans(), by_hand=st.booleans())
    def join(self, who: int, *, auto: bool, by_hand: bool) -> None:
        if self.members[who] is None:
            self.members[who] = Member(self, auto=auto, by_hand=by_hand)

    @precondition(lambda self: any(self.members))
    @rule(who=WHO)
    def leave(self, who: int) -> None:
        member = self.members[who]
        if member is not None and not member.lost:
            member.consumer.close()
            assert member.places == {}
            self.members[who] = None

    @rule(who=WHO)
    def die(self, who: int) -> None:
        """Killed: nothing is committed, and the group learns of it in its own time."""
        member = self.members[who]
        if member is not None:
            member.consumer.memory.expel()
            self.members[who] = None

    @rule(who=WHO)
    def expel(self, who: int) -> None:
        """The group takes a member for dead, which learns of that when it polls."""
        member = self.members[who]
        if member is not None and member.places:
            member.consumer.memory.expel()
            member.lost = True

    # --- what holds always ------------------------------------------------------------------------

    @invariant()
    def places_are_told_as_they_are(self) -> None:
        Group.steps += 1
        for member in filter(None, self.members):
            owned = [TopicPartition("t", partition) for partition in member.places]
            for reached in member.consumer.position(owned):
                place, entries = member.places[reached.partition], self.entries[reached.partition]
                expected = entries[place.cursor - 1].at + 1 if place.taken else -1001
                assert reached.offset == expected
            for resumed in member.consumer.committed(owned, 1):
                entries = self.entries[resumed.partition]
                index = self.committed.get(resumed.partition, -1)
                stored = self.kafka.committed("g", "t", resumed.partition)
                if "somebody" in (stored.metadata or ""):
                    continue  # that the segment is another one is not known before it is there
                if 0 <= index < len(entries) and index != entries[index].first:
                    assert resumed.offset == entries[index].at
                else:  # the start of an offset, which is before its first row
                    after = entries[index - 1].at + 1 if index > 0 else 0
                    assert resumed.offset == (after if index >= 0 else -1001)


def test_a_commit_that_cannot_be_begun_loses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is raised when no record is in hand."""
    monkeypatch.setattr(poller, "SERVE_EVERY", 0)
    kafka = FakeKafka()
    kafka.create_topic("t")
    for n in range(6):
        kafka.append("t", 0, b"%d" % n)
    consumer = kafka.Consumer(
        {"group.id": "g", "columnar.encoding": "parquet", "auto.commit.interval.ms": 1}
    )

    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    monkeypatch.setattr(broker_of(consumer), "commit", refuse)
    consumer.assign([TopicPartition("t", 0, 0)])
    values, errors = [], 0
    for _ in range(100):
        try:
            values += [message.value() for message in consumer.consume(4, 0.002)]
        except KafkaException:
            errors += 1
    assert (values, errors > 0) == ([b"0", b"1", b"2", b"3", b"4", b"5"], True)


def test_automatic_commits_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that librdkafka sends again does not take back later ones."""
    now = itertools.count()
    monkeypatch.setattr(poller, "SERVE_EVERY", 0)
    monkeypatch.setattr(commits, "time", SimpleNamespace(monotonic=lambda: next(now) / 1000))
    kafka = FakeKafka()
    kafka.create_topic("t")
    consumer = kafka.Consumer(
        {"group.id": "g", "columnar.encoding": "parquet", "auto.commit.interval.ms": 1}
    )
    sent: list[int] = []

    def send(offsets: list[TopicPartition], **_: Any) -> None:
        sent.append(offsets[0].offset)

    monkeypatch.setattr(broker_of(consumer), "commit", send)
    consumer.assign([TopicPartition("t", 0, 0)])

    def take(count: int) -> None:
        for _ in range(count):
            kafka.append("t", 0, b"")
            assert consumer.poll(60) is not None

    take(5)
    assert sent == [1]
    commits_of(consumer).answered(None, [TopicPartition("t", 0, 1)])
    take(5)
    assert sent == [1, 5]


Group.TestCase.settings = settings(stateful_step_count=50)
TestGroup = Group.TestCase
