"""A consumer's place in its group: it subscribes, answers rebalances, and leaves."""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException, TopicPartition

from columnar_kafka import position
from columnar_kafka.offsets import (
    Partition,
    key_of,
    to_kafka_offset,
    to_kafka_offsets,
    to_positions,
)
from columnar_kafka.runtime import lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.broker.traced_classes import StockConsumer
    from columnar_kafka.consuming.feed.feed import Feed
    from columnar_kafka.consuming.group.callback_errors import CallbackErrors
    from columnar_kafka.consuming.group.commits import Commits
    from columnar_kafka.consuming.settings import ClientSettings

__all__ = ["GroupMembership", "Phase"]

_LEAVE: Final = 1.0  # seconds
_LEAVE_POLL: Final = 0.01

Callbacks = dict[str, "Callable[[list[TopicPartition]], object]"]


class Phase(Enum):
    """Where a consumer is in its life.

    ALONE → MEMBER by `subscribe`; either → CLOSING by `close`; CLOSING → ABORTING when leaving is
    interrupted; both → CLOSED, for good, when the client is closed.
    """

    ALONE = auto()  # never subscribed: partitions are assigned by hand
    MEMBER = auto()
    CLOSING = auto()  # librdkafka takes no assignment any more
    ABORTING = auto()  # and nothing is committed any more
    CLOSED = auto()


_ENDING: Final = frozenset({Phase.CLOSING, Phase.ABORTING, Phase.CLOSED})


class Rebalance(Enum):
    """The rebalance callback that is running; at its end the one around it, or NONE, again.

    ASSIGNING → ANSWERED when the callback itself assigns or unassigns partitions.
    """

    NONE = auto()
    ASSIGNING = auto()
    ANSWERED = auto()
    REVOKING = auto()  # partitions are committed before they are given back
    LOSING = auto()  # and here they are not: they belong to another member already


def _nothing() -> None: ...


def together(at_broker: Callable[[], object], follow: Callable[[], None]) -> None:
    """Change librdkafka and then the feed: both, or none.

    A signal's handler may raise in between.
    """
    try:
        at_broker()
        follow()
    except (KafkaException, TypeError, ValueError, RuntimeError):  # librdkafka has refused it
        raise
    except BaseException:
        follow()
        raise


class GroupMembership:
    """Which partitions the consumer has, whether from its group or by hand. Thread-safe.

    Methods with confluent-kafka's names have the contracts of `Consumer`'s; they wait for their
    turn to call librdkafka. Both states change only in the thread whose turn it is.
    """

    def __init__(
        self,
        base: StockConsumer,
        broker: ConsumerBroker,
        feed: Feed,
        commits: Commits,
        settings: ClientSettings,
        errors: CallbackErrors,
    ) -> None:
        """Begin outside the group; `base` has the consumer's own stock methods."""
        self.phase = Phase.ALONE
        self._rebalance = Rebalance.NONE
        self._base = base
        self._broker = broker
        self._feed = feed
        self._commits = commits
        self._settings = settings
        self._errors = errors
        self._granted: set[Partition] = set()  # by the group: given back before the end

    @property
    def _is_closing(self) -> bool:
        return self.phase in (Phase.CLOSING, Phase.ABORTING)

    # --- rebalances -----------------------------------------------------------------------------

    def subscribe(self, consumer: object, topics: list[str], callbacks: Mapping[str, Any]) -> None:
        """Subscribe; `callbacks`, by confluent-kafka's names, get `consumer` and positions."""
        for name, callback in callbacks.items():
            if not callable(callback):
                raise TypeError(f"{name} expects a callable")
        bound: Callbacks = {
            name: partial(callback, consumer) for name, callback in callbacks.items()
        }
        calls = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._lost}
        guarded: Any = {
            name: self._errors.guard(partial(call, bound), self._feed.interrupted)
            for name, call in calls.items()
        }
        self._feed.run_alone(partial(self._subscribe, topics, guarded))
        self._feed.serve_soon()

    def _subscribe(self, topics: list[str], callbacks: Mapping[str, Any]) -> None:
        self._base.subscribe(topics, **callbacks)
        if self.phase is Phase.ALONE:
            self.phase = Phase.MEMBER

    def unsubscribe(self) -> None:
        """Leave the subscription; the next `poll` gives the partitions back."""
        self._feed.run_alone(self._base.unsubscribe)
        self._feed.serve_soon()

    def _assigned(self, callbacks: Callbacks, _: Any, partitions: list[TopicPartition]) -> None:
        self._granted |= set(map(key_of, partitions))
        self._feed.assign(partitions)
        granted = [TopicPartition(partition.topic, partition.partition) for partition in partitions]
        before, self._rebalance = self._rebalance, Rebalance.ASSIGNING
        try:
            _tell(callbacks, "on_assign", partitions)
        finally:
            is_answered = self._rebalance is Rebalance.ANSWERED
            self._rebalance = before
            if not is_answered and self.phase not in _ENDING:
                self._take_up(granted)

    def _take_up(self, granted: list[TopicPartition]) -> None:
        """Assign partitions as confluent-kafka would, and ask where their group left off."""
        if self._settings.is_cooperative:
            self._base.incremental_assign(granted)
        else:
            with suppress(KafkaException):  # as confluent-kafka
                self._base.assign(granted)
        self._feed.ask_committed(map(key_of, granted))

    def _revoked(self, callbacks: Callbacks, _: Any, partitions: list[TopicPartition]) -> None:
        keys = list(map(key_of, partitions))
        before, self._rebalance = self._rebalance, Rebalance.REVOKING
        try:
            self._feed.park(keys)
            _tell(callbacks, "on_revoke", partitions)
        finally:
            self._rebalance = before
            try:
                self._commit(keys)
            finally:
                self._give_up(keys)

    def _lost(self, callbacks: Callbacks, _: Any, partitions: list[TopicPartition]) -> None:
        name = "on_lost" if "on_lost" in callbacks else "on_revoke"
        before, self._rebalance = self._rebalance, Rebalance.LOSING
        try:
            _tell(callbacks, name, partitions)
        finally:
            self._rebalance = before
            self._give_up(list(map(key_of, partitions)))

    def _give_up(self, keys: list[Partition]) -> None:
        self._granted -= set(keys)
        self._feed.revoke(keys)

    def _commit(self, keys: Iterable[Partition], *, asynchronous: bool = False) -> None:
        """Commit before partitions go, unless they are lost, or closing was interrupted."""
        if self._rebalance is not Rebalance.LOSING and self.phase is not Phase.ABORTING:
            self._commits.commit_last(keys, asynchronous=asynchronous)

    # --- the assignment -------------------------------------------------------------------------

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are assigned, with the positions they were assigned with."""
        partitions = self._feed.run_alone(self._base.assignment)
        for partition in partitions:
            begun = self._feed.assigned_at(key_of(partition))
            partition.offset = position.start(partition.offset) if begun is None else begun
        return partitions

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions and no others, from positions where they have one."""
        self._feed.run_alone(partial(self._assign, partitions))

    def _assign(self, partitions: list[TopicPartition]) -> None:
        if self._is_closing:  # librdkafka takes no assignment any more, whatever it is
            self._unassign()
            return
        self._answer()
        before = list(map(key_of, self._broker.assignment()))
        assign = partial(self._base.assign, to_kafka_offsets(partitions))

        def follow() -> None:
            self._feed.revoke(before)
            self._feed.assign(partitions)

        try:
            self._withdraw(before)
            together(assign, follow)
        except KafkaException:
            self._feed.revoke(before)  # as librdkafka, which reads nothing any more
            raise
        finally:
            self._feed.unpark(before)
        self._feed.ask_committed(map(key_of, partitions))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions too, from positions where they have one."""
        self._feed.run_alone(partial(self._incremental_assign, partitions))

    def _incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._answer()
        assign = partial(self._base.incremental_assign, to_kafka_offsets(partitions))
        together(assign, partial(self._feed.assign, partitions))
        self._feed.ask_committed(map(key_of, partitions))

    def unassign(self) -> None:
        """Read nothing."""
        self._feed.run_alone(self._unassign)

    def _unassign(self) -> None:
        self._answer()
        before = list(map(key_of, self._broker.assignment()))
        # While the consumer closes, the end of the callback gives them back.
        unassign = _nothing if self._is_closing else self._base.unassign
        try:
            self._withdraw(before)
            together(unassign, partial(self._feed.revoke, before))
        finally:
            self._feed.unpark(before)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no more."""
        self._feed.run_alone(partial(self._incremental_unassign, partitions))

    def _incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._answer()
        before = {key_of(partition) for partition in self._broker.assignment()}
        if self._rebalance is Rebalance.REVOKING:  # the group goes on once they are given back
            self._commit(before)

        def follow() -> None:
            gone = [key for key in map(key_of, partitions) if key in before]
            self._feed.park(gone)
            self._commit(gone, asynchronous=True)
            self._feed.revoke(gone)

        unassign = partial(self._base.incremental_unassign, partitions)
        together(_nothing if self._is_closing else unassign, follow)

    def _answer(self) -> None:
        """Note that the user's callback has assigned itself, so that its end does not."""
        if self._rebalance is Rebalance.ASSIGNING:
            self._rebalance = Rebalance.ANSWERED

    def _withdraw(self, keys: list[Partition]) -> None:
        """Hand out nothing more of partitions that are about to go, and commit their positions."""
        self._feed.park(keys)
        self._commit(keys, asynchronous=self._rebalance is not Rebalance.REVOKING)

    # --- within the assignment ------------------------------------------------------------------

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Hand out nothing of these partitions, not even what is held, until `resume`."""
        pause = partial(self._base.pause, partitions)
        self._move(pause, lambda: self._feed.pause(map(key_of, partitions)))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Hand these partitions out again, from where they were paused."""
        resume = partial(self._base.resume, partitions)
        self._move(resume, lambda: self._feed.resume(map(key_of, partitions)))

    def seek(self, partition: TopicPartition) -> None:
        """Go on with the record at a position, or the first one after it."""
        seek = partial(self._base.seek, to_kafka_offset(partition))
        self._move(seek, partial(self._feed.seek, partition))

    def _move(self, at_broker: Callable[[], object], follow: Callable[[], None]) -> None:
        self._feed.run_alone(partial(together, at_broker, follow))

    # --- the end --------------------------------------------------------------------------------

    def close(self, *, close_decoder: Callable[[], None]) -> None:
        """Leave the group, and close the client and the decoder."""
        if self.phase is Phase.CLOSED:
            self._base.close()
        else:
            self._feed.run_alone(partial(self._close, close_decoder))

    def _close(self, close_decoder: Callable[[], None]) -> None:
        if self.phase in _ENDING:
            return
        before, self.phase = self.phase, Phase.CLOSING
        try:
            assigned_by_hand = {*map(key_of, self._broker.assignment())} - self._granted
            self._feed.park(assigned_by_hand)
            self._commit(assigned_by_hand)
            if before is Phase.MEMBER:
                self._leave_group()
        except BaseException:  # of a signal handler: who interrupts does not wait for a commit
            self.phase = Phase.ABORTING
            raise
        finally:
            self._base.close()
            self.phase = Phase.CLOSED
            self._feed.clear()
            close_decoder()
        self._errors.raise_pending()

    def _leave_group(self) -> None:
        """Give partitions back while the consumer is a member of its group, and then leave it.

        With a rebalance under way librdkafka's own close leaves the group before on_revoke is
        called: too late for any commit. And it may never return, nor let go of the GIL, when it
        answers a rebalance that began before it (librdkafka #4041, #4884).
        """
        if self._settings.is_static:  # stays a member: only a rebalance that waits is answered
            self._broker.poll(0)
            return
        if self._feed.poller.was_interrupted:  # a revocation cut short took partitions all the same
            self._granted &= set(map(key_of, self._broker.assignment()))
        was_granted, member = bool(self._granted), self._base.consumer_group_metadata()
        try:
            self._base.unsubscribe()
        except KafkaException:  # a fatal error: librdkafka closes without
            return
        self._broker.pause(self._broker.assignment())
        # Other members may delay the rebalance. That is worth waiting for if a commit is due.
        commits = self._commits.is_due(self._granted)
        patience = self._settings.max_poll_interval if commits else _LEAVE
        for _ in range(round(patience / _LEAVE_POLL)):
            if self._broker.poll(_LEAVE_POLL) is None and not self._granted:
                break
        # Closed while revoked partitions are still stopping, librdkafka would not leave: the other
        # members would wait for ``session.timeout.ms``.
        for _ in range(round(_LEAVE / _LEAVE_POLL)):
            if not was_granted or self._base.consumer_group_metadata() != member:
                break
            self._broker.poll(_LEAVE_POLL)

    def check_open(self) -> None:
        """Raise RuntimeError when the client is closed."""
        if self.phase is Phase.CLOSED:
            raise RuntimeError("Consumer closed")


def _tell(callbacks: Callbacks, name: str, partitions: list[TopicPartition]) -> None:
    if name in callbacks:
        callbacks[name](to_positions(partitions))


def end_unclosed(
    consumer: object,
    base: Callable[[], StockConsumer],
    # Bound here: at the end of the interpreter a module's names may be None.
    _is_finalizing: Callable[[], bool] = sys.is_finalizing,
    _keep_for_ever: Callable[[object], None] = lifecycle.keep_for_ever,
) -> None:
    """End the subscription of a cooperative consumer that was never closed, and answer its group.

    Without a close, librdkafka 2.16 is not destroyed while an assignment of a cooperative group is
    unanswered, and no callback runs any more that would answer it. A rebalance that is under way
    may assign partitions once more before the destruction begins. Here it begins at once; at the
    end of the interpreter it would not, so the consumer is never destroyed then: it ends with the
    process.
    """
    if _is_finalizing():
        _keep_for_ever(consumer)
        return
    stock = base()
    for answer in (stock.unsubscribe, partial(stock.incremental_assign, [])):
        with suppress(KafkaException, RuntimeError):  # a fatal error; it is closed
            answer()
