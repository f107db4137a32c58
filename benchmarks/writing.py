"""The measured processes that write a frame of Spark's to a topic."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from benchmarks.bare import Bare
from benchmarks.child import Clock, tree_cpu
from benchmarks.landing import arrow_schema
from benchmarks.spark import Spark

if TYPE_CHECKING:
    from benchmarks.child import Cost

_OURS: Final = {"columnar.segment.rows": "10000"}
_THEIRS: Final = {
    "kafka.compression.type": "zstd",
    # As large as librdkafka's: Java's 16 KiB take more CPU, and zstd finds less in them.
    "kafka.batch.size": "1000000",
    "kafka.linger.ms": "100",
}


class Writing:
    """A batch query of Spark's, whose Java stays warm between rounds."""

    def __init__(self, encoding: str, servers: str, rows: int, times: int) -> None:
        """Start Spark, and make the frame: a file with the rows so many times.

        Args:
            encoding: "json" or "avro", or "segments"; "bare" drops the rows in Python, and ""
                reads the frame and writes nothing.
            servers: the `bootstrap.servers`.
            rows: how many.
            times: how often.
        """
        flights = data.load("flights")
        self._spark, self._encoding = Spark(flights.avro, encoding), encoding
        self._spark.session.dataSource.register(Bare)
        self._servers = {"kafka.bootstrap.servers": servers}
        self._kept = tempfile.TemporaryDirectory()
        self._file = Path(self._kept.name, "rows.parquet")
        schema = arrow_schema(flights.avro)
        table = pa.Table.from_pylist(flights.block(rows, fresh=False), schema)
        pq.write_table(pa.concat_tables([table] * times), self._file, compression="zstd")

    def write(self, topic: str) -> Cost:
        """Measure one round: all rows are written to a topic."""
        clock = Clock(tree_cpu)
        rows = self._spark.session.read.parquet(str(self._file))
        if not self._encoding:
            rows.write.format("noop").mode("overwrite").save()
        elif self._encoding == "bare":
            rows.write.format("bare").mode("append").save()
        elif self._encoding == "segments":
            ours = rows.write.format("columnar_kafka").mode("append").options(**self._servers)
            ours.options(**_OURS).option("topic", topic).save()
        else:
            theirs = self._spark.messages(rows).write.format("kafka")
            theirs.options(**self._servers, **_THEIRS).option("topic", topic).save()
        return clock.stop()
