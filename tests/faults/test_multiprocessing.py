"""Children of multiprocessing, however they start, send what they have not flushed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from reading import numbers

if TYPE_CHECKING:
    from pathlib import Path

    from columnar_kafka.local import EmbeddedKafka

# In a file, for children that are not forked import it; then they make a producer before they are
# children of multiprocessing, and one in its main function.
PROGRAM = """
import atexit, multiprocessing, sys
import pyarrow as pa
from columnar_kafka import Producer

SERVERS, TOPIC, METHOD = sys.argv[1:]

def make():
    producer = Producer({"bootstrap.servers": SERVERS, "columnar.encoding": "parquet",
        "columnar.linger.ms": 60_000})
    producer.set_schema(TOPIC, pa.schema([("n", pa.int64())]))
    return producer

def send(producer, first):
    for n in range(first, first + 100):
        producer.produce(TOPIC, {"n": n})

if __name__ != "__main__":
    imported = make()
    send(imported, 100)

def work(first):
    global kept
    kept = make()
    send(kept, first)
    if METHOD == "spawn":  # these children have exit handlers
        atexit.register(send, kept, 300)

if __name__ == "__main__":
    child = multiprocessing.get_context(METHOD).Process(target=work, args=(200,))
    child.start()
    child.join()
    assert child.exitcode == 0, child.exitcode
"""
SENT = {"fork": (200, 300), "forkserver": (100, 300), "spawn": (100, 400)}


@pytest.mark.parametrize("method", SENT)
def test_a_child_sends_what_it_has_not_flushed(
    embedded: EmbeddedKafka, tmp_path: Path, method: str
) -> None:
    servers, topic = embedded.bootstrap_servers, f"multiprocessing-{method}"
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, str(path), servers, topic, method]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            assert process.wait(300) == 0
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)
    assert numbers(servers, topic) == list(range(*SENT[method]))
