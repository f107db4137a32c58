"""The sender's thread: sealed batches become segments and go to librdkafka, in order.

Converting and encoding are done here, with no lock held.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.batch import Batch, InFlight, Plain
from columnar_kafka.lane import Lane
from columnar_kafka.segmenter import Segmenter
from columnar_kafka.wire import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import confluent_kafka

    from columnar_kafka.accumulator import Accumulator, Sealed
    from columnar_kafka.broker.base import Acknowledge, ProducerBroker
    from columnar_kafka.budget import Budget
    from columnar_kafka.delivery import Delivery
    from columnar_kafka.lane import Refusal

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
        accumulator: Accumulator,
        broker: ProducerBroker,
        delivery: Delivery,
        budget: Budget,
        message_timeout: float,
        sends_again: bool,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`sends_again`: cut what Kafka refuses as too large; in a transaction nothing is."""
        self._accumulator = accumulator
        self._broker = broker
        self._delivery = delivery
        self._segmenter = Segmenter(accumulator=accumulator, delivery=delivery, budget=budget)
        self._message_timeout = message_timeout
        self._sends_again = sends_again
        self._clock = clock
        self._wall_ms = wall_ms
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._busy: dict[Lane, None] = {}  # those with something to send, in order
        self._refused: deque[Lane] = deque()  # those with something that came back
        self._wakeup = threading.Event()
        self._progress = threading.Condition()
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
        """Make the thread look at the accumulator soon. Never blocks."""
        self._wakeup.set()

    def stop(self) -> None:
        """End the thread after what it is doing now; what is left stays where it is."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def purge(self) -> None:
        """Give up everything that librdkafka does not have; return when that is done."""
        with self._progress:
            self._purging = True
            self.wake()
            self._progress.wait_for(lambda: not self._purging or self._stopping)

    def wait_progress(self, timeout: float) -> None:
        """Wait until the thread has handed something over, at most `timeout` seconds."""
        with self._progress:
            self._progress.wait(timeout)

    def _run(self) -> None:
        while not self._stopping:
            self._wakeup.clear()
            try:
                wait = self.run_once(self._clock())
            except Exception:  # noqa: BLE001 - the thread must outlive whatever one batch did to it
                _log.exception("columnar-kafka's sender failed; it goes on")
                wait = _FULL_WAIT
            with self._progress:
                self._progress.notify_all()
            if not self._stopping:
                self._wakeup.wait(min(wait, threading.TIMEOUT_MAX))

    def run_once(self, now: float) -> float:
        """Do what is to be done at `now`; return the seconds until there may be more."""
        self._look_up(now)
        if self._purging:
            self._purge()
        work = self._accumulator.drain(now)
        for each, error in work.given_up:
            self._delivery.given_up(each, error)
        self._line_up(work.sealed)
        while self._refused:
            self._busy[self._refused.popleft()] = None
        for chunk in work.chunks:
            self._segmenter.convert(chunk)
        return self._send_all(now)

    def _line_up(self, sealed: Iterable[Sealed]) -> None:
        for item in sealed:
            topic = item.topic if isinstance(item, Plain) else item.form.topic
            lane = self._lanes.setdefault((topic, item.partition), Lane())
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
    def _take_all(lane: Lane) -> Iterator[InFlight | Plain]:
        while lane.repairs:
            yield lane.repairs.popleft()
        while lane.refusals:
            yield lane.refusals.popleft().item
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
            try:
                partitions = self._broker.partitions(topic, _LOOKUP_TIMEOUT)
            except KafkaException as error:
                self._accumulator.refuse_topic(topic, error.args[0], now)
            else:
                if partitions is not None:
                    self._accumulator.set_partitions(topic, partitions, now)

    # --- handing over ---------------------------------------------------------------------------

    def _send_all(self, now: float) -> float:
        """Hand over all that librdkafka takes; return when to look again."""
        sent = True
        while sent:
            sent = False
            for lane in list(self._busy):
                try:
                    sent |= self._send_one(lane, now)
                except BufferError:
                    return _FULL_WAIT
        blocked = min((lane.oldest() for lane in self._busy), default=float("inf"))
        return min(self._accumulator.next_look(now), blocked + self._message_timeout - now)

    def _send_one(self, lane: Lane, now: float) -> bool:
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
        elif lane.try_begin(item.nbytes, item.limits.window):
            error = self._try_send(lane, item)
        else:
            return False
        lane.pop()
        if error is not None:
            self._delivery.done(item, error)
        with self._progress:
            self._progress.notify_all()
        return True

    def _fill(self, lane: Lane, now: float) -> None:
        """Bring a lane's next message to its head, encoded."""
        while lane.refusals:
            self._repair(lane, lane.refusals.popleft())
        while lane.head() is None and lane.sealed:
            item = lane.sealed.popleft()
            if isinstance(item, Plain):
                lane.ready.append(item)
            elif item.since + self._message_timeout <= now:
                self._give_up(item, KafkaError(KafkaError._MSG_TIMED_OUT))
            elif isinstance(item, Batch):
                lane.ready.extend(self._segmenter.encode(item))
            else:
                lane.ready.extend(self._segmenter.encode_some(item))
                if len(item):
                    lane.sealed.appendleft(item)

    def _repair(self, lane: Lane, refusal: Refusal) -> None:
        """Try a refused message again, or what it is cut into; alone and one record: it fails."""
        item = refusal.item
        limits = item.limits
        if not refusal.alone:
            asked = self._broker.limits(item.topic, _LOOKUP_TIMEOUT).max_message_bytes
            if asked is not None:
                limits.lower(asked - HEADER_BYTES)
        too_large = refusal.alone or item.nbytes > limits.most + HEADER_BYTES
        if not too_large:
            lane.repair([item], first=False)
        elif isinstance(item, Plain) or len(item.block) == 1:
            self._delivery.done(item, refusal.error, refusal.source)
        else:
            # What the topic's limit is, it may not tell: then this is what is known of it.
            limits.lower(len(item.data) - 1)
            lane.repair(self._segmenter.halve(item), first=refusal.alone)

    def _try_send(self, lane: Lane, item: InFlight | Plain) -> KafkaError | None:
        """Hand a message over; return why it can never be sent, or None."""
        self._delivery.handed_over()
        try:
            self._hand_over(item, partial(self._acknowledged, lane, item, item.nbytes))
        except BufferError:
            self._not_taken(lane, item.nbytes)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not block the others
            self._not_taken(lane, item.nbytes)
            known = isinstance(error, KafkaException)
            return error.args[0] if known else KafkaError(KafkaError._FAIL, repr(error))
        return None

    def _not_taken(self, lane: Lane, nbytes: int) -> None:
        self._delivery.handed_over(-1)
        lane.returned(nbytes)

    def _hand_over(self, item: InFlight | Plain, acknowledge: Acknowledge) -> None:
        if isinstance(item, Plain):
            self._broker.send(
                item.topic,
                item.partition,
                item.value,
                key=item.key,
                headers=item.headers,
                timestamp=item.timestamp,
                acknowledge=acknowledge,
            )
            return
        assert item.header is not None
        item.sent()
        self._broker.send(
            item.topic,
            item.partition,
            item.data,
            key=None,
            headers=item.header.headers(item.data),
            # Retention works on it; a record from the future must not get its neighbours refused.
            timestamp=max(1, min(item.header.timestamp_max, self._wall_ms())),
            acknowledge=acknowledge,
        )

    def _acknowledged(
        self,
        lane: Lane,
        item: InFlight | Plain,
        nbytes: int,
        error: KafkaError | None,
        source: confluent_kafka.Message,
    ) -> None:
        """Note what became of a message. Runs inside librdkafka's poll: calls no user code."""
        if (
            self._sends_again
            and error is not None
            and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        ):
            lane.refused(item, nbytes, error, source)
            self._delivery.returned()
            self._refused.append(lane)
            self.wake()
            return
        self._delivery.returned()
        self._delivery.done(item, error, source)
        if lane.returned(nbytes):
            self.wake()
