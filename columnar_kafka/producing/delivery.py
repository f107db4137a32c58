"""One acknowledgement → n reports: each accepted record is reported exactly once.

librdkafka hands an acknowledgement over inside its `poll`, where user code may call nothing: it is
put into the message's `fate`, and taken from there when that call has returned. The records' own
reports run then, in the same user's thread.

A signal's exception may come between any two calls of these threads. So what is done here is either
one step, or can be done again: what has been `noted` is not noted twice, an outcome knows how many
of its records are reported, and memory that is given back counts once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from columnar_kafka import position
from columnar_kafka.message import plain_message
from columnar_kafka.producing.arrow_batch import ArrowBatch
from columnar_kafka.producing.batch import FailedRecord, Part, PlainMessage
from columnar_kafka.producing.partition_queue import Rejected
from columnar_kafka.producing.report import ArrowReport, OneRow, reports

if TYPE_CHECKING:
    from collections.abc import Callable

    import confluent_kafka

    from columnar_kafka.producing.arrow_batch import Unplaced
    from columnar_kafka.producing.batch import ArrowCall, EncodedSegment
    from columnar_kafka.producing.partition_queue import PartitionQueue
    from columnar_kafka.producing.record_block import Callback
    from columnar_kafka.producing.record_queue import RecordQueue

    _Relayed = tuple[Callable[..., Any], KafkaError | None, confluent_kafka.Message]

__all__ = ["Delivery"]

_GONE: Final = (
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
_FATAL: Final = (KafkaError._FATAL, KafkaError._FENCED)
_FENCED: Final = (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_NOT_REFUSED: Final = (
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._VALUE_SERIALIZATION,
)


class _Outcome:
    """Records whose fate is known, some of them reported already; `taken` by who reports them."""

    records_each = 1

    def __init__(self, count: int, charge: int, error: KafkaError | None) -> None:
        self.count = count  # of reports
        self.error = error
        self.reported = 0
        self.taken = False
        self.charge = charge
        self.records = count * self.records_each

    def failures(self) -> tuple[int, int]:
        """Return how many records have failed, and whether (1 or 0) Kafka did not take them."""
        if self.error is None:
            return 0, 0
        return self.records, int(self.error.code() not in _NOT_REFUSED)

    def callback(self, index: int) -> Callback:
        """Return who is told."""
        raise NotImplementedError

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        """Return what they are told."""
        raise NotImplementedError


class _SegmentOutcome(_Outcome):
    """The records of an acknowledged or failed segment."""

    def __init__(
        self, sent: EncodedSegment, error: KafkaError | None, source: confluent_kafka.Message | None
    ) -> None:
        super().__init__(len(sent.block), sent.charge, error)
        self._block = sent.block
        offset = source.offset() if source is not None and error is None else None
        self._message = reports(
            sent.block,
            topic=sent.topic,
            partition=sent.partition,
            offset=offset,
            count=self.count,
            error=error,
            acknowledged=source,
            latency=_age(sent.since),
        )

    def callback(self, index: int) -> Callback:
        return self._block.callbacks[index]

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        return self.error, self._message(index)


class _OneOutcome(_Outcome):
    """One record on its own: refused, given up, or a plain message."""

    def __init__(
        self, message: Any, callback: Callback, error: KafkaError | None, charge: int
    ) -> None:
        super().__init__(1, charge, error)
        self._message = message
        self._callback = callback

    def callback(self, index: int) -> Callback:
        return self._callback

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        return self.error, self._message


class _CallOutcome(_Outcome):
    """Some of the records of one `produce_arrow`; the last ones bring its report."""

    def __init__(self, call: ArrowCall, part: Part, charge: int) -> None:
        self.records_each = part.records
        super().__init__(1, charge, part.error)
        self._call = call
        self._part = part

    def callback(self, index: int) -> Callback:
        return self._call.callback if self._call.done(self._part) else None

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        return self._call.error, ArrowReport(self._call)


class Delivery:
    """Owns every record from the moment librdkafka has it, or it failed, until it is reported.

    `done`, `given_up`, `refused` and `handed_over` are the sender's thread's, the rest is for any.
    Messages of topics without a schema come here when librdkafka reports them to their callback.
    """

    def __init__(self, queue: RecordQueue, *, sends_again: bool, errors_only: bool = False) -> None:
        """Give back to `queue` what is reported.

        `sends_again`: what Kafka refuses as too large is given back to its lane, to be cut; in a
        transaction nothing is. `errors_only`: no callback is told of success.
        """
        self.fatal = False
        """Whether librdkafka has said that it can send nothing more."""
        self._queue = queue
        self._abandoned: Exception | None = None
        self._sends_again = sends_again
        self._errors_only = errors_only
        self._thread = threading.local()  # whose `reporting` is set while its reports run
        self._lock = threading.RLock()  # guards the rest; a signal handler may poll too
        self._lanes: dict[PartitionQueue, None] = {}  # with something in flight
        self._known: deque[_Outcome] = deque()
        self._relayed: deque[_Relayed] = deque()
        self._failures = 0
        self._refusals = 0
        queue.reported_early = self._reported_early

    def __repr__(self) -> str:
        return f"<Delivery {len(self._known)} outcomes to report, {self.in_librdkafka} in flight>"

    @property
    def in_librdkafka(self) -> int:
        """The messages handed to librdkafka and not known to be acknowledged yet."""
        return sum(len(lane.in_flight) for lane in list(self._lanes))

    @property
    def relayed(self) -> int:
        """The acknowledged messages of topics without a schema that are not reported yet."""
        return len(self._relayed)

    @property
    def failures(self) -> int:
        """How many accepted records have failed since the producer was made."""
        return self._failures

    @property
    def refusals(self) -> int:
        """How often Kafka, or its limits, did not take something."""
        return self._refusals

    # --- in flight ------------------------------------------------------------------------------

    def hand_over(
        self, lane: PartitionQueue, item: EncodedSegment | PlainMessage, send: Callable[..., None]
    ) -> None:
        """Have `send` give a message to librdkafka, and wait for its fate from then on.

        Raises:
            Exception: whatever `send` raises; librdkafka does not have the message then.
        """
        item.fate = {}
        item.noted = False
        with self._lock:
            lane.in_flight.append(item)
            self._lanes[lane] = None
        try:
            send(acknowledge=item.fate.setdefault)
        except BaseException:
            with self._lock:
                lane.in_flight.pop()
            raise

    def collect(self) -> int:
        """Take note of what librdkafka has acknowledged; return how many messages that were."""
        count = 0
        with self._lock:
            for lane in list(self._lanes):
                while lane.in_flight:
                    item = lane.in_flight[0]
                    if not item.noted:
                        if not item.fate:
                            break
                        self._note_fate(lane, item)
                    lane.in_flight.popleft()
                    count += 1
                else:
                    del self._lanes[lane]
        return count

    def _note_fate(self, lane: PartitionQueue, item: EncodedSegment | PlainMessage) -> None:
        ((error, source),) = item.fate.items()
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            refusal = Rejected(item, item.nbytes, error, source, final=not self._sends_again)
            if self._sends_again:
                item.noted = True
                lane.refusals.append(refusal)
                return
            lane.refusals.append(refusal)
        elif error is not None and error.code() in _GONE:
            lane.refusals.append(Rejected(item, item.nbytes, error, source, final=True))
        if error is not None and self._ends_all(error):
            self.fatal = True
        self._queue.free(item)
        outcome = _outcome(item, error, source)
        failures, refusals = outcome.failures()
        item.noted = True  # no call from here on, but the one that adds it
        self._failures += failures
        self._refusals += refusals
        self._known.append(outcome)

    def _ends_all(self, error: KafkaError) -> bool:
        fenced = not self._sends_again and error.code() in _FENCED
        return error.fatal() or error.code() in _FATAL or fenced

    def relay(
        self,
        callback: Callable[..., Any],
        error: KafkaError | None,
        source: confluent_kafka.Message,
    ) -> None:
        """Take over a report of a topic without a schema, inside librdkafka's `poll`."""
        self._relayed.append((callback, error, source))

    # --- outcomes -------------------------------------------------------------------------------

    def done(
        self,
        item: EncodedSegment | PlainMessage,
        error: KafkaError,
        source: confluent_kafka.Message | None = None,
    ) -> None:
        """Note that a message has failed that librdkafka never had, or has given back."""
        self._queue.free(item)
        self._note(_outcome(item, error, source))

    def given_up(self, each: Unplaced, error: KafkaError) -> None:
        """Note what never became a segment: it waited too long, or was purged."""
        if isinstance(each, PlainMessage):
            self.done(each, error)
        elif isinstance(each, ArrowBatch):
            part = Part(len(each), error, each.partition, None)
            self._note(_CallOutcome(each.call, part, each.charge))
        else:
            form, partition, values, (key, timestamp, headers, callback), nbytes, since = each
            value = dict(zip(form.schema.names, values, strict=False))
            row = OneRow((value, key, timestamp, headers))
            refused = FailedRecord(form.topic, partition, row, error, callback, since)
            self.refused(refused, charge=nbytes)

    def nothing(self, call: ArrowCall) -> None:
        """Note a `produce_arrow` without a record: it is reported all the same."""
        self._note(_CallOutcome(call, Part(0, None, -1, None), 0))

    def refused(self, refused: FailedRecord, *, charge: int = 0) -> None:
        """Note a record that never was part of a segment."""
        self._note(_refused(refused, charge))

    def _note(self, outcome: _Outcome) -> None:
        failures, refusals = outcome.failures()
        with self._lock:
            self._failures += failures
            self._refusals += refusals
            self._known.append(outcome)

    # --- reports --------------------------------------------------------------------------------

    def run(self) -> int:
        """Run the reports of all records whose fate is known; return how many records that were.

        Runs user code. Called again by such code it does nothing, or reports would be nested as
        deep as there are records. When a callback raises, its exception
        passes through at once, and the next call goes on with the record after it.
        """
        if self.reporting:
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
        """Run the reports as `run` does, also those after one that raised; return what it did."""
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
        count = self._run_relayed()  # what a topic had before it got its schema comes first
        while True:
            outcome = None
            try:
                with self._lock:
                    for each in self._known:
                        if not each.taken:
                            outcome = each
                            each.taken = True
                            break
                if outcome is None:
                    return count
                count += self._report(outcome)
            finally:
                if outcome is not None:
                    outcome.taken = False

    def _run_relayed(self) -> int:
        count = 0
        while True:
            with self._lock:
                if not self._relayed:
                    return count
                callback, error, source = self._relayed[0]
                message = plain_message(source)
                if self._abandoned is not None:
                    raise self._abandoned
                self._relayed.popleft()
            count += 1
            if error is not None or not self._errors_only:
                callback(error, message)

    def _report(self, outcome: _Outcome) -> int:
        start = outcome.reported
        quiet = self._errors_only and outcome.error is None
        for index in range(start, outcome.count):
            callback = outcome.callback(index)
            if callback is None or quiet:
                outcome.reported = index + 1
                continue
            error, message = outcome.report(index)
            if self._abandoned is not None:
                raise self._abandoned
            outcome.reported = index + 1  # at once before the call: once, and not never
            callback(error, message)
        self._queue.release(outcome)
        with self._lock:
            if outcome in self._known:
                self._known.remove(outcome)
        return (outcome.count - start) * outcome.records_each

    def abandon(self, error: Exception) -> None:
        """Raise this instead of the next report: in a forked child they are the parent's."""
        self._abandoned = error

    def _reported_early(self) -> int:
        """Return how many records are reported of outcomes that still have some to report."""
        count = 0
        for outcome in list(self._known):  # no lock: the intake asks while it holds its own
            if not outcome.taken and not outcome.reported:
                break  # nor is any behind it
            count += min(outcome.reported * outcome.records_each, outcome.records)
        return count


def _outcome(
    item: EncodedSegment | PlainMessage,
    error: KafkaError | None,
    source: confluent_kafka.Message | None,
) -> _Outcome:
    if not isinstance(item, PlainMessage):
        if item.call is None:
            return _SegmentOutcome(item, error, source)
        count = len(item.block)
        offset = source.offset() if source is not None and error is None else None
        last = None if offset is None else position.pack(offset, count - 1, count)
        return _CallOutcome(item.call, Part(count, error, item.partition, last), item.charge)
    if source is not None:
        return _OneOutcome(plain_message(source), item.callback, error, item.charge)
    assert error is not None
    row = OneRow((item.value, item.key, item.timestamp, item.headers))
    refused = FailedRecord(item.topic, item.partition, row, error, item.callback, item.since)
    return _refused(refused, item.charge)


def _refused(refused: FailedRecord, charge: int) -> _Outcome:
    if refused.call is not None:
        return _CallOutcome(refused.call, Part(1, refused.error, refused.partition, None), charge)
    report = reports(
        refused.row,
        topic=refused.topic,
        partition=refused.partition,
        offset=None,
        count=1,
        error=refused.error,
        acknowledged=None,
        latency=_age(refused.since),
    )
    return _OneOutcome(report(0), refused.callback, refused.error, charge)


def _age(since: float) -> float:
    return max(0.0, time.monotonic() - since)
