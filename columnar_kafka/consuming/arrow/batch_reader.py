"""An endless stream of record batches out of a consumer, for whatever reads Arrow."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.columns.layouts import can_be_joined
from columnar_kafka.consuming.arrow.projection import Projection
from columnar_kafka.consuming.arrow.table_builder import MismatchError
from columnar_kafka.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.consuming.arrow.table_feed import FoundTable, TableFeed, TableRequest
    from columnar_kafka.consuming.feed import Stops
    from columnar_kafka.offsets import Partition

__all__ = ["OnError", "OnSchemaChange", "deadline_after", "seconds_left", "stream"]

_NOTHING: Final = "arrow_reader: at the end there is no record to take the schema from; give one"

OnError = Callable[[KafkaException], object] | None
OnSchemaChange = Callable[[SchemaError], object] | None
Ends = Callable[[set["Partition"]], bool]


def stream(
    feed: TableFeed,
    request: TableRequest,
    *,
    timeout: float,
    ends: Ends,
    until_end: bool,
    on_error: OnError,
    on_schema_change: OnSchemaChange,
    stops: Stops,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]] | None:
    """Return the schema of a stream and its batches; None after `timeout` seconds without any.

    The schema is the request's, or that of the next record, which stays. A batch counts as handed
    out when it is asked for. The batches end after `timeout` seconds without a record, when it
    `stops`, when `ends` says so of the partitions whose end has been reached, and, where
    `on_schema_change` is told, before a record that does not fit the schema.

    Raises:
        KafkaException: as `ArrowFeed.find`, where there is no `on_error` to be told; the batches
            too. ``_PARTITION_EOF`` where it ends before there is a record to take the schema from.
            By the batches, ``_TIMED_OUT``: `timeout` ended a stream that goes on `until_end`.
        SchemaError: by the batches: a record does not fit the schema, and it is the first, or there
            is no `on_schema_change`.
        RuntimeError: by the batches: a stream that goes on `until_end` stops before it.
    """
    is_given = request.schema is not None
    if not is_given:
        schema = _first_schema(feed, request, timeout, ends, on_error, stops)
        if schema is None:
            return None
        request = replace(request, schema=schema.remove_metadata())
    found = _batches(
        feed,
        request,
        timeout,
        ends,
        on_error,
        on_schema_change,
        stops,
        until_end=until_end,
        fits=not is_given,
    )
    return request.schema, found


def _first_schema(
    feed: TableFeed,
    request: TableRequest,
    timeout: float,
    ends: Ends,
    on_error: OnError,
    stops: Stops,
) -> pa.Schema | None:
    # Whatever comes first has it: what a filter leaves out need not wait for more.
    selection = Projection(request.selection.columns, promote=request.selection.promote)
    request = replace(request, selection=selection)
    is_at_end = _reaching(feed, ends)
    deadline = deadline_after(timeout)
    while True:
        if is_at_end():
            raise KafkaException(KafkaError(KafkaError._PARTITION_EOF, _NOTHING))
        found = feed.find(request, seconds_left(deadline), stops)
        if found is None:
            return None
        if found.table is not None:
            return found.table.schema
        _tell(found, on_error)


def _batches(
    feed: TableFeed,
    request: TableRequest,
    timeout: float,
    ends: Ends,
    on_error: OnError,
    on_schema_change: OnSchemaChange,
    stops: Stops,
    *,
    until_end: bool,
    fits: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield batches in the request's schema; `fits` if that is known to be a record's."""
    assert request.schema is not None
    is_at_end = _reaching(feed, ends)
    deadline = deadline_after(timeout)
    read = Counter[object]()  # rows that the reader has of a table that was withdrawn then
    while not is_at_end():
        try:
            found = feed.find(request, seconds_left(deadline), stops)
        except RuntimeError:
            if ends(set()):  # another thread has closed the consumer
                return
            raise
        if found is None:
            if until_end and not is_at_end():  # its rows must not be taken for all there are
                raise _unfinished(timeout, stops)
            return
        if found.table is None:
            try:
                _tell(found, on_error)
            except MismatchError as error:
                if on_schema_change is None or not fits:  # empty streams would follow for ever
                    raise
                on_schema_change(error)
                return
            continue
        batches = _split(found.table.slice(read[found.begins]), request.schema)
        yield from _counted(batches[:-1], read, found.begins)
        last = batches[-1:]
        if found.take() is None:  # the consumer was used meanwhile
            continue
        read.clear()
        yield from last  # nothing that may be interrupted comes before the reader has it
        fits = True
        deadline = deadline_after(timeout)


def _counted(
    batches: list[pa.RecordBatch], read: Counter[object], begins: object
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        read[begins] += batch.num_rows
        yield batch


def _split(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    batches = _in_one_piece(table).to_batches()
    return [each.replace_schema_metadata(schema.metadata) for each in batches]


def _in_one_piece(table: pa.Table) -> pa.Table:
    """Return a table whose columns are one chunk each, if Arrow can join what they have."""
    if not all(map(can_be_joined, table.columns)):
        return table
    try:  # a segment's columns are one chunk each, as a rule: then nothing is copied
        return table.combine_chunks()
    except pa.ArrowNotImplementedError:  # extension types inside of some others
        return table


def _reaching(feed: TableFeed, ends: Ends) -> Callable[[], bool]:
    """Return what says whether enough partitions have been read to their end since now."""
    reached: set[Partition] = set()

    def is_at_end() -> bool:
        reached.update(feed.at_end())
        return ends(reached)

    return is_at_end


def _tell(found: FoundTable, on_error: OnError) -> None:
    """Tell the user of what comes instead of a table: raise it, or call `on_error`."""
    try:
        found.take()
    except KafkaException as error:
        if error.args[0].code() == KafkaError._PARTITION_EOF:
            return
        stays = isinstance(error, SchemaError)
        if on_error is None or stays:
            raise
        on_error(error)


def _unfinished(timeout: float, stops: Stops) -> Exception:
    if stops():
        return RuntimeError("Consumer closed")
    reason = f"arrow_reader: no record in {timeout:g} s, and not every partition is at its end"
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))


def deadline_after(timeout: float) -> float:
    """Return when a call ends, by the monotonic clock; for ever where `timeout` is negative."""
    return math.inf if timeout < 0 else time.monotonic() + timeout


def seconds_left(deadline: float) -> float:
    """Return how many seconds are left; -1 for all the time there is."""
    return -1 if deadline == math.inf else max(0.0, deadline - time.monotonic())
