"""`columnar-kafka demo`: what it passes on, and its exit codes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from commands import invoke

from columnar_kafka.cli import outcome as ending
from columnar_kafka.demo import run as demo
from columnar_kafka.demo.compare import Comparison
from columnar_kafka.demo.figures import Results, Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Outcome = Callable[[Results | BaseException], list[demo.Options]]

RESULTS = Results(broker="b", environment={})


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

        monkeypatch.setattr(demo, "run", run)
        return given

    return prepare


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
    monkeypatch.setattr(ending, "_caught", [])
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        ending.end(number, None)
    outcome(TypeError("expected configuration property name as type unicode string"))
    result = invoke("demo")
    assert (result.exit_code, result.output) == (128 + number, "")


def test_ctrl_c_ends_with_130(outcome: Outcome) -> None:
    outcome(KeyboardInterrupt())
    result = invoke("demo")
    assert result.exit_code == 130
    assert "Interrupted" in result.output
