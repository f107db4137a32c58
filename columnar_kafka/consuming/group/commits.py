"""Commits for the group: at the user's call, automatically, and before partitions go."""

from __future__ import annotations

import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from columnar_kafka.errors import SegmentError
from columnar_kafka.message import Message
from columnar_kafka.offsets import (
    Partition,
    error_event_refused,
    key_of,
    named_partitions,
    to_kafka_offsets,
    to_positions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.broker.traced_classes import StockConsumer
    from columnar_kafka.consuming.feed.feed import Feed
    from columnar_kafka.consuming.group.callback_errors import CallbackErrors
    from columnar_kafka.consuming.settings import ConsumerConfig

__all__ = ["Commits"]

_log = logging.getLogger(__name__)

_RETRY_FOR: Final = 5.0  # seconds
_RETRY_PAUSE: Final = 0.05
_UNANSWERED: Final = 60.0
_NEW_GENERATION: Final = frozenset(
    {
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)


class Commits:
    """Decides which positions are due, commits them, and calls the user's `on_commit`.

    Any thread may call `commit` and `store_offsets`, which wait for their turn to call librdkafka.
    All other methods are for the thread whose turn it is.
    """

    def __init__(
        self,
        base: StockConsumer,
        broker: ConsumerBroker,
        feed: Feed,
        settings: ConsumerConfig,
        errors: CallbackErrors,
    ) -> None:
        """Commit what `feed` has handed out; `base` has the consumer's own stock methods."""
        self._base = base
        self._broker = broker
        self._feed = feed
        self._settings = settings
        self._errors = errors
        self._interval = settings.auto_commit_interval or math.inf
        self._last = time.monotonic()  # when the automatic commit was sent last
        self._next = self._last + self._interval

    # --- at the user's call ---------------------------------------------------------------------

    def commit(
        self,
        message: Any = None,
        offsets: list[TopicPartition] | None = None,
        *,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """See `Consumer.commit`."""
        places = named_partitions(message, offsets, partial(_after, action="commit"))
        commit = partial(self._commit_places, places, asynchronous=asynchronous)
        done = self._feed.run_alone(commit)
        if asynchronous:
            return None
        with self._feed.lock:
            self._feed.offsets.mark_committed(done or ())
        return to_positions(done)

    def _commit_places(
        self, places: list[TopicPartition] | None, *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        with self._feed.lock:
            wanted = self._stored() if places is None else self._feed.offsets.committables(places)
        return self._broker.commit(wanted, asynchronous=asynchronous)

    def store_offsets(
        self, message: Any = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """See `Consumer.store_offsets`."""
        places = named_partitions(message, offsets, partial(_after, action="store"))
        if places is None:
            raise ValueError("expected either message or offsets")
        # librdkafka knows what may be stored, and never commits what it stores here.
        store = partial(self._base.store_offsets, offsets=to_kafka_offsets(places))
        self._feed.run_alone(store)
        if self._settings.auto_store:
            error = KafkaError(KafkaError._INVALID_ARG)
            raise KafkaException(KafkaError(error.code(), f"StoreOffsets failed: {error.str()}"))
        with self._feed.lock:
            for place in places:
                self._feed.offsets.store(place)

    def take_back(self, place: TopicPartition) -> None:
        """Store the position of a record that was handed out in vain, if storing is automatic."""
        if self._settings.auto_store:
            with self._feed.lock:
                self._feed.offsets.store(place)

    # --- automatically --------------------------------------------------------------------------

    def commit_if_due(self) -> None:
        """Send the automatic commit, if its interval has passed; its result comes to `answered`."""
        now = time.monotonic()
        if not self._settings.auto_commit or now < self._next:
            return
        self._last, self._next = now, now + self._interval
        if self._uncommitted():
            self._broker.commit(self._stored(), asynchronous=True)
            # Otherwise commits would pile up, and a retried one would arrive after later ones.
            self._next = now + max(self._interval, _UNANSWERED)

    def answered(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Note the result of an asynchronous commit; librdkafka's `on_commit`."""
        self._next = min(self._next, self._last + self._interval)
        self._note(error, offsets)

    def _note(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        """Note the result of a commit, and call the user's `on_commit`."""
        if error is None:
            with self._feed.lock:
                self._feed.offsets.mark_committed(offsets)
        if self._settings.on_commit is not None:
            self._settings.on_commit(error, to_positions(offsets))

    # --- before partitions go -------------------------------------------------------------------

    def commit_last(self, keys: Iterable[Partition], *, asynchronous: bool = False) -> None:
        """Commit the stored positions of partitions that are about to go, if that is automatic.

        A commit that fails is logged, and its records will be read again.
        """
        wanted = self._uncommitted(keys) if self._settings.auto_commit else []
        if not wanted:
            return
        try:
            done = self._commit_patiently(wanted, asynchronous=asynchronous)
        except KafkaException as error:
            _log.warning("the last records' positions could not be committed: %s", error)
            self._errors.guard(self._note)(error.args[0], wanted)
        else:
            if done is not None:
                self._errors.guard(self._note)(None, done)

    def _commit_patiently(
        self, wanted: list[TopicPartition], *, asynchronous: bool
    ) -> list[TopicPartition] | None:
        """Commit, and retry if the group has a new generation: librdkafka soon learns of it."""
        deadline = None
        while True:
            try:
                return self._broker.commit(wanted, asynchronous=asynchronous)
            except KafkaException as error:
                # The first answer may take as long as the group's rebalance.
                deadline = deadline or time.monotonic() + _RETRY_FOR
                if error.args[0].code() not in _NEW_GENERATION or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_PAUSE)

    # --- what is due ----------------------------------------------------------------------------

    def is_due(self, keys: Iterable[Partition]) -> bool:
        """Say whether commits are automatic, and one is due for these partitions."""
        return self._settings.auto_commit and bool(self._uncommitted(keys))

    def _uncommitted(self, keys: Iterable[Partition] | None = None) -> list[TopicPartition]:
        with self._feed.lock:
            self._feed.skip_gaps()
            return self._feed.offsets.uncommitted(keys)

    def _stored(self) -> list[TopicPartition]:
        """Return all assigned partitions, as librdkafka does; without an offset if none is due."""
        wanted = {key_of(partition): partition for partition in self._uncommitted()}
        assigned = self._broker.assignment()
        return [
            wanted.get(key_of(partition), TopicPartition(partition.topic, partition.partition))
            for partition in assigned
        ]


def _after(message: Any, action: str) -> TopicPartition:
    """Return the position after a record, or after a segment that could not be read."""
    if not isinstance(message, Message):
        raise TypeError(
            f"expected a message of this consumer, not {type(message).__module__}."
            f"{type(message).__name__}: its offset would not be a position"
        )
    error = message.error()
    if error is not None and error.code() != SegmentError.code:
        raise error_event_refused(error, action)
    topic, partition = message.topic(), message.partition()
    if topic is None or partition is None:
        raise ValueError("the message has no partition, and so no position")
    offset = OFFSET_INVALID if (at := message.offset()) is None else at
    epoch = -1 if (of := message.leader_epoch()) is None else of
    return TopicPartition(topic, partition, offset + 1, leader_epoch=epoch)
