"""One acknowledgement → n reports: each accepted record is reported exactly once.

Acknowledgements arrive inside librdkafka's `poll`, where user code may call nothing; they are only
noted there. The records' own reports run afterwards, in the same user's thread.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import KafkaError

from columnar_kafka import position
from columnar_kafka.batch import Plain, Refused
from columnar_kafka.bulk import Bulk
from columnar_kafka.record import ArrowReport, OneRow, plain_message, reports

if TYPE_CHECKING:
    import confluent_kafka

    from columnar_kafka.accumulator import Unplaced
    from columnar_kafka.batch import Call, InFlight
    from columnar_kafka.block import Callback
    from columnar_kafka.budget import Budget
    from columnar_kafka.record import Message

__all__ = ["Delivery"]


_NOT_REFUSED: Final = (
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._VALUE_SERIALIZATION,
)


class _Outcome(Protocol):
    """Records whose fate is known, some of them reported already."""

    def __len__(self) -> int:
        """Return how many reports there are at most."""
        ...

    @property
    def charge(self) -> int: ...

    @property
    def records_each(self) -> int:
        """How many records one report stands for."""
        ...

    def callback(self, index: int) -> Callback: ...

    def error(self) -> KafkaError | None: ...

    def message(self, index: int) -> Any: ...


class _SegmentOutcome:
    """The records of an acknowledged or failed segment."""

    records_each = 1

    def __init__(
        self, sent: InFlight, error: KafkaError | None, source: confluent_kafka.Message | None
    ) -> None:
        self._sent = sent
        self._error = error
        offset = source.offset() if source is not None and error is None else None
        self.message = reports(
            sent.block,
            topic=sent.topic,
            partition=sent.partition,
            offset=offset,
            count=len(sent.block),
            error=error,
            acknowledged=source,
        )

    def __len__(self) -> int:
        return len(self._sent.block)

    @property
    def charge(self) -> int:
        return self._sent.charge

    def callback(self, index: int) -> Callback:
        return self._sent.block.callbacks[index]

    def error(self) -> KafkaError | None:
        return self._error


class _OneOutcome:
    """One record on its own: refused, given up, or a plain message."""

    records_each = 1

    def __init__(
        self, message: Message, callback: Callback, error: KafkaError | None, charge: int
    ) -> None:
        self._message = message
        self._callback = callback
        self._error = error
        self.charge = charge

    def __len__(self) -> int:
        return 1

    def callback(self, index: int) -> Callback:
        return self._callback

    def error(self) -> KafkaError | None:
        return self._error

    def message(self, index: int) -> Message:
        return self._message


class _CallOutcome:
    """Some of the records of one `produce_arrow`; the last ones bring its report."""

    def __init__(
        self,
        call: Call,
        records: int,
        charge: int,
        error: KafkaError | None,
        partition: int,
        offset: int | None,
    ) -> None:
        self.records_each = records
        self.charge = charge
        self._call = call
        self._outcome = (error, partition, offset)

    def __len__(self) -> int:
        return 1

    def callback(self, index: int) -> Callback:
        last = self._call.done(self.records_each, *self._outcome)
        return self._call.callback if last else None

    def error(self) -> KafkaError | None:
        return self._call.error

    def message(self, index: int) -> ArrowReport:
        return ArrowReport(self._call)


class Delivery:
    """Owns every record from the moment its fate is known until its report has run.

    `acknowledged` and `failed` may be called from any thread; `run` from the threads that poll.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: deque[tuple[_Outcome, int]] = deque()  # with the next record to report
        self._thread = threading.local()  # whose `reporting` is set while its reports run
        self._lock = threading.Lock()  # guards the four counts
        self._in_librdkafka = 0
        self._acknowledgements = 0
        self._failures = 0
        self._refusals = 0

    def __repr__(self) -> str:
        return f"<Delivery {len(self._known)} outcomes to report, {self._in_librdkafka} in flight>"

    @property
    def in_librdkafka(self) -> int:
        """The messages handed to librdkafka by the sender and not acknowledged yet."""
        return self._in_librdkafka

    @property
    def acknowledgements(self) -> int:
        """How many of them librdkafka has reported since the producer was made."""
        return self._acknowledgements

    @property
    def failures(self) -> int:
        """How many accepted records have failed since the producer was made."""
        return self._failures

    @property
    def refusals(self) -> int:
        """How often Kafka, or its limits, did not take something."""
        return self._refusals

    def handed_over(self, count: int = 1) -> None:
        """Count a message that librdkafka now has (or, with -1, did not take after all)."""
        with self._lock:
            self._in_librdkafka += count

    def returned(self) -> None:
        """Count an acknowledgement of librdkafka, whatever becomes of its records."""
        with self._lock:
            self._in_librdkafka -= 1
            self._acknowledgements += 1

    def done(
        self,
        sent: InFlight | Plain,
        error: KafkaError | None,
        source: confluent_kafka.Message | None = None,
    ) -> None:
        """Note the final state of a message, whether librdkafka ever had it or not.

        Calls no user code.
        """
        if isinstance(sent, Plain):
            self._plain_done(sent, error, source)
            return
        encoded = len(sent.data)
        sent.done(ok=error is None)
        self._budget.adjust(-encoded)
        sent.charge -= encoded
        if sent.call is not None:
            self._call_done(sent, sent.call, error, source)
        else:
            self._note(_SegmentOutcome(sent, error, source), error)

    def _plain_done(
        self, sent: Plain, error: KafkaError | None, source: confluent_kafka.Message | None
    ) -> None:
        if source is None:
            assert error is not None
            row = OneRow((sent.value, sent.key, sent.timestamp, sent.headers))
            refused = Refused(sent.topic, sent.partition, row, error, sent.callback)
            self.refused(refused, charge=sent.charge)
        else:
            outcome = _OneOutcome(plain_message(source), sent.callback, error, sent.charge)
            self._note(outcome, error)

    def _call_done(
        self,
        sent: InFlight,
        call: Call,
        error: KafkaError | None,
        source: confluent_kafka.Message | None,
    ) -> None:
        count = len(sent.block)
        offset = source.offset() if source is not None and error is None else None
        last = None if offset is None else position.pack(offset, count - 1, count)
        outcome = _CallOutcome(call, count, sent.charge, error, sent.partition, last)
        self._note(outcome, error)

    def given_up(self, each: Unplaced, error: KafkaError) -> None:
        """Note what never became a segment: it waited too long, or was purged."""
        if isinstance(each, Plain):
            self._plain_done(each, error, None)
        elif isinstance(each, Bulk):
            count = len(each)
            outcome = _CallOutcome(each.call, count, each.charge, error, each.partition, None)
            self._note(outcome, error)
        else:
            key, timestamp, headers, callback = each.others
            value = dict(zip(each.form.schema.names, each.values, strict=False))
            row = OneRow((value, key, timestamp, headers))
            refused = Refused(each.form.topic, each.partition, row, error, callback)
            self.refused(refused, charge=each.nbytes)

    def nothing(self, call: Call) -> None:
        """Note a `produce_arrow` without a record: it is reported all the same."""
        self._note(_CallOutcome(call, 0, 0, None, -1, None), None)

    def refused(self, refused: Refused, *, charge: int = 0) -> None:
        """Note a record that never was part of a segment."""
        if refused.call is not None:
            outcome = _CallOutcome(refused.call, 1, charge, refused.error, refused.partition, None)
            self._note(outcome, refused.error)
            return
        report = reports(
            refused.row,
            topic=refused.topic,
            partition=refused.partition,
            offset=None,
            count=1,
            error=refused.error,
            acknowledged=None,
        )
        message = report(0)
        self._note(_OneOutcome(message, refused.callback, refused.error, charge), refused.error)

    def _note(self, outcome: _Outcome, error: KafkaError | None) -> None:
        if error is not None:
            with self._lock:
                self._failures += len(outcome) * outcome.records_each
                self._refusals += error.code() not in _NOT_REFUSED
        self._known.append((outcome, 0))

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

    def _run(self) -> int:
        count = 0
        while self._known:
            try:
                outcome, index = self._known.popleft()
            except IndexError:  # another thread that polls was faster
                break
            count += self._report(outcome, index)
        return count

    def _report(self, outcome: _Outcome, start: int) -> int:
        total = len(outcome)
        for index in range(start, total):
            callback = outcome.callback(index)
            if callback is None:
                continue
            try:
                callback(outcome.error(), outcome.message(index))
            except BaseException:
                # What this call has reported is given back; no sibling's report is lost.
                self._release(outcome, start, index + 1)
                if index + 1 < total:
                    self._known.appendleft((outcome, index + 1))
                raise
        self._release(outcome, start, total)
        return (total - start) * outcome.records_each

    def _release(self, outcome: _Outcome, start: int, stop: int) -> None:
        """Give back the records' memory: all of it with the last, for it is one block."""
        done = stop == len(outcome)
        records = (stop - start) * outcome.records_each
        self._budget.release(outcome.charge if done else 0, records)
