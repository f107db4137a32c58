"""A program that never closes its consumer: `unclosed.py topic state ending configuration`."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from support import eventually, has_ended

import columnar_kafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from columnar_kafka.local import LocalKafka

PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
ENCODINGS: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "parquet": {"columnar.encoding": "parquet"},
    "isolated": {"columnar.encoding": "parquet", "columnar.decode": "isolated"},
}


class Case(NamedTuple):
    """One process: names of the entries of the tables in this file."""

    protocol: str
    encoding: str
    state: str
    ending: str


def with_segments(kafka: LocalKafka, topic: str) -> str:
    """Write a few segments to a topic; return its name."""
    config = {"bootstrap.servers": kafka.bootstrap_servers, "columnar.encoding": "parquet"}
    with columnar_kafka.Producer(config) as producer:
        producer.set_schema(topic, pa.schema([("n", pa.int64())]))
        for n in range(20):
            producer.produce(topic, {"n": n}, partition=n % 2)
    return topic


def failures_of(servers: str, topic: str, cases: Iterable[Case], *, seconds: float) -> list[str]:
    """Run all cases side by side; return those that did not end cleanly within `seconds`."""
    failures = []
    running = []
    with ExitStack() as stack:
        for case in cases:
            process = stack.enter_context(_start(servers, topic, case))
            stack.callback(process.kill)
            running.append((case, process))
        deadline = time.monotonic() + seconds
        for case, process in running:
            try:
                output, errors = process.communicate(timeout=deadline - time.monotonic())
            except subprocess.TimeoutExpired:
                failures.append(f"{case}: does not end")
                continue
            status = int(case.ending == "raised")
            children = [int(pid) for pid in output.partition("children:")[2].split()]
            if process.returncode != status or "Exception ignored" in errors or not output:
                failures.append(f"{case}: {process.returncode} {output} {errors}")
            if not all(map(has_ended, children)):
                failures.append(f"{case}: leaves a process behind")
    return failures


def _start(servers: str, topic: str, case: Case) -> subprocess.Popen[str]:
    config = {
        "bootstrap.servers": servers,
        "group.id": f"{topic}-{'-'.join(case)}",
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": 1000,
        **PROTOCOLS[case.protocol],
        **ENCODINGS[case.encoding],
    }
    if case.protocol != "consumer":  # the shortest session that a broker allows
        config |= {"max.poll.interval.ms": 6000, "session.timeout.ms": 6000}
    command = [sys.executable, __file__, topic, case.state, case.ending, json.dumps(config)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


# --- the states of the consumer when the program ends ---------------------------------------------


def granted(_: Any, config: dict[str, Any]) -> None:
    """The group has granted partitions, and no poll has accepted them yet."""
    members = _members(config)
    for _ in range(2):  # at the second answer the consumer has got its own
        eventually(lambda: any(member.assignment.topic_partitions for member in members() or ()))


def read(consumer: Any, _: dict[str, Any]) -> None:
    """Records are being read."""
    message = eventually(lambda: consumer.poll(1))
    assert message.error() is None, message.error()


def exceeded(consumer: Any, config: dict[str, Any]) -> None:
    """`max.poll.interval.ms` passed without a poll, and the next poll reported it."""
    read(consumer, config)
    _wait_for_log("MAXPOLL")

    def is_told() -> bool:
        message = consumer.poll(1)
        error = message and message.error()
        return bool(error and error.code() == KafkaError._MAX_POLL_EXCEEDED)

    eventually(is_told)


def _wait_for_log(name: str) -> None:
    """Wait until librdkafka writes a line of this name to the standard error stream."""
    stream = sys.stderr.fileno()
    before = os.dup(stream)
    reading, writing = os.pipe()
    os.dup2(writing, stream)
    with os.fdopen(reading) as lines:
        next(line for line in lines if name in line)
        os.dup2(before, stream)


def _members(config: dict[str, Any]) -> Callable[[], list[Any] | None]:
    """Return a function that lists the group's members; None while its broker does not know."""
    admin = AdminClient({"bootstrap.servers": config["bootstrap.servers"]})

    def members() -> list[Any] | None:
        [group] = admin.describe_consumer_groups([config["group.id"]]).values()
        try:
            return list(group.result().members)
        except KafkaException:
            return None

    return members


STATES: Final = {state.__name__: state for state in (granted, read, exceeded)}

# --- what refers to the consumer at the end -------------------------------------------------------

_all: Final[list[Any]] = []


def module(make: Callable[[], Any]) -> None:
    """A module."""
    _all.append(make())


def cycle(make: Callable[[], Any]) -> None:
    """A reference cycle."""
    items = [make()]
    items.append(items)


def function(make: Callable[[], Any]) -> None:
    """A function, which has returned."""
    make()


def nobody(make: Callable[[], Any]) -> None:
    """Nothing: it is collected long before the end."""
    make()
    gc.collect()


def thread(make: Callable[[], Any]) -> None:
    """A daemon thread."""
    ready = threading.Event()

    def hold() -> None:
        _consumer = make()
        ready.set()
        threading.Event().wait()

    threading.Thread(target=hold, daemon=True).start()
    assert ready.wait(240)


def raised(make: Callable[[], Any]) -> None:
    """The traceback of an exception that nobody catches."""
    consumer = make()
    _print_children()
    raise LookupError(consumer)


ENDINGS: Final = {
    ending.__name__: ending for ending in (module, cycle, function, nobody, thread, raised)
}


def _print_children() -> None:
    children = [str(child.pid) for child in psutil.Process().children()]
    sys.stdout.write(f"children: {' '.join(children)}\n")
    sys.stdout.flush()


def main(topic: str, state: str, ending: str, config: dict[str, Any]) -> None:
    """Create the consumer, bring it into a state, and end."""

    def make() -> Any:
        consumer: Any = columnar_kafka.Consumer(config)
        consumer.subscribe([topic])
        STATES[state](consumer, config)
        return consumer

    ENDINGS[ending](make)
    _print_children()


if __name__ == "__main__":
    main(*sys.argv[1:4], json.loads(sys.argv[4]))
