"""Ingestors of a Kafka in memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from columnar_kafka.ingest import ingestor, sampling

if TYPE_CHECKING:
    import pytest

    from columnar_kafka.testing import FakeKafka


def ingest_from(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ingestors read a Kafka in memory, which has no admin client. No group rebalances."""
    monkeypatch.setattr(ingestor, "StockConsumer", kafka.Consumer)
    monkeypatch.setattr(sampling, "StockConsumer", kafka.Consumer)
    monkeypatch.setattr(ingestor, "admin_client", lambda _: nullcontext())
    monkeypatch.setattr(ingestor, "is_rebalancing", lambda *_: False)
