"""The same tests on confluent-kafka's classes and on ours, in each way of using them."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from producers import KINDS, ON_KAFKA, PRODUCERS, ProducerMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from columnar_kafka.local import EmbeddedKafka, LocalKafka

_numbers = itertools.count(1)


@pytest.fixture(params=KINDS)
def make_producer(
    request: pytest.FixtureRequest, embedded: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProducerMaker]:
    """Makes producers of each kind on the mock, closed afterwards."""
    yield from _make(request, embedded, monkeypatch)


@pytest.fixture(params=ON_KAFKA)
def make_on_kafka(
    request: pytest.FixtureRequest, kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProducerMaker]:
    """Makes producers of each kind on the real broker, where the mock cannot tell."""
    yield from _make(request, kafka, monkeypatch)


def _make(
    request: pytest.FixtureRequest, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProducerMaker]:
    maker = ProducerMaker(
        of=PRODUCERS[request.param],
        servers=servers.bootstrap_servers,
        create_topic=servers.create_topic,
        monkeypatch=monkeypatch,
        name=f"conformance-{next(_numbers)}",
    )
    with closing(maker):
        yield maker


@pytest.fixture
def frozen(embedded: EmbeddedKafka) -> Callable[[], AbstractContextManager[None]]:
    """Stops the mock's process for a while: connections stay open, nothing answers."""

    @contextmanager
    def freeze() -> Iterator[None]:
        os.kill(embedded.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, embedded.pid, os.WSTOPPED)  # until every thread has stopped
        try:
            yield
        finally:
            os.kill(embedded.pid, signal.SIGCONT)

    return freeze


@pytest.fixture
def noise() -> Callable[[int], bytes]:
    """Returns bytes that no compression makes smaller, the same ones every time."""
    return random.Random(5).randbytes


@pytest.fixture
def wall_ms() -> Callable[[], int]:
    """Returns the time of day as Kafka has it."""
    return lambda: time.time_ns() // 1_000_000
