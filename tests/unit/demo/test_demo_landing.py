"""What ends the landing of a demo ends the demo, and is told."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from columnar_kafka.demo.landing import with_spark, without_spark
from columnar_kafka.errors import LakeError

ERROR = LakeError("the table is gone")


def query(*, error: Exception | None = None, is_active: bool = True) -> Any:
    return SimpleNamespace(exception=lambda: error, isActive=is_active)


def test_a_query_that_runs_is_left_alone() -> None:
    with_spark.check(query())


def test_a_query_that_has_ended_is_told() -> None:
    with pytest.raises(LakeError, match="the table is gone"):
        with_spark.check(query(error=ERROR, is_active=False))
    with pytest.raises(RuntimeError, match="the Spark stream stopped by itself"):
        with_spark.check(query(is_active=False))


def test_an_ingestor_that_has_ended_is_told() -> None:
    run: Future[Any] = Future()
    without_spark.check(run)
    run.set_result(None)
    with pytest.raises(RuntimeError, match="the ingestor stopped by itself"):
        without_spark.check(run)
    run = Future()
    run.set_exception(ERROR)
    with pytest.raises(LakeError, match="the table is gone"):
        without_spark.check(run)
