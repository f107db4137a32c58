"""Producers that infer one topic's schema, and consumers of its JSON, killed at random."""

from __future__ import annotations

import base64
import json
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from drifting_objects import drifting
from support import by_profile, eventually

from columnar_kafka import Consumer

pytestmark = pytest.mark.kafka

PRODUCERS = 4
PARTITIONS = 3
KILLS = 10
OBJECTS = by_profile(4_000, 500_000) // PRODUCERS  # of each producer
COMMIT_EVERY = 101

CONFIG = {
    "columnar.encoding": "parquet",
    "columnar.value.format": "json",
    "log_level": 0,
}
PRODUCER = """
import json, os, sys, time
sys.path.insert(0, sys.argv[5])
from columnar_kafka import Producer
from drifting_objects import drifting
config, topic, producer, run = json.loads(sys.argv[1]), *sys.argv[2:5]
count, first = int(sys.argv[6]), int(sys.argv[7])
acknowledged = os.open(sys.argv[8], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def told(error, message):
    assert error is None, error
    os.write(acknowledged, b"%d\\n" % json.loads(message.value())["n"])
with Producer({**config, "columnar.schema": "infer", "columnar.linger.ms": 50,
               "acks": "all", "enable.idempotence": True}) as client:
    for n in range(first, count):
        value = json.dumps({**drifting(n), "producer": int(producer), "run": int(run), "n": n})
        while True:
            try:
                client.produce(topic, value, key=b"%d" % (n % 7), on_delivery=told)
                break
            except BufferError:
                client.poll(0.05)
        client.poll(0)
        if n % (count // 60) == 0:
            time.sleep(0.05)  # for several lingers
        while n == count * 9 // 10 and not os.path.exists(sys.argv[9]):  # until all were killed
            client.poll(0.05)
"""
CONSUMER = """
import base64, json, os, sys
from columnar_kafka import Consumer
config, topic, out, every, until = json.loads(sys.argv[1]), *sys.argv[2:6]
consumer = Consumer({**config, "group.id": topic, "group.instance.id": "one",
    "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe([topic])
out = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
count = 0
while not os.path.exists(until):
    message = consumer.poll(0.5)
    if message is None or (message.error() is not None and message.error().retriable()):
        continue
    assert message.error() is None, message.error()
    value = base64.b64encode(message.value()).decode()
    os.write(out, b"%d %d %s\\n" % (message.partition(), message.offset(), value.encode()))
    count += 1
    if count % int(every) == 0:
        consumer.commit(message=message, asynchronous=False)
consumer.close()
"""


class Processes:
    """Producers and a consumer of one topic, each started anew where the one before ended."""

    def __init__(self, servers: str, topic: str, folder: Path) -> None:
        self._config = json.dumps({**CONFIG, "bootstrap.servers": servers})
        self._topic = topic
        self._folder = folder
        self.out, self.go, self.until = (folder / name for name in ("out", "go", "until"))
        self.out.touch()
        self.consuming = self._consumer()
        self.producing = {number: self._producer(number, 0) for number in range(PRODUCERS)}
        self.kills: Counter[str] = Counter()

    def kill_consumer(self) -> None:
        self.consuming.kill()
        assert self.consuming.wait() == -signal.SIGKILL
        self.kills["consumers"] += 1
        self.consuming = self._consumer()

    def kill_producer(self, number: int, run: int) -> None:
        self.producing[number].kill()
        assert self.producing[number].wait() == -signal.SIGKILL
        self.kills["producers"] += 1
        self.producing[number] = self._producer(number, run)

    def acknowledged(self, number: int) -> int:
        return next_of(self._folder / f"told {number}")

    def end(self) -> None:
        for process in (self.consuming, *self.producing.values()):
            process.kill()
            process.wait()

    def _consumer(self) -> subprocess.Popen[bytes]:
        arguments = [self._topic, str(self.out), str(COMMIT_EVERY), str(self.until)]
        return subprocess.Popen([sys.executable, "-c", CONSUMER, self._config, *arguments])

    def _producer(self, number: int, run: int) -> subprocess.Popen[bytes]:
        told = self._folder / f"told {number}"
        arguments = [self._topic, number, run, Path(__file__).parent, OBJECTS, next_of(told), told]
        arguments.append(self.go)
        return subprocess.Popen(
            [sys.executable, "-c", PRODUCER, self._config, *map(str, arguments)]
        )


def test_equal_values_in_their_order(kafka, topic, tmp_path: Path, record_property) -> None:
    """Whoever is killed, and whatever the first producers have guessed."""
    name = topic(PARTITIONS)
    processes = Processes(kafka.bootstrap_servers, name, tmp_path)
    rng = random.Random(7)
    try:
        for kill in range(KILLS):
            enough = int((kill + rng.random()) / KILLS * 0.8 * OBJECTS)
            victim = kill % PRODUCERS
            eventually(
                lambda enough=enough, victim=victim: processes.acknowledged(victim) >= enough,
                seconds=900,
            )
            if kill % 3 == 2:
                processes.kill_consumer()
            else:
                processes.kill_producer(victim, kill + 1)
        processes.go.touch()
        assert [process.wait(900) for process in processes.producing.values()] == [0] * PRODUCERS
        values = all_there(kafka.bootstrap_servers, name)
        eventually(lambda: len(positions(processes.out)) >= len(values), seconds=900)
        processes.until.touch()
        assert processes.consuming.wait(120) == 0
    finally:
        processes.end()
    record_property("killed", dict(processes.kills))
    record_property("sent twice", len(values) - PRODUCERS * OBJECTS)
    assert processes.kills == {"producers": 7, "consumers": 3}
    assert positions(processes.out) == values
    check(values)


def next_of(told: Path) -> int:
    """Return the number behind the last one that Kafka has acknowledged; they come in any order."""
    if not told.exists():
        return 0
    numbers = {int(line) for line in told.read_text().split("\n")[:-1]}
    return next(n for n in range(len(numbers) + 1) if n not in numbers)


def positions(out: Path) -> dict[tuple[int, int], bytes]:
    """Return what was handed out; a record that was handed out twice had the same value."""
    found: dict[tuple[int, int], bytes] = {}
    for line in out.read_text().split("\n")[:-1]:
        partition, offset, value = line.split()
        place, decoded = (int(partition), int(offset)), base64.b64decode(value)
        assert found.setdefault(place, decoded) == decoded
    return found


def all_there(servers: str, topic: str) -> dict[tuple[int, int], bytes]:
    """Return all records of the topic, read by one consumer that nobody kills."""
    settings = {**CONFIG, "bootstrap.servers": servers, "group.id": f"all of {topic}"}
    found = {}
    with Consumer({**settings, "auto.offset.reset": "earliest", "enable.partition.eof": True}) as c:
        c.subscribe([topic])
        ended = set()
        while len(ended) < PARTITIONS:
            message = c.poll(60)
            assert message is not None
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF"
                ended.add(message.partition())
            else:
                found[message.partition(), message.offset()] = message.value()
    return found


def check(values: dict[tuple[int, int], bytes]) -> None:
    """Each object is there, equal; and those of a process come in its order."""
    numbers: dict[int, set[int]] = defaultdict(set)
    last: dict[tuple[int, int, int], int] = {}
    for (partition, _), value in sorted(values.items()):
        found = json.loads(value)
        producer, run, n = (found.pop(name) for name in ("producer", "run", "n"))
        assert told_apart(found) == told_apart(drifting(n))
        numbers[producer].add(n)
        assert last.get((partition, producer, run), -1) < n
        last[partition, producer, run] = n
    assert numbers == {producer: set(range(OBJECTS)) for producer in range(PRODUCERS)}


def told_apart(value: Any) -> Any:
    """Return a value in which true is not 1."""
    if isinstance(value, dict):
        return {name: told_apart(part) for name, part in value.items()}
    if isinstance(value, list):
        return [told_apart(part) for part in value]
    return str(value) if isinstance(value, bool) else (value,)
