"""What the tests of both asyncio clients share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from columnar_kafka.aio import AIOConsumer
from columnar_kafka.aio.cancellable_consumer import CancellableConsumer
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    import concurrent.futures


@pytest.fixture
def kafka() -> Any:
    with FakeKafka() as made:
        made.create_topic("t", 1)
        yield made


@pytest.fixture
def make(kafka: FakeKafka) -> Any:
    """A factory of consumers on `kafka`; `over` replaces methods of the one they wrap."""

    def factory(
        over: dict[str, Any] | None = None,
        /,
        executor: concurrent.futures.Executor | None = None,
        **config: Any,
    ) -> AIOConsumer:
        inner = type("Inner", (CancellableConsumer, kafka.Consumer), over or {})
        on_memory = type("OnMemory", (AIOConsumer,), {"_consumer_class": inner})
        settings = {
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "columnar.encoding": "parquet",
        }
        made: AIOConsumer = on_memory(
            settings | {key.replace("__", "."): value for key, value in config.items()},
            executor=executor,
        )
        return made

    return factory


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Any:
    """Every test ends with the threads it began with."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert set(threading.enumerate()) <= before
