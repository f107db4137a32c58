"""The sink ``columnar_lake``: lands the segments in a query's rows exactly once.

The executors verify and stage their own messages; the driver commits the files of a micro-batch
together. The table itself records what has landed, not Spark's checkpoint, so a lost checkpoint
neither loses nor repeats a row.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest.topic_id import admin_client, generation
from columnar_kafka.lake.aside.schema_source import log_guess
from columnar_kafka.lake.aside.set_aside import discard_staged, land_staged
from columnar_kafka.lake.formats import FORMATS
from columnar_kafka.lake.landing.stage import stage
from columnar_kafka.lake.model import SourceMessage, StageResult, TopicGeneration
from columnar_kafka.lake.options import LakeOptions, options_of
from columnar_kafka.lake.plan import Planner
from columnar_kafka.lake.tables.files import hide_password
from spark_sink import shared_options as opts
from spark_sink.columns import MESSAGE, RANGE
from spark_sink.landing.sink_options import lake_key, lake_options
from spark_sink.older_spark import DataSourceStreamArrowWriter
from spark_sink.reporting import commit_line, log_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql.types import StructType

    from columnar_kafka.lake.aside.decoding import Decoding
    from columnar_kafka.lake.aside.rules import Rules
    from columnar_kafka.lake.plan import Layout
    from columnar_kafka.lake.tables.base import LakeTable
    from spark_sink.reading.planning import OffsetRange

__all__ = ["LakeSink"]

_OPTIONS: Final = (
    *("path", "checkpointLocation", "queryName", "subscribe", "table.source.isolation"),
    *(lake_key(name) for name, _ in options_of(LakeOptions)),
)
_NEEDED: Final = ("value", "topic", "partition", "offset", "headers")
_IN_ROWS: Final = ("key", "timestamp")  # of plain messages that land as rows
_HINTS: Final = {
    "headers": ': .option("includeHeaders", "true")',
}


class LakeSink(DataSource):
    """Writes rows that are Kafka messages, or ranges of offsets; see ``docs/spark.md``.

    The options are those of `LakeOptions`, as ``table.dead.letters``; docs/lake.md lists them.

    Rows of Spark's own ``kafka`` source have no cluster id and topic id: then
    ``kafka.bootstrap.servers`` lets the sink ask Kafka, or ``table.topic.generation`` names the
    topics' generation. They may also be of aborted transactions, which the sink cannot see:
    ``table.source.isolation`` says what that source's ``kafka.isolation.level`` is. Rows of mode
    ``ranges`` need the ``kafka.`` options here too: the sink's tasks read messages.

    Offsets that no message of the stream has may be messages that were left out: the table was
    restored and the checkpoint was not. With ``kafka.bootstrap.servers`` the sink asks Kafka and
    refuses to land what follows, unless ``table.gap`` is ``allow``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(opts.HiddenOptions(options))

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "columnar_lake"

    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        """Return the writer for a batch query.

        Raises:
            ConfigError: an option is missing, unknown or not allowed; a column is missing; or the
                rows are not to be appended.
        """
        return LakeBatchWriter(self._settings(schema, overwrite))

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> LakeStreamWriter:
        """Return the writer for a stream. Raises as `writer`."""
        return LakeStreamWriter(self._settings(schema, overwrite))

    def _settings(self, schema: StructType, overwrite: bool) -> Settings:
        opts.refuse_unknown(self.options, _OPTIONS, opts.CATALOG, opts.REGISTRY, opts.STORAGE)
        if overwrite:
            raise ConfigError('the sink appends: use mode("append") or outputMode("append")')
        ranges = {"start", "end"} <= set(schema.names)
        _check(schema, RANGE if ranges else MESSAGE, RANGE.names if ranges else _NEEDED)
        lake = lake_options(self.options)
        rules = lake.rules(_decoding(self.options, lake))
        config = _client_config(self.options, schema, ranges=ranges)
        if rules.decoding is not None and not ranges:
            _check(schema, MESSAGE, _IN_ROWS)
        example = "lake.flights" if FORMATS[lake.format].has_catalog else "/lake/kafka"
        table = lake.open(hide_password(opts.required(self.options, "path", example)))
        rules.check_apart(table)
        return Settings(
            table=table,
            layout=lake.files(),
            rules=rules.decided(table, partial(_sample, self.options, config)),
            config=config,
            generation=lake.topic_generation,
            allow_gaps=lake.gap == "allow",
            ranges=ranges,
        )


def _check(schema: StructType, wanted: StructType, needed: Iterable[str]) -> None:
    for name in needed:
        if name not in schema.names:
            raise ConfigError(
                f"column {name!r} of the Kafka source is missing{_HINTS.get(name, '')}"
            )
    for field in wanted:
        if field.name in schema.names:
            actual, type_ = (
                column.dataType.simpleString() for column in (schema[field.name], field)
            )
            if actual != type_:
                raise ConfigError(
                    f"column {field.name!r} is {actual}; in the Kafka source it is {type_}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of one query, checked. With `ranges` its rows are ranges of offsets."""

    table: LakeTable
    layout: Layout
    rules: Rules
    config: Hidden
    generation: str | None = None
    allow_gaps: bool = False
    ranges: bool = False


@dataclass
class TaskResult(WriterCommitMessage):
    """The files that one task has staged, and the ranges that it was given, if any."""

    staged: tuple[StageResult, ...]
    ranges: tuple[OffsetRange, ...] = ()


class _LakeWriter:
    """`write` runs in executors, which get a pickled copy; the rest in the driver."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._table = settings.table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Verify and stage one task's messages.

        Raises:
            LakeError: a message cannot land; the error names topic, partition and offset.
            ConfigError: a topic's generation is not known.
            KafkaException: the ranges in the rows cannot be read.
        """
        # The worker collects garbage after each task; imported modules need not be scanned.
        gc.freeze()
        settings = self.settings
        if settings.ranges:
            # Only these rows need a client; another task's worker starts without it.
            ranges = import_module("spark_sink.landing.ranges")
            offset_ranges = ranges.ranges_of(iterator)
            staged = ranges.stage_ranges(
                offset_ranges,
                table=self._table,
                layout=settings.layout,
                rules=settings.rules,
                config=settings.config,
                identify=self._identify,
                allow_gaps=settings.allow_gaps,
            )
            return TaskResult(staged, offset_ranges)
        generations: dict[str, TopicGeneration] = {}
        planner = Planner(
            fences=self._table.fences(), generations=generations, layout=settings.layout
        )
        messages = self._messages(iterator, generations)
        return TaskResult(
            (stage(messages, table=self._table, planner=planner, rules=settings.rules),)
        )

    def _land(self, messages: list[WriterCommitMessage | None], what: str) -> None:
        """Land the staged files of all tasks together; if they surely did not land, remove them."""
        settings = self.settings
        staged = _staged(messages)
        ranges = [offsets for result in _results(messages) for offsets in result.ranges]
        try:
            self._ask_kafka(staged, ranges)
        except BaseException:
            discard_staged(self._table, staged, settings.rules)
            raise
        result = land_staged(self._table, staged, settings.rules)
        log_line(f"{what}: {commit_line(result, ranges)}")

    def _ask_kafka(self, staged: list[StageResult], ranges: list[OffsetRange]) -> None:
        """Check what only Kafka knows, as far as the options let the sink ask.

        Raises:
            NotLandedError: other topics were read than the ranges are of, or messages left out.
        """
        settings = self.settings
        # Only the driver needs these clients; a task's worker starts without them.
        if settings.ranges:
            if settings.generation is None:
                module = import_module("spark_sink.landing.ranges")
                module.refuse_other_topics(settings.config, ranges)
        elif "bootstrap.servers" in settings.config and not settings.allow_gaps:
            gaps = import_module("spark_sink.landing.gaps")
            gaps.refuse_gaps(settings.config, self._table.fences(), staged)

    def _give_up(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged files, if a task has failed.

        Without a failed task there may have been a commit, which may still arrive. If it surely
        did not, `_land` has removed them.
        """
        if None in messages:
            discard_staged(self._table, _staged(messages), self.settings.rules)

    def _messages(
        self, batches: Iterator[pa.RecordBatch], generations: dict[str, TopicGeneration]
    ) -> Iterator[SourceMessage]:
        """Yield the rows as messages; fill in a topic's generation before its first message."""
        for batch in batches:
            columns = {name: batch.column(name) for name in batch.schema.names}
            times = columns.get("timestamp")
            if times is not None:
                times = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
            for row in range(batch.num_rows):
                topic = columns["topic"][row].as_py()
                if topic not in generations:
                    ids = (
                        columns[name][row].as_py() if name in columns else None
                        for name in ("cluster_id", "topic_id")
                    )
                    generations[topic] = self._identify(topic, *ids)
                headers = columns["headers"][row].as_py() or ()
                yield SourceMessage(
                    topic=topic,
                    partition=columns["partition"][row].as_py(),
                    offset=columns["offset"][row].as_py(),
                    headers=[(header["key"], header["value"]) for header in headers],
                    value=columns["value"][row].as_buffer(),
                    key=columns["key"][row].as_py() if "key" in columns else None,
                    timestamp=None if times is None else times[row].as_py(),
                )

    def _identify(self, topic: str, cluster: str | None, topic_id: str | None) -> TopicGeneration:
        """Return a topic's generation, from the ids in its rows as far as they have them."""
        named, config = self.settings.generation, self.settings.config
        if named is not None:
            return TopicGeneration.named(named, topic)
        if (cluster is None or topic_id is None) and "bootstrap.servers" in config:
            with admin_client(config) as admin:
                cluster, topic_id = generation(admin, topic)
        if cluster is None or topic_id is None:
            raise ConfigError(
                f"topic {topic!r}: its id is neither in the rows nor known from Kafka. Set option "
                '"kafka.bootstrap.servers" to let the sink ask Kafka, or "table.topic.generation" '
                "to a text that you change when the topic is created again"
            )
        return TopicGeneration(cluster, topic_id)


class LakeBatchWriter(_LakeWriter, DataSourceArrowWriter):
    """Lands a batch query's rows; a `foreachBatch` makes one for each batch of its stream."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Land the staged files of all tasks together. Raises as `LakeStreamWriter.commit`."""
        self._land(messages, "batch query")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged files, if a task has failed."""
        self._give_up(messages)


class LakeStreamWriter(_LakeWriter, DataSourceStreamArrowWriter):
    """Lands a stream's rows. Spark makes a new one for each batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Land the staged files of all tasks together.

        Raises:
            NotLandedError: nothing has landed. Spark stops the query; a restart stages again.
            MayHaveLandedError: the files may have landed; a restart finds out.
            LakeError: the table cannot be read; nothing has landed.
        """
        self._land(messages, f"batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged files, if a task has failed."""
        self._give_up(messages)


def _results(messages: list[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message for message in messages if isinstance(message, TaskResult)]


def _staged(messages: list[WriterCommitMessage | None]) -> list[StageResult]:
    return [staged for result in _results(messages) for staged in result.staged]


def _client_config(options: Mapping[str, str], schema: StructType, *, ranges: bool) -> Hidden:
    config = opts.consumer_config(options)
    isolation = options.get("table.source.isolation")
    if ranges:
        opts.required(options, "kafka.bootstrap.servers", "localhost:9092")
        if isolation is not None:
            raise ConfigError(
                'option "table.source.isolation" is for rows that are messages; set '
                '"kafka.isolation.level", on source and sink'
            )
        return Hidden({"group.id": opts.GROUP, **config})
    if isolation is None and "topic_id" not in schema.names:
        raise ConfigError(
            "Spark's own kafka source delivers messages of aborted transactions unless it is told "
            "not to, and its rows do not show whether it was. Set "
            '.option("kafka.isolation.level", "read_committed") on the source and '
            '.option("table.source.isolation", "read_committed") here; '
            '"read_uncommitted" lands them too'
        )
    if isolation is None:
        return config
    opts.check_isolation("table.source.isolation", isolation)
    return Hidden({"isolation.level": isolation, **config})


def _decoding(options: Mapping[str, str], lake: LakeOptions) -> Decoding | None:
    """Return how plain messages become rows, if an option says so."""
    if lake.missing() == "registry":
        opts.required(options, lake_key("registry"), "http://registry:8081")
    elif lake.missing():
        opts.required(options, lake_key("plain_format"), "json")
        opts.required(options, lake_key("plain_schema"), '{"type": "record", …}')
    return lake.decoding(partial(log_guess, log=log_line))


def _sample(
    options: Mapping[str, str], config: Mapping[str, Any], count: int
) -> Iterator[SourceMessage]:
    """Yield the first messages of topics, which tell the schema of plain ones. In the driver."""
    topics = opts.required(options, "subscribe", "flights")
    opts.required(options, "kafka.bootstrap.servers", "localhost:9092")
    sampling = import_module("columnar_kafka.ingest.sampling")  # only now is a client needed
    for topic in topics.split(","):
        yield from sampling.sampled_messages(config, topic.strip(), count)
