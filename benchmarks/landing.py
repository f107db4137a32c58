"""The measured processes that land a topic as Parquet files, and the check of what they landed.

Each lands a topic again in every round, in a new directory, with zstd: ours segments, the others
messages that are a row each.
"""

from __future__ import annotations

import io
import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pyruhvro
from confluent_kafka import Consumer, TopicPartition

from benchmarks import data
from benchmarks.child import Clock, tree_cpu
from benchmarks.competitors.base import READ_AGAIN, connection, consume, consumer_config
from benchmarks.measured import compare_tables
from benchmarks.spark import Spark, source_options
from columnar_kafka.ingest import Ingestor, IngestSettings, open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.child import Cost
    from columnar_kafka.ingest import Rules

GROUP_ROWS: Final = 100_000
"""The rows of a row group that one process decodes and writes at once."""

_ARROW: Final = {"long": pa.int64(), "double": pa.float64(), "string": pa.string()}


def arrow_schema(avro: dict[str, Any]) -> pa.Schema:
    """Return the Arrow schema of flat rows, from their Avro schema."""
    return pa.schema([(field["name"], _ARROW[field["type"][1]]) for field in avro["fields"]])


class Landed(NamedTuple):
    """What landing a few rows took, and the CPU and wall time in µs of each further one.

    So connecting, planning and committing are in the first figure only.
    """

    few: Cost
    cpu: float
    wall: float


class Landing:
    """Lands messages of a topic with one partition; lives in a child. Subclasses say how."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers, self.topic = servers, topic
        self.avro = data.load("flights").avro
        self.schema = arrow_schema(self.avro)

    def land(self, end: int, folder: str) -> None:
        """Land the messages before offset `end` in a new folder."""
        raise NotImplementedError

    def measure(self, ends: tuple[int, int]) -> Landed:
        """Measure one round: the messages before the first of these offsets, and the second."""
        (few, few_rows), (many, many_rows) = map(self._measured, ends)
        more = (many_rows - few_rows) / 1e6
        return Landed(few, (many.cpu - few.cpu) / more, (many.wall - few.wall) / more)

    def check(self, end: int, rows: int, times: int) -> None:
        """Compare what lands with the rows, which were sent so many times. Raises UnequalError."""
        sent = pa.Table.from_pylist(data.load("flights").block(rows, fresh=False), self.schema)
        with tempfile.TemporaryDirectory() as root:
            self.timed(end, f"{root}/lake")
            read = pa.concat_tables(
                pq.read_table(file, columns=self.schema.names, partitioning=None)
                for file in _files(f"{root}/lake")
            )
        compare_tables(pa.concat_tables([sent] * times), read, f"{self.topic}, landed")

    def timed(self, end: int, folder: str) -> Cost:
        """Land the messages before offset `end` in a new folder; return what it took."""
        clock = Clock(tree_cpu)
        self.land(end, folder)
        return clock.stop()

    def _measured(self, end: int) -> tuple[Cost, int]:
        with tempfile.TemporaryDirectory() as root:
            cost = self.timed(end, f"{root}/lake")
            return cost, rows_in(f"{root}/lake")


def rows_in(folder: str) -> int:
    """Return how many rows have landed in a folder."""
    return sum(pq.read_metadata(file).num_rows for file in _files(folder))


def _files(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("[!._]*.parquet"))


class Ingesting(Landing):
    """`columnar-kafka ingest`, into its directory of Parquet files."""

    def __init__(self, rules: Rules, servers: str, topic: str) -> None:
        super().__init__(servers, topic)
        self._rules = rules

    def land(self, end: int, folder: str) -> None:
        """Land segments, or plain messages, in one file."""
        settings = IngestSettings(partitions=(0,), end_offsets={0: end}, rules=self._rules)
        table = open_table("parquet", folder)
        config = connection(self.servers) | READ_AGAIN
        Ingestor(config, self.topic, table, settings).run()


class InOneProcess(Landing):
    """One process with confluent-kafka, a decoder into Arrow, and pyarrow's Parquet writer."""

    def __init__(self, decoder: str, servers: str, topic: str) -> None:
        super().__init__(servers, topic)
        self._decode = _DECODERS[decoder](self)

    def land(self, end: int, folder: str) -> None:
        """Land messages in one file."""
        Path(folder).mkdir()
        with (
            closing(Consumer(consumer_config(self.servers) | READ_AGAIN)) as consumer,
            pq.ParquetWriter(f"{folder}/rows.parquet", self.schema, compression="zstd") as writer,
        ):
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            for values in _groups(consumer, end):
                writer.write_table(self._decode(values))


def _groups(consumer: Any, end: int) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    for messages in consume(consumer, end):
        values += [message.value() for message in messages]
        if len(values) >= GROUP_ROWS:
            yield values
            values = []
    if values:
        yield values


def _fastavro(landing: Landing) -> Callable[[list[bytes]], pa.Table]:
    parsed, kind = fastavro.parse_schema(landing.avro), pa.struct(landing.schema)
    read = fastavro.schemaless_reader

    def decode(values: list[bytes]) -> pa.Table:
        rows = [read(io.BytesIO(value), parsed, None) for value in values]
        return pa.Table.from_struct_array(pa.array(rows, kind))  # faster than from_pylist

    return decode


def _pyarrow_json(landing: Landing) -> Callable[[list[bytes]], pa.Table]:
    options = pyarrow.json.ParseOptions(
        explicit_schema=landing.schema, unexpected_field_behavior="error"
    )

    def decode(values: list[bytes]) -> pa.Table:
        return pyarrow.json.read_json(io.BytesIO(b"\n".join(values)), parse_options=options)

    return decode


def _pyruhvro(landing: Landing) -> Callable[[list[bytes]], pa.Table]:
    schema = json.dumps(landing.avro)

    def decode(values: list[bytes]) -> pa.Table:
        rows = pa.Table.from_batches([pyruhvro.deserialize_array(values, schema)])
        return rows.cast(landing.schema)

    return decode


_DECODERS: Final = {"fastavro": _fastavro, "pyarrow.json": _pyarrow_json, "pyruhvro": _pyruhvro}


class OnSpark(Landing):
    """A batch query of Spark's, whose Java stays warm between rounds."""

    def __init__(self, encoding: str, servers: str, topic: str) -> None:
        super().__init__(servers, topic)
        self._spark = Spark(self.avro, encoding)

    def land(self, end: int, folder: str) -> None:
        """Land messages in one file."""
        ending = {"endingOffsets": json.dumps({self.topic: {"0": end}})}
        self._spark.batch(source_options(self.servers, self.topic, 0) | ending, "").save(folder)
