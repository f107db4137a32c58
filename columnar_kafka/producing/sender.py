"""The sender's thread: what is accepted is batched, sealed, encoded and goes to librdkafka.

All of it is done here, with no lock held, and no signal handler can interrupt it.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.producing.batch import Batch, PlainMessage
from columnar_kafka.producing.partition_queue import PartitionQueue
from columnar_kafka.producing.segmenter import Segmenter
from columnar_kafka.producing.topic_format import TopicFormat
from columnar_kafka.segment.headers import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from columnar_kafka.broker.base import ProducerBroker
    from columnar_kafka.producing.accumulator import Accumulator, Sealed
    from columnar_kafka.producing.batch import EncodedSegment
    from columnar_kafka.producing.delivery import Delivery
    from columnar_kafka.producing.partition_queue import Rejected
    from columnar_kafka.producing.record_queue import RecordQueue

__all__ = ["Sender"]

_log = logging.getLogger(__name__)

_FULL_WAIT: Final = 0.02
"""How soon librdkafka is asked again after its queue was full; a poll of the user makes room."""
_LOOKUP_TIMEOUT: Final = 1.0


class Sender:
    """Owns what is sealed until librdkafka has it. One thread runs it; `wake` may come from any."""

    def __init__(
        self,
        *,
        queue: RecordQueue,
        accumulator: Accumulator,
        broker: ProducerBroker,
        delivery: Delivery,
        message_timeout: float,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Send what comes in at `queue` to `broker`; `message_timeout` is in seconds."""
        self._queue = queue
        self._accumulator = accumulator
        self._broker = broker
        self._delivery = delivery
        self._segmenter = Segmenter(accumulator=accumulator, delivery=delivery, queue=queue)
        self._message_timeout = message_timeout
        self._clock = clock
        self._wall_ms = wall_ms
        self._lanes: dict[tuple[str, int], PartitionQueue] = {}
        self._busy: dict[PartitionQueue, None] = {}  # those with something to send, in order
        # Unlike an Event it may be used by a signal handler that has interrupted its use.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._rung = False
        self._progress = threading.Condition()
        self.step = threading.Lock()
        """Held while the thread converts, encodes and sends: not a moment to fork in."""
        self._flushing = False
        self._stopping = False
        self._purging = False
        self._thread = threading.Thread(target=self._run, name="columnar-kafka-sender", daemon=True)

    def __repr__(self) -> str:
        sealed = sum(len(lane.sealed) for lane in self._lanes.values())
        return f"<Sender {sealed} sealed, {sum(map(len, self._lanes.values())) - sealed} encoded>"

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def use(self, broker: ProducerBroker) -> None:
        """Send with another broker from now on."""
        self._broker = broker

    def wake(self) -> None:
        """Make the thread look for work soon. Never blocks."""
        if not self._rung:
            self._rung = True
            self._bell.put(None)

    def collect(self) -> int:
        """Take note of what librdkafka has acknowledged; return how many messages. Any thread."""
        count = self._delivery.collect()
        if count:
            self.wake()  # there is room again
        return count

    def seal(self) -> None:
        """Make the thread send all that is accepted, however little. Never blocks."""
        self._flushing = True
        self.wake()

    def stop(self) -> None:
        """End the thread after what it is doing now; what is left stays where it is."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        with self._progress:
            self._progress.notify_all()  # whoever waits for a purge

    def purge(self) -> None:
        """Give up everything that librdkafka does not have; return when that is done."""
        with self._progress:
            self._purging = True
            self.wake()
            self._progress.wait_for(lambda: not self._purging or self._stopping)

    def topics(self) -> set[str]:
        """Return the topics that something waits for or is in flight for. For any thread."""
        lanes = list(self._lanes.items())
        busy = {topic for (topic, _), lane in lanes if lane or lane.in_flight}
        return busy | self._accumulator.topics()

    def wait_progress(self, timeout: float) -> None:
        """Wait until the thread has handed something over, at most `timeout` seconds."""
        with self._progress:
            self._progress.wait(timeout)

    def _run(self) -> None:
        while not self._stopping:
            self._rung = False
            try:
                wait = self.run_once(self._clock())
            except Exception:  # noqa: BLE001 - the thread must outlive whatever one batch did to it
                _log.exception("columnar-kafka's sender failed; it goes on")
                wait = _FULL_WAIT
            with self._progress:
                self._progress.notify_all()
            with suppress(Empty):
                self._bell.get(timeout=max(0.0, min(wait, threading.TIMEOUT_MAX)))

    def run_once(self, now: float) -> float:
        """Do what is to be done at `now`; return the seconds until there may be more."""
        self._look_up(now)
        with self.step:
            return self._work(now)

    def _work(self, now: float) -> float:
        flushing, self._flushing = self._flushing, False
        purging = self._purging  # what is accepted after that is not purged
        if flushing or purging or self._queue.due(now) <= 0:
            self._take_over(now)
        if flushing:
            self._accumulator.seal_all()
        elif self._queue.pressed:
            self._accumulator.relieve()
        if purging:
            self._purge()
        work = self._accumulator.drain(now)
        for each, error in work.given_up:
            self._delivery.given_up(each, error)
        self._line_up(work.sealed)
        for chunk in work.chunks:
            self._segmenter.convert(chunk)
        wait = self._send_all(now)
        return min(wait, self._queue.due(now), self._accumulator.next_look(now))

    def _take_over(self, now: float) -> None:
        for item in self._queue.drain():
            try:
                self._accumulator.add(item, now)
            except Exception as error:
                if isinstance(item, TopicFormat):
                    raise
                self._delivery.given_up(item, KafkaError(KafkaError._FAIL, repr(error)))

    def _line_up(self, sealed: Iterable[Sealed]) -> None:
        for item in sealed:
            topic = item.topic if isinstance(item, PlainMessage) else item.form.topic
            lane = self._lanes.setdefault((topic, item.partition), PartitionQueue())
            lane.sealed.append(item)
            self._busy[lane] = None

    def _purge(self) -> None:
        """Fail what is here: refused, encoded, sealed, open, or waiting for its partition."""
        error = KafkaError(KafkaError._PURGE_QUEUE)
        work = self._accumulator.take_all(error)
        for each, _ in work.given_up:
            self._delivery.given_up(each, error)
        self._line_up(work.sealed)
        for lane in self._lanes.values():
            for item in self._take_all(lane):
                self._delivery.done(item, error)
            while lane.sealed:
                self._give_up(lane.sealed.popleft(), error)
        self._busy.clear()
        self._purging = False

    @staticmethod
    def _take_all(lane: PartitionQueue) -> Iterator[EncodedSegment | PlainMessage]:
        while lane.repairs:
            yield lane.repairs.popleft()
        while lane.refusals:
            refusal = lane.refusals.popleft()
            if not refusal.final:
                yield refusal.item
        while lane.ready:
            yield lane.ready.popleft()

    def _give_up(self, item: Sealed, error: KafkaError) -> None:
        if isinstance(item, Batch):
            for each in self._segmenter.unsent(item):
                self._delivery.done(each, error)
        else:
            self._delivery.given_up(item, error)

    def _look_up(self, now: float) -> None:
        for topic in self._accumulator.to_look_up(now):
            began = self._clock()
            try:
                partitions = self._broker.partitions(topic, _LOOKUP_TIMEOUT)
            except KafkaException as error:
                self._accumulator.refuse_topic(topic, error.args[0], now)
            else:
                if partitions is not None:
                    self._accumulator.set_partitions(topic, partitions, now)
                elif self._clock() - began >= _LOOKUP_TIMEOUT:
                    return  # nobody answers: the others would take as long

    # --- handing over ---------------------------------------------------------------------------

    def _send_all(self, now: float) -> float:
        """Hand over one message of each partition; return when to do it again."""
        sent = False
        for lane in self._lanes.values():
            if lane.refusals:
                self._busy[lane] = None
        for lane in list(self._busy):
            try:
                sent |= self._send_one(lane, now)
            except BufferError:
                return _FULL_WAIT
        if sent:
            return 0.0
        return min((lane.oldest() for lane in self._busy), default=float("inf")) + (
            self._message_timeout - now
        )

    def _send_one(self, lane: PartitionQueue, now: float) -> bool:
        """Hand one message of a partition over, or fail it for good; False when it has to wait.

        Raises:
            BufferError: librdkafka's queue is full.
        """
        self._fill(lane, now)
        item = lane.head()
        if item is None:
            if not lane:
                del self._busy[lane]
            return False
        if item.since + self._message_timeout <= now:
            error: KafkaError | None = KafkaError(KafkaError._MSG_TIMED_OUT)
        elif lane.may_send(item):
            error = self._try_send(lane, item)
        else:
            return False
        lane.pop()
        if error is not None:
            if error.code() == KafkaError._UNKNOWN_PARTITION:
                self._accumulator.look_up_soon(item.topic)
            self._delivery.done(item, error)
        with self._progress:
            self._progress.notify_all()
        return True

    def _fill(self, lane: PartitionQueue, now: float) -> None:
        """Bring a lane's next message to its head, encoded, where there is memory for it."""
        if lane.refusals:
            self._learn(lane)
        while lane.refusals:
            self._repair(lane, lane.refusals.popleft())
        while lane.head() is None and lane.sealed:
            item = lane.sealed[0]
            if item.since + self._message_timeout <= now:
                self._give_up(lane.sealed.popleft(), KafkaError(KafkaError._MSG_TIMED_OUT))
                continue
            if not self._queue.may_encode:
                return  # until something is acknowledged
            lane.sealed.popleft()
            if isinstance(item, PlainMessage):
                item.encoded = item.nbytes  # librdkafka's copy
                self._queue.encoded(item.encoded)
                lane.ready.append(item)
            elif isinstance(item, Batch):
                lane.ready.extend(self._segmenter.encode(item))
            else:
                lane.ready.extend(self._segmenter.encode_some(item))
                if len(item):
                    lane.sealed.appendleft(item)

    def _learn(self, lane: PartitionQueue) -> None:
        """Learn from what Kafka refused how much it takes, or that its partition is gone."""
        refusals = []
        for each in list(lane.refusals):
            if each.error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                self._accumulator.look_up_soon(each.item.topic)
            elif each.final or not each.item.alone:
                refusals.append(each)
        if not refusals:
            return
        largest = max(refusals, key=lambda each: each.nbytes)
        limits = largest.item.limits
        asked = self._broker.limits(largest.item.topic, _LOOKUP_TIMEOUT).max_message_bytes
        if asked is not None:
            limits.lower(asked - HEADER_BYTES)
        elif largest.final:
            # It does not tell. Each try costs the user a transaction: let there be few.
            limits.lower((largest.nbytes - HEADER_BYTES) // 2)

    def _repair(self, lane: PartitionQueue, refusal: Rejected) -> None:
        """Try a refused message again, or what it is cut into; alone and one record: it fails."""
        item, limits = refusal.item, refusal.item.limits
        if refusal.final:
            return
        if not item.alone and refusal.nbytes <= limits.most + HEADER_BYTES:
            lane.repair([item], first=False)
        elif isinstance(item, PlainMessage) or len(item.block) == 1:
            self._delivery.done(item, refusal.error, refusal.source)
        else:
            limits.lower(len(item.data) - 1)  # at least that, whatever it tells
            lane.repair(self._segmenter.halve(item), first=item.alone)

    def _try_send(
        self, lane: PartitionQueue, item: EncodedSegment | PlainMessage
    ) -> KafkaError | None:
        """Hand a message over; return why it can never be sent, or None."""
        try:
            self._delivery.hand_over(lane, item, self._sending(item))
        except BufferError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not block the others
            if not isinstance(error, KafkaException):
                return KafkaError(KafkaError._FAIL, repr(error))
            reason: KafkaError = error.args[0]
            self._delivery.fatal = self._delivery.fatal or reason.code() == KafkaError._FATAL
            return reason
        return None

    def _sending(self, item: EncodedSegment | PlainMessage) -> Callable[..., None]:
        """Return what gives a message to librdkafka."""
        if isinstance(item, PlainMessage):
            return partial(
                self._broker.send,
                item.topic,
                item.partition,
                item.value,
                key=item.key,
                headers=item.headers,
                timestamp=item.timestamp,
            )
        assert item.header is not None
        return partial(
            self._broker.send,
            item.topic,
            item.partition,
            item.data,
            key=None,
            headers=item.header.headers(item.data),
            # Retention works on it; a record from the future must not get its neighbours refused.
            timestamp=max(1, min(item.header.timestamp_max, self._wall_ms())),
        )
