"""The way of sealed batches into librdkafka: in order in each partition, and within its limits.

A topic's limit may be lowered while records are on their way. librdkafka sends several messages as
one batch, and the limit is on the batch; so when one message is too large, Kafka rejects the whole
batch. A partition is therefore in one of two states:

- It sends: as many messages are in flight as the topic's window allows.
- It retries, from when messages come back rejected until each is stored or has failed: one message
  is in flight at a time, rejected ones first, and those behind them wait. A message that was
  rejected together with others is sent again alone. One that was rejected alone is cut, and its
  pieces are sent alone. A single record fails.

In a transaction nothing is sent again. But before anything else is sent, and before a transaction
is given up, its topic's limits are learned from what was rejected: the next one is cut by them.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.producing.reporting.in_flight import InFlight
from columnar_kafka.segment.headers import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from columnar_kafka.broker.base import Acknowledge, ProducerBroker, TopicLimits
    from columnar_kafka.producing.accepting.item import Item
    from columnar_kafka.producing.accepting.record_queue import RecordQueue
    from columnar_kafka.producing.reporting.delivery import Delivery
    from columnar_kafka.producing.reporting.in_flight import Rejected
    from columnar_kafka.producing.sending.accumulator import Accumulator
    from columnar_kafka.producing.sending.messages import Outgoing
    from columnar_kafka.producing.sending.segmenter import Segmenter

__all__ = ["Dispatcher"]

_UNLIMITED: Final = float("inf")
_FULL_WAIT: Final = 0.02
"""Seconds until librdkafka is asked again after its queue was full; the user's poll makes room."""
_CONFIG_TIMEOUT: Final = 1.0
_TURN_BYTES: Final = 524_288
"""With so many bytes handed over, the sender looks for other work before it goes on."""


class PartitionQueue:
    """What waits to be sent to one partition. The sender's thread's."""

    def __init__(self) -> None:
        self.sealed: deque[Item] = deque()
        self.ready: deque[Outgoing] = deque()  # encoded
        self.retries: deque[Outgoing] = deque()  # they go before the others
        self.rejected: deque[Rejected] = deque()  # what their size tells is learned
        self.in_flight = InFlight()
        self.muted = False
        """Whether the message in flight was sent alone: it is a retry, and all others wait."""

    def __bool__(self) -> bool:
        """Whether anything waits to be handed over."""
        return bool(
            self.sealed or self.ready or self.retries or self.rejected or self.in_flight.rejected
        )

    @property
    def encoded(self) -> int:
        """How many messages wait that are encoded, rejected ones too."""
        rejected = len(self.rejected) + len(self.in_flight.rejected)
        return len(self.ready) + len(self.retries) + rejected

    def may_send(self, message: Outgoing) -> bool:
        """Whether librdkafka may be given one more message of this partition; then it has to be."""
        in_flight = self.in_flight
        if in_flight.rejected:
            return False  # they go first
        if not in_flight.attempts:
            self.muted = bool(self.retries)
            return True
        window = message.topic_format.limits.window
        return not (self.muted or self.retries) and (
            window == _UNLIMITED or in_flight.nbytes + message.nbytes <= window
        )

    def pop_encoded(self) -> Iterator[Outgoing]:
        """Remove all that is encoded, in order."""
        while self.retries:
            yield self.retries.popleft()
        while self.rejected:
            rejected = self.rejected.popleft()
            if not rejected.final:
                yield rejected.message
        while self.ready:
            yield self.ready.popleft()

    def oldest(self) -> float:
        """Return when the item that goes next was accepted; inf if there is none."""
        waiting = self.retries or self.ready or self.sealed
        return waiting[0].accepted_at if waiting else _UNLIMITED


class Dispatcher:
    """Owns what is sealed until librdkafka has it. Only the sender's thread calls it.

    `waiting` and `topics` are for any thread.
    """

    def __init__(
        self,
        *,
        broker: ProducerBroker,
        accumulator: Accumulator,
        segmenter: Segmenter,
        delivery: Delivery,
        queue: RecordQueue,
        message_timeout: float,
        wall_ms: Callable[[], int],
    ) -> None:
        """Send to `broker`."""
        self.broker = broker
        self._accumulator = accumulator
        self._segmenter = segmenter
        self._delivery = delivery
        self._queue = queue
        self._message_timeout = message_timeout
        self._wall_ms = wall_ms
        self._partitions: dict[tuple[str, int], PartitionQueue] = {}
        self._busy: dict[PartitionQueue, None] = {}  # those with something to send, in order

    def waiting(self) -> tuple[int, int]:
        """Return how much waits, sealed and encoded."""
        partitions = list(self._partitions.values())
        sealed = sum(len(partition.sealed) for partition in partitions)
        return sealed, sum(partition.encoded for partition in partitions)

    @property
    def has_work(self) -> bool:
        """Whether something waits to be sent, or was rejected. For any thread."""
        return bool(self._busy or self._delivery.rejecting)

    def topics(self) -> set[str]:
        """Return the topics of messages that wait or are in flight."""
        partitions = list(self._partitions.items())
        return {topic for (topic, _), partition in partitions if partition or partition.in_flight}

    def line_up(self, item: Item) -> None:
        """Take over what is sealed, behind all that was before."""
        place = item.topic_format.topic, item.partition
        partition = self._partitions.get(place)
        if partition is None:
            self._partitions[place] = partition = PartitionQueue()
        self._busy[partition] = None
        partition.sealed.append(item)

    def purge(self, error: KafkaError) -> None:
        """Fail all that waits: rejected, encoded and sealed."""
        self._take_rejected()  # so that the next transaction fits
        for partition in self._partitions.values():
            for message in partition.pop_encoded():
                self._delivery.message_failed(message, error)
            while partition.sealed:
                self._give_up(partition.sealed[0], error)
                partition.sealed.popleft()
        self._busy.clear()

    def _give_up(self, item: Item, error: KafkaError) -> None:
        for part in item.unsent(self._segmenter):
            self._delivery.failed(part, error)

    def send_all(self, now: float) -> float:
        """Hand over messages, of each partition in turn; return in how many seconds to do it again.

        Large ones are handed over one of each partition, small ones some. An exception that one
        partition raises keeps no other waiting, and is raised then.
        """
        self._take_rejected()
        handed = 0
        while self._busy:
            before, failure = handed, None
            try:
                for partition in list(self._busy):
                    try:
                        handed += self._send_one(partition, now)
                    except BufferError:
                        raise
                    except Exception as error:  # noqa: BLE001 - see above
                        failure = error
            except BufferError:
                return _FULL_WAIT
            if failure is not None:
                raise failure
            if handed == before:
                break
            if handed >= _TURN_BYTES:
                return 0.0
        oldest = min((partition.oldest() for partition in self._busy), default=float("inf"))
        return oldest + self._message_timeout - now

    def _send_one(self, partition: PartitionQueue, now: float) -> int:
        """Hand one message of a partition over, or fail it for good; return its bytes, at least 1.

        0: it has to wait.

        Raises:
            BufferError: librdkafka's queue is full.
        """
        message = self._next(partition, now)
        if message is None:
            if not partition:
                del self._busy[partition]
            return 0
        if message.accepted_at + self._message_timeout <= now:
            error: KafkaError | None = KafkaError(KafkaError._MSG_TIMED_OUT)
        elif partition.may_send(message):
            error = self._try_send(partition, message)
        else:
            return 0
        nbytes = message.encoded_bytes or 1
        if error is not None and error.code() == KafkaError._UNKNOWN_PARTITION:
            self._move(message, error)
        elif error is not None:
            self._delivery.message_failed(message, error)
        (partition.retries or partition.ready).popleft()
        if not partition:
            del self._busy[partition]
        return nbytes

    def _next(self, partition: PartitionQueue, now: float) -> Outgoing | None:
        """Return a partition's next message, encoded if there is memory for it, or None."""
        while partition.rejected:
            self._retry(partition, partition.rejected[0])
            partition.rejected.popleft()
        while not (messages := partition.retries or partition.ready):
            if not partition.sealed:
                return None
            item = partition.sealed[0]
            if item.accepted_at + self._message_timeout <= now:
                self._give_up(item, KafkaError(KafkaError._MSG_TIMED_OUT))
                partition.sealed.popleft()
                continue
            if not self._queue.may_encode:
                return None  # until something is acknowledged
            if not item.encode(self._segmenter, partition.ready):
                continue
            partition.sealed.popleft()  # last: what fails is tried again
        return messages[0]

    # --- what Kafka has rejected ----------------------------------------------------------------

    def _take_rejected(self) -> None:
        """Take over what Kafka has rejected, and learn from it; asks Kafka once for each topic."""
        told = cache(lambda topic: self.broker.limits(topic, _CONFIG_TIMEOUT))
        while self._delivery.rejecting:
            in_flight, _ = self._delivery.rejecting.popitem()
            if not in_flight.rejected:
                continue
            message = in_flight.rejected[0].message
            partition = self._partitions[message.topic, message.partition]
            self._busy[partition] = None
            while in_flight.rejected:
                partition.rejected.append(in_flight.rejected.popleft())
            self._learn_limits(partition.rejected, told)

    def _learn_limits(
        self, rejected: Iterable[Rejected], told: Callable[[str], TopicLimits]
    ) -> None:
        """Learn from what Kafka rejected how much it accepts, or that its partition is gone."""
        telling = []
        for refused in rejected:
            if refused.error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                self._accumulator.look_up_soon(refused.message.topic)
            elif refused.final or not refused.alone:
                telling.append(refused)
        if not telling:
            return
        largest = max(telling, key=lambda refused: refused.message.nbytes)
        limits = largest.message.limits
        config = told(largest.message.topic)
        if config.max_message_bytes is not None:
            limits.lower(config.max_message_bytes - HEADER_BYTES)
        elif largest.final:
            # Kafka does not tell. Each try costs the user a transaction: let there be few.
            limits.lower((largest.message.nbytes - HEADER_BYTES) // 2)

    def _retry(self, partition: PartitionQueue, rejected: Rejected) -> None:
        message, limits = rejected.message, rejected.message.limits
        if rejected.final:
            return
        if rejected.error.code() == KafkaError._UNKNOWN_PARTITION:
            self._move(message, rejected.error)
        elif not rejected.alone and message.nbytes <= limits.most + HEADER_BYTES:
            partition.retries.append(message)
        elif message.rows == 1:
            self._delivery.message_failed(message, rejected.error, rejected.source)
        else:
            limits.lower(message.stored[2] - 1)  # at least that, whatever Kafka tells
            pieces = message.halve(self._segmenter)
            if rejected.alone:  # before the messages that were rejected with it
                partition.retries.extendleft(reversed(list(pieces)))
            else:
                partition.retries.extend(pieces)

    def _move(self, message: Outgoing, error: KafkaError) -> None:
        """Have records wait for another partition, as theirs is gone; or fail: see `moved`."""
        moved = message.moved(self._segmenter, error)
        if moved is None:
            self._accumulator.look_up_soon(message.topic)
        else:
            self._accumulator.move(moved)

    # --- librdkafka -----------------------------------------------------------------------------

    def _try_send(self, partition: PartitionQueue, message: Outgoing) -> KafkaError | None:
        """Hand a message over; return why it can never be sent, or None."""
        try:
            self._delivery.hand_over(
                partition.in_flight, message, self._send, alone=partition.muted
            )
        except BufferError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not block the others
            if not isinstance(error, KafkaException):
                return KafkaError(KafkaError._FAIL, repr(error))
            reason: KafkaError = error.args[0]
            self._delivery.fatal = self._delivery.fatal or reason.code() == KafkaError._FATAL
            return reason
        return None

    def _send(self, message: Outgoing, acknowledge: Acknowledge) -> None:
        """Give a message to librdkafka."""
        value, key, headers, timestamp = message.content(self._wall_ms())
        self.broker.send(
            message.topic_format.topic,
            message.partition,
            value,
            key=key,
            headers=headers,
            timestamp=timestamp,
            acknowledge=acknowledge,
        )
