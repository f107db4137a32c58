"""A drop-in `confluent_kafka.Consumer` that unwraps segments into records, in positions."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from columnar_kafka import config, position
from columnar_kafka.broker.confluent import ConfluentConsumer
from columnar_kafka.errors import ConfigError
from columnar_kafka.feed import Feed
from columnar_kafka.ledger import GroupMetadata, Ledger, key_of, to_positions
from columnar_kafka.record import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.decoder import Segment

__all__ = ["Consumer"]

_log = logging.getLogger(__name__)

_MAX_CONSUME = 1_000_000
_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb")


class Consumer(confluent_kafka.Consumer):
    """`confluent_kafka.Consumer`, whose messages are records when ``columnar.encoding=parquet``.

    With ``columnar.encoding=none`` (the default) or ``fetch.raw.bytes=true`` every call is
    confluent-kafka's own: a segment is a message whose value is a Parquet file.

    With ``parquet`` every offset that goes in or comes out is a position: a record's place, at
    which the consumer can seek, commit and resume. Not thread-safe, as confluent-kafka's.
    Source: KIP-1008, and confluent-kafka 2.16.
    """

    # What a subclass that does not call __init__ has: confluent-kafka's own errors.
    _settings = config.ConsumerConfig.parse({})[0]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take confluent-kafka's configuration, ``columnar.encoding`` and ``fetch.raw.bytes``.

        Raises:
            ConfigError: an unknown ``columnar.`` key or a value that is not allowed.
            KafkaException, TypeError, ValueError: as confluent-kafka.
        """
        settings, inner = config.ConsumerConfig.parse(config.merge(args, kwargs))
        self._settings = settings
        self._raised: list[BaseException] = []
        if settings.unwraps:
            inner |= {key: self._guarded(inner[key]) for key in _CALLBACKS if inner.get(key)}
            if settings.on_commit is not None:
                inner["on_commit"] = self._guarded(self._report_commit)
        super().__init__(inner)
        if not settings.unwraps:
            return
        if settings.unread is not None:
            raise settings.unread
        self._broker: ConsumerBroker = self._connect()
        self._ledger = Ledger(auto_store=settings.auto_store)
        self._feed = Feed(self._broker, self._ledger, after_serving=self._raise_pending)
        self._next_commit = time.monotonic() + settings.auto_commit_interval

    def _connect(self) -> ConsumerBroker:
        """Return the Kafka that messages come from."""
        return ConfluentConsumer(super())

    # --- taking records -------------------------------------------------------------------------

    def poll(self, timeout: float | None = -1) -> Any:
        """Return the next record, plain message or error event, or None after `timeout` seconds.

        Serves callbacks, also when the record was held already. A segment that cannot be read is
        one message whose `error()` is set; the next call goes on after it.
        """
        if not self._settings.unwraps:
            return super().poll(-1 if timeout is None else timeout)
        self._commit_if_due()
        return self._feed.next(-1 if timeout is None else timeout)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Any]:
        """Return up to `num_messages` records, plain messages and error events.

        Fewer only when `timeout` seconds have passed.

        Raises:
            ValueError: `num_messages` is not from 0 to 1,000,000.
        """
        if not self._settings.unwraps:
            return super().consume(num_messages, timeout)
        if not 0 <= num_messages <= _MAX_CONSUME:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        self._commit_if_due()
        return list(self._feed.take(num_messages, timeout))

    def poll_segment(self, timeout: float = -1) -> Segment | None:
        """Return the next segment, verified and not decoded, or None after `timeout` seconds.

        Raises:
            SegmentError: the next message claims to be a segment and cannot be trusted; the next
                call goes on after it.
            KafkaException: the next message is a plain one (`poll` takes it), or an error event.
            ConfigError: ``columnar.encoding`` is ``none``, or ``fetch.raw.bytes`` is set.
        """
        if not self._settings.unwraps:
            raise ConfigError("poll_segment needs columnar.encoding=parquet, without raw bytes")
        self._commit_if_due()
        return self._feed.segment(timeout)

    pollBuffer = poll_segment  # noqa: N815 - the KIP's name

    # --- the assignment -------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callable[..., Any] | None = None,
        on_revoke: Callable[..., Any] | None = None,
        on_lost: Callable[..., Any] | None = None,
    ) -> None:
        """Subscribe to topics; callbacks get positions. See confluent-kafka."""
        if not self._settings.unwraps:
            given = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
            super().subscribe(topics, **{k: v for k, v in given.items() if v is not None})
            return

        def assigned(_: Any, partitions: list[TopicPartition]) -> None:
            self._feed.assign(partitions)
            if on_assign is not None:
                on_assign(self, to_positions(partitions))

        def revoked(_: Any, partitions: list[TopicPartition]) -> None:
            try:
                if on_revoke is not None:
                    on_revoke(self, to_positions(partitions))
                self._commit_stored(partitions)
            finally:
                self._feed.revoke(map(key_of, partitions))

        def lost(_: Any, partitions: list[TopicPartition]) -> None:
            try:
                callback = on_lost or on_revoke
                if callback is not None:
                    callback(self, to_positions(partitions))
            finally:
                self._feed.revoke(map(key_of, partitions))

        super().subscribe(
            topics,
            on_assign=self._guarded(assigned),
            on_revoke=self._guarded(revoked),
            on_lost=self._guarded(lost),
        )

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, from positions where they have one."""
        super().assign(self._begin(partitions, replace=True))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions too, from positions where they have one."""
        super().incremental_assign(self._begin(partitions, replace=False))

    def _begin(self, partitions: list[TopicPartition], *, replace: bool) -> list[TopicPartition]:
        if not self._settings.unwraps:
            return partitions
        if replace:
            self._feed.revoke(map(key_of, self._broker.assignment()))
        self._feed.assign(partitions)
        return [_at_broker(each) for each in partitions]

    def unassign(self) -> None:
        """Read nothing; see confluent-kafka."""
        if self._settings.unwraps:
            self._feed.revoke(map(key_of, self._broker.assignment()))
        super().unassign()

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no more; see confluent-kafka."""
        if self._settings.unwraps:
            self._feed.revoke(map(key_of, partitions))
        super().incremental_unassign(partitions)

    def unsubscribe(self) -> None:
        """Leave the subscription; see confluent-kafka."""
        if self._settings.unwraps:
            self._commit_stored()
            self._feed.revoke(map(key_of, self._broker.assignment()))
        super().unsubscribe()

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Hand out nothing of these partitions, not even what is held, until `resume`."""
        super().pause(partitions)
        if self._settings.unwraps:
            self._feed.pause(map(key_of, partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Hand these partitions out again, from where they were paused."""
        super().resume(partitions)
        if self._settings.unwraps:
            self._feed.resume(map(key_of, partitions))

    def seek(self, partition: TopicPartition) -> None:
        """Go on with the record at a position, or the first one after it."""
        if not self._settings.unwraps:
            super().seek(partition)
            return
        super().seek(_at_broker(partition))
        self._feed.seek(partition)

    # --- positions ------------------------------------------------------------------------------

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the position after the last record handed out of each partition."""
        found = super().position(partitions)
        if not self._settings.unwraps:
            return found
        for each in found:
            each.offset = self._ledger.delivered.get(key_of(each), -1001)
        return found

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the committed position of each partition; see confluent-kafka."""
        found = super().committed(partitions, timeout)
        return to_positions(found) if self._settings.unwraps else found

    def commit(  # type: ignore[override]
        self,
        message: Any = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit after `message`, or positions, or what is stored.

        At the broker the Kafka offset is committed, and the row inside its segment as metadata.

        Raises:
            KafkaException: nothing is stored; or, when synchronous, as confluent-kafka.
            ValueError: both `message` and `offsets`.
        """
        if not self._settings.unwraps:
            given = {"message": message, "offsets": offsets}
            chosen = {name: each for name, each in given.items() if each is not None}
            return super().commit(asynchronous=asynchronous, **chosen)  # type: ignore[call-overload, no-any-return]
        if message is not None and offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        if message is not None:
            offsets = [_after(message)]
        wanted = (
            self._ledger.uncommitted() if offsets is None else self._ledger.committables(offsets)
        )
        if not wanted:
            if asynchronous:
                return None
            raise KafkaException(KafkaError(KafkaError._NO_OFFSET))
        done = self._broker.commit(wanted, asynchronous=asynchronous)
        self._ledger.mark_committed(wanted)
        return None if asynchronous else to_positions(done)

    def store_offsets(
        self, message: Any = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Store positions for the next commit that names none; see confluent-kafka."""
        if not self._settings.unwraps:
            given = {"message": message, "offsets": offsets}
            super().store_offsets(**{k: v for k, v in given.items() if v is not None})
            return
        if (message is None) == (offsets is None):
            raise ValueError("expected either message or offsets")
        if self._settings.auto_store:
            raise KafkaException(
                KafkaError(
                    KafkaError._INVALID_ARG,
                    "enable.auto.offset.store=true stores every record that is handed out: "
                    "set it to false to store positions",
                )
            )
        for each in offsets if offsets is not None else [_after(message)]:
            self._ledger.store(key_of(each), each.offset)

    def get_watermark_offsets(
        self,
        partition: TopicPartition,
        timeout: float = -1,
        cached: bool = False,
    ) -> tuple[int, int]:
        """Return the positions of the partition's first record and after its last."""
        found = super().get_watermark_offsets(partition, timeout, cached)
        if not self._settings.unwraps or found is None:
            return found
        low, high = found
        return position.start(low), position.start(high)

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the start of the first message that has a record of that time or later."""
        found = super().offsets_for_times(partitions, timeout)
        if self._settings.unwraps:
            for each in found:
                each.offset = position.start(each.offset)
        return found

    def consumer_group_metadata(self) -> Any:
        """Return what `send_offsets_to_transaction` of this package's producer takes."""
        inner = super().consumer_group_metadata()
        return GroupMetadata(inner, self._ledger) if self._settings.unwraps else inner

    # --- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is stored (with auto-commit), leave the group, and close."""
        if self._settings.unwraps:
            self._commit_stored()
        super().close()
        if self._settings.unwraps:
            self._feed.clear()
            self._raise_pending()

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

    # --- commits and callbacks ------------------------------------------------------------------

    def _commit_if_due(self) -> None:
        now = time.monotonic()
        if not self._settings.auto_commit or now < self._next_commit:
            return
        self._next_commit = now + self._settings.auto_commit_interval
        wanted = self._ledger.uncommitted()
        if wanted:
            self._broker.commit(wanted, asynchronous=True)
            self._ledger.mark_committed(wanted)

    def _commit_stored(self, partitions: list[TopicPartition] | None = None) -> None:
        """Commit before partitions go. What cannot be committed will be read again."""
        if not self._settings.auto_commit:
            return
        keys = None if partitions is None else list(map(key_of, partitions))
        wanted = self._ledger.uncommitted(keys)
        if not wanted:
            return
        try:
            self._broker.commit(wanted, asynchronous=False)
        except KafkaException as error:
            _log.warning("the last records' positions could not be committed: %s", error)
        else:
            self._ledger.mark_committed(wanted)

    def _report_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if self._settings.on_commit is not None:
            self._settings.on_commit(error, to_positions(partitions))

    def _guarded(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Keep a callback's exception until it is safe to raise.

        Raised inside librdkafka's poll it would destroy the message that poll has fetched.
        """

        def run(*args: Any) -> Any:
            try:
                return callback(*args)
            except BaseException as error:  # noqa: BLE001 - raised again by _raise_pending
                self._raised.append(error)
                return None

        return run

    def _raise_pending(self) -> None:
        if self._raised:
            raise self._raised.pop(0)


def _at_broker(partition: TopicPartition) -> TopicPartition:
    """Return where librdkafka has to fetch for a position."""
    if partition.offset < 0:
        return partition
    offset = position.unpack(partition.offset).offset
    return TopicPartition(partition.topic, partition.partition, offset)


def _after(message: Any) -> TopicPartition:
    """Return the position after a record."""
    if not isinstance(message, Message):
        raise TypeError(
            f"expected a message of this consumer, not {type(message).__module__}."
            f"{type(message).__name__}: its offset would not be a position"
        )
    error, offset = message.error(), message.offset()
    topic, partition = message.topic(), message.partition()
    if offset is None or topic is None or partition is None:
        raise ValueError(f"the message has no position: {error}")
    return TopicPartition(topic, partition, offset + 1)
