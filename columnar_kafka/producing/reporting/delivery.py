"""One acknowledgement → n reports: each accepted record is reported once, while the process lives.

librdkafka hands an acknowledgement over inside its `poll`, where user code may call nothing. It is
put into the message's `Attempt`, and taken from there when that call has returned. The records'
own reports run then, in the same user's thread: `outcome` makes them.

A signal's exception may come between any two calls of these threads. So every step here is one
assignment, or can be repeated: an attempt that is `handled` is not handled twice, an outcome knows
how many of its reports have run, and memory that is released counts once.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from columnar_kafka.message import plain_message
from columnar_kafka.producing.reporting.arrow_call import CallPart
from columnar_kafka.producing.reporting.in_flight import Attempt, Rejected
from columnar_kafka.producing.reporting.outcome import CallOutcome
from columnar_kafka.producing.shared import shared
from columnar_kafka.runtime.locks import is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    import confluent_kafka

    from columnar_kafka.broker.base import Acknowledge
    from columnar_kafka.producing.accepting.item import Item
    from columnar_kafka.producing.accepting.record_queue import RecordQueue
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall
    from columnar_kafka.producing.reporting.in_flight import InFlight
    from columnar_kafka.producing.reporting.outcome import FailedRecord, Outcome
    from columnar_kafka.producing.sending.messages import Outgoing

    _Relayed = tuple[Callable[..., Any], KafkaError | None, confluent_kafka.Message]

__all__ = ["Delivery"]

_GOES_BACK: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._UNKNOWN_PARTITION)
"""The sender cuts what is too large, and moves what is for a partition that is gone."""
_OF_INTEREST: Final = (
    *_GOES_BACK,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
"""And learns from these."""
_FATAL: Final = (KafkaError._FATAL, KafkaError._FENCED)
_FENCED: Final = (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


class Delivery:
    """Owns every record from when librdkafka has it, or it has failed, until it is reported.

    The sender's thread calls `hand_over` and what is under "outcomes"; any thread calls the rest.
    Messages of topics without a schema come here when librdkafka reports them to their callback.
    """

    def __init__(self, queue: RecordQueue, *, sends_again: bool, errors_only: bool = False) -> None:
        """Release reported records' memory to `queue`.

        `sends_again`: messages that Kafka rejects as too large go back to the sender, to be cut,
        and those for a partition that is gone, to be moved; in a transaction none does.
        `errors_only`: callbacks are not called for success.
        """
        self.fatal = False
        """Whether librdkafka has said that it can send nothing more."""
        self._queue = queue
        make = shared()
        self._abandoned = make.abandoned()
        self._sends_again = sends_again
        self._errors_only = errors_only
        self._thread = threading.local()  # its `reporting` is set while its reports run
        self.lock = threading.RLock()  # guards the rest; a signal handler may poll too
        self._in_flight: dict[InFlight, None] = {}  # the partitions with attempts
        self.rejecting: dict[InFlight, None] = {}
        """Partitions with something rejected, until the sender takes them out."""
        self._outcomes: deque[Outcome] = deque()
        self._relayed: deque[_Relayed] = deque()
        self.relay: Callable[..., None] = partial(make.relay, self._relayed.append)
        """Takes over a report of a topic without a schema, inside librdkafka's `poll`.

        It is called with the user's callback and librdkafka's arguments.
        """
        self._failures = 0
        self._rejections = 0
        self._stored = (0, 0, 0)  # segments, their records, and their bytes

    def __repr__(self) -> str:
        outcomes = len(self._outcomes)
        return f"<Delivery {outcomes} outcomes to report, {self.in_librdkafka} in flight>"

    @property
    def in_librdkafka(self) -> int:
        """How many messages librdkafka has whose acknowledgements are not handled yet."""
        return sum(len(in_flight) for in_flight in list(self._in_flight))

    @property
    def relayed(self) -> int:
        """The acknowledged messages of topics without a schema that are not reported yet."""
        return len(self._relayed)

    @property
    def failures(self) -> int:
        """How many accepted records have failed since the producer was made."""
        return self._failures

    @property
    def stored(self) -> tuple[int, int, int]:
        """How many segments Kafka has stored, how many records in them, and how many bytes."""
        return self._stored

    @property
    def rejections(self) -> int:
        """How often Kafka, or its limits, rejected something."""
        return self._rejections

    # --- in flight ------------------------------------------------------------------------------

    def hand_over(
        self,
        in_flight: InFlight,
        message: Outgoing,
        send: Callable[[Outgoing, Acknowledge], None],
        *,
        alone: bool,
    ) -> None:
        """Have `send` give a message to librdkafka, and wait for its acknowledgement from then on.

        Raises:
            Exception: whatever `send` raises; librdkafka does not have the message then.
        """
        attempt = Attempt()
        attempt.message, attempt.alone, attempt.handled = message, alone, False
        with self.lock:
            in_flight.attempts.append(attempt)
            self._in_flight[in_flight] = None
        try:
            send(message, attempt.setdefault)
        except BaseException:
            with self.lock:
                in_flight.attempts.pop()
            raise

    @property
    def locked(self) -> bool:
        """Whether this thread has the lock: it is in the middle of a method, but in no report."""
        return is_held(self.lock)

    @property
    def serving(self) -> bool:
        """Whether this thread is inside librdkafka's poll or flush."""
        return getattr(self._thread, "serving", False)

    def serve(self, stock: Callable[[float], int], timeout: float) -> int:
        """Call librdkafka's poll or flush; called again by what interrupts it, it would abort."""
        self._thread.serving = True
        try:
            return stock(timeout)
        finally:
            self._thread.serving = False

    def collect(self) -> int:
        """Handle the acknowledgements that librdkafka has delivered; return how many there were."""
        count = 0
        with self.lock:
            for in_flight in list(self._in_flight):
                attempts = in_flight.attempts
                while attempts:
                    attempt = attempts[0]
                    if not attempt.handled:
                        if not attempt:
                            break
                        self._handle(in_flight, attempt)
                    if in_flight.rejected:
                        self.rejecting[in_flight] = None
                    attempts.popleft()
                    count += 1
                else:
                    del self._in_flight[in_flight]
        return count

    def _handle(self, in_flight: InFlight, attempt: Attempt) -> None:
        message = attempt.message
        ((error, source),) = attempt.items()
        if error is not None and error.code() in _OF_INTEREST:
            goes_back = self._sends_again and error.code() in _GOES_BACK
            rejected = Rejected(message, attempt.alone, error, source, final=not goes_back)
            if goes_back:
                attempt.handled = True
                in_flight.rejected.append(rejected)
                return
            in_flight.rejected.append(rejected)
        if error is not None and self._ends_all(error):
            self.fatal = True
        self._queue.usage.release_encoded(message)
        outcome = message.outcome(error, source)
        failures, rejections = outcome.failures()
        segments, records, nbytes = self._stored
        more = message.stored if error is None else (0, 0, 0)
        stored = segments + more[0], records + more[1], nbytes + more[2]
        if rejections or self.fatal:
            self._queue.usage.stop()  # a transaction takes no more records
        attempt.handled = True  # no call from here on, but the one that adds the outcome
        self._stored = stored
        self._failures += failures
        self._rejections += rejections
        self._outcomes.append(outcome)

    def _ends_all(self, error: KafkaError) -> bool:
        fenced = not self._sends_again and error.code() in _FENCED
        return error.fatal() or error.code() in _FATAL or fenced

    # --- outcomes -------------------------------------------------------------------------------

    def message_failed(
        self,
        message: Outgoing,
        error: KafkaError,
        source: confluent_kafka.Message | None = None,
    ) -> None:
        """Report a message that librdkafka never had, or has given back."""
        self._queue.usage.release_encoded(message)
        self._add(message.outcome(error, source))

    def failed(self, item: Item, error: KafkaError) -> None:
        """Report records that never became part of a message: timed out, or purged."""
        self._add(item.outcome(error))

    def record_failed(self, failed: FailedRecord, charged_bytes: int) -> None:
        """Report a record that never became part of a segment."""
        self._add(failed.outcome(charged_bytes))

    def empty_call(self, call: ArrowCall) -> None:
        """Report a `produce_arrow` without a record."""
        self._add(CallOutcome(call, CallPart(0, None, -1, None), 0))

    def _add(self, outcome: Outcome) -> None:
        failures, rejections = outcome.failures()
        if rejections:
            self._queue.usage.stop()
        with self.lock:
            self._failures += failures
            self._rejections += rejections
            self._outcomes.append(outcome)

    # --- reports --------------------------------------------------------------------------------

    def run(self) -> int:
        """Run the reports of all outcomes; return how many records they report.

        Runs user code. Called again by such code it does nothing, or reports would be nested as
        deep as there are records. When a callback raises, its exception passes through at once,
        and the next call goes on with the record after it.
        """
        if not (self._outcomes or self._relayed) or self.reporting:
            return 0
        self._thread.reporting = True
        try:
            return self._run()
        finally:
            self._thread.reporting = False

    @property
    def reporting(self) -> bool:
        """Whether this thread is inside a report now."""
        return getattr(self._thread, "reporting", False)

    def run_all(self) -> BaseException | None:
        """Run all reports, whichever raises; return the first exception."""
        raised: BaseException | None = None
        while True:
            try:
                self.run()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - the others have to run too
                raised = raised or error
            else:
                return raised

    def _run(self) -> int:
        count = self.run_relayed()  # messages from before a topic got its schema come first
        while True:
            outcome = None
            try:
                with self.lock:
                    for waiting in self._outcomes:
                        if not waiting.claimed:
                            outcome = waiting
                            waiting.claimed = True
                            break
                if outcome is None:
                    return count
                count += self._report(outcome)
            finally:
                if outcome is not None:
                    outcome.claimed = False

    def run_relayed(self) -> int:
        """Run the reports that librdkafka handed over itself; return how many there were."""
        count = 0
        while True:
            # Another thread can run, or a handler, where a function is called, or a loop begins
            # again. `while self._relayed` would begin between the look and what relies on it.
            if not self._relayed:
                return count
            first = self._relayed[0]
            callback, error, source = first
            message = plain_message(source)
            if self._abandoned.error is not None:
                raise self._abandoned.error
            if not self._relayed or self._relayed[0] is not first:
                continue  # another thread was faster
            del self._relayed[0]
            count += 1
            if error is not None or not self._errors_only:
                callback(error, message)

    def _report(self, outcome: Outcome) -> int:
        start = outcome.reported
        if outcome.is_silent:
            outcome.reported = outcome.reports
        else:
            self._queue.begin_reporting(outcome)
            quiet = self._errors_only and outcome.error is None
            outcome.run(self._abandoned, quiet=quiet)
        self._queue.release_records(outcome)
        with self.lock:
            if outcome in self._outcomes:
                self._outcomes.remove(outcome)
        return (outcome.reports - start) * outcome.records_per_report

    def abandon(self, error: Exception) -> None:
        """Raise this instead of the next report: in a forked child they are the parent's."""
        self._abandoned.error = error
