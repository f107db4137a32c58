"""What the producer's fault tests share: numbered records, and what is read back.

Run as a program it is a process that produces, to be watched and killed:
`producing.py numbers …` or `producing.py flat-out …`.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from columnar_kafka import Producer
from columnar_kafka.demo import flights, records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError, Message

NUMBERS = pa.schema(
    [pa.field("n", pa.int64(), nullable=False), pa.field("process", pa.int64(), nullable=False)]
)


class Acknowledged(NamedTuple):
    """A report of success, as `producing.py numbers` notes it."""

    n: int
    process: int
    partition: int
    position: int


_ACKNOWLEDGED = struct.Struct("<4q")
_PRODUCED = struct.Struct("<q")


class Numbered:
    """A producer of numbered records in the test's own process, and what became of each."""

    def __init__(self, servers: str, topic: str, schema: pa.Schema, **settings: Any) -> None:
        config = {"bootstrap.servers": servers, "columnar.encoding": "parquet", "log_level": 0}
        self.producer = Producer(config | settings)
        self.producer.set_schema(topic, schema)
        self.topic = topic
        self.accepted = 0
        self.stored: dict[int, tuple[int | None, int | None]] = {}  # number: partition, position
        self.failed: dict[int, KafkaError] = {}

    def produce(self, **fields: Any) -> None:
        """Produce the next number, one of 50 keys with it."""
        n = self.accepted
        value = {"n": n} | fields
        key = b"key-%d" % (n % 50)
        self.producer.produce(self.topic, value, key=key, on_delivery=partial(self._report, n))
        self.accepted += 1

    def _report(self, n: int, error: KafkaError | None, message: Message) -> None:
        assert n not in self.stored
        assert n not in self.failed
        if error is None:
            self.stored[n] = (message.partition(), message.offset())
        else:
            self.failed[n] = error

    @property
    def reported(self) -> int:
        return len(self.stored) + len(self.failed)


class Child(subprocess.Popen[str]):
    """This file run as a program; it is told and tells in lines."""

    stdin: IO[str]
    stdout: IO[str]


def start(*arguments: Any) -> Child:
    command = [sys.executable, __file__, *map(str, arguments)]
    return Child(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


# --- producing.py numbers -------------------------------------------------------------------------


def produced(progress: Path) -> int:
    """Return how many numbers the processes with this file have produced."""
    [number] = _PRODUCED.unpack(progress.read_bytes())
    return int(number)


def acknowledged(out: Path) -> Iterator[Acknowledged]:
    """Yield what the processes with this file have seen acknowledged."""
    return map(Acknowledged._make, _ACKNOWLEDGED.iter_unpack(out.read_bytes()))


def forget(progress: Path, out: Path) -> None:
    """Make the files of processes that have not started yet."""
    progress.write_bytes(_PRODUCED.pack(0))
    out.touch()


def _numbers(
    servers: str, topic: str, process: str, total: str, progress: str, acknowledged: str
) -> None:
    """Produce the numbers behind those produced before; what it writes outlives a SIGKILL."""
    out = os.open(acknowledged, os.O_WRONLY | os.O_APPEND)

    def report(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        value, where = message.value(), (message.partition(), message.offset())
        os.write(out, _ACKNOWLEDGED.pack(value["n"], value["process"], *where))

    config = {
        "bootstrap.servers": servers,
        "columnar.encoding": "parquet",
        "columnar.segment.rows": 2_000,
        "columnar.linger.ms": 100,
        "queue.buffering.max.messages": 20_000,
        "enable.idempotence": True,
        "on_delivery": report,
    }
    with (
        Path(progress).open("r+b") as file,
        mmap.mmap(file.fileno(), _PRODUCED.size) as done,
        Producer(config) as producer,
    ):
        producer.set_schema(topic, NUMBERS)
        [first] = _PRODUCED.unpack(done)
        for n in range(first, int(total)):
            value = {"n": n, "process": int(process)}
            while not _accepted(producer, topic, value=value, key=b"key-%d" % (n % 50)):
                producer.poll(0.01)
            _PRODUCED.pack_into(done, 0, n + 1)
            producer.poll(0)


def _accepted(producer: Producer, topic: str, **record: Any) -> bool:
    try:
        producer.produce(topic, **record)
    except BufferError:
        return False
    return True


# --- producing.py flat-out ------------------------------------------------------------------------

SHAPES = {
    "small": pa.schema([("n", pa.int64()), ("m", pa.int64())]),
    "flights": flights.SCHEMA,
    "text": pa.schema([("n", pa.int64()), ("text", pa.string())]),
}
_TEXT_BYTES = 10_000
_SLICE_ROWS = 100


def number(shape: str, message: Any) -> int:
    """Return which of the records of `_rows` this is."""
    if shape == "flights":
        return int(dict(message.headers())["row"])
    return int(message.value()["n"])


def _rows(shape: str) -> Iterator[dict[str, Any]]:
    """Yield numbered records without end, as `produce` takes them; each of new objects."""
    if shape == "small":
        yield from ({"value": {"n": n, "m": 7 * n}} for n in count())
    elif shape == "text":
        letters = random.Random(0)
        for n in count():
            yield {"value": {"n": n, "text": letters.randbytes(_TEXT_BYTES // 2).hex()}}
    else:
        table = flights.load()
        for first in count(step=_SLICE_ROWS):  # few at a time: they are not the producer's memory
            part = table.slice(first % (table.num_rows - _SLICE_ROWS), _SLICE_ROWS)
            for rows in records.iterate(records.make(part, first_row=first)):
                yield from (row._asdict() for row in rows)


def _flat_out(servers: str, topic: str, shape: str, kbytes: str) -> None:
    """Produce without a pause from the first line on stdin until SIGTERM, then flush.

    It says `ready`, `full` at the first BufferError, and at the end what became of the records.
    """
    results = {"accepted": 0, "buffer_errors": 0, "stored": 0, "failed": 0}

    def report(error: KafkaError | None, _: Any) -> None:
        results["stored" if error is None else "failed"] += 1

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "columnar.encoding": "parquet",
            "queue.buffering.max.kbytes": int(kbytes),
            "enable.idempotence": True,
            "on_delivery": report,
            "log_level": 0,
        }
    )
    producer.set_schema(topic, SHAPES[shape])
    rows, stopping = _rows(shape), []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    for _ in range(1_000):
        producer.produce(topic, **next(rows))
    assert producer.flush(60) == 0
    results["accepted"] = 1_000
    _say("ready")
    sys.stdin.readline()
    began = time.monotonic()
    while not stopping:
        row = next(rows)
        while not (taken := _accepted(producer, topic, **row)) and not stopping:
            if not results["buffer_errors"]:
                _say("full")
            results["buffer_errors"] += 1
            producer.poll(0.01)
        results["accepted"] += taken
        producer.poll(0)
    results["flat_out_seconds"] = round(time.monotonic() - began)
    results["left"] = producer.flush(120)
    _say(json.dumps(results))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    {"numbers": _numbers, "flat-out": _flat_out}[sys.argv[1]](*sys.argv[2:])
