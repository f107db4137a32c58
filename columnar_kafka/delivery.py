"""One acknowledgement → n reports: each accepted record is reported exactly once.

Acknowledgements arrive inside librdkafka's `poll`, where user code may call nothing; they are only
noted there. The records' own reports run afterwards, in the same user's thread.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from columnar_kafka.record import plain_message, reports

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import KafkaError

    from columnar_kafka.batch import Callback, InFlight, Plain, Refused
    from columnar_kafka.budget import Budget
    from columnar_kafka.record import Message

__all__ = ["Delivery"]


class _Outcome(Protocol):
    """Records whose fate is known, some of them reported already."""

    def __len__(self) -> int: ...

    @property
    def charge(self) -> int: ...

    def callback(self, index: int) -> Callback: ...

    def error(self) -> KafkaError | None: ...

    def message(self, index: int) -> Any: ...


class _SegmentOutcome:
    """The records of an acknowledged or failed segment."""

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


class Delivery:
    """Owns every record from the moment its fate is known until its report has run.

    `acknowledged` and `failed` may be called from any thread; `run` from the threads that poll.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: deque[tuple[_Outcome, int]] = deque()  # with the next record to report
        self._thread = threading.local()  # whose `reporting` is set while its reports run
        self._lock = threading.Lock()  # guards the three counts
        self._in_librdkafka = 0
        self._acknowledgements = 0
        self._failures = 0

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

    def handed_over(self, count: int = 1) -> None:
        """Count a message that librdkafka now has (or, with -1, did not take after all)."""
        with self._lock:
            self._in_librdkafka += count

    def _returned(self) -> None:
        with self._lock:
            self._in_librdkafka -= 1
            self._acknowledgements += 1

    def acknowledged(
        self, sent: InFlight, error: KafkaError | None, source: confluent_kafka.Message
    ) -> None:
        """Note what became of a segment that librdkafka had. Calls no user code."""
        self._returned()
        self.segment_done(sent, error, source)

    def segment_done(
        self,
        sent: InFlight,
        error: KafkaError | None,
        source: confluent_kafka.Message | None = None,
    ) -> None:
        """Note the final state of a segment, whether librdkafka ever had it or not."""
        encoded = len(sent.data)
        sent.done(ok=error is None)
        self._budget.adjust(-encoded)
        sent.charge -= encoded
        self._note(_SegmentOutcome(sent, error, source), error)

    def plain_acknowledged(
        self, sent: Plain, error: KafkaError | None, source: confluent_kafka.Message
    ) -> None:
        """Note what became of a plain message that went through the accumulator."""
        self._returned()
        self._note(_OneOutcome(plain_message(source), sent.callback, error, sent.charge), error)

    def refused(self, refused: Refused, *, charge: int = 0) -> None:
        """Note a record that never was part of a segment."""
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
                self._failures += len(outcome)
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
        error = outcome.error()
        for index in range(start, total):
            callback = outcome.callback(index)
            if callback is None:
                continue
            try:
                callback(error, outcome.message(index))
            except BaseException:
                # What this call has reported is given back; no sibling's report is lost.
                self._release(outcome, start, index + 1)
                if index + 1 < total:
                    self._known.appendleft((outcome, index + 1))
                raise
        self._release(outcome, start, total)
        return total - start

    def _release(self, outcome: _Outcome, start: int, stop: int) -> None:
        """Give back the records' memory: all of it with the last, for it is one block."""
        done = stop == len(outcome)
        self._budget.release(outcome.charge if done else 0, stop - start)
