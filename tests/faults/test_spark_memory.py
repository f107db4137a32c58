"""What Spark's workers hold while far more goes through a topic than it keeps."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import confluent_kafka
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from inside import java_of
from segments import segment
from support import by_profile, eventually, interpreter_bytes

import spark_sink
from columnar_kafka.local import LocalKafka
from spark_sink.starting import is_late

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from columnar_kafka.lake.model import SourceMessage

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

TOPIC = "short-lived"
PARTITIONS = 10
ROWS, WIDTH = 64, 1000  # a segment has 64 KB: random bytes do not get smaller
PREPARED = 61
"""So many segments are sent again and again; no power of two, which is what blocks have."""
SIZE = by_profile(100_000_000, 10_000_000_000)
# Messages of a partition: sent together, and at most sent and not landed.
ROUND, AHEAD = by_profile((8, 32), (32, 384))
# Bytes: a partition keeps about half as much again as may not have landed.
KEPT, ROLLED = by_profile((3 << 20, 1 << 20), (36 << 20, 4 << 20))
BOUND = 512 << 20  # bytes over an interpreter that has done nothing
NOISE = 32 << 20  # bytes: what peaks may differ by, or a tenth
SAMPLE = 0.05  # seconds


@pytest.fixture
def forgetful() -> Iterator[LocalKafka]:
    """A Kafka that soon deletes what a topic need not keep."""
    soon = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
    with LocalKafka(config=soon) as kafka:
        small = {"retention.bytes": str(KEPT), "segment.bytes": str(ROLLED)}
        always = {"retention.ms": "-1", "file.delete.delay.ms": "500"}
        kafka.create_topic(TOPIC, PARTITIONS, small | always)
        yield kafka


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    """A folder that does not stay: pytest would keep the last three."""
    yield tmp_path / "lake"
    shutil.rmtree(tmp_path / "lake", ignore_errors=True)


class Sender:
    """A stock producer that sends prepared segments: that at offset o is number o % PREPARED."""

    def __init__(self, servers: str) -> None:
        config = {"bootstrap.servers": servers, "enable.idempotence": True}
        self._producer = confluent_kafka.Producer(config)
        self._prepared = [prepared(number) for number in range(PREPARED)]
        self.next = 0
        """The next offset, in each partition."""
        self.nbytes = 0

    def send(self) -> None:
        """Send so many segments to each partition, and wait until they are stored."""
        errors: list[object] = []
        for offset in range(self.next, self.next + ROUND):
            value, headers = self._prepared[offset % PREPARED]
            for partition in range(PARTITIONS):
                self._producer.produce(
                    TOPIC,
                    value,
                    headers=headers,
                    partition=partition,
                    on_delivery=lambda error, _: errors.append(error),
                )
                self.nbytes += len(value)
        self._producer.flush(300)
        assert errors == [None] * ROUND * PARTITIONS
        self.next += ROUND


def prepared(number: int) -> tuple[bytes, Any]:
    """Return value and headers of a segment, in which n counts on from the last one."""
    random = np.random.default_rng(number)
    numbers = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
    texts = pa.array([random.bytes(WIDTH) for _ in range(ROWS)], pa.binary())
    message: SourceMessage = segment(pa.table({"n": numbers, "bytes": texts}), number=number)
    return bytes(message.value or b""), list(message.headers)


class Stream:
    """A stream of ranges into a directory."""

    def __init__(self, spark: SparkSession, servers: str, lake: Path) -> None:
        spark_sink.register(spark)
        options = {"kafka.bootstrap.servers": servers}
        source = spark.readStream.format("columnar_kafka").options(**options, subscribe=TOPIC)
        rows = source.options(mode="ranges", startingOffsets="earliest").load()
        sink = rows.writeStream.format("columnar_lake").options(**options, path=str(lake))
        self._writer = sink.option("checkpointLocation", f"{lake}-checkpoint")
        self._files = lake / TOPIC
        self._start()

    def _start(self) -> None:
        self._query = spark_sink.start(self._writer, attempts=12)

    def landed(self) -> int:
        """Return the offset up to which all partitions have landed."""
        if not self._query.isActive:
            error = self._query.exception()
            assert error is None or is_late(error), str(error)
            self._start()
        ends = dict.fromkeys(range(PARTITIONS), 0)
        for partition, _, last, _ in files(self._files):
            ends[partition] = max(ends[partition], last + 1)
        return min(ends.values())

    def wait_for(self, offset: int) -> None:
        eventually(lambda: self.landed() >= offset, seconds=600)

    def stop(self) -> None:
        self._query.stop()


def files(folder: Path) -> list[tuple[int, int, int, Path]]:
    """Return partition, first and last offset, and path of the files that have landed, sorted."""
    landed = []
    for path in folder.glob("p*.parquet"):
        partition, first, last = map(int, path.stem[1:].split("-"))
        landed.append((partition, first, last, path))
    return sorted(landed)


class Memory:
    """The resident bytes of the Python processes below a Java, by their ids, often looked at."""

    def __init__(self, java: int) -> None:
        self._java = psutil.Process(java)
        self.samples: list[dict[int, int]] = []

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Look at them in a thread."""
        ended = threading.Event()

        def sample() -> None:
            while not ended.wait(SAMPLE):
                self.samples.append(self.below("python"))

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def below(self, name: str) -> dict[int, int]:
        sizes = {}
        for child in self._java.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.name().lower().startswith(name):
                    sizes[child.pid] = child.memory_info().rss
        return sizes

    def of_an_executor(self) -> int:
        """Return what the largest executor's processes have; pages that they share count once."""
        sizes: Counter[int] = Counter()
        for pid in self.below("python"):
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.cmdline()[-1:] == ["pyspark.worker"]:
                    info = process.memory_full_info()
                    executor = next(
                        parent for parent in process.parents() if parent.name() == "java"
                    )
                    # Only Linux counts shares of pages.
                    sizes[executor.pid] += getattr(info, "pss", info.uss)
        return max(sizes.values(), default=0)

    def java(self) -> int:
        """Return what the largest Java has, of the driver and executors."""
        return max(self._java.memory_info().rss, *self.below("java").values(), 0)


def kept(kafka: LocalKafka) -> int:
    """Return how many bytes the topic has on disk, files about to be deleted too."""
    size = 0
    for path in kafka.directory.rglob(f"{TOPIC}-*/*.log*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def forgotten(kafka: LocalKafka) -> bool:
    """Whether Kafka has deleted the beginning of each partition."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "test"}
    with confluent_kafka.Consumer(config) as consumer:
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        return all(consumer.get_watermark_offsets(place, 60)[0] for place in places)


def check(folder: Path, count: int) -> None:
    """Compare the rows of each partition, in the order of its files, with those that were sent."""
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for partition, first, last, path in files(folder):
        assert first == ends[partition]
        numbers = np.arange(first, last + 1)[:, None] % PREPARED * ROWS + np.arange(ROWS)
        assert np.array_equal(pq.read_table(path, columns=["n"])["n"], numbers.ravel()), path
        ends[partition] = last + 1
    assert ends == dict.fromkeys(range(PARTITIONS), count)


def test_workers_memory_stays_flat_and_each_segment_lands_once_on_spark(
    spark: SparkSession, forgetful: LocalKafka, lake: Path, record_property: Any
) -> None:
    """It depends neither on what went through, nor on what a batch has."""
    servers = forgetful.bootstrap_servers
    sender = Sender(servers)
    memory = Memory(java_of(spark))
    half, largest, executor = 0, 0, 0
    sender.send()
    with memory.sampled():
        stream = Stream(spark, servers, lake)
        try:
            while sender.nbytes < SIZE:
                sender.send()
                stream.wait_for(sender.next - AHEAD)
                half = half if sender.nbytes > SIZE / 2 else len(memory.samples)
                largest = max(largest, kept(forgetful))
                executor = max(executor, memory.of_an_executor())
            stream.wait_for(sender.next)
        finally:
            stream.stop()
        eventually(lambda: forgotten(forgetful))
    bare = interpreter_bytes()
    halves = memory.samples[:half], memory.samples[half:]
    first, second = (
        max(max(sample.values(), default=0) for sample in some) - bare for some in halves
    )
    figures = {
        "sent, MB": sender.nbytes / 1e6,
        "topic at most, MB": largest / 1e6,
        "files": len(files(lake / TOPIC)),
        "Python processes": len(set().union(*memory.samples)),
        "an interpreter, MiB": bare / (1 << 20),
        "the largest worker over it, first half, MiB": first / (1 << 20),
        "second half, MiB": second / (1 << 20),
        "all of an executor, MiB": executor / (1 << 20),
        "the largest Java in the end, MiB": memory.java() / (1 << 20),
    }
    for what, figure in figures.items():
        record_property(what, round(figure))
    check(lake / TOPIC, sender.next)
    assert max(first, second) <= BOUND
    assert second <= max(1.1 * first, first + NOISE)
