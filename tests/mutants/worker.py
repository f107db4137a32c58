"""Tries one mutant after the other in a copy of the project."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from jobs import Server, Test, first_failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from line_map import Map
    from operators import Mutant

KILLED = ("killed", "hung", "crashed")
_CHEAP = 1.0


class Worker:
    """Tries mutants in a tree of its own."""

    def __init__(self, tree: Path, original: Path, tests: Map, budget: float) -> None:
        self._tree = tree
        self._original = original
        self._map = tests
        self._budget = budget
        self._stack = ExitStack()
        self._server: Server | None = None
        self._sound: dict[str, bool] = {}
        """Of the tests that have failed with a mutant, whether they pass without one."""

    def close(self) -> None:
        """End the server."""
        self._stack.close()

    def try_mutant(self, mutant: Mutant) -> dict[str, Any]:
        """Return a line of the results."""
        begun = time.monotonic()
        all_tests = self._map.tests_of(mutant)
        tests = within(all_tests, self._budget)
        usual = sum(test.seconds for test in tests)
        with self._mutated(mutant) as path:
            outcome: dict[str, Any] | None = None
            if not self._map.is_imported(mutant):
                code = {
                    "path": str(path),
                    "original": (self._original / mutant.file).read_text(),
                    "mutated": mutant.source,
                }
                outcome = self._outcome(mutant, self._shared(), tests, code)
            if outcome is None:
                outcome = self._fresh(mutant, tests)
        return {
            "id": mutant.id,
            "file": mutant.file,
            "line": mutant.line,
            "operator": mutant.operator,
            "before": mutant.before.strip(),
            "after": mutant.after.strip(),
            "tests": len(tests),
            "of": len(all_tests),
            "usual_seconds": round(usual, 1),
            "seconds": round(time.monotonic() - begun, 1),
        } | outcome

    @contextmanager
    def _mutated(self, mutant: Mutant) -> Iterator[Path]:
        """Have the mutant's source in the tree: processes that tests start import it from there."""
        path = self._tree / mutant.file
        original = path.read_bytes()
        try:
            _write(path, mutant.source.encode())
            yield path
        finally:
            _write(path, original)

    def _shared(self) -> Server:
        """Return the server for mutants of functions, started without any mutant."""
        if self._server is None:
            raise RuntimeError("begin() starts it")
        return self._server

    def begin(self) -> None:
        """Start it: imports and collects all tests."""
        self._server = self._stack.enter_context(Server(self._tree, self._map.paths))
        if not self._server.collected:
            raise RuntimeError(f"no tests were collected: see {self._server.log}")

    def _fresh(self, mutant: Mutant, tests: list[Test]) -> dict[str, Any]:
        """Import the mutant: the test files of its unit first, then the others."""
        cheap = [test for test in tests if test.seconds < _CHEAP]
        files = list(dict.fromkeys(test.file for test in cheap))
        outcome: dict[str, Any] = {"outcome": "survived"}
        rest = sorted({test.file for test in tests} - set(files[:12]))
        for batch in (files[:3], files[3:12], rest):
            if not batch:
                continue
            chosen = [test for test in tests if test.file in batch]
            with Server(self._tree, batch) as fresh:
                if not fresh.collected:
                    last = fresh.log.read_text().strip().splitlines()[-1:]
                    return {"outcome": "crashed", "test": "the import", "why": "".join(last)}
                outcome = self._outcome(mutant, fresh, chosen, None) or outcome
            if outcome["outcome"] in KILLED:
                break
        return outcome

    def _outcome(
        self, mutant: Mutant, server: Server, tests: list[Test], code: dict[str, str] | None
    ) -> dict[str, Any] | None:
        """Run tests until one kills the mutant; None if its code cannot be replaced."""
        rest = tests
        flaky: list[str] = []
        while rest:
            failure = first_failure(server.run(rest, code))
            if failure is None:
                break
            if failure.get("irreplaceable"):
                return None
            name = failure["test"]
            test = self._map.tests[name]
            is_hung = failure["outcome"] == "hung"  # the second time would take as long
            again = is_hung or first_failure(server.run([test], code)) is not None
            if again and self._is_sound(test, mutant):
                return failure | ({"flaky": flaky} if flaky else {})
            flaky.append(name)
            rest = rest[[each.id for each in rest].index(name) + 1 :]
        return {"outcome": "survived"} | ({"flaky": flaky} if flaky else {})

    def _is_sound(self, test: Test, mutant: Mutant) -> bool:
        """Whether a test passes without the mutant."""
        if test.id not in self._sound:
            path = self._tree / mutant.file
            _write(path, (self._original / mutant.file).read_bytes())
            self._sound[test.id] = first_failure(self._shared().run([test])) is None
            _write(path, mutant.source.encode())
        return self._sound[test.id]


_clock = iter(range(10**9))
_clock_lock = threading.Lock()


def _write(path: Path, data: bytes) -> None:
    """Write a source with a time of its own: a `.pyc` is known by its source's time and size."""
    path.write_bytes(data)
    with _clock_lock:
        second = 1_000_000_000 + next(_clock)
    os.utime(path, (second, second))


def within(tests: list[Test], budget: float) -> list[Test]:
    """Return as many of the first tests as usually take so many seconds."""
    chosen, seconds = [], 0.0
    for test in tests:
        seconds += test.seconds
        if seconds > budget:
            break
        chosen.append(test)
    return chosen
