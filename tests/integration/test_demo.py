"""`columnar-kafka demo`, in a process as users run it; `tests/faults` has more of those."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from demos import RUN, leaves_no_topic, starting_demos

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demos import Start

    from columnar_kafka.local import LocalKafka

FAIL = """
from columnar_kafka.demo import consume
def fail(*args, **kwargs):
    raise RuntimeError("no way\\n\\nbut this")
consume.read_back = fail
"""


# The consumer reads a record less, and polars sees one twice.
TAMPER = """
import pyarrow as pa
from columnar_kafka.demo import consume
from columnar_kafka.demo.landing import lake
consumed, polars_sees = consume.read_back, lake.by_polars
def less(*args, **kwargs):
    return consumed(*args, **kwargs).slice(1)
def twice(folder):
    seen = polars_sees(folder)
    return pa.concat_tables([seen, seen.slice(0, 1)])
consume.read_back, lake.by_polars = less, twice
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
    assert demo.had_a_broker()
    assert demo.leaves_nothing()


def test_differences_are_named_and_end_with_1(start: Start, tmp_path: Path) -> None:
    demo = start("--rows", "300", java=False, code=TAMPER + RUN)
    assert demo.end() == 1
    assert "Different: read back as records, seen by polars" in demo.output
    assert "missing 1x: year=2013" in demo.output
    assert "not expected 1x: year=2013" in demo.output
    assert "something differs" in (tmp_path / "demo-report.html").read_text()
    assert demo.leaves_nothing()


@pytest.mark.kafka
def test_on_the_users_kafka_no_topic_is_left(start: Start, kafka: LocalKafka) -> None:
    servers = kafka.bootstrap_servers
    demo = start("--bootstrap-servers", servers, "--rows", "300", java=False)
    assert demo.end() == 0, demo.output
    assert "your Kafka" in demo.output
    assert "Every comparison was equal." in demo.output
    assert not demo.had_a_broker()
    assert not list((demo.folder / "temporary").iterdir())
    leaves_no_topic(servers)


def test_a_failure_is_said_and_cleaned_up(start: Start) -> None:
    demo = start("--rows", "300", java=False, code=FAIL + RUN)
    assert demo.end() == 1
    assert "The demo failed: RuntimeError: no way" in demo.output
    assert "Traceback" not in demo.output
    assert demo.leaves_nothing()
