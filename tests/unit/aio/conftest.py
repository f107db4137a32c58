"""What the tests of both asyncio clients share."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from columnar_kafka.testing import FakeKafka


@pytest.fixture
def kafka() -> Any:
    with FakeKafka() as made:
        made.create_topic("t", 1)
        yield made


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    """Every test ends with the threads it began with."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert set(threading.enumerate()) <= before
