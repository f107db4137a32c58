"""A program ends while its cluster is gone: it says what it waits for, and Ctrl-C ends it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from reading import numbers
from support import WITHOUT_PANDAS

if TYPE_CHECKING:
    from typing_extensions import Self

    from columnar_kafka.local import EmbeddedKafka

NOBODY = "127.0.0.1:1"
BEGINNING = (
    WITHOUT_PANDAS
    + """
import asyncio, atexit, signal, sys, threading, time
import pyarrow as pa
from columnar_kafka import Producer
from columnar_kafka.runtime import lifecycle
from columnar_kafka.producing import pipeline
from columnar_kafka.aio import AIOProducer
pipeline._TOPIC_CONFIG_TIMEOUT = 0.01  # nobody answers
lifecycle._FIRST_LINE = 0.5
lifecycle.GRACE = 0.5
SCHEMA = pa.schema([("n", pa.int64())])

def config(servers):
    return {"bootstrap.servers": servers, "columnar.encoding": "parquet", "log_level": 0,
        "columnar.linger.ms": 60_000}

def make(servers="127.0.0.1:1"):
    producer = Producer(config(servers))
    producer.set_schema("orders", SCHEMA)
    return producer

def send(producer, count=1000):
    for n in range(count):
        producer.produce("orders", {"n": n})
    return taken_over(producer)

def taken_over(producer):
    # The lines name the topics of records that the sender has.
    while not producer._pipeline.sender.topics():
        time.sleep(0.01)
    return producer

def when_it_flushes(call, *args, **kwargs):
    def watch():
        names = []
        while "_flush" not in names:
            time.sleep(0.01)
            frame, names = sys._current_frames()[threading.main_thread().ident], []
            while frame is not None:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
        call(*args, **kwargs)
    threading.Thread(target=watch, daemon=True).start()

atexit.register(print, "other exit handlers run")
"""
)


class Program:
    """A running program whose log is read line by line."""

    def __init__(self, code: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", BEGINNING + textwrap.dedent(code), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def line(self, pattern: str) -> str:
        """Wait for the next line on stderr that contains this."""
        assert self._process.stderr is not None
        lines = []
        for line in self._process.stderr:
            if re.search(pattern, line):
                return line.rstrip("\n")
            lines.append(line)
        raise AssertionError(f"{pattern!r} is not in:\n{''.join(lines)}")

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit status, and what is left of output and errors."""
        output, errors = self._process.communicate(timeout=240)
        return self._process.returncode, output, errors


OUTSTANDING = {
    "records": ("send(make())", "1000 records of orders"),
    "a topic without a schema": (
        "producer = make()\nfor _ in range(3): producer.produce('plain', b'x')",
        "3 messages of topics without a schema",
    ),
    "both": (
        "producer = send(make(), 2); producer.produce('plain', b'x')",
        "2 records of orders and 1 messages of topics without a schema",
    ),
    "an AIOProducer": (
        """
        async def main():
            global producer
            producer = AIOProducer(config("127.0.0.1:1"))
            await producer.set_schema("orders", SCHEMA)
            for n in range(5):
                await producer.produce("orders", {"n": n})
            taken_over(producer._producer)
        asyncio.run(main())
        """,
        "5 records of orders",
    ),
    "a handler of its own": (
        "signal.signal(signal.SIGINT, lambda *_: print('the handler ran'))\nsend(make())",
        "1000 records of orders",
    ),
}


@pytest.mark.parametrize("case", OUTSTANDING)
def test_it_says_what_it_waits_for_and_one_ctrl_c_ends_it(case: str) -> None:
    """Nothing configures logging. The program ends as after any Ctrl-C, other exit handlers run."""
    code, outstanding = OUTSTANDING[case]
    with Program(code) as program:
        line = program.line("waiting until")
        assert re.fullmatch(
            rf"waiting until Kafka has {outstanding} \(127\.0\.0\.1:1\); this ends by "
            r"\d\d:\d\d:\d\d \(message\.timeout\.ms\), or at once with Ctrl-C",
            line,
        )
        program.interrupt()
        gave_up = f"gave up {outstanding} ({NOBODY}): not acknowledged, and so probably lost\n"
        assert program.end() == (-signal.SIGINT, "other exit handlers run\n", gave_up)


CALLS = {
    "flush": """
        producer = send(make())
        when_it_flushes(print, "waits", file=sys.stderr)
        producer.flush()
    """,
    "close": "producer = send(make()); producer.close()",
    "with": "with make() as producer: send(producer)",
    "an AIOProducer's close": """
        async def main():
            async with AIOProducer(config("127.0.0.1:1")) as producer:
                await producer.set_schema("orders", SCHEMA)
                for n in range(1000):
                    await producer.produce("orders", {"n": n})
        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("call", CALLS)
def test_one_ctrl_c_in_a_call_that_waits_ends_the_program(call: str) -> None:
    """The call ends at once, and the exit waits for no more than what Kafka still takes."""
    with Program(CALLS[call]) as program:
        program.line("waits|waiting until")
        program.interrupt()
        status, output, errors = program.end()
        assert status in (-signal.SIGINT, 1)  # Python's own depends on what runs at exit
        assert output == "other exit handlers run\n"
        assert "KeyboardInterrupt" in errors
        assert f"gave up 1000 records of orders ({NOBODY})" in errors


def test_a_producer_that_waits_keeps_no_other_from_sending(embedded: EmbeddedKafka) -> None:
    """Which one comes first is chance; so there are several that wait."""
    servers = embedded.bootstrap_servers
    code = """
        dead = [send(make(), 1) for _ in range(3)]
        healthy = Producer(config(sys.argv[1]))
        healthy.set_schema("exit-healthy", SCHEMA)
        def report(error, message):
            if message.value()["n"] == 999:
                print("the healthy one", error, file=sys.stderr)
        for n in range(1000):
            healthy.produce("exit-healthy", {"n": n}, partition=0, on_delivery=report)
    """
    with Program(code, servers) as program:
        program.line("the healthy one None")
        program.interrupt()
        status, _, errors = program.end()
    assert status == -signal.SIGINT
    assert errors.count("gave up 1 records of orders (127.0.0.1:1)") == 3
    assert numbers(servers, "exit-healthy") == list(range(1000))


def test_the_first_segment_may_take_longer_than_kafka_may(embedded: EmbeddedKafka) -> None:
    """As it does on a busy machine, where pyarrow imports pandas in it."""
    servers = embedded.bootstrap_servers
    code = """
        from columnar_kafka.producing.sending.segmenter import Segmenter
        encode = Segmenter.encode
        def slow(*args):  # the time that it takes is what is tested
            time.sleep(3 * lifecycle.GRACE)
            return encode(*args)
        Segmenter.encode = slow
        producer = send(make(sys.argv[1]))
        when_it_flushes(signal.raise_signal, signal.SIGINT)
        producer.flush()
    """
    with Program(code, servers) as program:
        status, _, errors = program.end()
    assert status in (-signal.SIGINT, 1), errors
    assert numbers(servers, "orders") == list(range(1000)), errors


def test_closing_after_an_interrupted_flush_reports_every_record() -> None:
    """Also where the program goes on: what nobody takes is purged."""
    code = """
        reports = []
        producer = make()
        for n in range(1000):
            producer.produce("orders", {"n": n}, on_delivery=lambda e, _: reports.append(e.name()))
        when_it_flushes(signal.raise_signal, signal.SIGINT)
        try:
            producer.flush()
        except KeyboardInterrupt:
            producer.close()
        print(len(producer), len(reports), set(reports))
    """
    with Program(code) as program:
        status, output, _ = program.end()
    assert status == 0
    assert output == "0 1000 {'_PURGE_QUEUE'}\nother exit handlers run\n"
