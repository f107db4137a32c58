"""What became of accepted records: stored or failed, and which reports say so to whom."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from columnar_kafka.producing.reporting.report import ArrowReport, report, report_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.native._core import Abandoned
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall, CallPart
    from columnar_kafka.producing.reporting.report import Callback, OneRow, ReportContext

__all__ = [
    "CallOutcome",
    "FailedRecord",
    "Outcome",
    "RecordsOutcome",
    "SilentOutcome",
    "SingleOutcome",
    "age",
]

_NOT_REJECTED: Final = (
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._VALUE_SERIALIZATION,
)


class Outcome:
    """Records that are stored or have failed. `claimed` by the thread that runs their reports."""

    records_per_report = 1
    reported = 0
    is_silent = False
    """Whether there is no callback to call."""

    def __init__(self, reports: int, charged_bytes: int, error: KafkaError | None) -> None:
        self.reports = reports
        self.error = error
        self.claimed = False
        self.charged_bytes = charged_bytes
        self.records = reports * self.records_per_report

    @property
    def reported_records(self) -> int:
        """How many records are reported whose memory is not released yet."""
        return min(self.reported * self.records_per_report, self.records)

    def failures(self) -> tuple[int, int]:
        """Return how many records have failed, and 1 if Kafka or its limits rejected them."""
        if self.error is None:
            return 0, 0
        return self.records, int(self.error.code() not in _NOT_REJECTED)

    def run(self, abandoned: Abandoned, *, quiet: bool) -> None:
        """Run the reports that have not run yet; when `quiet`, call nothing.

        A callback's exception passes through, and so does that of `abandoned`: the next call goes
        on behind it.
        """
        for index in range(self.reported, self.reports):
            callback = self.callback(index)
            if callback is None or quiet:
                self.reported = index + 1
                continue
            error, message = self.report(index)
            if abandoned.error is not None:
                raise abandoned.error
            self.reported = index + 1  # right before the call: once, and not never
            callback(error, message)

    def callback(self, index: int) -> Callback:
        """Return the callback of one report."""
        raise NotImplementedError

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        """Return the arguments of that callback."""
        raise NotImplementedError


class SilentOutcome(Outcome):
    """The records of a segment of which none has a callback."""

    is_silent = True


class RecordsOutcome(Outcome):
    """The records of a segment that was acknowledged or has failed."""

    def __init__(
        self,
        callbacks: Callable[[int], Callback],
        context: ReportContext,
        error: KafkaError | None,
        charged_bytes: int,
    ) -> None:
        super().__init__(context.rows, charged_bytes, error)
        self._callbacks = callbacks
        self._context = context

    def callback(self, index: int) -> Callback:
        """See `Outcome`."""
        return self._callbacks(index)

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        """See `Outcome`."""
        return self.error, report(self._context, index)


class SingleOutcome(Outcome):
    """One plain message, or one record that failed on its own."""

    def __init__(
        self, message: Any, callback: Callback, error: KafkaError | None, charged_bytes: int
    ) -> None:
        super().__init__(1, charged_bytes, error)
        self._message = message
        self._callback = callback

    def callback(self, index: int) -> Callback:
        """See `Outcome`."""
        return self._callback

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        """See `Outcome`."""
        return self.error, self._message


class CallOutcome(Outcome):
    """Some of the records of one `produce_arrow`. The last ones bring its report."""

    def __init__(self, call: ArrowCall, part: CallPart, charged_bytes: int) -> None:
        self.records_per_report = part.records
        super().__init__(1, charged_bytes, part.error)
        self._call = call
        self._part = part

    def callback(self, index: int) -> Callback:
        """See `Outcome`: None but for the last of the call's parts."""
        return self._call.callback if self._call.part_done(self._part) else None

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        """See `Outcome`."""
        return self._call.error, ArrowReport(self._call)


@dataclass(slots=True)
class FailedRecord:
    """A record that never becomes part of a segment. It is reported alone; its neighbours ship."""

    topic: str
    partition: int
    row: OneRow
    error: KafkaError
    callback: Callback
    accepted_at: float

    def outcome(self, charged_bytes: int) -> Outcome:
        """Return the outcome of the record, which librdkafka never had."""
        context = report_context(
            self.row,
            topic=self.topic,
            partition=self.partition,
            offset=None,
            count=1,
            error=self.error,
            acknowledged=None,
            latency=age(self.accepted_at),
        )
        return SingleOutcome(report(context, 0), self.callback, self.error, charged_bytes)


def age(accepted_at: float) -> float:
    """Return the seconds since a record was accepted."""
    return max(0.0, time.monotonic() - accepted_at)
