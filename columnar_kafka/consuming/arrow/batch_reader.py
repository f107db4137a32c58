"""An endless stream of record batches out of a consumer, for whatever reads Arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.columns.layouts import can_be_joined
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.consuming.arrow.table_builder import MismatchError
from columnar_kafka.errors import SchemaError
from columnar_kafka.runtime.deadline import deadline_after, seconds_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.consuming.arrow.table_feed import FoundTable, TableFeed, TableRequest
    from columnar_kafka.consuming.feed.feed import Cancelled
    from columnar_kafka.offsets import Partition

__all__ = ["OnError", "OnSchemaChange", "stream"]

_NOTHING: Final = "arrow_reader: at the end there is no record to take the schema from; give one"

OnError = Callable[[KafkaException], object] | None
OnSchemaChange = Callable[[SchemaError], object] | None
IsFinished = Callable[[set["Partition"]], bool]
"""Says whether the stream is finished, once these partitions have been read to their end."""


def stream(
    feed: TableFeed,
    request: TableRequest,
    *,
    timeout: float,
    is_finished: IsFinished,
    until_end: bool,
    on_error: OnError,
    on_schema_change: OnSchemaChange,
    cancelled: Cancelled,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """Return the schema of a stream and its batches; None after `timeout` seconds without any.

    The schema is the request's, or that of the next record, which stays. A batch counts as handed
    out when it is requested. The batches end after `timeout` seconds without a record, when it
    is `cancelled`, when it `is_finished` with the partitions whose end has been reached, and, where
    there is an `on_schema_change`, before a record that does not fit the schema.

    Raises:
        KafkaException: as `TableFeed.find`, where there is no `on_error` to be called; the batches
            too. ``_PARTITION_EOF`` where it ends before there is a record to take the schema from.
            By the batches, ``_TIMED_OUT``: `timeout` ended a stream that goes on `until_end`.
        SchemaError: by the batches: a record does not fit the schema, and it is the first, or there
            is no `on_schema_change`.
        RuntimeError: by the batches: a stream that goes on `until_end` was cancelled before it.
    """
    reading = _Stream(feed, timeout, is_finished, until_end, on_error, on_schema_change, cancelled)
    fits = request.schema is None
    if request.schema is None:
        schema = reading.first_schema(request)
        if schema is None:
            return None
        request = request._replace(schema=schema.remove_metadata())
    return request.schema, reading.batches(request, fits=fits)


class _Stream(NamedTuple):
    """How one stream waits, ends and reports errors; `stream` describes the fields."""

    feed: TableFeed
    timeout: float
    is_finished: IsFinished
    until_end: bool
    on_error: OnError
    on_schema_change: OnSchemaChange
    cancelled: Cancelled

    def first_schema(self, request: TableRequest) -> pa.Schema | None:
        """Return the schema of the next record, which stays."""
        # Without the filter: a record that it leaves out has the schema too.
        projection = Projection(request.projection.columns, promote=request.projection.promote)
        request = request._replace(projection=projection)
        is_at_end = self._end_check()
        deadline = deadline_after(self.timeout)
        while True:
            if is_at_end():
                raise KafkaException(KafkaError(KafkaError._PARTITION_EOF, _NOTHING))
            records = self.feed.find(request, seconds_left(deadline), self.cancelled)
            if records is None:
                return None
            if records.table is not None:
                return records.table.schema
            self._report(records)

    def batches(self, request: TableRequest, *, fits: bool) -> Iterator[pa.RecordBatch]:
        """Yield batches in the request's schema; `fits` if that is known to be a record's."""
        assert request.schema is not None
        is_at_end = self._end_check()
        deadline = deadline_after(self.timeout)
        read = Counter[object]()  # rows that the reader has of a table that was withdrawn then
        while not is_at_end():
            try:
                records = self.feed.find(request, seconds_left(deadline), self.cancelled)
            except RuntimeError:
                if self.is_finished(set()):  # another thread has closed the consumer
                    return
                raise
            if records is None:
                if self.until_end and not is_at_end():  # these rows are not all there are
                    raise self._unfinished()
                return
            if records.table is None:
                try:
                    self._report(records)
                except MismatchError as error:
                    if (
                        self.on_schema_change is None or not fits
                    ):  # or empty streams follow for ever
                        raise
                    self.on_schema_change(error)
                    return
                continue
            batches = _split(records.table.slice(read[records.begins]), request.schema)
            yield from _counted(batches[:-1], read, records.begins)
            last = batches[-1:]
            if records.take() is None:  # the consumer was used meanwhile
                continue
            yield from last  # nothing that may be interrupted comes before the reader has it
            read.clear()
            fits = True
            deadline = deadline_after(self.timeout)

    def _end_check(self) -> Callable[[], bool]:
        """Return a function that says whether enough partitions were read to their end since."""
        reached: set[Partition] = set()

        def is_at_end() -> bool:
            reached.update(self.feed.at_end())
            return self.is_finished(reached)

        return is_at_end

    def _report(self, records: FoundTable) -> None:
        """Tell the user what comes instead of a table: raise it, or call `on_error`."""
        try:
            records.take()
        except KafkaException as error:
            if error.args[0].code() == KafkaError._PARTITION_EOF:
                return
            stays = isinstance(error, SchemaError)
            if self.on_error is None or stays:
                raise
            self.on_error(error)

    def _unfinished(self) -> Exception:
        if self.cancelled():
            return RuntimeError("Consumer closed")
        reason = (
            f"arrow_reader: no record in {self.timeout:g} s, and not every partition is at its end"
        )
        return KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))


def _counted(
    batches: list[pa.RecordBatch], read: Counter[object], begins: object
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        read[begins] += batch.num_rows
        yield batch


def _split(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    batches = _in_one_piece(table).to_batches()
    return [batch.replace_schema_metadata(schema.metadata) for batch in batches]


def _in_one_piece(table: pa.Table) -> pa.Table:
    """Return a table whose columns are one chunk each, if Arrow can join what they have."""
    if not all(map(can_be_joined, table.columns)):
        return table
    try:  # a segment's columns are one chunk each, as a rule: then nothing is copied
        return table.combine_chunks()
    except pa.ArrowNotImplementedError:  # extension types inside of some others
        return table
