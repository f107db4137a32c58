"""Records as tables and streams: checks the arguments of calls, and passes them to the feed."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.consuming.arrow.batch_reader import stream
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.consuming.arrow.table_feed import TableFeed, TableRequest
from columnar_kafka.consuming.feed.feed import never_cancelled
from columnar_kafka.consuming.group.membership import Phase
from columnar_kafka.errors import ConfigError
from columnar_kafka.offsets import Partition, key_of
from columnar_kafka.plain.base import Formats
from columnar_kafka.runtime.deadline import deadline_after, seconds_left

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from columnar_kafka.broker.base import ConsumerBroker
    from columnar_kafka.config import ReadOptions
    from columnar_kafka.consuming.arrow.batch_reader import OnError, OnSchemaChange
    from columnar_kafka.consuming.arrow.table_feed import FoundTable
    from columnar_kafka.consuming.feed.feed import Cancelled, Feed
    from columnar_kafka.consuming.group.membership import GroupMembership

__all__ = ["ArrowOutput"]

_MAX_RECORDS: Final = 1_000_000


class ArrowOutput:
    """Records as tables and as streams of record batches. Thread-safe.

    It keeps the last projection, as planning a filter takes milliseconds.
    """

    def __init__(
        self,
        broker: ConsumerBroker,
        feed: Feed,
        group: GroupMembership,
        options: ReadOptions,
        *,
        partition_eof: bool,
    ) -> None:
        """Take tables from `feed`; with `partition_eof` librdkafka reports ends of partitions."""
        self._broker = broker
        self._feed, self._tables = feed, TableFeed(feed)
        self._group = group
        self._options = options
        self._partition_eof = partition_eof
        self._projection = Projection()

    def take(
        self,
        num_records: int,
        timeout: float = -1,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> pa.Table | None:
        """See `Consumer.consume_arrow`."""
        deadline = deadline_after(timeout)
        while True:
            records = self.find(num_records, timeout, columns, **options)
            if records is None:
                return None
            table = records.take()
            if table is not None:  # no call comes between this and the user's line: see `handout`
                return table
            # Another thread has used the consumer at the last moment.
            timeout = seconds_left(deadline)

    def find(
        self,
        num_records: int,
        timeout: float = -1,
        columns: Sequence[str] | None = None,
        *,
        cancelled: Cancelled = never_cancelled,
        **options: Any,
    ) -> FoundTable | None:
        """Return the result of `consume_arrow`, not handed out yet; None when it is `cancelled`."""
        math.isfinite(timeout)
        self._group.check_open()
        count = _checked_count(num_records)
        least = count if options.get("filter") is None else 1
        request = self._request(columns, least=least, most=count, **options)
        return self._tables.find(request, timeout, cancelled)

    def stream(
        self,
        columns: Sequence[str] | None = None,
        *,
        schema: pa.Schema | None = None,
        num_records: int = 100_000,
        timeout: float = -1,
        until_end: bool = False,
        on_error: OnError = None,
        on_schema_change: OnSchemaChange = None,
        cancelled: Cancelled = never_cancelled,
        **options: Any,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema and the batches of `arrow_reader`; `cancelled` ends them too."""
        math.isfinite(timeout)
        self._group.check_open()
        if until_end and not self._partition_eof:
            raise ConfigError("arrow_reader: until_end needs enable.partition.eof=true")
        if until_end:
            self._feed.forget_ends()
        most = _checked_count(num_records)
        schema_and_batches = stream(
            self._tables,
            self._request(columns, schema=schema, least=1, most=most, single=True, **options),
            timeout=timeout,
            is_finished=self._is_read_to_end if until_end else self._is_closed,
            until_end=until_end,
            on_error=on_error,
            on_schema_change=on_schema_change,
            cancelled=cancelled,
        )
        if schema_and_batches is None:
            reason = f"arrow_reader: no record in {timeout:g} s to take the schema from"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
        return schema_and_batches

    def _is_closed(self, _: set[Partition]) -> bool:
        return self._group.phase is Phase.CLOSED

    def _is_read_to_end(self, reached: set[Partition]) -> bool:
        self._group.check_open()
        assigned = set(map(key_of, self._feed.run_alone(self._broker.assignment)))
        return bool(assigned) and assigned <= reached

    def _request(
        self,
        columns: Sequence[str] | None,
        *,
        filter: pc.Expression | None = None,  # noqa: A002 - as consume_arrow
        promote: bool = False,
        key: Any = None,
        value: Any = None,
        **more: Any,
    ) -> TableRequest:
        projection, kept = Projection(columns, filter, promote=promote), self._projection
        if projection.is_like(kept):
            projection = kept
        else:
            self._projection = projection
        return TableRequest(
            projection=projection,
            formats=Formats(key, value),
            options=self._options,
            **more,
        )


def _checked_count(num_records: int) -> int:
    count = index(num_records)
    if not 0 < count <= _MAX_RECORDS:
        raise ValueError("num_records must be between 1 and 1000000 (1M)")
    return count
