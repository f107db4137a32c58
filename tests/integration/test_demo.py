"""`columnar-kafka demo`, in a process as users run it; `tests/faults` has more of those."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from demos import RUN, starting_demos
from support import eventually

from columnar_kafka.demo import with_spark
from columnar_kafka.demo.run import Options, run
from columnar_kafka.demo.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demos import Start
    from pyspark.sql import SparkSession
    from support import OnSpark

    from columnar_kafka.local import LocalKafka

FAIL = """
from columnar_kafka.demo import consume
def fail(*args, **kwargs):
    raise RuntimeError("no way\\n\\nbut this")
consume.read_back = fail
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting_demos(tmp_path) as start:
        yield start


def test_without_java_everything_is_equal_and_nothing_is_left(start: Start, tmp_path: Path) -> None:
    demo = start("--rows", "300", java=False)
    assert demo.end() == 0, demo.output
    assert "No Java" in demo.output
    assert "Every comparison was equal." in demo.output
    assert "1,300 records, equal" in demo.output  # the 1,000 that came later
    assert str(tmp_path / "demo-report.html") in demo.output
    assert "every comparison equal" in (tmp_path / "demo-report.html").read_text()
    assert demo.leaves_nothing()


def test_a_failure_is_said_and_cleaned_up(start: Start) -> None:
    demo = start("--rows", "300", java=False, code=FAIL + RUN)
    assert demo.end() == 1
    assert "The demo failed: RuntimeError: no way" in demo.output
    assert "Traceback" not in demo.output
    assert demo.leaves_nothing()


@pytest.mark.kafka
@pytest.mark.spark
def test_a_stream_goes_on_and_no_topic_is_left_on_spark(
    spark: SparkSession,
    kafka: LocalKafka,
    on_spark: OnSpark,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, with the Spark that is there: `tests/faults` starts one in the demo's."""
    monkeypatch.setattr(with_spark, "local_spark", lambda: nullcontext(spark))
    servers = kafka.bootstrap_servers
    page = tmp_path / "page.html"
    options = Options(bootstrap_servers=servers, broker=None, rows=300, report=page)
    results = on_spark(lambda: run(options, Screen()))
    assert results.equal
    assert "seen by spark.read.parquet: 1,300 records" in capsys.readouterr().out
    assert "every comparison equal" in page.read_text()
    with AdminClient({"bootstrap.servers": servers}) as admin:
        eventually(
            lambda: not [name for name in admin.list_topics().topics if "kafka-demo" in name]
        )
