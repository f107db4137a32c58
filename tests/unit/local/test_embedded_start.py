"""An `EmbeddedKafka` whose mock does not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from columnar_kafka.local import EmbeddedKafka, embedded

if TYPE_CHECKING:
    from pathlib import Path


def test_a_mock_that_ends_at_once_is_said_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_at_once = tmp_path / "mock.py"
    ends_at_once.touch()
    monkeypatch.setattr(embedded, "_MOCK", ends_at_once)
    kafka = EmbeddedKafka()
    with pytest.raises(RuntimeError, match="the mock cluster's process ended"):
        kafka.start()
    with pytest.raises(RuntimeError, match="is not started"):
        _ = kafka.pid
