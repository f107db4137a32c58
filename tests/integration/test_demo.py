"""`columnar-kafka demo` as users run it: a process, its exit code, its page, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from support import eventually, has_ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import LocalKafka

RUN = "from columnar_kafka.cli import main; main()"

# The consumer reads a record less, and polars sees one twice.
TAMPER = """
import pyarrow as pa
from columnar_kafka.demo import consume, lake
consumed, polars_sees = consume.read_back, lake.by_polars
def less(*args, **kwargs):
    return consumed(*args, **kwargs).slice(1)
def twice(folder):
    seen = polars_sees(folder)
    return pa.concat_tables([seen, seen.slice(0, 1)])
consume.read_back, lake.by_polars = less, twice
"""
FAIL = """
from columnar_kafka.demo import consume
def fail(*args, **kwargs):
    raise RuntimeError("no way\\n\\nbut this")
consume.read_back = fail
"""


@dataclass
class Demo:
    """A demo that runs or ran: every process it ever had is remembered."""

    process: subprocess.Popen[str]
    folder: Path
    output: str = ""
    seen: set[int] = field(default_factory=set)

    def look(self) -> None:
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return
        self.seen |= {each.pid for each in children}

    def wait_for(self, text: str) -> None:
        assert self.process.stdout is not None
        while text not in self.output:
            line = self.process.stdout.readline()
            assert line, f"it ended before {text!r}:\n{self.output}"
            self.output += line
            self.look()

    def end(self) -> int:
        self.wait_until_output_ends()
        return self.process.wait(60)

    def wait_until_output_ends(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            self.look()

    def leaves_nothing(self) -> bool:
        eventually(lambda: all(map(has_ended, self.seen)), seconds=10)
        return bool(self.seen) and not list((self.folder / "temporary").iterdir())


class Start(Protocol):
    """Starts a demo; `code` runs instead of the command's own."""

    def __call__(self, *arguments: str, java: bool, code: str = RUN) -> Demo: ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start demos, in a process group and with a temporary folder of their own."""
    started: list[Demo] = []
    (tmp_path / "temporary").mkdir()

    def run(*arguments: str, java: bool, code: str = RUN) -> Demo:
        environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
        if not java:
            environment |= {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": ""}
        process = subprocess.Popen(
            [sys.executable, "-c", code, "demo", *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(Demo(process, tmp_path))
        return started[-1]

    yield run
    for demo in started:
        if demo.process.poll() is None:
            os.killpg(demo.process.pid, signal.SIGKILL)
        demo.process.communicate()


def test_without_java_everything_is_equal_and_nothing_is_left(start: Start, tmp_path: Path) -> None:
    demo = start("--rows", "300", java=False)
    assert demo.end() == 0, demo.output
    assert "No Java" in demo.output
    assert "Every comparison was equal." in demo.output
    assert "1,300 records, equal" in demo.output  # the 1,000 that came later
    assert str(tmp_path / "demo-report.html") in demo.output
    assert "every comparison equal" in (tmp_path / "demo-report.html").read_text()
    assert demo.leaves_nothing()


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
    with AdminClient({"bootstrap.servers": servers}) as admin:
        eventually(
            lambda: not [name for name in admin.list_topics().topics if "kafka-demo" in name]
        )


def test_differences_are_named_and_end_with_1(start: Start, tmp_path: Path) -> None:
    demo = start("--rows", "300", java=False, code=TAMPER + RUN)
    assert demo.end() == 1
    assert "Different: read back as records, seen by polars" in demo.output
    assert "missing 1x: year=2013" in demo.output
    assert "not expected 1x: year=2013" in demo.output
    assert "something differs" in (tmp_path / "demo-report.html").read_text()
    assert demo.leaves_nothing()


def test_a_failure_is_said_and_cleaned_up(start: Start) -> None:
    demo = start("--rows", "300", java=False, code=FAIL + RUN)
    assert demo.end() == 1
    assert "The demo failed: RuntimeError: no way" in demo.output
    assert "Traceback" not in demo.output
    assert demo.leaves_nothing()


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
    demo = start("--rows", "300", java=False)
    demo.wait_for("produced")
    demo.process.terminate()
    assert demo.end() == 143
    assert demo.leaves_nothing()
