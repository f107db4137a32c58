"""The command line: what it passes on, and its exit codes."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import columnar_kafka
from columnar_kafka import cli
from columnar_kafka.demo import run as demo
from columnar_kafka.demo.compare import Comparison
from columnar_kafka.demo.figures import Results, Stage
from columnar_kafka.ingest import ingestor
from columnar_kafka.lake.local_files import LocalFiles
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Outcome = Callable[[Results | BaseException], list[demo.Options]]

RESULTS = Results(broker="b", environment={})


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Replace the demo by what a test wants of it; the options it was given."""
    given: list[demo.Options] = []

    def prepare(result: Results | BaseException) -> list[demo.Options]:
        def run(options: demo.Options, _screen: object) -> Results:
            given.append(options)
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(cli, "run", run)
        return given

    return prepare


def test_the_version_is_the_packages() -> None:
    result = invoke("--version")
    assert result.output == f"columnar-kafka {columnar_kafka.__version__}\n"
    assert result.exit_code == 0


def test_options_reach_the_demo(outcome: Outcome, tmp_path: Path) -> None:
    given = outcome(RESULTS)
    page = tmp_path / "page.html"
    result = invoke("demo", "--bootstrap-servers", "h:1", "--rows", "5", "--report", str(page))
    assert result.exit_code == 0
    assert given == [demo.Options(bootstrap_servers="h:1", broker=None, rows=5, report=page)]
    assert page.name in result.output


def test_an_unknown_broker_is_refused(outcome: Outcome) -> None:
    outcome(RESULTS)
    assert invoke("demo", "--broker", "rabbit").exit_code == 2


def test_a_difference_ends_with_1_and_names_the_stage(outcome: Outcome) -> None:
    stage = Stage("read back as records", 1, 1.0, "", Comparison(2, 1, 1, 0))
    outcome(Results(broker="b", environment={}, stages=[stage]))
    result = invoke("demo")
    assert result.exit_code == 1
    assert "Different: read back as records" in result.output


def test_a_failure_ends_with_1_and_one_paragraph(outcome: Outcome) -> None:
    outcome(RuntimeError("no such Kafka\n\nJVM stacktrace:\n at a\n at b"))
    result = invoke("demo")
    assert result.exit_code == 1
    assert result.output == "The demo failed: RuntimeError: no such Kafka\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_is_raised_as_something_else_is_no_failure(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(cli, "_caught", [])
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        cli._end(number, None)
    outcome(TypeError("expected configuration property name as type unicode string"))
    result = invoke("demo")
    assert (result.exit_code, result.output) == (128 + number, "")


def test_ctrl_c_ends_with_130(outcome: Outcome) -> None:
    outcome(KeyboardInterrupt())
    result = invoke("demo")
    assert result.exit_code == 130
    assert "Interrupted" in result.output


# --- ingest ---------------------------------------------------------------------------------------

INGEST = ("ingest", "--bootstrap-servers", "h:1", "--topic", "t", "--to")


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKafka]:
    """Five rows in three segments."""
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    with FakeKafka() as kafka:
        monkeypatch.setattr(ingestor, "StockConsumer", kafka.Consumer)
        monkeypatch.setattr(ingestor, "generation", lambda *_: ("cluster", "id"))
        with kafka.Producer({"columnar.encoding": "parquet", "columnar.segment.rows": 2}) as sender:
            sender.set_schema("t", pa.schema([("n", pa.int64())]))
            for n in range(5):
                sender.produce("t", {"n": n})
        yield kafka
    for each, handler in handlers.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("topic")
def test_a_topic_is_ingested_and_what_landed_is_said(tmp_path: Path) -> None:
    result = invoke(*INGEST, str(tmp_path / "lake"), "--stop-at-end", "--partition", "0")
    assert (result.exit_code, result.stdout) == (0, "5 rows landed in 1 files\n")
    again = invoke(*INGEST, str(tmp_path / "lake"), "--stop-at-end", "--json")
    assert json.loads(again.stdout) == {
        "rows": 0,
        "segments": 0,
        "nbytes": 0,
        "files": 0,
        "commits": 0,
        "rows_before": 0,
        "rewritten": 0,
    }


@pytest.mark.usefixtures("topic")
def test_a_partitioned_table_is_made_and_what_was_split_is_counted(tmp_path: Path) -> None:
    place = (str(tmp_path / "lake"), "--format", "delta", "--partition-by", "n", "--stop-at-end")
    stopped = invoke(*INGEST, *place, "--straddle", "stop", "--partition", "0")
    assert (stopped.exit_code, "has rows of 2 partitions" in stopped.stderr) == (1, True)
    counts = json.loads(invoke(*INGEST, *place, "--partition", "0", "--json").stdout)
    assert {key: counts[key] for key in ("rows", "segments", "files", "rewritten")} == {
        "rows": 5,
        "segments": 3,
        "files": 5,
        "rewritten": 2,
    }


@pytest.mark.usefixtures("topic")
def test_every_format_and_layout_can_be_named(tmp_path: Path) -> None:
    done = ("--stop-at-end", "--layout", "verbatim")
    assert invoke(*INGEST, str(tmp_path / "delta"), "--format", "delta", *done).exit_code == 0
    assert len(DeltaTable(str(tmp_path / "delta")).file_uris()) == 3
    catalog = [f"uri=sqlite:///{tmp_path}/catalog.db", f"warehouse=file://{tmp_path}", "type=sql"]
    options = [text for each in catalog for text in ("--catalog", each)]
    assert invoke(*INGEST, "lake.t", "--format", "iceberg", *options, *done).exit_code == 0
    assert len(list(tmp_path.glob("lake/t/data/t/*.parquet"))) == 3


def test_keys_of_the_client_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\n\nsecurity.protocol = SSL\ngroup.id=g\n")
    text = ("--client-config", str(file), "-X", "auto.offset.reset=latest")
    result = invoke(*INGEST, str(tmp_path), *text)
    assert result.exit_code == 1
    assert "auto.offset.reset=latest: an ingestor needs error" in result.output


def test_what_is_not_key_and_value_is_a_usage_error(tmp_path: Path) -> None:
    assert invoke(*INGEST, str(tmp_path), "-X", "group.id").exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        ("--catalog", "type=sql"),
        ("--after-restore", "reland"),
        ("--growth", "allow"),
        ("--partition-by", "n"),
    ],
)
def test_an_option_of_another_format_is_a_usage_error(tmp_path: Path, text: list[str]) -> None:
    result = invoke(*INGEST, str(tmp_path), *text)
    assert result.exit_code == 2
    assert "only for" in result.output


def test_what_cannot_land_ends_with_1_and_is_named(topic: FakeKafka, tmp_path: Path) -> None:
    with topic.Producer({}) as sender:
        sender.produce("t", b"plain")
    result = invoke(*INGEST, str(tmp_path), "--stop-at-end")
    assert result.exit_code == 1
    assert "LakeError: t[0]@3: is a plain message" in result.output


@pytest.mark.usefixtures("topic")
def test_a_signal_lands_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's process gets it while the first file is created."""
    create = LocalFiles.create

    def interrupted(self: LocalFiles, path: Path) -> object:
        if path.suffix == ".segment":
            signal.raise_signal(signal.SIGTERM)
        return create(self, path)

    monkeypatch.setattr(LocalFiles, "create", interrupted)
    result = invoke(*INGEST, str(tmp_path / "lake"))
    assert (result.exit_code, result.stdout) == (0, "2 rows landed in 1 files\n")
