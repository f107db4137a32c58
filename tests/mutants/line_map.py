"""Which tests run a line of the code, known from one run of all tests under coverage."""

from __future__ import annotations

import hashlib
import json
import math
import os
import queue
import shutil
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from jobs import Server, Test, drain, in_threads, say

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from operators import Mutant

PACKAGE = "columnar_kafka"
TESTS = ("tests/unit", "tests/golden", "tests/conformance", "tests/integration")
_SLOW = (0.1, 1.0, 5.0, math.inf)


class Map:
    """Which lines each test runs; kept in a file, by test file."""

    def __init__(self, path: Path, files: list[str], *, servers: bool) -> None:
        self._path = path
        self._files = files
        self._servers = servers
        self.paths = [path for path in TESTS if servers or "integration" not in path]
        self.tests: dict[str, Test] = {}
        self.imported: dict[str, int] = defaultdict(int)

    def load(self, tree: Path, workers: Path, processes: int) -> None:
        """Run the test files that the map does not know, or that have changed."""
        package = _digest(sorted((tree / PACKAGE).rglob("*.py")))
        package += _digest(sorted((tree / "tests").glob("*.py")))
        known = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                entry = json.loads(line)
                known[entry["file"], entry["needs"], entry["key"]] = entry
        todo: queue.SimpleQueue[tuple[str, str, str]] = queue.SimpleQueue()
        for path in sorted(
            file for each in self.paths for file in (tree / each).rglob("test_*.py")
        ):
            name = str(path.relative_to(tree))
            helpers = [*path.parent.glob("conftest.py"), *path.parent.glob("[!t]*.py")]
            key = package + _digest([path, *sorted(helpers)])
            for needs in ["", "kafka"] if self._servers else [""]:
                if (name, needs, key) in known:
                    self._add(known[name, needs, key])
                else:
                    todo.put((name, needs, key))
        if todo.empty():
            return
        say(f"running {todo.qsize()} test files under coverage")
        lock = threading.Lock()

        def work(number: int) -> None:
            copy = workers / f"map-{number}"
            shutil.copytree(tree, copy)
            with Server(copy, self.paths, self._files) as tests:
                for file, needs, key in drain(todo):
                    entry = self._run(tests, copy, file, needs) | {"key": key}
                    with lock, self._path.open("a") as output:
                        output.write(json.dumps(entry) + "\n")
                        self._add(entry)

        in_threads(work, processes)

    def _run(self, tests: Server, tree: Path, file: str, needs: str) -> dict[str, Any]:
        chosen = [
            Test(name, 60.0, needs, {})
            for name, its in tests.collected.items()
            if name.startswith(f"{file}::") and its == needs
        ]
        results: dict[str, Any] = {}
        failed: dict[str, str] = {}
        output = tree.parent / f"{tree.name}.lines"
        output.unlink(missing_ok=True)
        for event in tests.run(chosen, lines=str(output), until_failure=False) if chosen else ():
            if "ends" in event:
                results[event["ends"]] = event["seconds"]
                if event["failure"] is not None:
                    failed[event["ends"]] = event["failure"]
            elif not event.keys() & {"pid", "begins"}:
                failed[file] = str(event)
        lines = json.loads(output.read_text()) if output.exists() else {}
        for name, why in failed.items():
            say(f"fails without a mutant: {name}: {why}")
        prefix = str(tree) + os.sep
        return {
            "file": file,
            "needs": needs,
            "failed": failed,
            "imported": _relative(lines.get("", {}), prefix),
            "tests": {
                name: [seconds, _relative(lines.get(name, {}), prefix)]
                for name, seconds in results.items()
            },
        }

    def _add(self, entry: dict[str, Any]) -> None:
        for file, bits in entry["imported"].items():
            self.imported[file] |= int(bits, 16)
        for name, (seconds, lines) in entry["tests"].items():
            bits = {file: int(each, 16) for file, each in lines.items()}
            self.tests[name] = Test(name, seconds, entry["needs"], bits)

    def tests_of(self, mutant: Mutant) -> list[Test]:
        """Return the tests that can see a mutant, in the order in which to run them.

        A line that no test runs within pytest's own process is run by children: then those that
        run anything of its file. One that an import runs may be seen without running anything, as
        a signature's default is: then those of its room too.
        """
        bit, is_imported = 1 << mutant.line, self.is_imported(mutant)
        room = f"tests/unit/{mutant.file.split('/')[1].removesuffix('.py')}"
        chosen = [test for test in self.tests.values() if test.lines.get(mutant.file, 0) & bit]
        if not chosen or is_imported:
            chosen = [
                test
                for test in self.tests.values()
                if test.lines.get(mutant.file) or (is_imported and room in test.file)
            ]
        order = {name: number for number, name in enumerate(self.tests)}

        def rank(test: Test) -> tuple[Any, ...]:
            slow = next(n for n, bound in enumerate(_SLOW) if test.seconds < bound)
            is_own = room in test.file
            return test.needs, slow, not is_own, test.file, order[test.id]

        return sorted(chosen, key=rank)

    def is_imported(self, mutant: Mutant) -> bool:
        """Whether the mutated line runs when the package or the tests are imported."""
        return not mutant.in_function or bool(self.imported[mutant.file] >> mutant.line & 1)


def _relative(lines: dict[str, str], prefix: str) -> dict[str, str]:
    return {file.removeprefix(prefix): bits for file, bits in lines.items()}


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
