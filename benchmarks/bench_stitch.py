"""How much CPU does stitching take, compared with rewriting the same segments with pyarrow?

The two alternate, so a busy machine slows both of them down: only the ratios are reliable.
"""

from __future__ import annotations

import io
import statistics
import time
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.demo import flights
from columnar_kafka.lake.stitch import stitch

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 9
TARGET_ROWS = 300_000  # in a round, whatever the size of its segments
SEGMENT_ROWS = (1_000, 10_000, 50_000)


def segments(table: pa.Table, rows: int) -> list[bytes]:
    """Encode the table as segments of `rows` rows."""
    encoded = []
    for start in range(0, TARGET_ROWS, rows):
        out = io.BytesIO()
        pq.write_table(table.slice(start, rows), out, compression="zstd", write_page_checksum=True)
        encoded.append(out.getvalue())
    return encoded


def records() -> pa.Table:
    """Return the flights of 2013 with the `_kafka` column that segments have: 22 leaf columns."""
    table = flights.load()
    rows = len(table)
    identity = {"segment": pa.repeat("3fa0c1-17", rows), "row": pa.arange(0, rows)}
    times = table["time_hour"].combine_chunks()
    struct = pa.StructArray.from_arrays([*identity.values(), times], [*identity, "timestamp"])
    return table.append_column("_kafka", struct)


def stitched(files: list[bytes]) -> None:
    """Write one file as the lake does."""
    with TemporaryFile() as sink:
        stitch(files, sink, metadata={})


def rewritten(files: list[bytes]) -> None:
    """Write one file with as many row groups by decoding and encoding."""
    tables = [pq.read_table(io.BytesIO(data), use_threads=False) for data in files]
    with (
        TemporaryFile() as sink,
        pq.ParquetWriter(sink, tables[0].schema, compression="zstd") as writer,
    ):
        for table in tables:
            writer.write_table(table)


def cpu_seconds(run: Callable[[list[bytes]], None], files: list[bytes]) -> float:
    """Time one round."""
    began = time.process_time()
    run(files)
    return time.process_time() - began


def main() -> None:
    """Print a line for each size of segment: medians, with the extremes in brackets."""
    table = records()
    for rows in SEGMENT_ROWS:
        files = segments(table, rows)
        nbytes = sum(map(len, files))
        ours, theirs = zip(
            *((cpu_seconds(stitched, files), cpu_seconds(rewritten, files)) for _ in range(ROUNDS)),
            strict=True,
        )
        each = sorted(seconds / len(files) * 1e6 for seconds in ours)
        ratios = sorted(slow / fast for fast, slow in zip(ours, theirs, strict=True))
        print(
            f"{rows:6,} rows, {nbytes / len(files) / 1e6:.2f} MB a segment: "
            f"stitch {statistics.median(each):.0f} µs a segment [{each[0]:.0f}, {each[-1]:.0f}], "
            f"{nbytes / statistics.median(ours) / 1e9:.2f} GB/s; a rewrite takes "
            f"{statistics.median(ratios):.0f} times the CPU [{ratios[0]:.0f}, {ratios[-1]:.0f}]"
        )


if __name__ == "__main__":
    main()
