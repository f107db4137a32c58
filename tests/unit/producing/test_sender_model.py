"""Whatever happens in whatever order: one report a record, order kept, memory given back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pipeline import Pipeline

from columnar_kafka import native
from columnar_kafka.position import unpack

CODE = pa.field("code", pa.binary(1))
SCHEMAS = [
    pa.schema([pa.field("id", pa.int64(), nullable=False), ("pad", pa.binary()), CODE]),
    pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("pad", pa.binary()), CODE, ("x", pa.int8())]
    ),
]
PARTITIONS = 3
TIMEOUT = 50.0
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
ERROR = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)


class Producing(RuleBasedStateMachine):
    """The pipeline against a list of what was accepted, by partition."""

    @initialize(
        rows=st.sampled_from([1, 3, 1000]),
        limit=st.sampled_from([2500, 8000, 900_000]),
        known=st.booleans(),
        memory=st.sampled_from([4000, 1 << 30]),
        is_pure=st.booleans(),
    )
    def start(self, rows: int, limit: int, *, known: bool, memory: int, is_pure: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        if is_pure:
            self.patch.setattr(native, "enabled", False)
        self.pipeline = Pipeline(
            SCHEMAS[0],
            partitions=PARTITIONS if known else None,
            segment_rows=rows,
            limit_bytes=limit,
            target_bytes=min(limit, 5000),
            queue_bytes=memory,
            queue_messages=5,
            message_timeout=TIMEOUT,
            linger=2.0,
        )
        self.schema = 0
        self.sent_again = False
        self.accepted: dict[int, int] = {}
        self.poison: set[int] = set()

    # --- what the user does ---------------------------------------------------------------------

    def accept(self, value: Any, partition: int, *, raises: bool) -> bool:
        number = len(self.accepted)
        note = self.pipeline.reporter(number)

        def report(error: Any, message: Any) -> None:
            note(error, message)
            if raises:
                raise LookupError

        try:
            self.pipeline.produce(
                value(number),
                partition=partition,
                key=b"%d" % number,
                timestamp=1000 + number,
                on_delivery=report,
            )
        except BufferError:
            return False
        self.accepted[number] = partition
        return True

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        size=st.sampled_from([0, 10, 400]),
        raises=st.booleans(),
        count=st.integers(1, 5),
    )
    def record(self, partition: int, size: int, count: int, *, raises: bool) -> None:
        more = self.more()
        for _ in range(count):
            pad = b"%d" % len(self.accepted) * (size // 2)
            self.accept(lambda n, pad=pad: {"id": n, "pad": pad} | more, partition, raises=raises)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def poisoned(self, partition: int) -> None:
        """A code that only its conversion finds to be too long."""
        more = self.more() | {"code": b"long"}
        number = len(self.accepted)
        if self.accept(lambda n: {"id": n, "pad": None} | more, partition, raises=False):
            self.poison.add(number)

    def more(self) -> dict[str, Any]:
        return {"code": None} | ({"x": 1} if self.schema else {})

    @rule(partition=st.integers(0, PARTITIONS - 1), raises=st.booleans())
    def plain(self, partition: int, *, raises: bool) -> None:
        self.accept(lambda n: b"%d" % n, partition, raises=raises)

    @rule()
    def change_schema(self) -> None:
        self.schema = 1 - self.schema
        self.pipeline.set_schema(SCHEMAS[self.schema])

    @rule()
    def flush(self) -> None:
        self.pipeline.sender.seal()

    @rule()
    def poll(self) -> None:
        with suppress(LookupError):
            self.pipeline.poll()

    @rule()
    def purge(self) -> None:
        self.pipeline.purge()

    # --- what the world does --------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 1.0, 3.0]))
    def look(self, seconds: float) -> None:
        self.pipeline.run(self.pipeline.now + seconds)

    @rule()
    def much_time_passes(self) -> None:
        self.pipeline.run(self.pipeline.now + TIMEOUT)

    @rule()
    def acknowledge(self) -> None:
        self.pipeline.acknowledge()

    @precondition(lambda self: self.pipeline.kafka.partitions("t") is None)
    @rule()
    def topic_appears(self) -> None:
        self.pipeline.kafka.create_topic("t", PARTITIONS)

    @rule(count=st.integers(1, 3))
    def queue_is_full(self, count: int) -> None:
        self.pipeline.broker.refuse_next(count=count)

    @rule(stored=st.booleans())
    def send_fails(self, *, stored: bool) -> None:
        self.pipeline.broker.fail_next(ERROR, stored=stored)

    @rule(count=st.integers(1, 3))
    def batch_is_too_large(self, count: int) -> None:
        self.sent_again = True
        self.pipeline.broker.fail_next(TOO_LARGE, count=count)

    @rule(most=st.sampled_from([2600, 4000, 6000]))
    def limit_is_set(self, most: int) -> None:
        if self.pipeline.kafka.partitions("t") is not None:
            self.sent_again = True
            self.pipeline.kafka.create_topic("t", PARTITIONS, max_message_bytes=most)

    @rule()
    def send_is_refused(self) -> None:
        self.pipeline.broker.refuse_next(ERROR)

    @rule()
    def broker_holds(self) -> None:
        self.pipeline.broker.hold()

    @rule()
    def broker_releases(self) -> None:
        self.pipeline.broker.release()

    # --- what must hold -------------------------------------------------------------------------

    @invariant()
    def no_record_is_reported_twice(self) -> None:
        tags = [report.tag for report in self.pipeline.reports]
        assert len(set(tags)) == len(tags)
        assert set(tags) <= set(self.accepted)

    @invariant()
    def unreported_records_are_counted(self) -> None:
        reported = len(self.pipeline.reports)
        assert self.pipeline.queue.records == len(self.accepted) - reported
        assert self.pipeline.queue.used_bytes >= 0

    def teardown(self) -> None:
        if not hasattr(self, "pipeline"):
            return
        self.patch.undo()
        pipeline = self.pipeline
        if pipeline.kafka.partitions("t") is None:
            pipeline.kafka.create_topic("t", PARTITIONS)
        pipeline.broker.release()
        for _ in range(200):
            pipeline.sender.seal()
            pipeline.run(pipeline.now + 0.1)
            self.poll()
        assert sorted(report.tag for report in pipeline.reports) == [*self.accepted]
        assert (pipeline.queue.used_bytes, pipeline.queue.records) == (0, 0)
        assert pipeline.delivery.in_librdkafka == 0
        stored = {
            partition: [int((record.key or b"").decode()) for record in pipeline.sent(partition)]
            for partition in range(PARTITIONS)
        }
        for partition, numbers in stored.items():
            assert len(set(numbers)) == len(numbers), "twice"
            # What was in flight behind a message that was refused for its size may land before it.
            assert self.sent_again or numbers == sorted(numbers), "out of order"
            assert all(self.accepted[number] == partition for number in numbers)
        for report in pipeline.reports:
            self.check_report(report, stored)

    def check_report(self, report: Any, stored: dict[int, list[int]]) -> None:
        number, partition = report.tag, self.accepted[report.tag]
        assert (report.key, report.timestamp) == (b"%d" % number, 1000 + number)
        if isinstance(report.value, bytes):
            assert report.value == b"%d" % number
        else:
            assert report.value["id"] == number
            assert report.value["code"] == (b"long" if number in self.poison else None)
        if number in self.poison:
            assert report.error is not None
            assert number not in stored[partition]
        if report.error is None:
            at = unpack(report.offset)
            message = self.pipeline.kafka.messages("t", partition)[at.offset]
            assert number in stored[partition], message
            assert report.partition == partition
        else:
            assert report.offset is None


TestProducing = Producing.TestCase
TestProducing.settings = settings(
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
