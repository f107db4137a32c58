"""What does stitching segments into one file cost, against rewriting them with pyarrow?"""

from __future__ import annotations

import io
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow.parquet as pq

from benchmarks.answer import CPU, OURS, Answer
from benchmarks.child import Child, Children, Clock, Cost
from benchmarks.measured import Claim
from benchmarks.segments import rows_of, segments
from columnar_kafka.lake.stitching.stitch import stitch

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Stitching, a segment"
IS_LONG = True
ABOUT = """Segments of flights in memory, 22 leaf columns with those of `_kafka`, into one file: 32
MB of them in each case, on one thread. The rewrite decodes and encodes with pyarrow, with as many
row groups. The copy only writes the segments' bytes, as stitching has to. The GB are those of the
segments, a second of CPU."""

NBYTES: Final = 32_000_000
CASES: Final = {
    64_000: ("64 KB", 1.0, 28),
    160_000: ("160 KB", 1.5, 40),
    1_000_000: ("1 MB", 3.0, 80),
}
REWRITE, COPY = "pyarrow", "copy"
SPEED: Final = "GB/s"


class Stitching:
    """Makes one file of segments; lives in a child."""

    def __init__(self, who: str, rows: int, segment_rows: int) -> None:
        self._files = [segment.value or b"" for segment in segments(rows, segment_rows)]
        self._who, self._rows = who, rows

    def nbytes(self) -> int:
        """Return the size of all segments."""
        return sum(map(len, self._files))

    def run(self) -> Cost:
        """Measure one round; the file must have all rows."""
        with TemporaryFile() as sink:
            clock = Clock()
            _WRITERS[self._who](self._files, sink)
            cost = clock.stop()
            if self._who != COPY and pq.ParquetFile(sink).metadata.num_rows != self._rows:
                raise AssertionError("rows are missing")
        return cost


def _stitched(files: list[bytes], sink: BinaryIO) -> None:
    stitch(files, sink, metadata={})


def _rewritten(files: list[bytes], sink: BinaryIO) -> None:
    tables = [pq.read_table(io.BytesIO(data), use_threads=False) for data in files]
    with pq.ParquetWriter(sink, tables[0].schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def _copied(files: list[bytes], sink: BinaryIO) -> None:
    sink.writelines(files)


_WRITERS: Final = {OURS: _stitched, REWRITE: _rewritten, COPY: _copied}


def answer(bench: Bench) -> Answer:
    """Write segments of each size in each way."""
    results = Answer()
    for nbytes, (case, speed, less) in CASES.items():
        bench.say(case)
        count, segment_rows = max(1, bench.rows(NBYTES) // nbytes), rows_of(nbytes)
        start = {who: Child(Stitching, who, count * segment_rows, segment_rows) for who in _WRITERS}
        with Children(start) as children:
            costs = children.rounds(bench.rounds, "run")
            sizes = children.each("nbytes")
        results.add_costs(case, costs, count)
        for who, rounds in costs.items():
            results.add(case, who, SPEED, [sizes[who] / cost.cpu / 1e9 for cost in rounds])
        results.compare(case, REWRITE, CPU, at_least=less)
        values = results.values(case, OURS, SPEED)
        results.claims.append(Claim(f"{case}: {SPEED}", values, at_least=speed, unit=SPEED))
    return results
