"""Producers that nobody closes: what they accepted is sent, and nothing of them stays."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import weakref
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest
from inside import shutdown_of
from support import eventually

from columnar_kafka import Producer
from columnar_kafka.runtime import lifecycle

SCHEMA = pa.schema([("n", pa.int64())])


def senders() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("columnar-kafka")}


def make(servers: str, **config: Any) -> Producer:
    producer = Producer(
        {"bootstrap.servers": servers, "columnar.encoding": "parquet"} | config, log_level=0
    )
    producer.set_schema("dropped", SCHEMA)
    return producer


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_dropped_producer_with_nothing_outstanding_is_gone(embedded, *, cyclic: bool) -> None:
    before = senders()
    producer = make(embedded.bootstrap_servers)
    producer.produce("dropped", {"n": 1})
    assert producer.flush(20) == 0
    if cyclic:
        producer.itself = producer
    alive = weakref.ref(producer)
    del producer
    gc.collect()
    eventually(lambda: alive() is None)
    eventually(lambda: not senders() - before)


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_dropped_producer_sends_what_it_accepted(
    embedded, caplog: pytest.LogCaptureFixture, *, cyclic: bool
) -> None:
    before = senders()
    seen: list[Any] = []
    producer = make(embedded.bootstrap_servers, **{"columnar.linger.ms": 60_000})
    for n in range(100):
        producer.produce("dropped", {"n": n}, on_delivery=lambda error, _: seen.append(error))
    if cyclic:
        producer.itself = producer
    del producer
    gc.collect()
    eventually(lambda: len(seen) == 100)
    assert seen == [None] * 100
    assert "dropped with 100 records outstanding" in caplog.text
    eventually(lambda: not senders() - before)
    eventually(lambda: not lifecycle.DROPPED)


def test_a_producer_that_was_never_made_is_dropped_quietly() -> None:
    with pytest.raises(confluent_kafka.KafkaException):
        Producer({"columnar.encoding": "parquet", "no.such.key": 1})
    Producer.__new__(Producer).__del__()


class Waiting:
    """Stands for a producer with records outstanding."""

    longest_wait = 300.0
    working = False

    def __init__(self, left: int, *, interrupted: bool = False) -> None:
        self.left = left
        self.flush_interrupted = interrupted

    def __len__(self) -> int:
        return self.left

    def flush_for(self, seconds: float) -> None: ...

    def describe_outstanding(self) -> str:
        return f"{self.left} records" if self.left else ""


def test_a_wait_is_told_of_after_two_seconds_and_then_every_ten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    wait = lifecycle.Wait([Waiting(3), Waiting(0)], clock=lambda: now)
    told = []
    for tenths in range(250):
        now = tenths / 10
        wait.tell()
        told += [now] * len(caplog.messages)
        caplog.clear()
    assert told == [2.0, 12.0, 22.0]


def test_nothing_is_told_of_a_wait_that_is_over_soon(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    client = Waiting(3)
    wait = lifecycle.Wait([client], clock=lambda: now)
    now = 1.9
    wait.tell()
    client.left = 0
    now = 20.0
    wait.tell()
    wait.give_up()
    assert caplog.messages == []


def test_after_an_interrupted_flush_a_wait_is_over_five_seconds_after_the_last_progress() -> None:
    now = 0.0
    hopeless, busy, other = (
        Waiting(3, interrupted=True),
        Waiting(3, interrupted=True),
        Waiting(3),
    )
    wait = lifecycle.Wait([hopeless, busy, other], clock=lambda: now)
    now = 4.9
    busy.left, hopeless.left = 2, 4  # an event of the client's own is no progress
    assert wait.clients() == [hopeless, busy, other]
    now = 5.0
    assert wait.clients() == [busy, other]
    now = 9.9
    assert wait.clients() == [other]


def test_the_five_seconds_are_counted_from_the_end_of_the_clients_own_work() -> None:
    now = 0.0
    client = Waiting(3, interrupted=True)
    wait = lifecycle.Wait([client], clock=lambda: now)
    client.working = True  # such as pyarrow's import of pandas in the first conversion
    now = 60.0
    assert wait.clients() == [client]
    client.working = False
    now = 64.9
    assert wait.clients() == [client]
    now = 65.0
    assert wait.clients() == []


class Failing(Waiting):
    """Stands for a producer each of whose reports fails."""

    def accept_only(self, *threads: int) -> None: ...

    def close(self) -> None: ...

    def flush_for(self, seconds: float) -> BaseException:
        self.left -= 1
        return ValueError(f"report {self.left}")


def test_of_reports_that_fail_at_exit_the_first_is_logged_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Failing(500)
    monkeypatch.setattr(lifecycle, "LIVE", weakref.WeakKeyDictionary({failing: None}))
    monkeypatch.setattr(lifecycle, "_clients", {failing: failing})
    monkeypatch.setattr(lifecycle, "DROPPED", set())
    lifecycle.flush_all()
    assert caplog.messages == [
        "a delivery report failed at exit",
        "499 more delivery reports failed at exit",
    ]
    assert "ValueError: report 499" in caplog.text


class Making(Failing):
    """Stands for one beside which another thread makes others: while it is looked at."""

    made: list[Failing]

    def __hash__(self) -> int:
        if hasattr(self, "made"):
            self.made.append(Failing(0))
            lifecycle.started(self.made[-1], self.made[-1])
        return id(self)


def test_producers_may_be_made_while_all_are_flushed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = [Making(1) for _ in range(3)]
    monkeypatch.setattr(lifecycle, "LIVE", type(lifecycle.LIVE)(dict.fromkeys(owners)))
    monkeypatch.setattr(lifecycle, "_clients", {owner: owner for owner in owners})
    for owner in owners:
        owner.made = []
    lifecycle.flush_all()
    assert [len(owner) for owner in owners] == [0, 0, 0]
    assert all(owner.made for owner in owners)
    assert "2 more delivery reports failed at exit" in caplog.messages


def test_flushing_one_that_another_thread_has_closed_ends(embedded) -> None:
    producer = make(embedded.bootstrap_servers)
    producer.produce("dropped", {"n": 1})
    producer.close()
    assert shutdown_of(producer).flush_fully() == []


@pytest.mark.parametrize(
    "setting",
    [
        "error_cb",
        pytest.param(
            "logger",
            marks=pytest.mark.skipif(
                not hasattr(confluent_kafka, "ShareConsumer"),
                reason="confluent-kafka before 2.15 keeps the logger of its own producers, too",
            ),
        ),
    ],
)
def test_a_closed_producer_is_not_kept_by_a_callback_of_its_configuration(setting: str) -> None:
    class Service(logging.Logger):
        def __init__(self) -> None:
            super().__init__("service")
            callbacks = {"logger": self, "error_cb": self.error}
            self.producer = Producer({"columnar.encoding": "parquet", setting: callbacks[setting]})

    service = Service()
    service.producer.close()
    gone = weakref.ref(service)
    del service
    gc.collect()
    assert gone() is None


FORKED = """
import gc, os, sys
from columnar_kafka import Consumer, ForkError
CONFIG = {"group.id": "g", "columnar.encoding": "parquet"}
class Last(Consumer):
    pass
def last():
    one = Last(CONFIG)
    one.itself = one  # so that only a garbage collection ends it
kept = [Consumer(CONFIG) for _ in range(4)]
last()
abandon = Consumer._abandon
def collecting(self):
    gc.collect()
    abandon(self)
Consumer._abandon = collecting
from columnar_kafka.runtime import lifecycle
for one in kept:
    lifecycle.abandon_in_children(one, collecting)
gc.disable()
for _ in range(20):
    last()
pid = os.fork()
if pid:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
for one in kept:
    try:
        one.poll(0)
    except ForkError:
        continue
    os._exit(1)
os._exit(0)
"""


def test_a_client_that_is_destroyed_in_a_fork_keeps_no_other_from_being_abandoned() -> None:
    done = subprocess.run(
        [sys.executable, "-Wignore:This process", "-c", FORKED],
        check=False,
        capture_output=True,
        timeout=60,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["none", "parquet"])
def test_a_consumer_at_the_end_of_a_program_says_nothing(encoding: str) -> None:
    program = f"""
from columnar_kafka import Consumer
config = {{"group.id": "g", "columnar.encoding": "{encoding}"}}
with Consumer(config) as closed:
    pass
other = Consumer(config)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, timeout=60, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
