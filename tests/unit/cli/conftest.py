"""What the tests of several commands share."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from ingest_fakes import ingest_from

from columnar_kafka.ingest import audit, recreated_topic
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    """Five rows in three segments."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with FakeKafka() as kafka:
        ingest_from(kafka, monkeypatch)
        monkeypatch.setattr(audit, "StockConsumer", kafka.Consumer)
        for module in recreated_topic, audit:
            monkeypatch.setattr(module, "generation", lambda *_: ("cluster", "id"))
        with kafka.Producer({"columnar.encoding": "parquet", "columnar.segment.rows": 2}) as sender:
            sender.set_schema("t", pa.schema([("n", pa.int64())]))
            for n in range(5):
                sender.produce("t", {"n": n})
        yield kafka
    for key, handler in handlers.items():
        signal.signal(key, handler)
