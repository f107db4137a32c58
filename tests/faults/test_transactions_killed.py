"""An exactly-once copy, killed in the middle of its transactions: each record once, in order."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, TopicPartition
from support import eventually

from columnar_kafka import Consumer, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typing_extensions import Self

pytestmark = pytest.mark.kafka

ROWS = 100_000
A_TRANSACTION = 750
KILLED_AFTER = ("half of them sent", "offsets sent", "all sent")
KILLS = len(KILLED_AFTER)
KEYS = 50
PARTITIONS = 3
SEGMENT_ROWS = 400
PLAIN_EVERY = 701  # not in step with the segments, nor with the transactions
STEPS = 5  # lines that the copy writes for one transaction, at least

# What it knows of its progress is what the group has committed. A quarter of the transactions is
# aborted: their records are marked, and are sent again by the next one.
COPY = """
    import os, random, signal, sys
    import pyarrow as pa
    from confluent_kafka import TopicPartition
    from columnar_kafka import Consumer, Producer
    from columnar_kafka.position import unpack
    servers, source, target, steps, rows, begin, seed, killed_after, enough = sys.argv[1:]
    chance = random.Random(int(seed))
    common = {"bootstrap.servers": servers, "columnar.encoding": "parquet", "log_level": 0}
    producer = Producer(common | {"transactional.id": target, "columnar.segment.rows": 100})
    producer.set_schema(target, pa.schema([("n", pa.int64()), ("aborted", pa.bool_())]))
    producer.init_transactions(60)  # ends what the process before has left open
    consumer = Consumer(common | {"group.id": target, "auto.offset.reset": "earliest",
        "group.instance.id": "the copy",  # so that it need not wait for the killed one's session
        "enable.auto.commit": False, "isolation.level": "read_committed",
        "enable.partition.eof": True})
    partitions = [TopicPartition(source, each) for each in range(3)]
    next_ones = consumer.committed(partitions, 60)
    if begin == "assign":
        consumer.assign(next_ones)
    else:
        consumer.subscribe([source])
    out = os.open(steps, os.O_WRONLY | os.O_APPEND)
    taken = 0

    def note(step):
        global taken
        os.write(out, step.encode() + b"\\n")
        taken += 1
        if step == killed_after and taken >= int(enough):
            os.kill(os.getpid(), signal.SIGKILL)

    if any(each.offset >= 0 and unpack(each.offset).left for each in next_ones):
        note("started inside a segment")

    def send(batch, aborted):
        producer.begin_transaction()
        note("begun")
        for i, message in enumerate(batch):
            n = message.value()
            value = {"n": n["n"] if isinstance(n, dict) else int(n), "aborted": aborted}
            producer.produce(target, value, key=message.key(), partition=message.partition())
            producer.poll(0)
            if i == len(batch) // 2:
                producer.flush(60)
                note("half of them sent")

    ended = set()
    while len(ended) < 3:
        batch = []
        while len(batch) < int(rows) and len(ended) < 3:
            message = consumer.poll(60)
            if message.error() is None:
                batch.append(message)
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
            else:
                assert message.error().retriable(), message.error()
        if chance.random() < 0.25:
            send(batch, aborted=True)
            if chance.random() < 0.5:
                producer.flush(60)
            producer.abort_transaction(60)
            note("aborted")
        send(batch, aborted=False)
        positions = consumer.position(partitions)
        producer.send_offsets_to_transaction(
            [each for each in positions if each.offset >= 0],
            consumer.consumer_group_metadata(), 60)
        note("offsets sent")
        producer.flush(60)
        note("all sent")
        producer.commit_transaction(60)
        note("committed")
"""


class Seen(NamedTuple):
    n: int
    aborted: bool
    key: bytes


def reader(servers: str, level: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reads {level}",
            "isolation.level": level,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "columnar.encoding": "parquet",
            "log_level": 0,
        }
    )


def taken(consumer: Consumer, topic: str) -> Iterator[tuple[int, Seen | None]]:
    """Yield what each partition holds, in order; None at its end, where it goes on waiting."""
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    while True:
        for message in consumer.consume(1_000, 0.1):
            if message.error() is None:
                value = message.value()
                seen = Seen(value["n"], value["aborted"], message.key())
                yield message.partition(), seen
            elif message.error().code() == KafkaError._PARTITION_EOF:
                yield message.partition(), None
            else:
                assert message.error().retriable(), message.error()
        yield -1, None


def read(servers: str, topic: str, level: str) -> dict[int, list[Seen]]:
    by_partition: dict[int, list[Seen]] = {index: [] for index in range(PARTITIONS)}
    ended: set[int] = set()
    with reader(servers, level) as consumer:
        for partition, seen in taken(consumer, topic):
            if seen is not None:
                by_partition[partition].append(seen)
            elif partition >= 0:
                ended.add(partition)
            if len(ended) == PARTITIONS:
                return by_partition
    raise AssertionError("unreachable")


class Watch:
    """A read_committed consumer that reads all the time, in a thread of its own."""

    def __init__(self, servers: str, topic: str) -> None:
        self.found: dict[int, list[Seen]] = {index: [] for index in range(PARTITIONS)}
        self.error: BaseException | None = None
        self._where = servers, topic
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __len__(self) -> int:
        return sum(map(len, self.found.values()))

    def _run(self) -> None:
        servers, topic = self._where
        try:
            with reader(servers, "read_committed") as consumer:
                for partition, seen in taken(consumer, topic):
                    if seen is not None:
                        self.found[partition].append(seen)
                    if self._ending.is_set():
                        return
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._thread.join()


def fill(servers: str, topic: str) -> dict[bytes, list[int]]:
    """Send the source's records, most of them in segments; return the numbers of each key."""
    numbers: dict[bytes, list[int]] = defaultdict(list)
    config = {"bootstrap.servers": servers, "columnar.encoding": "parquet"}
    with Producer(config | {"columnar.segment.rows": SEGMENT_ROWS}) as producer:
        producer.set_schema(topic, pa.schema([("n", pa.int64())]))
        for n in range(ROWS):
            key = b"key %d" % random.Random(n).randrange(KEYS)
            value: Any = {"n": n} if n % PLAIN_EVERY else b"%d" % n
            producer.produce(topic, value, key=key)
            producer.poll(0)
            numbers[key].append(n)
    return numbers


def copy_and_kill(arguments: list[str], steps: Path, watch: Watch) -> list[str]:
    """Run the copy, which kills itself on the way, until it ends; return its last steps."""
    chance = random.Random(3)
    last_steps = []
    total = STEPS * ROWS // A_TRANSACTION
    for run in range(KILLS + 1):
        step = KILLED_AFTER[run] if run < KILLS else "never"
        enough = chance.randint(total // 8, total // 4)
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(COPY), *arguments, str(run), step, str(enough)]
        )
        try:
            ended = process.wait(600)
        finally:
            process.kill()
        if run == KILLS:
            assert ended == 0
            return last_steps
        assert ended == -signal.SIGKILL
        assert watch.error is None
        last_steps.append(lines(steps)[-1])
    raise AssertionError("unreachable")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize("begin", ["assign", "subscribe"])
def test_a_copy_killed_in_its_transactions_copies_each_record_once(
    kafka, topic, tmp_path: Path, record_property: Callable[[str, Any], None], begin: str
) -> None:
    since = time.monotonic()
    servers, steps = kafka.bootstrap_servers, tmp_path / "steps"
    steps.touch()
    source, target = topic(PARTITIONS), topic(PARTITIONS)
    expected = fill(servers, source)
    arguments = [servers, source, target, str(steps), str(A_TRANSACTION), begin]
    with Watch(servers, target) as watch:
        last_steps = copy_and_kill(arguments, steps, watch)
        committed = read(servers, target, "read_committed")
        total = sum(map(len, committed.values()))
        eventually(lambda: len(watch) >= total or watch.error is not None)
    assert watch.error is None
    assert watch.found == committed

    times = Counter(seen.n for records in committed.values() for seen in records)
    assert sorted(times) == list(range(ROWS))
    assert set(times.values()) == {1}
    assert not [seen for records in committed.values() for seen in records if seen.aborted]
    order: dict[bytes, list[int]] = defaultdict(list)
    for records in committed.values():
        for seen in records:
            order[seen.key].append(seen.n)
    assert order == expected

    # There was something to hide: marked records, and those of the processes that were killed.
    every = [
        seen for records in read(servers, target, "read_uncommitted").values() for seen in records
    ]
    marked = sum(seen.aborted for seen in every)
    unmarked = len(every) - marked - ROWS
    assert marked > 0
    counts = Counter(lines(steps))
    figures = {
        "records": ROWS,
        "transactions committed": counts["committed"],
        "aborted": counts["aborted"],
        "killed after": last_steps,
        "started inside a segment": counts["started inside a segment"],
        "records hidden: marked": marked,
        "of killed ones": unmarked,
        "lost": ROWS - len(times),
        "copied twice": sum(times.values()) - len(times),
        "seconds": round(time.monotonic() - since, 1),
    }
    for what, figure in figures.items():
        record_property(what, figure)
    assert counts["started inside a segment"] > 0
