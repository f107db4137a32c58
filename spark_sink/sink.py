"""The sink ``columnar_lake``: lands the segments in a stream's rows exactly once.

The executors verify and stage their own messages; the driver commits the files of a micro-batch
together. The table itself records what has landed, not Spark's checkpoint, so a lost checkpoint
neither loses nor repeats a row.
"""

from __future__ import annotations

import gc
import logging
import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from columnar_kafka.errors import ConfigError
from columnar_kafka.ingest.topic_id import admin_client, generation
from columnar_kafka.lake.formats import FORMATS, open_table
from columnar_kafka.lake.model import (
    LakeTable,
    NotLandedError,
    SourceMessage,
    StageResult,
    TopicGeneration,
)
from columnar_kafka.lake.plan import Layout, Mode, Planner
from columnar_kafka.lake.stage import stage
from spark_sink import options as opts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["LakeSink"]

_log = logging.getLogger(__name__)

_OPTIONS: Final = (
    "path",
    "checkpointlocation",
    "table.format",
    "table.layout",
    "table.file.bytes",
    "table.gap",
    "table.growth",
    "table.partition.by",
    "table.straddle",
    "table.after.restore",
    "table.topic.generation",
)
_OF_TABLES: Final = ("table.after.restore", "table.growth", "table.partition.by")
_TERM: Final = re.compile(r"[^,()]+(?:\([^()]*\))?")
_NEEDED: Final = ("value", "topic", "partition", "offset", "headers")


class LakeSink(DataSource):
    """Options: ``path``, ``table.format``, ``table.layout``, ``table.file.bytes``.

    ``table.format`` is ``parquet`` (the default: a directory of files), ``delta``, or ``iceberg``.
    The ``path`` of an Iceberg table is its name with namespace, and ``table.catalog.`` options are
    pyiceberg's properties of its catalog.

    ``table.layout`` is ``stitched`` (the default: few big files of ``table.file.bytes``) or
    ``verbatim`` (every file is a segment, byte for byte). Rows of Spark's own ``kafka`` source have
    no cluster id and topic id: then ``kafka.bootstrap.servers`` lets the sink ask Kafka, or
    ``table.topic.generation`` names the topics' generation, a text to change when a topic is
    deleted and created again.

    Offsets that no message of the stream has may be messages that were left out: the table was
    restored and the checkpoint was not. With ``kafka.bootstrap.servers`` the sink asks Kafka and
    refuses to land what follows; ``table.gap`` = ``allow`` (the default is ``refuse``) lands it.
    After a restore of the table, ``table.after.restore`` = ``reland`` (the default is ``stop``)
    goes on from what the table has. ``table.growth`` = ``allow`` or ``refuse`` says whether columns
    are added to a table; without it, to those that the sink has created. ``table.partition.by`` are
    the columns of a new table's partitioning, with commas between; ``table.straddle`` = ``stop``
    (the default is ``split``) refuses segments that have rows of several partitions.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "columnar_lake"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> LakeWriter:
        """Return the writer for a stream.

        Raises:
            ConfigError: an option is missing, unknown or not allowed; a column is missing; or the
                output mode is not append.
        """
        opts.refuse_unknown(self.options, _OPTIONS, opts.CATALOG)
        if overwrite:
            raise ConfigError('the sink appends: use outputMode("append")')
        for name in _NEEDED:
            if name not in schema.names:
                hint = ': .option("includeHeaders", "true")' if name == "headers" else ""
                raise ConfigError(f"column {name!r} of the Kafka source is missing{hint}")
        return LakeWriter(
            table=_table(self.options),
            layout=_layout(self.options),
            config=opts.client_config(self.options),
            generation=self.options.get("table.topic.generation"),
            allow_gaps=_choice(self.options, "table.gap", "refuse", "allow"),
        )


@dataclass
class TaskResult(WriterCommitMessage):
    """The files that one task has staged."""

    staged: StageResult


class LakeWriter(DataSourceStreamArrowWriter):
    """`write` runs in executors, which get a pickled copy; `commit` and `abort` in the driver."""

    def __init__(
        self,
        *,
        table: LakeTable,
        layout: Layout,
        config: dict[str, Any],
        generation: str | None,
        allow_gaps: bool,
    ) -> None:
        self._table = table
        self._layout = layout
        self._config = config
        self._generation = generation
        self._ask_about_gaps = "bootstrap.servers" in config and not allow_gaps

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Verify and stage one task's messages.

        Raises:
            LakeError: a message cannot land; the error names topic, partition and offset.
            ConfigError: a topic's generation is not known.
        """
        # The worker collects garbage after each task; imported modules need not be scanned.
        gc.freeze()
        generations: dict[str, TopicGeneration] = {}
        planner = Planner(fences=self._table.fences(), generations=generations, layout=self._layout)
        messages = self._messages(iterator, generations)
        return TaskResult(stage(messages, table=self._table, planner=planner))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Land the staged files of all tasks together.

        Raises:
            NotLandedError: nothing has landed. Spark stops the query; a restart stages again.
            MayHaveLandedError: the files may have landed; a restart finds out.
        """
        staged = _staged(messages)
        try:
            if self._ask_about_gaps:
                # Only the driver needs a client; a task's worker starts without it.
                gaps = import_module("spark_sink.gaps")
                gaps.refuse_gaps(self._config, self._table.fences(), staged)
            result = self._table.commit(staged)
        except NotLandedError:
            self._table.discard(staged)
            raise
        _log.info(
            "batch %d: %d records landed in %d files; %d had landed before, %d were repeated",
            batchId,
            result.landed.rows,
            len(result.files),
            result.landed_before.rows,
            result.repeated.rows,
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged files, if a task has failed.

        Without a failed task there may have been a commit, which may still arrive. If it surely
        did not, `commit` has removed them.
        """
        if None in messages:
            self._table.discard(_staged(messages))

    def _messages(
        self, batches: Iterator[pa.RecordBatch], generations: dict[str, TopicGeneration]
    ) -> Iterator[SourceMessage]:
        """Yield the rows as messages; fill in a topic's generation before its first message."""
        for batch in batches:
            columns = {name: batch.column(name) for name in batch.schema.names}
            for row in range(batch.num_rows):
                topic = columns["topic"][row].as_py()
                if topic not in generations:
                    generations[topic] = self._identify(topic, columns, row)
                headers = columns["headers"][row].as_py() or ()
                yield SourceMessage(
                    topic=topic,
                    partition=columns["partition"][row].as_py(),
                    offset=columns["offset"][row].as_py(),
                    headers=[(each["key"], each["value"]) for each in headers],
                    value=columns["value"][row].as_buffer(),
                )

    def _identify(self, topic: str, columns: Mapping[str, pa.Array], row: int) -> TopicGeneration:
        if self._generation is not None:
            return TopicGeneration("named", f"{self._generation}/{topic}")
        cluster, topic_id = (
            columns[name][row].as_py() if name in columns else None
            for name in ("cluster_id", "topic_id")
        )
        if (cluster is None or topic_id is None) and "bootstrap.servers" in self._config:
            with admin_client(self._config) as admin:
                cluster, topic_id = generation(admin, topic)
        if cluster is None or topic_id is None:
            raise ConfigError(
                f"topic {topic!r}: its id is neither in the rows nor known from Kafka. Set option "
                '"kafka.bootstrap.servers" to let the sink ask Kafka, or "table.topic.generation" '
                "to a text that you change when the topic is created again"
            )
        return TopicGeneration(cluster, topic_id)


def _staged(messages: list[WriterCommitMessage | None]) -> list[StageResult]:
    return [message.staged for message in messages if isinstance(message, TaskResult)]


def _table(options: Mapping[str, str]) -> LakeTable:
    table_format = options.get("table.format", "parquet")
    if table_format not in FORMATS:
        raise ConfigError(
            f'option "table.format" is {table_format!r}: it must be {" or ".join(FORMATS)}'
        )
    example = "lake.flights" if table_format == "iceberg" else "/lake/kafka"
    settings: dict[str, Any] = {"allow_gaps": _choice(options, "table.gap", "refuse", "allow")}
    if table_format != "parquet":
        settings["reland"] = _choice(options, "table.after.restore", "stop", "reland")
        settings["partition_by"] = _TERM.findall(options.get("table.partition.by", ""))
        if "table.growth" in options:
            settings["growth"] = _choice(options, "table.growth", "refuse", "allow")
    else:
        for key in _OF_TABLES:
            if key in options:
                raise ConfigError(f'option "{key}" is for delta and iceberg tables')
    if catalog := opts.catalog(options):
        settings["catalog"] = catalog
    if bool(catalog) != (table_format == "iceberg"):
        raise ConfigError(f'options "{opts.CATALOG}*" name the catalog of an iceberg table')
    return open_table(table_format, opts.required(options, "path", example), **settings)


def _choice(options: Mapping[str, str], key: str, default: str, other: str) -> bool:
    """Return whether an option has its other value."""
    value = options.get(key, default)
    if value not in (default, other):
        raise ConfigError(f'option "{key}" is {value!r}: it must be {default} or {other}')
    return value == other


def _layout(options: Mapping[str, str]) -> Layout:
    mode = options.get("table.layout", Mode.STITCHED.value)
    allowed = [each.value for each in Mode]
    if mode not in allowed:
        raise ConfigError(f'option "table.layout" is {mode!r}: it must be {" or ".join(allowed)}')
    size = options.get("table.file.bytes", str(Layout().file_bytes))
    if not size.isdecimal() or int(size) < 1:
        raise ConfigError(f'option "table.file.bytes" is {size!r}: it must be a positive number')
    may_split = not _choice(options, "table.straddle", "split", "stop")
    return Layout(mode=Mode(mode), file_bytes=int(size), may_split=may_split)
