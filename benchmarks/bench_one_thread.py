"""How much does reading in one thread cost, compared with an earlier revision of this project?

python benchmarks/bench_one_thread.py [REVISION [ROUNDS]]

The default is the last revision with a consumer that was not thread-safe. Both revisions read the
same records from memory, in two processes that take turns. A figure is this tree's divided by the
revision's: the number of instructions, if valgrind is installed to count them, and the CPU time, as
the median and its 95 % confidence interval (from ranks).
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).parents[1]
FOR_ONE_THREAD: Final = "29d450a"
ROUNDS: Final = 63
PAIRS: Final = 7
COUNTS: Final = 3
RECORDS: Final = 20_000
ROWS: Final = 5_000

WAYS: Final = {
    "poll, records": (True, "poll"),
    "poll, plain messages": (False, "poll"),
    "consume(1), records": (True, 1),
    "consume(500), records": (True, 500),
    "consume(500), plain messages": (False, 500),
    "consume_arrow(500), records": (True, "arrow"),
}


def topics() -> Any:
    """Return a Kafka in memory that has the records, and turn garbage collection off."""
    import pyarrow as pa  # noqa: PLC0415 - the other revision's, in its own process

    from columnar_kafka.testing import FakeKafka  # noqa: PLC0415

    kafka = FakeKafka()
    config = {"columnar.encoding": "parquet", "columnar.segment.rows": ROWS}
    for topic in ("segments", "plain"):
        kafka.create_topic(topic, 1)
    with kafka.Producer(config) as producer:
        producer.set_schema("segments", pa.schema([("n", pa.int64()), ("text", pa.string())]))
        for n in range(RECORDS):
            producer.produce("segments", {"n": n, "text": f"text {n % 100}"})
            producer.produce("plain", b"%d" % n)
    gc.disable()
    return kafka


def serve() -> None:
    """Read once for every line of standard input; print the CPU seconds that it took."""
    kafka = topics()
    for line in sys.stdin:
        gc.collect()
        print(read(kafka, *WAYS[line.strip()]), flush=True)


def count(way: str) -> None:
    """Read twice, and let valgrind count the second time."""
    kafka = topics()
    read(kafka, *WAYS[way])
    gc.collect()
    control = ["callgrind_control", "-i"]
    subprocess.run([*control, "on", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
    read(kafka, *WAYS[way])
    subprocess.run([*control, "off", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


def read(kafka: Any, is_segments: bool, way: str | int) -> float:
    """Return the CPU seconds that reading all records of a topic takes."""
    topic = "segments" if is_segments else "plain"
    config = {"group.id": "g", "columnar.encoding": "parquet", "enable.auto.commit": False}
    consumer = kafka.Consumer(config)
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    consumer.assign([TopicPartition(topic, 0, 0)])
    count, begin = 0, time.process_time()
    if way == "poll":
        poll = consumer.poll
        while count < RECORDS:
            if poll(1) is not None:
                count += 1
    elif way == "arrow":
        while count < RECORDS:
            count += consumer.consume_arrow(500, 1).num_rows
    else:
        while count < RECORDS:
            count += len(consumer.consume(way, 1))
    took = time.process_time() - begin
    assert count == RECORDS
    consumer.close()
    return took


def ask(process: subprocess.Popen[str], way: str) -> float:
    """Have a process read once; return the CPU seconds that it took."""
    stdin: IO[str] | None = process.stdin
    assert stdin is not None
    assert process.stdout is not None
    stdin.write(f"{way}\n")
    stdin.flush()
    return float(process.stdout.readline())


def start(tree: Path) -> subprocess.Popen[str]:
    """Start a process that reads with the package of a working tree."""
    return subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        env={"PYTHONPATH": str(tree), "PATH": ""},
        cwd=tree,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def instructions(tree: Path, way: str) -> int:
    """Return how many instructions a record takes, by valgrind: the lowest of several counts.

    The counts differ because Arrow's threads wait for each other for different times.
    """
    return min(instructions_once(tree, way) for _ in range(COUNTS))


def instructions_once(tree: Path, way: str) -> int:
    """Return how many instructions a record takes in one run."""
    counted = subprocess.run(
        [
            *(
                "valgrind",
                "--tool=callgrind",
                "--instr-atstart=no",
                "--callgrind-out-file=/dev/null",
            ),
            *(sys.executable, __file__, "--count", way),
        ],
        env={"PYTHONPATH": str(tree), "PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"},
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    )
    collected = re.search(r"Collected : (\d+)", counted.stderr)
    assert collected is not None, counted.stderr
    return int(collected[1]) // RECORDS


def main(revision: str, rounds: int) -> None:
    """Print a line for each way of reading."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        add = ["git", "worktree", "add", "--quiet", "--detach", tree, revision]
        subprocess.run(add, cwd=ROOT, check=True)
        try:
            print(
                f"{RECORDS:,} records; this tree / {revision}: instructions, CPU ({rounds} rounds)"
            )
            for way in WAYS:
                print(f"{way:30} {instructions_of(way, tree)}{times_of(way, tree, rounds)}")
        finally:
            remove = ["git", "worktree", "remove", "--force", tree]
            subprocess.run(remove, cwd=ROOT, check=True)


def instructions_of(way: str, tree: Path) -> str:
    """Return the ratio of the instructions, if valgrind is installed."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    ours, theirs = instructions(ROOT, way), instructions(tree, way)
    return f"{ours / theirs:.3f} ({ours:,} a record)"


def times_of(way: str, tree: Path, rounds: int) -> str:
    """Return the ratio of the CPU times over several pairs of processes, as no two are alike."""
    pairs = []
    for n in range(PAIRS):
        before, now = start(tree), start(ROOT)
        for _ in range(rounds // PAIRS):
            order = (before, now) if n % 2 else (now, before)
            took = {each: ask(each, way) for each in order}
            pairs.append((took[now], took[before]))
        for each in (before, now):
            each.communicate()
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    low = int(len(ratios) / 2 - len(ratios) ** 0.5)
    price = 1e6 * statistics.median(ours for ours, _ in pairs) / RECORDS
    return (
        f"  {statistics.median(ratios):.3f} [{ratios[low]:.3f}, {ratios[-1 - low]:.3f}]"
        f" ({price:.2f} us a record)"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    elif sys.argv[1:2] == ["--count"]:
        count(sys.argv[2])
    else:
        revision, rounds = [*sys.argv[1:], *[FOR_ONE_THREAD, ROUNDS][len(sys.argv) - 1 :]][:2]
        main(str(revision), int(rounds))
