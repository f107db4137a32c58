"""A consuming process killed with SIGKILL: it goes on with the record behind its last commit."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import sys
import textwrap
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from support import eventually

from columnar_kafka import Producer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

RECORDS = 100_000
KILLS = 40
COMMITS_EVERY = 37
SEGMENT_ROWS = 300
PLAIN_EVERY = 701  # not in step with the segments, nor with the commits
LAST_KILL = 0.8  # of the records: what is left is more than a process takes while it is killed

_HANDED_OUT = struct.Struct("<2q")

# Static membership: a process that takes the place of a killed one need not wait for its session.
GROUPS = {
    "assign": "consumer.assign([TopicPartition(topic, 0)])",
    "subscribe": "consumer.subscribe([topic])",
}
READER = """
    import os, struct, sys
    from confluent_kafka import TopicPartition
    from columnar_kafka import Consumer
    servers, topic, out, run, every = sys.argv[1:]
    consumer = Consumer({{"bootstrap.servers": servers, "group.id": topic, "log_level": 0,
        "group.instance.id": "the only one", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "columnar.encoding": "parquet",
        "enable.partition.eof": True}})
    {begin}
    out = os.open(out, os.O_WRONLY | os.O_APPEND)
    count = 0
    while True:
        message = consumer.poll(120)
        if message.error() is not None:
            if message.error().name() == "_PARTITION_EOF":
                break
            assert message.error().retriable(), message.error()
            continue
        value = message.value()
        n = value["n"] if isinstance(value, dict) else int(value)
        os.write(out, struct.pack("<2q", int(run), n))
        count += 1
        if count % int(every) == 0:
            consumer.commit(message=message, asynchronous=False)
    consumer.close()
"""


def fill(servers: str, topic: str) -> None:
    """Produce numbered records: most of them in segments, some as plain messages between."""
    config = {"bootstrap.servers": servers, "columnar.encoding": "parquet"}
    with Producer(config | {"columnar.segment.rows": SEGMENT_ROWS}) as producer:
        producer.set_schema(topic, pa.schema([("n", pa.int64())]))
        for n in range(RECORDS):
            value: Any = {"n": n} if n % PLAIN_EVERY else b"%d" % n
            producer.produce(topic, value)
            producer.poll(0)


def read_and_kill(begin: str, servers: str, topic: str, out: Path) -> None:
    """Let process after process read, each but the last killed at a random record."""
    code = textwrap.dedent(READER).format(begin=begin)
    moments = random.Random(5)
    out.touch()
    for run in range(KILLS + 1):
        enough = int((run + moments.random()) / KILLS * LAST_KILL * RECORDS)
        enough = max(enough, count(out) + 1)
        arguments = [servers, topic, str(out), str(run), str(COMMITS_EVERY)]
        process = subprocess.Popen([sys.executable, "-c", code, *arguments])
        try:
            if run == KILLS:
                assert process.wait(300) == 0
                return
            eventually(lambda enough=enough: count(out) >= enough)
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL


def count(out: Path) -> int:
    """Return how many records were handed out so far."""
    return out.stat().st_size // _HANDED_OUT.size


@pytest.mark.parametrize("begin", GROUPS)
def test_a_reader_killed_forty_times_loses_nothing_and_repeats_what_it_had_not_committed(
    kafka, topic, tmp_path: Path, record_property, begin: str
) -> None:
    """Within 37 records of each kill; and each process has them in order, none left out."""
    since = time.monotonic()
    name, out = topic(), tmp_path / "handed out"
    fill(kafka.bootstrap_servers, name)
    read_and_kill(GROUPS[begin], kafka.bootstrap_servers, name, out)

    handed_out = list(_HANDED_OUT.iter_unpack(out.read_bytes()))
    repeated = len(handed_out) - RECORDS
    figures = {
        "kills": KILLS,
        "records": RECORDS,
        "lost": RECORDS - len({n for _, n in handed_out}),
        "redelivered": repeated,
        "allowed": COMMITS_EVERY * KILLS,
        "seconds": round(time.monotonic() - since, 1),
    }
    for what, figure in figures.items():
        record_property(what, figure)
    assert {n for _, n in handed_out} == set(range(RECORDS))
    for (run, n), (next_run, next_n) in pairwise(handed_out):
        if run == next_run:
            assert next_n == n + 1
        else:
            assert n + 1 - COMMITS_EVERY <= next_n <= n + 1
    assert repeated <= COMMITS_EVERY * KILLS
    assert repeated > 0  # or no kill came between a record and its commit
