"""`columnar-kafka demo` with a Spark of its own, and ended early."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from demos import leaves_no_topic, starting_demos

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demos import Start

    from columnar_kafka.local import LocalKafka


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting_demos(tmp_path) as start:
        yield start


@pytest.mark.kafka
@pytest.mark.spark
def test_on_the_users_kafka_a_stream_goes_on_and_no_topic_is_left(
    start: Start, kafka: LocalKafka
) -> None:
    servers = kafka.bootstrap_servers
    demo = start("--bootstrap-servers", servers, "--rows", "3000", java=True)
    assert demo.end() == 0, demo.output
    assert "seen by spark.read.parquet: 4,000 records" in demo.output
    assert demo.leaves_nothing()
    leaves_no_topic(servers)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.usefixtures("kafka")  # which skips without Java
def test_ctrl_c_takes_kafka_and_a_spark_that_is_starting_along(start: Start) -> None:
    demo = start("--rows", "300", java=True)
    demo.wait_for("incubator modules")  # the first words of Spark's Java
    os.killpg(demo.process.pid, signal.SIGINT)  # as a terminal does: to all of the group
    assert demo.end() == 130
    assert "Traceback" not in demo.output
    assert demo.leaves_nothing()


def test_a_terminated_demo_cleans_up(start: Start) -> None:
    demo = start("--rows", "30000", java=False)
    demo.wait_for("produced")
    demo.process.terminate()
    assert demo.end() == 143
    assert demo.leaves_nothing()
