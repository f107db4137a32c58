"""Runs sets of tests in the processes of `server.py`."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import Self

Job = TypeVar("Job")
_HANGS_AFTER, _HANGS_FACTOR = 20.0, 10.0


class Test(NamedTuple):
    """A test as the map knows it."""

    id: str
    seconds: float
    needs: str
    lines: dict[str, int]
    """For each of the measured files, the lines it runs as bits."""

    @property
    def file(self) -> str:
        """The test's file, as pytest names it."""
        return self.id.partition("::")[0]


class Server:
    """A process with the collected tests of a tree, and one forked job at a time."""

    def __init__(self, tree: Path, paths: Iterable[str], cover: list[str] | None = None) -> None:
        jobs, self._jobs = os.pipe()
        self._events, events = os.pipe()
        variables = {
            "PYTHONPATH": os.pathsep.join([str(tree), str(Path(__file__).parent)]),
            server.JOBS: str(jobs),
            server.EVENTS: str(events),
        }
        if cover is not None:
            variables[server.COVER] = json.dumps([str(tree / file) for file in cover])
        options = ["-p", "server", "-p", "no:cacheprovider", "-s", "-q"]
        basetemp = tree.parent / f"{tree.name}-tmp"
        self.log = tree.parent / f"{tree.name}.log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, f"--basetemp={basetemp}", *paths],
                cwd=tree,
                env=os.environ | variables,
                pass_fds=(jobs, events),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        os.close(jobs)
        os.close(events)
        self._rest = b""
        self.collected: dict[str, str] = {}
        with suppress(EOFError):
            self.collected = self._event(600.0)["collected"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._jobs)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._events)

    def run(
        self,
        tests: list[Test],
        mutant: dict[str, str] | None = None,
        lines: str = "",
        *,
        until_failure: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """Give the events of a job as they come; a test that hangs is killed, and ends the job."""
        job = {
            "tests": [test.id for test in tests],
            "mutant": mutant,
            "lines": lines,
            "until_failure": until_failure,
        }
        os.write(self._jobs, (json.dumps(job) + "\n").encode())
        seconds = {test.id: test.seconds for test in tests}
        process, running, last, limit = 0, "", tests[0].id, _HANGS_AFTER
        while True:
            try:
                event = self._event(limit)
            except TimeoutError:
                yield {"hung": running or last}
                limit = 600.0
                os.killpg(process, signal.SIGKILL)
                continue
            if "pid" in event:
                process = event["pid"]
            elif "begins" in event:
                running = last = event["begins"]
                limit = max(_HANGS_AFTER, _HANGS_FACTOR * seconds.get(running, 60.0))
            elif "ends" in event:
                running, limit = "", 600.0 if lines else _HANGS_AFTER
            elif "ended" in event:
                with suppress(ProcessLookupError):  # what its tests have left
                    os.killpg(process, signal.SIGKILL)
                if event["ended"] != 0 and running:
                    yield {"crashed": running, "code": event["ended"]}
                return
            yield event

    def _event(self, timeout: float) -> dict[str, Any]:
        while b"\n" not in self._rest:
            if not select.select([self._events], [], [], timeout)[0]:
                raise TimeoutError
            data = os.read(self._events, 1 << 20)
            if not data:
                raise EOFError(f"pytest ended: see {self.log}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event


def first_failure(events: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return how the first test failed; consumes all events."""
    found: dict[str, Any] | None = None
    for event in events:
        if found is not None:
            continue
        if "irreplaceable" in event:
            found = event
        elif event.get("failure") is not None:
            found = {"outcome": "killed", "test": event["ends"], "why": event["failure"]}
        elif "hung" in event:
            found = {"outcome": "hung", "test": event["hung"]}
        elif "crashed" in event:
            found = {"outcome": "crashed", "test": event["crashed"], "why": str(event["code"])}
        elif "broken" in event:
            raise RuntimeError(event["broken"])
    return found


def drain(jobs: queue.SimpleQueue[Job]) -> Iterator[Job]:
    """Yield jobs until there are none; several threads may."""
    with suppress(queue.Empty):
        while True:
            yield jobs.get_nowait()


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run a function in threads; the first error is raised once all have ended."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def say(text: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
