"""What is about to be handed out, and the one step in which that happens.

Records wait in an iterator written in C. The last thing a call does is to take one from there and
return it:

    for message in ready.left:
        return message

No signal handler and no other thread runs between the taking and the user's own line, so a message
is either still here or the user's. Several messages are taken as one list, the only item of an
iterator. Why that is so, and the other rules for all code of this room: docs/design.md, "The rules
about threads and signals". Comments mark the steps of its second rule with "all or nothing".
"""

from __future__ import annotations

from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple

from columnar_kafka import position
from columnar_kafka.consuming.feed.kafka_message import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import confluent_kafka
    from confluent_kafka import KafkaException

    from columnar_kafka.consuming.feed.open_segment import OpenSegment
    from columnar_kafka.message import Message
    from columnar_kafka.offsets import Partition

__all__ = ["Found", "Part", "Progress", "Ready"]


class Part(NamedTuple):
    """The messages `begin` to `end` of those that are ready: they come from one Kafka message.

    They are records from position `at` on of the segment that is `opened`, or it is None and the
    one message is the whole of its source.
    """

    begin: int
    end: int
    source: confluent_kafka.Message
    opened: OpenSegment | None
    at: int


class Ready:
    """Messages in the order in which they are handed out.

    First they are gathered, as many as a call wants. Then `publish` lets any thread take them, one
    by one from `left`, or many at once as the one list in `many`. From then on none is added any
    more. `withdraw` ends that.
    """

    __slots__ = (
        "_at_once",
        "_upto",
        "_withdrawn",
        "handled",
        "handled_parts",
        "is_published",
        "left",
        "many",
        "messages",
        "parts",
    )

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.parts: list[Part] = []
        self.left: Iterator[Message] = iter(())
        self.many: Iterator[list[Message]] = iter(())
        self.handled = 0  # messages that were taken, and that the offset store knows of
        self.handled_parts = 0  # parts all of whose messages are handled
        self.is_published = False  # now, or once
        self._upto = 0  # messages that were taken, can be taken, or were withdrawn since
        self._at_once = 0  # how many of these are in `many`
        self._withdrawn: list[Message] = []

    def count_left(self) -> int:
        """Return how many messages were not taken."""
        return len(self.messages) - self.count_taken()

    def count_taken(self) -> int:
        """Return how many messages were taken."""
        still = length_hint(self.left) + self._at_once * length_hint(self.many)
        return self._upto - still - len(self._withdrawn)

    def publish(self, count: int) -> None:
        """Let up to `count` be taken at once; or, if it is one, all of them one by one."""
        if length_hint(self.left) or length_hint(self.many):
            if count == 1 and length_hint(self.left):
                return
            self.withdraw()
        begin = self._upto - len(self._withdrawn)
        upto = len(self.messages) if count == 1 else min(begin + count, len(self.messages))
        batch, withdrawn = self.messages[begin:upto], list[Any]()
        left = iter(batch if count == 1 else ())
        many = iter((batch,) if batch and count > 1 else ())
        # All or nothing.
        self._upto, self._at_once, self._withdrawn = upto, upto - begin, withdrawn
        self.left, self.many, self.is_published = left, many, True

    def take(self, count: int) -> list[Message]:
        """Return what was published for this `count`; nothing if other threads have taken it."""
        for message in self.left if count == 1 else ():
            return [message]
        for messages in self.many if count > 1 else ():
            return messages
        return []

    def withdraw(self) -> None:
        """Let no more be taken."""
        left, many = self.left, chain.from_iterable(self.many)
        self._withdrawn += left  # in one step each: what is taken meanwhile is not in it
        self._withdrawn += many


class Progress:
    """What to record once something has been handed out."""

    __slots__ = ("after", "at", "ends", "epochs", "messages", "opened", "rest")

    def __init__(self, opened: OpenSegment | None) -> None:
        """Begin in the segment that is open, or with the first buffered message."""
        self.opened = opened  # the segment that is open afterwards, at position `at`
        self.at = 0 if opened is None else opened.at
        self.messages = 0  # how many buffered messages are done with, those `together` as one
        self.rest: Sequence[confluent_kafka.Message] = ()  # what is left of the last of them
        self.after: dict[Partition, int] = {}
        self.epochs: dict[Partition, int | None] = {}
        self.ends: dict[Partition, int | None] = {}

    def pass_message(self, source: confluent_kafka.Message, after: int) -> None:
        """Add what comes of a Kafka message, up to a position."""
        key = partition_of(source)
        self.after[key] = after
        self.epochs[key] = source.leader_epoch()

    def pass_records(self, opened: OpenSegment, at: int) -> None:
        """Add a segment's records up to a position; the next record follows there."""
        self.pass_message(opened.source, at)
        self.at = at
        self.opened = opened if at % position.MAX_ROWS else None


class Found:
    """A table, a segment, or the error that comes instead: one call's own, to be taken once."""

    def __init__(
        self,
        progress: Progress | None,
        result: Any = None,
        error: KafkaException | None = None,
    ) -> None:
        """`progress` is recorded once the result was taken; None for an error that stays."""
        self.progress = progress
        self.result = result
        self._error = error
        self._left = iter((None,))
        self._withdrawn: list[None] | None = None

    def take(self) -> Any:
        """Return the result or raise the error, which counts as handed out from now on.

        None if it was withdrawn: another thread has done something with the consumer since.
        """
        for _ in self._left:  # one step, also for the caller: no call in C comes in between
            if self._error is not None:
                raise self._error
            return self.result
        return None

    def withdraw(self) -> None:
        """Let it not be taken any more."""
        if self._withdrawn is None:
            self._withdrawn = [*self._left]

    @property
    def is_taken(self) -> bool:
        """Whether it was taken."""
        return not (length_hint(self._left) if self._withdrawn is None else self._withdrawn)
