"""`columnar-kafka ingest` takes no more memory when more comes than its object store takes."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from functools import partial
from subprocess import Popen
from typing import TYPE_CHECKING, Any

import confluent_kafka
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from http_proxy import HttpProxy
from lakes import DirectoryLake
from segments import segment
from support import by_profile, eventually, interpreter_bytes

from columnar_kafka.local import LocalKafka

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

    from columnar_kafka.lake.model import SourceMessage

pytestmark = pytest.mark.kafka

PARTITIONS = range(50)
ROWS = 8_000  # random numbers of a segment
NBYTES = 8 * ROWS
MOST = 512e6  # bytes, over the interpreter
COMMAND = (sys.executable, "-m", "columnar_kafka.cli", "ingest")


@dataclass(frozen=True)
class Size:
    """What is sent, in bytes, and how fast the object store takes it: half as fast as it comes."""

    sent: int
    store_speed: float
    behind: int  # no more waits in the topic
    retention: int  # of a partition
    growth: float  # of the second half's peak over the first's


# The short run ends before the allocator's arenas are as large as they get.
SIZE = by_profile(
    Size(sent=500_000_000, store_speed=40e6, behind=50_000_000, retention=1 << 21, growth=1.3),
    Size(
        sent=10_000_000_000, store_speed=40e6, behind=1_000_000_000, retention=40 << 20, growth=1.1
    ),
)


@pytest.fixture
def small_kafka() -> Iterator[LocalKafka]:
    """Yield a Kafka that removes what is over a topic's retention soon."""
    with LocalKafka(config={"log.retention.check.interval.ms": "1000"}) as kafka:
        yield kafka


class Memory(threading.Thread):
    """The resident bytes of a process, often looked at until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self._process = psutil.Process(pid)

    def run(self) -> None:
        while True:
            try:
                self.sizes.append(self._process.memory_info().rss)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                return
            time.sleep(0.02)


class Sender:
    """Sends a segment again and again, twice as fast as it lands, until enough waits to land."""

    def __init__(self, servers: str, topic: str) -> None:
        config = {"bootstrap.servers": servers, "batch.num.messages": 1}
        self._producer = confluent_kafka.Producer({"linger.ms": 0, **config})
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": topic})
        self._topic = topic
        self.bursts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._producer.close()
        self._consumer.close()

    def send(self, segments: list[SourceMessage], count: int) -> None:
        room, landed, began, sent = SIZE.behind // NBYTES, 0, time.monotonic(), 0
        every = zip(range(count), itertools.cycle(PARTITIONS), itertools.cycle(segments))
        for number, partition, message in every:
            if number - landed >= room:  # most of it lands before the next burst begins
                self.bursts += 1
                self._producer.flush()
                landed = eventually(partial(self.landed, number - room // 4), seconds=600)
                began, sent = time.monotonic(), 0
            value, headers = message.value, [*message.headers]
            self._producer.produce(self._topic, value, headers=headers, partition=partition)
            self._producer.poll(0)
            sent += len(value)
            time.sleep(max(0.0, began + sent / (2 * SIZE.store_speed) - time.monotonic()))
        assert self._producer.flush() == 0

    def landed(self, least: int) -> int:
        """Return how many messages are in the table, by the group's commits; 0 if too few."""
        asked = [TopicPartition(self._topic, partition) for partition in PARTITIONS]
        count = sum(max(0, place.offset) for place in self._consumer.committed(asked))
        return count if count >= least else 0

    def deleted(self) -> int:
        """Return how many messages retention has deleted."""
        ends = (TopicPartition(self._topic, partition) for partition in PARTITIONS)
        return sum(self._consumer.get_watermark_offsets(end, 30)[0] for end in ends)


def landed_rows(lake: DirectoryLake) -> int:
    """Return how many rows are in the table, by its files."""
    files = lake.filesystem()
    landed = [file for file in lake.data_files() if not file.startswith("_")]
    return sum(pq.read_metadata(file, filesystem=files).num_rows for file in landed)


def test_memory_stays_while_more_comes_than_the_store_takes(
    small_kafka: LocalKafka, minio: Any, tmp_path: Path, record_property
) -> None:
    random = np.random.default_rng(0)
    tables = (pa.table({"n": random.integers(1 << 62, size=ROWS)}) for _ in range(61))
    sent, count = [segment(table) for table in tables], SIZE.sent // NBYTES
    topic, lake = uuid.uuid4().hex, DirectoryLake(tmp_path, minio.place(uuid.uuid4().hex))
    small = {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "100"}
    small_kafka.create_topic(
        topic, len(PARTITIONS), {"retention.bytes": str(SIZE.retention), **small}
    )
    interpreter = interpreter_bytes()
    with HttpProxy(lake.bucket.endpoint, SIZE.store_speed) as proxy:
        keys = lake.bucket._replace(endpoint=proxy.endpoint).storage.items()
        line = ["--bootstrap-servers", small_kafka.bootstrap_servers, "--topic", topic]
        line += ["--to", str(lake.bucket), "-X", f"group.id={topic}", "--roll-seconds", "5"]
        line += [text for pair in keys for text in ("--storage", "=".join(pair))]
        with Sender(small_kafka.bootstrap_servers, topic) as sender:
            with Popen([*COMMAND, *line]) as process:
                memory = Memory(process.pid)
                memory.start()
                try:
                    sender.send(sent, count)
                    eventually(partial(sender.landed, count))
                finally:
                    process.send_signal(signal.SIGTERM)
            memory.join()
            deleted = sender.deleted()
    assert process.returncode == 0
    half = len(memory.sizes) // 2
    peaks = [max(sizes) - interpreter for sizes in (memory.sizes[:half], memory.sizes[half:])]
    record_property("MB in the halves", [round(peak / 1e6) for peak in peaks])
    record_property("MB of the interpreter", round(interpreter / 1e6))
    record_property("bursts", sender.bursts)
    record_property("MB that retention deleted", deleted * NBYTES // 10**6)
    assert landed_rows(lake) == count * ROWS
    assert sum(fence.next for fence in lake.table().fences().values()) == count
    assert sender.bursts > 1
    assert deleted > 0
    assert max(peaks) <= MOST
    assert peaks[1] <= SIZE.growth * peaks[0]
