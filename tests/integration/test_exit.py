"""How a program may end: what was accepted is sent, and every report runs."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import textwrap
import weakref
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from reading import numbers
from support import WITHOUT_PANDAS

from columnar_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema([("n", pa.int64())])
PROGRAM = """
import sys
import pyarrow as pa
from columnar_kafka import Producer
for topic in sys.argv[2:]:
    producer = Producer({"bootstrap.servers": sys.argv[1], "columnar.encoding": "parquet"})
    producer.set_schema(topic, pa.schema([("n", pa.int64())]))
    producer.produce(topic, {"n": 1}, on_delivery=lambda *_: 1 / 0 if topic == "raises" else None)
"""


@pytest.fixture
def make(embedded) -> Callable[..., Producer]:
    def make(**config: Any) -> Producer:
        servers = {"bootstrap.servers": embedded.bootstrap_servers, "columnar.encoding": "parquet"}
        producer = Producer(servers | config)
        producer.set_schema("exit", SCHEMA)
        return producer

    return make


def test_a_producer_goes_with_its_last_reference(make) -> None:
    """Without a garbage collection, though the embedded broker describes no topic's settings."""
    gc.collect()
    gc.disable()
    try:
        producer = make()
        gone = weakref.ref(producer)
        del producer
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("topics", [["ends"], ["raises", "after"]])
def test_a_program_that_just_ends_has_sent_its_records(embedded, topics: list[str]) -> None:
    """Also where a report of another producer raises, and where pandas is installed."""
    servers = embedded.bootstrap_servers
    subprocess.run([sys.executable, "-c", PROGRAM, servers, *topics], check=True, timeout=240)
    assert [numbers(servers, topic) for topic in topics] == [[1]] * len(topics)


# Everything is still buffered when the program ends.
BEGINNING = (
    WITHOUT_PANDAS
    + """
import atexit, os, signal, sys, threading, time
BEFORE
import pyarrow as pa
from columnar_kafka import Producer

def make():
    producer = Producer({"bootstrap.servers": sys.argv[1], "columnar.encoding": "parquet",
        "columnar.linger.ms": 60_000})
    producer.set_schema(sys.argv[2], pa.schema([("n", pa.int64())]))
    return producer

reported = 0
def report(error, message):
    global reported
    assert error is None, error
    reported += 1

def send(producer, numbers=range(1000)):
    for n in numbers:
        producer.produce(sys.argv[2], {"n": n}, on_delivery=report)
"""
)
SENDS = "producer = make(); send(producer)\n"
STOPPED = """
def stop(number, frame):
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
producer = make(); send(producer)
signal.raise_signal(signal.SIGTERM)
time.sleep(240)
"""
# How a program ends, and its exit status; Python's own for a Ctrl-C depends on what runs at exit.
ENDINGS = {
    "end of the script": (SENDS, 0),
    "sys.exit": (SENDS + "sys.exit(3)", 3),
    "exception": (SENDS + "raise LookupError('on purpose')", 1),
    "exception in a with block": ("with make() as p: send(p); raise LookupError('on purpose')", 1),
    "with": ("with make() as p: send(p)\nassert reported == 1000; os._exit(0)", 0),
    "close": (SENDS + "producer.close(); assert reported == 1000; os._exit(0)", 0),
    "flush": (SENDS + "producer.flush(); assert reported == 1000; os._exit(0)", 0),
    "a handler of SIGTERM": (STOPPED, 3),
    "Ctrl-C": (SENDS + "signal.raise_signal(signal.SIGINT); time.sleep(240)", 1, -signal.SIGINT),
    "Ctrl-C in a flush": (
        SENDS + "threading.Timer(0.001, signal.raise_signal, [signal.SIGINT]).start()\n"
        "while True: producer.flush()",
        1,
        -signal.SIGINT,
    ),
    "end of a function": ("def main(): send(make())\nmain()", 0),
    "del": (SENDS + "del producer; sys.exit(3)", 3),
    "del, and later the end": (SENDS + "del producer\nwhile reported < 1000: time.sleep(.01)", 0),
    "a thread": ("threading.Thread(target=lambda: send(make())).start()", 0),
    "in an atexit handler": ("producer = make(); atexit.register(send, producer)", 0),
    "a producer made in an atexit handler": ("atexit.register(lambda: send(make()))", 0),
}


def run(
    servers: str, topic: str, program: str, *, before: str = "", timeout: float = 240
) -> tuple[int, str, str]:
    """Run a program that sends to a topic; return its exit status, output and errors."""
    code = BEGINNING.replace("BEFORE", before) + textwrap.dedent(program)
    command = [sys.executable, "-c", code, servers, topic]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)
    return ended.returncode, ended.stdout, ended.stderr


def topic_of(case: str) -> str:
    return "exit-" + "".join(c if c.isalnum() else "-" for c in case)


@pytest.mark.parametrize("case", ENDINGS)
def test_all_of_1000_records_arrive_however_the_program_ends(embedded, case: str) -> None:
    program, *statuses = ENDINGS[case]
    servers, topic = embedded.bootstrap_servers, topic_of(case)
    ended, _, errors = run(servers, topic, program)
    assert ended in statuses, errors
    assert numbers(servers, topic) == list(range(1000))


def test_daemon_threads_may_produce_until_the_end(embedded) -> None:
    """The program ends, and nothing that they produced is missing, wherever the end met them."""
    servers, topic = embedded.bootstrap_servers, topic_of("daemons")
    program = """
        def work(first):
            producer = make()
            for n in range(first, 1_000_000_000, 3):
                send(producer, [n])
                os.write(1, b"%d\\n" % n)
                sent[first] += 1
        sent = [0, 0, 0]
        for first in range(3):
            threading.Thread(target=work, args=[first], daemon=True).start()
        while min(sent) < 1000:
            time.sleep(0.01)
    """
    ended, output, errors = run(servers, topic, program)
    assert ended == 0, errors
    stored, sent = numbers(servers, topic), {int(n) for n in output.split()}
    assert len(set(stored)) == len(stored)
    assert set(range(3000)) <= sent <= set(stored)


def test_os_exit_sends_no_garbage(embedded) -> None:
    """Nothing is promised: as many as the sender had handed over by then may be there."""
    servers, topic = embedded.bootstrap_servers, topic_of("os._exit")
    program = "p = make(); send(p); p.flush(); send(p, range(1000, 2000)); p.flush(0); os._exit(5)"
    ended, _, errors = run(servers, topic, program)
    assert ended == 5, errors
    stored = numbers(servers, topic)
    assert stored[:1000] == list(range(1000))
    assert len(set(stored)) == len(stored) <= 2000


def test_the_last_of_all_atexit_handlers_is_told_that_it_is_too_late(embedded) -> None:
    """One that was registered before this package's own runs after it."""
    servers, topic = embedded.bootstrap_servers, topic_of("before")
    before = "atexit.register(lambda: send(producer, range(1000, 2000)) or print('accepted'))"
    ended, output, errors = run(servers, topic, SENDS, before=before)
    assert ended == 0
    assert "accepted" not in output
    assert "RuntimeError: Producer has been closed" in errors
    assert numbers(servers, topic) == list(range(1000))


def test_reports_at_exit_may_produce_to_another_producer(embedded) -> None:
    """As one does with what could not be delivered, whichever of the two is flushed first."""
    servers, topic = embedded.bootstrap_servers, topic_of("chained")
    program = """
        producers = [make() for _ in range(4)]
        def pass_on(at):
            def report(error, message):
                if at < len(producers):
                    n = message.value()["n"] + 1000
                    producers[at].produce(sys.argv[2], {"n": n}, on_delivery=pass_on(at + 1))
            return report
        for n in range(10):
            producers[0].produce(sys.argv[2], {"n": n}, on_delivery=pass_on(1))
    """
    ended, _, errors = run(servers, topic, program)
    assert ended == 0, errors
    assert numbers(servers, topic) == [1000 * at + n for at in range(4) for n in range(10)]


@pytest.mark.parametrize("raises", ["sys.exit(3)", "throw(asyncio.CancelledError())"])
def test_a_report_that_raises_at_exit_takes_no_record_along(embedded, raises: str) -> None:
    """So does a handler of SIGTERM that calls sys.exit, when the signal comes during the flush."""
    servers, topic = embedded.bootstrap_servers, topic_of(f"raises {raises[:5]}")
    program = """
        import asyncio
        def throw(error):
            raise error
        first, second = make(), make()
        for producer in first, second:
            for n in range(500):
                number = n + 500 * (producer is second)
                producer.produce(sys.argv[2], {"n": number}, on_delivery=lambda *_: RAISES)
    """
    run(servers, topic, program.replace("RAISES", raises))
    assert numbers(servers, topic) == list(range(1000))


def test_a_signal_handler_that_raises_inside_produce_takes_no_record_along(embedded) -> None:
    """Ctrl-C, or sys.exit in a handler of SIGTERM: the record that was interrupted may be lost."""
    servers, topic = embedded.bootstrap_servers, topic_of("interrupted")
    program = """
        import random, traceback
        chance, inside = random.Random(1), False
        def interrupt(number, frame):
            if inside:
                raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        def main():
            global inside
            producer, accepted, interrupted = make(), [], 0
            for n in range(20_000):
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + chance.random() * 60e-6)
                try:
                    inside = True
                    send(producer, [n])
                    inside = False
                except KeyboardInterrupt:
                    inside = False
                    interrupted += 1
                else:
                    accepted.append(n)
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert interrupted > 0
            assert producer.flush(200) == 0
            print(*accepted, flush=True)
            os._exit(0)
        try:
            main()
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # a flush at exit might hang
    """
    ended, output, errors = run(servers, topic, program)
    assert ended == 0, errors
    stored = numbers(servers, topic)
    assert len(set(stored)) == len(stored)
    assert {int(n) for n in output.split()} <= set(stored)


def test_close_runs_every_report_and_raises_what_the_first_raised(make) -> None:
    seen: list[int] = []

    def report(_: Any, message: Any) -> None:
        seen.append(message.value()["n"])
        if len(seen) == 1:
            raise ZeroDivisionError

    producer = make()
    for n in range(10):
        producer.produce("exit", {"n": n}, partition=0, on_delivery=report)
    with pytest.raises(ZeroDivisionError):
        producer.close()
    assert seen == list(range(10))
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("exit", {"n": 1})


def test_a_report_may_produce_poll_and_flush_and_may_not_close(make) -> None:
    seen: list[Any] = []

    def report(_: Any, message: Any) -> None:
        seen.append(message.value())
        if len(seen) <= 300:
            producer.poll(0)
            producer.flush(0)
        if len(seen) == 1:
            producer.produce("exit", b"from a report", on_delivery=report)
            with pytest.raises(RuntimeError, match="inside a delivery report"):
                producer.close()

    producer = make()
    for _ in range(500):
        producer.produce("exit", b"plain", on_delivery=report)
    assert producer.flush(200) == 0
    producer.close()
    assert len(seen) == 501
