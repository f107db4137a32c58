"""A pytest plugin that collects once, and then forks a process for each set of tests it is sent.

A job comes as a line of JSON, and its events go back as such lines; `run.py` is the other side. The
forked process replaces the code of the functions that a mutant changes, so no import and no
collection is repeated. It runs the tests in the order of the job, and stops at the first failure.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS, EVENTS = "MUTANTS_JOBS", "MUTANTS_EVENTS"
"""Environment variables with the file descriptors of the two pipes."""
COVER = "MUTANTS_COVER"
"""Environment variable with the files whose lines are recorded for each test, as JSON; or unset."""
_SERVERS = {"kafka", "kafka_cluster", "spark"}
_SUMMARY = 300
_coverage: Any = None

if COVER in os.environ:
    import coverage

    _coverage = coverage.Coverage(
        data_file=None, config_file=False, include=json.loads(os.environ[COVER])
    )
    _coverage.start()  # before the package is imported


def pytest_configure() -> None:
    """Have Hypothesis try the same examples every time, keep none, and never watch the clock."""
    settings.register_profile(
        "mutants",
        settings.default,
        database=None,
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("mutants")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run jobs until there are none."""
    items = {item.nodeid: item for item in session.items}
    _send({"collected": {name: _needs(item) for name, item in items.items()}})
    gc.collect()
    gc.freeze()  # the processes share this memory
    with os.fdopen(int(os.environ[JOBS])) as jobs:
        for line in jobs:
            process = os.fork()
            if process == 0:
                _child(items, json.loads(line))
            _, status = os.waitpid(process, 0)
            _send({"ended": os.waitstatus_to_exitcode(status)})
    return True


def _needs(item: Any) -> str:
    """Say which servers a test starts: none, a Kafka, or a Spark."""
    from support import SPARK_TESTS  # noqa: PLC0415 - after coverage has begun

    fixtures = item._fixtureinfo.name2fixturedefs
    started = {
        name
        for name in _SERVERS & fixtures.keys()
        if fixtures[name][-1].baseid == "tests"  # a test file's own `kafka` is a FakeKafka
    }
    if "spark" in started or any(each in item.nodeid for each in SPARK_TESTS):
        return "spark"
    return "kafka" if started or "integration" in item.path.parts else ""


def _child(items: dict[str, pytest.Item], job: dict[str, Any]) -> None:
    """Run the tests of a job, and end this process."""
    os.setsid()
    code = 1
    try:
        gc.unfreeze()
        _send({"pid": os.getpid()})
        if job["mutant"] is None or _replace_code(**job["mutant"]):
            _run([items[name] for name in job["tests"]], until_failure=job["until_failure"])
            if _coverage is not None:
                _write_lines(job["lines"])
            code = 0
        else:
            _send({"irreplaceable": True})
            code = 0
    except BaseException:  # noqa: BLE001 - such as pytest.exit
        _send({"broken": traceback.format_exc()[-2000:]})
    finally:
        os._exit(code)


def _run(items: list[pytest.Item], *, until_failure: bool) -> None:
    reports = _Reports()
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.pluginmanager.register(reports)
        if _coverage is not None:
            _coverage.switch_context(item.nodeid)
        _send({"begins": item.nodeid})
        begun = time.perf_counter()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        seconds = round(time.perf_counter() - begun, 3)
        item.config.pluginmanager.unregister(reports)
        failure = reports.failure
        _send({"ends": item.nodeid, "seconds": seconds, "failure": failure})
        if failure is not None and until_failure:
            return
        reports.failure = None


class _Reports:
    """Keeps why a test failed."""

    failure: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failure is None:
            lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
            self.failure = (lines or [report.longreprtext or "failed"])[0][:_SUMMARY]


def _write_lines(path: str) -> None:
    """Write for each file and test which lines ran, as bits; those of the import have no test."""
    _coverage.stop()
    data = _coverage.get_data()
    lines: dict[str, dict[str, int]] = {}
    for file in data.measured_files():
        for line, contexts in data.contexts_by_lineno(file).items():
            for test in contexts:
                bits = lines.setdefault(test, {})
                bits[file] = bits.get(file, 0) | 1 << line
    with open(path, "w", encoding="utf-8") as output:  # noqa: PTH123
        json.dump(
            {
                test: {file: hex(bits) for file, bits in each.items()}
                for test, each in lines.items()
            },
            output,
        )


def _replace_code(path: str, original: str, mutated: str) -> bool:
    """Give each function of a file that differs its new code; False if that is not possible."""
    before = compile(original, path, "exec", dont_inherit=True)
    after = compile(mutated, path, "exec", dont_inherit=True)
    new = {}
    for old_code, new_code in _pairs(before, after):
        if old_code is None or new_code is None or old_code.co_freevars != new_code.co_freevars:
            return False
        new[_place(old_code)] = new_code
    replaced = 0
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == path:
            code = new.get(_place(function.__code__))
            if code is None:
                return False
            function.__code__ = code
            replaced += 1
    return replaced > 0


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType | None, CodeType | None]]:
    """Pair the code of the same functions, at any depth."""
    old_inner = [each for each in old.co_consts if isinstance(each, CodeType)]
    new_inner = [each for each in new.co_consts if isinstance(each, CodeType)]
    if [each.co_name for each in old_inner] != [each.co_name for each in new_inner]:
        yield None, None
        return
    for pair in zip(old_inner, new_inner, strict=True):
        yield pair
        yield from _pairs(*pair)


def _place(code: CodeType) -> tuple[Any, ...]:
    """Tell code objects of one file apart (two lambdas may be on one line)."""
    return code.co_qualname, code.co_firstlineno, tuple(code.co_positions())


def _send(event: dict[str, Any]) -> None:
    data = (json.dumps(event) + "\n").encode()
    while data:
        data = data[os.write(int(os.environ[EVENTS]), data) :]
    if "collected" in event:
        sys.stdout.flush()
