"""What does stitching segments into one file cost, against rewriting them with pyarrow?"""

from __future__ import annotations

import io
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.answer import CPU, OURS, Answer
from benchmarks.child import Child, Children, Clock, Cost
from columnar_kafka.demo import flights
from columnar_kafka.lake.stitch import stitch

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Stitching, a segment"
IS_LONG = True
ABOUT = """Flights with the `_kafka` column that segments have: 22 leaf columns, into one file.
The rewrite decodes and encodes with pyarrow, with as many row groups."""

ROWS: Final = 300_000
SEGMENT_ROWS: Final = (1_000, 10_000, 50_000)
REWRITE: Final = "pyarrow"


class Stitching:
    """Makes one file of segments; lives in a child."""

    def __init__(self, who: str, rows: int, segment_rows: int) -> None:
        table = _records().slice(0, rows)
        self._files = []
        for start in range(0, rows, segment_rows):
            out = io.BytesIO()
            part = table.slice(start, segment_rows)
            pq.write_table(part, out, compression="zstd", write_page_checksum=True)
            self._files.append(out.getvalue())
        self._rows, self._write = rows, _stitched if who == OURS else _rewritten

    def run(self) -> Cost:
        """Measure one round; the file must have all rows."""
        with TemporaryFile() as sink:
            clock = Clock()
            self._write(self._files, sink)
            cost = clock.stop()
            if pq.ParquetFile(sink).metadata.num_rows != self._rows:
                raise AssertionError("rows are missing")
        return cost


def _records() -> pa.Table:
    table = flights.load()
    rows = len(table)
    identity = {"segment": pa.repeat("3fa0c1-17", rows), "row": pa.arange(0, rows)}
    times = table["time_hour"].combine_chunks()
    struct = pa.StructArray.from_arrays([*identity.values(), times], [*identity, "timestamp"])
    return table.append_column("_kafka", struct)


def _stitched(files: list[bytes], sink: io.IOBase) -> None:
    stitch(files, sink, metadata={})  # type: ignore[arg-type]


def _rewritten(files: list[bytes], sink: io.IOBase) -> None:
    tables = [pq.read_table(io.BytesIO(data), use_threads=False) for data in files]
    with pq.ParquetWriter(sink, tables[0].schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def answer(bench: Bench) -> Answer:
    """Write segments of each size in both ways."""
    found = Answer()
    for segment_rows in SEGMENT_ROWS:
        rows = max(segment_rows, bench.rows(ROWS))
        case = f"{segment_rows:,} rows"
        bench.say(case)
        start = {who: Child(Stitching, who, rows, segment_rows) for who in (OURS, REWRITE)}
        with Children(start) as children:
            costs = children.rounds(bench.rounds, "run")
        found.add_costs(case, costs, -(-rows // segment_rows))
        found.compare(case, REWRITE, CPU)
    return found
