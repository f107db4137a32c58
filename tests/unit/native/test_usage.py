"""The memory counter: each change is one call, so nothing that comes in between is lost."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from inside import pipeline_of

from columnar_kafka import native
from columnar_kafka.testing import FakeKafka


@pytest.fixture
def usage() -> Any:
    return native.core.Usage(1 << 40)


@pytest.mark.parametrize("name", ["bytes", "records", "encoded_bytes"])
def test_nobody_reads_it_and_writes_it_back(usage: Any, name: str) -> None:
    with pytest.raises(AttributeError, match="not writable"):
        setattr(usage, name, 1)


def test_the_producers_counter_is_the_cores() -> None:
    with FakeKafka().Producer({"columnar.encoding": "parquet"}) as producer:
        assert type(pipeline_of(producer).queue.usage) is native.core.Usage


def test_what_is_not_appended_is_not_charged(usage: Any) -> None:
    with pytest.raises(AttributeError, match="append"):
        usage.accept(None, "item", 10, 1)
    assert (usage.bytes, usage.records) == (0, 0)


def test_what_is_released_is_given_back_once(usage: Any) -> None:
    items: list[str] = []
    usage.accept(items, "item", 10, 2)
    usage.charge(5, 0)
    usage.encode(7)
    assert (items, usage.bytes, usage.records, usage.encoded_bytes) == (["item"], 15, 2, 7)
    held = SimpleNamespace(charged_bytes=15, records=2, encoded_bytes=7)
    for _ in range(2):
        usage.release(held)
        usage.release_encoded(held)
        assert (usage.bytes, usage.records, usage.encoded_bytes) == (0, 0, 0)
    assert held == SimpleNamespace(charged_bytes=0, records=0, encoded_bytes=0)


def test_threads_lose_nothing(usage: Any) -> None:
    def change() -> None:
        for _ in range(20_000):
            usage.charge(3, 0)
            usage.encode(2)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=change) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert (usage.bytes, usage.encoded_bytes) == (240_000, 160_000)
