"""The core's writer and reader of Parquet beside the `parquet` crate's, for the same columns.

`python -m benchmarks.parquet_crate` prints the CPU of both, and the bytes they write. The crate's
columns have their levels (`native/examples`). The core's reader also checks the file's checksum.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from columnar_kafka import native
from columnar_kafka.columns.kafka_column import KafkaColumn
from columnar_kafka.columns.native_format import native_columns, row_format
from columnar_kafka.schema import RecordSchema
from columnar_kafka.segment.native_encoder import native_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

CASES: Final = (("flights", 10_000), ("narrow", 10_000), ("nested", 10_000), ("flights", 1))
ROUNDS: Final = 7
SECONDS: Final = 0.5
CRATE: Final = Path(__file__).parents[1] / "native"
LIMIT: Final = 1 << 40


def main() -> None:
    """Let both take turns, and print the medians."""
    cargo = ["cargo", "build", "--quiet", "--release", "--example", "parquet_crate"]
    subprocess.run(cargo, cwd=CRATE, check=True)
    for name, rows in CASES:
        write, read, file = ours(name, rows)
        with tempfile.NamedTemporaryFile() as kept:
            kept.write(file)
            kept.flush()
            rounds = [(nanos(write), nanos(read), *crates(kept.name)) for _ in range(ROUNDS)]
        wrote, was_read, crate_wrote, crate_read, nbytes = map(median, zip(*rounds, strict=True))
        sys.stdout.write(
            f"{name}, {rows:,} rows, µs of CPU a record, the core's and the crate's:\n"
        )
        for what, core, crate in ("write", wrote, crate_wrote), ("read", was_read, crate_read):
            times = f"{crate / core:.2f} ×"
            sys.stdout.write(f"  {what} {core / rows / 1e3:.3g} {crate / rows / 1e3:.3g} {times}\n")
        sys.stdout.write(f"  bytes {len(file):,} {nbytes:,.0f}\n")


def ours(name: str, rows: int) -> tuple[Callable[[], Any], Callable[[], Any], bytes]:
    """Return what writes a segment, what reads it, and the segment."""
    dataset, kafka = data.load(name), KafkaColumn(("id", "timestamp"))
    schema = RecordSchema.parse(dataset.avro)
    encoder = native_encoder(pa.schema([*schema.arrow, kafka.field]), kafka, "zstd")
    batch, usage = native.core.Batch(row_format(schema), rows, LIMIT), native.core.Usage(LIMIT)
    for row in dataset.block(rows, fresh=False):
        values = tuple(plain(row[field.name], field.type) for field in schema.arrow)
        batch.append(values, None, 1_700_000_000_000, None, None, usage)
    block = batch.seal()
    file = encoder.encode(block, "3fa0c1-1", {})
    checksum, columns = zlib.crc32(file), native_columns(pq.read_schema(pa.BufferReader(file)))
    of_file = native.core.File.open(file, checksum, LIMIT).schema(columns)

    def read() -> None:
        records = native.core.File.open(file, checksum, LIMIT).read(of_file, 0, LIMIT, LIMIT, False)
        assert len(records) == rows

    return lambda: encoder.encode(block, "3fa0c1-1", {}), read, file


def plain(value: Any, arrow: pa.DataType) -> Any:
    """Return a value as the core takes it: a record is a tuple, a map its pairs."""
    if pa.types.is_struct(arrow):
        return tuple(plain(value[field.name], field.type) for field in arrow)
    if pa.types.is_map(arrow):
        return list(value.items())
    return [plain(item, arrow.value_type) for item in value] if pa.types.is_list(arrow) else value


def nanos(call: Callable[[], Any]) -> float:
    """Return the CPU of one call, once warm."""
    call()
    calls, begin = 0, time.process_time_ns()
    while (took := time.process_time_ns() - begin) < SECONDS * 1e9:
        call()
        calls += 1
    return took / calls


def crates(file: str) -> tuple[int, ...]:
    """Return the crate's nanoseconds to write and to read a file, and the bytes it writes."""
    program = CRATE / "target/release/examples/parquet_crate"
    done = subprocess.run([program, file, str(SECONDS)], capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))


if __name__ == "__main__":
    main()
