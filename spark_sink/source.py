"""The source ``columnar_kafka``: what is in Kafka, for Spark's batch and streaming queries.

In its default mode its rows have the columns of Spark's own ``kafka`` source, and the ids of
cluster and topic, by which a sink notices that a topic was deleted and created again.
"""

from __future__ import annotations

import gc
import time
from contextlib import closing
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from columnar_kafka.errors import ColumnarError, ConfigError
from spark_sink.columns import MESSAGE, RANGE
from spark_sink.older_spark import (
    HAS_LIMITS,
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    arrow_schema,
)
from spark_sink.reading import planning
from spark_sink.reading.lookup import Lookup
from spark_sink.reading.planning import OffsetRange, Offsets
from spark_sink.reading.reading import gathered, message_batch, read
from spark_sink.reading.source_options import SourceMode, SourceOptions, partition_name
from spark_sink.shared_options import HiddenOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit

    from spark_sink.writer import TopicBatchWriter, TopicStreamWriter

__all__ = ["KafkaSource"]


class KafkaSource(DataSource):
    """Reads and writes. Options: those of Spark's own ``kafka``, and ``mode``: ``docs/spark.md``.

    Only committed messages are delivered, unless ``kafka.isolation.level`` says otherwise.
    """

    cores: ClassVar[int | None] = None
    """Those that the session's tasks have, as far as they are known: see `spark_sink.register`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(HiddenOptions(options))

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "columnar_kafka"

    def schema(self) -> StructType:
        """Return the columns; in mode ``records``, which blocks for Kafka, the newest segment's.

        Raises:
            ConfigError: an option is missing, unknown, or has a value that is not allowed; or no
                segment says what the columns are.
        """
        options = SourceOptions.parse(self.options, streaming=None)
        if options.mode is SourceMode.RECORDS:
            newest: StructType = _records().newest_schema(options)
            return newest
        return _columns(options)

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader for a batch query.

        Raises:
            ConfigError: as `schema`; or the user named columns, which only mode ``records`` allows,
                or columns that no query of that mode can have.
        """
        options = SourceOptions.parse(self.options, streaming=False)
        return BatchReader(options, _checked(options, schema), self.cores)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader for a stream. Raises as `reader`."""
        options = SourceOptions.parse(self.options, streaming=True)
        if not HAS_LIMITS:
            _refuse_limits(self.options)
        return StreamReader(options, _checked(options, schema), self.cores)

    def writer(self, schema: StructType, overwrite: bool) -> TopicBatchWriter:
        """Return the writer for a batch query.

        Raises:
            ConfigError: an option is missing, unknown or not allowed; or the columns do not say
                where rows go.
        """
        module = _writers()
        options = module.WriterOptions.parse(self.options, schema, overwrite=overwrite)
        batch_writer: TopicBatchWriter = module.TopicBatchWriter(options)
        return batch_writer

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> TopicStreamWriter:
        """Return the writer for a stream. Raises as `writer`."""
        module = _writers()
        options = module.WriterOptions.parse(self.options, schema, overwrite=overwrite)
        stream_writer: TopicStreamWriter = module.TopicStreamWriter(options)
        return stream_writer


def _writers() -> Any:
    """Return the module of the writers, which those who read need not import."""
    return import_module("spark_sink.writer")


def _columns(options: SourceOptions) -> StructType:
    if options.mode is SourceMode.RANGES:
        return RANGE
    return StructType([field for field in MESSAGE if options.headers or field.name != "headers"])


def _checked(options: SourceOptions, schema: StructType) -> StructType:
    if options.mode is SourceMode.RECORDS:
        _records().check_columns(schema)
    elif schema.names != _columns(options).names:
        raise ConfigError(
            f"the columns of mode {options.mode.value} are fixed: leave out .schema(…)"
        )
    return schema


def _refuse_limits(options: Mapping[str, str]) -> None:
    for option in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
        if option in options:
            raise ConfigError(
                f'option "{option}" needs Spark 4.2, which tells a source where its last batch '
                f"ended; this is {pyspark.__version__}. Without it a batch is all there is, and "
                '"maxRecordsPerPartition" bounds its tasks'
            )


def _records() -> Any:
    """Return the module of mode ``records``, which other modes need not import in each worker."""
    return import_module("spark_sink.reading.records")


class _RangeReader:
    """Reads in executors, which get a pickled copy."""

    def __init__(
        self, options: SourceOptions, schema: StructType, cores: int | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._cores = cores

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a range's rows. Called in an executor. Blocks for Kafka.

        Raises:
            KafkaException: Kafka cannot be read.
            ColumnarError: messages of the range no longer exist, and ``failOnDataLoss`` is on.
        """
        # The worker collects garbage after each task; imported modules need not be scanned.
        gc.freeze()
        # Spark's partition of a batch query that has none; in Spark 4.0 and 4.1 it is None itself.
        if partition is None or partition.value is None:
            return
        ranges = [OffsetRange(*offsets) for offsets in partition.value]
        schema = arrow_schema(self._schema)
        if self._options.mode is SourceMode.RANGES:
            rows = [offsets._asdict() for offsets in ranges]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            return
        (offsets,) = ranges
        records = (
            _records().RecordRows(self._schema)
            if self._options.mode is SourceMode.RECORDS
            else None
        )
        all_messages = read(
            [offsets],
            self._options.config,
            poll_timeout=self._options.poll_timeout,
            lost=partial(planning.lost, fail=self._options.fail_on_data_loss),
        )
        for messages in gathered(all_messages):
            if records is None:
                yield message_batch(messages, offsets, schema)
            else:
                yield from records.batches(messages)

    def _tasks(
        self, start: Offsets, end: Offsets, latest: Offsets, lookup: Lookup
    ) -> list[InputPartition]:
        options = self._options
        begin = planning.following(start, end, lookup.earliest, fail=options.fail_on_data_loss)
        ranges = planning.ranges(begin, end, latest.next)
        cut = planning.split(ranges, options.min_partitions, options.max_records)
        groups = planning.grouped(cut, self._most_tasks)
        return [InputPartition(tuple(map(tuple, group))) for group in groups]

    @property
    def _most_tasks(self) -> int | None:
        """The tasks among which ranges are shared; None for one each.

        A task that emits ranges reads next to nothing. The sink's work behind it costs more than
        another partition does: a worker of Python's and a client of Kafka's.
        """
        options = self._options
        if options.mode is not SourceMode.RANGES or options.max_records is not None:
            return None
        return None if self._cores is None else max(self._cores, options.min_partitions or 0)


class BatchReader(_RangeReader, DataSourceReader):
    """Plans in the driver's worker, reads in the executors'."""

    def partitions(self) -> list[InputPartition]:
        """Return what there is to read, a range for each task. Blocks for requests to Kafka.

        Raises:
            ConfigError: a topic does not exist, an option does not fit its partitions, or the
                query would end before it starts.
            ColumnarError: offsets that an option names no longer exist.
        """
        with closing(Lookup(self._options)) as lookup:
            starting, ending = self._options.starting, self._options.ending
            start, end = lookup.at(starting), lookup.at(ending)
            for key, offset in end.next.items():
                if offset < start.next.get(key, offset):
                    raise ConfigError(
                        f"{partition_name(key)}: the query starts at offset {start.next[key]} "
                        f'("{starting.option}") and ends before it, at {offset} ("{ending.option}")'
                    )
            return self._tasks(start, end, end, lookup)


class StreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the driver's worker, reads in the executors'. A pickled copy has no client."""

    def __init__(
        self, options: SourceOptions, schema: StructType, cores: int | None = None
    ) -> None:
        super().__init__(options, schema, cores)
        self._open: Lookup | None = None
        self._latest: Offsets | None = None
        self._target: Offsets | None = None
        self._no_start: ColumnarError | None = None
        self._triggered = float("-inf")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offsets where a new stream starts. Blocks for requests to Kafka.

        Spark asks again when it starts a query again whose first batch did not finish, and then
        needs no answer: options that do not fit Kafka any more are refused where one is needed.
        """
        self._no_start = None
        try:
            start = self._lookup.at(self._options.starting)
        except ColumnarError as error:
            self._no_start = error
            return {}
        if self._target is not None:
            start = planning.within(start, self._target)
        return start.started_at(start.next).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return a limit if the options have one; `latestOffset` applies the options."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember what is there now, where the query will end. Blocks for requests to Kafka."""
        self._target = self._lookup.at(self._options.ending)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return where the next batch ends; `start` if there is none. Blocks for Kafka.

        Spark 4.0 and 4.1 pass no arguments.

        Raises:
            ConfigError: a topic does not exist, or `start` is another source's.
            ColumnarError: as `planning.following`; or the stream starts nowhere, as
                `BatchReader.partitions`.
        """
        self._check_start(start)
        self._latest = self._target or self._lookup.at(self._options.ending)
        if start is None:
            return self._latest.to_json()
        before, end = Offsets.from_json(start), self._latest
        takes_all = isinstance(limit, ReadAllAvailable)
        if before.is_start or not takes_all:
            begin = planning.following(
                before, end, self._lookup.earliest, fail=self._options.fail_on_data_loss
            )
            if before.is_start:
                end = end.started_at(begin)
            if not takes_all:
                there = sum(max(0, end.next[partition] - begin[partition]) for partition in begin)
                if self._waits(there, time.monotonic()):
                    return start
                if self._options.max_offsets is not None:
                    end = end.moved_to(planning.limited(begin, end.next, self._options.max_offsets))
        # Spark compares texts: a first batch's end says more than the same offsets later.
        return start if end.is_at(before) else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the offsets that Kafka had at the last trigger, for the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a range for each task. Blocks for requests to Kafka if partitions are new.

        Raises:
            ConfigError: as `latestOffset`.
            ColumnarError: as `planning.following`. The stream stops: no message is skipped.
        """
        until, lookup = Offsets.from_json(end), self._lookup
        if not until.start:
            self._check_start(start)
        fail = self._options.fail_on_data_loss
        before = planning.batch_start(
            Offsets.from_json(start), until, may_follow=not HAS_LIMITS, fail=fail
        )
        latest = self._latest
        if latest is None:  # planned before a restart: is it still there?
            latest = lookup.at(self._options.ending)
            planning.following(until, latest, lookup.earliest, fail=fail)
            until = planning.still_there(until, latest)
        return self._tasks(before, until, latest, lookup)

    def stop(self) -> None:
        """Close the client."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _lookup(self) -> Lookup:
        if self._open is None:
            self._open = Lookup(self._options)
        return self._open

    def _check_start(self, start: dict[str, Any] | None) -> None:
        """Raise why there is no start, if this is none."""
        if self._no_start is not None and start == {}:
            raise self._no_start

    def _waits(self, there: int, now: float) -> bool:
        """Whether ``minOffsetsPerTrigger`` waits for more; not if the query ends when done."""
        least = self._options.min_offsets
        if least is None or self._target is not None:
            return False
        if there < least and now - self._triggered < self._options.max_delay:
            return True
        self._triggered = now
        return False
