"""What became of accepted records: stored or failed, and which reports say so to whom."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from confluent_kafka import KafkaError

from columnar_kafka import native, position
from columnar_kafka.message import plain_message
from columnar_kafka.producing.engine.native import NativeBlock
from columnar_kafka.producing.engine.record_block import Block, RecordBlock
from columnar_kafka.producing.reporting.arrow_call import CallPart
from columnar_kafka.producing.reporting.report import (
    ArrowReport,
    FailedRecord,
    OneRow,
    Report,
    report,
    report_context,
)
from columnar_kafka.producing.sending.messages import PlainMessage

if TYPE_CHECKING:
    import confluent_kafka

    from columnar_kafka.native._core import Abandoned
    from columnar_kafka.producing.reporting.arrow_call import ArrowCall
    from columnar_kafka.producing.reporting.report import Callback
    from columnar_kafka.producing.sending.messages import EncodedSegment

__all__ = ["ABANDONED", "CallOutcome", "Outcome", "outcome_of", "outcome_of_failed"]

_Block = TypeVar("_Block", bound=Block)

_NOT_REJECTED: Final = (
    KafkaError._PURGE_QUEUE,
    KafkaError._PURGE_INFLIGHT,
    KafkaError._VALUE_SERIALIZATION,
)


class _Abandoned:
    error: Exception | None = None


ABANDONED: Final[Any] = native.core.Abandoned if native.enabled else _Abandoned
"""Has an `error`: once it is set, it is raised in place of the next report."""


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


class _SilentOutcome(Outcome):
    """The records of a segment of which none has a callback."""

    is_silent = True


class _SegmentOutcome(Outcome, Generic[_Block]):
    """The records of a segment that was acknowledged or has failed."""

    def __init__(
        self,
        segment: EncodedSegment,
        block: _Block,
        error: KafkaError | None,
        source: confluent_kafka.Message | None,
    ) -> None:
        super().__init__(len(segment.block), segment.charged_bytes, error)
        self._block = block
        offset = source.offset() if source is not None and error is None else None
        self._context = report_context(
            block,
            topic=segment.topic,
            partition=segment.partition,
            offset=offset,
            count=self.reports,
            error=error,
            acknowledged=source,
            latency=_age(segment.accepted_at),
        )


class _RecordsOutcome(_SegmentOutcome[RecordBlock]):
    """The records of a segment that Python has encoded."""

    def callback(self, index: int) -> Callback:
        return self._block.callback(index)

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
        return self.error, report(self._context, index)


class _NativeOutcome(_SegmentOutcome[NativeBlock]):
    """The records of a segment that the native core has encoded: it runs their reports."""

    def __init__(
        self,
        segment: EncodedSegment,
        block: NativeBlock,
        error: KafkaError | None,
        source: confluent_kafka.Message | None,
    ) -> None:
        super().__init__(segment, block, error, source)
        self._reports = block.reports(Report, self._context, error)

    def run(self, abandoned: Abandoned, *, quiet: bool) -> None:
        if quiet:
            self._reports.reported = self.reports
        self._reports.run(abandoned)

    @property
    def reported(self) -> int:
        return self._reports.reported

    @reported.setter
    def reported(self, count: int) -> None:
        self._reports.reported = count


class _SingleOutcome(Outcome):
    """One plain message, or one record that failed on its own."""

    def __init__(
        self, message: Any, callback: Callback, error: KafkaError | None, charged_bytes: int
    ) -> None:
        super().__init__(1, charged_bytes, error)
        self._message = message
        self._callback = callback

    def callback(self, index: int) -> Callback:
        return self._callback

    def report(self, index: int) -> tuple[KafkaError | None, Any]:
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


def outcome_of(
    message: EncodedSegment | PlainMessage,
    error: KafkaError | None,
    source: confluent_kafka.Message | None,
) -> Outcome:
    """Return the outcome of a message; `source` is librdkafka's, if it ever had the message."""
    if not isinstance(message, PlainMessage):
        count = len(message.block)
        if message.call is None and message.block.is_silent:
            return _SilentOutcome(count, message.charged_bytes, error)
        if isinstance(message.block, NativeBlock):
            return _NativeOutcome(message, message.block, error, source)
        if message.call is None:
            assert isinstance(message.block, RecordBlock)
            return _RecordsOutcome(message, message.block, error, source)
        offset = source.offset() if source is not None and error is None else None
        last = None if offset is None else position.pack(offset, count - 1, count)
        part = CallPart(count, error, message.partition, last)
        return CallOutcome(message.call, part, message.charged_bytes)
    if source is not None:
        reported = plain_message(source)
        return _SingleOutcome(reported, message.callback, error, message.charged_bytes)
    assert error is not None
    row = OneRow((message.value, message.key, message.timestamp, message.headers))
    failed = FailedRecord(
        message.topic, message.partition, row, error, message.callback, message.accepted_at
    )
    return outcome_of_failed(failed, message.charged_bytes)


def outcome_of_failed(failed: FailedRecord, charged_bytes: int) -> Outcome:
    """Return the outcome of a record that librdkafka never had."""
    context = report_context(
        failed.row,
        topic=failed.topic,
        partition=failed.partition,
        offset=None,
        count=1,
        error=failed.error,
        acknowledged=None,
        latency=_age(failed.accepted_at),
    )
    return _SingleOutcome(report(context, 0), failed.callback, failed.error, charged_bytes)


def _age(accepted_at: float) -> float:
    return max(0.0, time.monotonic() - accepted_at)
