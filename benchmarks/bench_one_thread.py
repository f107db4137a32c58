"""What a consumer costs one thread, against an earlier revision of this project.

python benchmarks/bench_one_thread.py [REVISION [ROUNDS]]

By default the last revision the consumer of which was for one thread only. Both read the same records from memory, each in a process of its own that is told when to go on:
the rounds are interleaved. The figures are CPU time, this tree's divided by the revision's, with
the median and its 95 % interval (from the ranks of the ratios).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).parents[1]
FOR_ONE_THREAD: Final = "29d450a"
ROUNDS: Final = 61
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


def serve() -> None:
    """Read once for each line of standard input; answer with the CPU seconds that it took."""
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
    for line in sys.stdin:
        is_segments, way = WAYS[line.strip()]
        print(read(kafka, "segments" if is_segments else "plain", way), flush=True)


def read(kafka: Any, topic: str, way: str | int) -> float:
    """Return the CPU seconds that all records of a topic take."""
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
    """Have one process read."""
    stdin: IO[str] | None = process.stdin
    assert stdin is not None
    assert process.stdout is not None
    stdin.write(f"{way}\n")
    stdin.flush()
    return float(process.stdout.readline())


def start(tree: Path) -> subprocess.Popen[str]:
    """Start a process that reads with the package in a tree."""
    return subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        env={"PYTHONPATH": str(tree), "PATH": ""},
        cwd=tree,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main(revision: str, rounds: int) -> None:
    """Print a line for each way of reading."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", tree, revision],  # noqa: S607
            cwd=ROOT,
            check=True,
        )
        try:
            before, now = start(tree), start(ROOT)
            print(f"{rounds} rounds of {RECORDS:,} records; CPU of this tree / {revision}")
            for way in WAYS:
                pairs = [
                    [ask(each, way) for each in order][:: 1 if n % 2 else -1]
                    for n in range(rounds)
                    for order in [(now, before) if n % 2 else (before, now)]
                ]
                ratios = sorted(ours / theirs for ours, theirs in pairs)
                low = int(rounds / 2 - rounds**0.5)
                price = 1e6 * statistics.median(ours for ours, _ in pairs) / RECORDS
                print(
                    f"{way:30} {statistics.median(ratios):.3f} "
                    f"[{ratios[low]:.3f}, {ratios[-1 - low]:.3f}]   {price:.2f} us a record"
                )
            for each in (before, now):
                each.communicate()
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", tree],  # noqa: S607
                cwd=ROOT,
                check=True,
            )


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        revision, rounds = [*sys.argv[1:], *[FOR_ONE_THREAD, ROUNDS][len(sys.argv) - 1 :]][:2]
        main(str(revision), int(rounds))
