"""Change the code in one place at a time, and see whether a test fails: `make mutants`.

It takes the ten largest files of the package, draws 200 mutants of them (`operators.py`) with a
fixed seed, in proportion to the files' sizes, and runs for each one the tests that run its line,
cheapest first, until one fails. A mutant is killed when a test fails twice with it, and not without
it; or when a test takes ten times its usual time. The others survived: a test is missing, or the
mutant does the same as the original (equivalent).

The tests of a line are known from one run under coverage (`map.jsonl`), repeated for the test files
that have changed. Tests that need Java run with `--servers` only: they are slow, and are for those
that survived the others. Tests that start Spark never run.

Everything runs in copies of the working tree. A process for each copy imports and collects once and
forks for each mutant (`server.py`). Mutants of code that an import runs get a process of their own.

    .venv/bin/python tests/mutants/run.py --help
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import shutil
import subprocess
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from jobs import drain, in_threads, say
from line_map import PACKAGE, Map
from operators import Mutant, code_lines, mutants_of
from worker import KILLED, Worker

ROOT = Path(__file__).parents[2]
_LARGEST = 10
_BUDGET = 90.0


def copy_tree(to: Path, tests: Path) -> None:
    """Copy the project, with the tests of a checkout that may be another one."""
    for root, is_wanted in ((ROOT, lambda file: not file.startswith("tests/")), (tests, _is_test)):
        listed = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"]
        for file in subprocess.check_output(listed, text=True).splitlines():
            if is_wanted(file) and (root / file).is_file():
                (to / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / file, to / file)


def _is_test(file: str) -> bool:
    return file.startswith("tests/")


def largest_files() -> dict[str, int]:
    """Return the largest files of the package with their lines of code."""
    files = {
        str(path.relative_to(ROOT)): code_lines(path.read_text())
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
    }
    ordered = sorted(files, key=lambda file: (-files[file], file))
    return {file: files[file] for file in ordered[:_LARGEST]}


def draw(files: dict[str, int], count: int, seed: int) -> list[Mutant]:
    """Draw mutants in proportion to the files' sizes, at most one of each line."""
    total = sum(files.values())
    exact = {file: count * lines / total for file, lines in files.items()}
    shares = {file: int(share) for file, share in exact.items()}
    for file in sorted(exact, key=lambda file: shares[file] - exact[file]):
        shares[file] += sum(shares.values()) < count
    drawn = []
    for file, share in shares.items():
        mutants = mutants_of(file, (ROOT / file).read_text())
        random.Random(f"{seed} {file}").shuffle(mutants)
        one_of_each_line = {mutant.line: mutant for mutant in mutants}
        drawn += list(one_of_each_line.values())[:share]
    return sorted(drawn)


def report(results: list[dict[str, Any]]) -> None:
    """Print the survivors, and the outcomes by file."""
    files: dict[str, Counter[bool]] = defaultdict(Counter)
    for result in results:
        is_killed = result["outcome"] in KILLED
        files[result["file"]][is_killed] += 1
        if not is_killed:
            cut = "" if result["tests"] == result["of"] else f" of {result['of']}"
            print(f"{result['file']}:{result['line']}: {result['operator']}", end=" ")
            print(f"({result['tests']}{cut} tests, {result['usual_seconds']} s)")
            print(f"-   {result['before']}\n+   {result['after']}\n")
    print(f"{'killed':>8}{'survived':>10}")
    for file, counts in files.items():
        print(f"{counts[True]:8}{counts[False]:10}  {file}")
    killed = sum(counts[True] for counts in files.values())
    print(f"{killed:8}{len(results) - killed:10}  {killed / max(1, len(results)):.1%} killed")


def main() -> None:
    """Read the options, map, try, report."""
    options = parse()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    files = largest_files()
    mutants = draw(files, options.count, options.seed)
    if options.only_survivors_of:
        earlier = read(options.only_survivors_of)
        survivors = earlier.keys() - killed_in(earlier)
        mutants = [mutant for mutant in mutants if mutant.id in survivors]
    done = read(options.results) if options.results.exists() else {}
    todo: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        if mutant.id not in done:
            todo.put(mutant)
    say(f"{len(mutants)} mutants, {todo.qsize()} to try")
    if not todo.empty():
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            try_all(todo, Path(folder), list(files), done, options)
    results = [done[mutant.id] for mutant in mutants]
    report(results)
    if options.before:
        lost = killed_in(read(options.before)) - killed_in(done)
        lost &= {mutant.id for mutant in mutants}
        print(f"\n{len(lost)} were killed in {options.before}:", *sorted(lost), sep="\n")


def read(results: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a run by the mutants' ids."""
    lines = map(json.loads, results.read_text().splitlines())
    return {line["id"]: line for line in lines}


def killed_in(results: dict[str, dict[str, Any]]) -> set[str]:
    """Return the ids of the mutants that were killed."""
    return {name for name, result in results.items() if result["outcome"] in KILLED}


def try_all(
    todo: queue.SimpleQueue[Mutant],
    folder: Path,
    files: list[str],
    done: dict[str, Any],
    options: argparse.Namespace,
) -> None:
    """Try mutants until there are none, writing each outcome when it is known."""
    tree = folder / "tree"
    copy_tree(tree, options.tests)
    tests = Map(options.map, files, servers=options.servers)
    tests.load(tree, folder, options.processes)
    say(f"{len(tests.tests)} tests take {sum(t.seconds for t in tests.tests.values()):.0f} s")
    lock = threading.Lock()

    def work(number: int) -> None:
        copy = folder / f"mutant-{number}"
        shutil.copytree(tree, copy)
        worker = Worker(copy, tree, tests, options.budget)
        try:
            worker.begin()
            for mutant in drain(todo):
                result = worker.try_mutant(mutant)
                with lock, options.results.open("a") as output:
                    output.write(json.dumps(result) + "\n")
                    done[mutant.id] = result
                say(f"{result['outcome']} {mutant.id} {result['seconds']} s, {todo.qsize()} left")
        finally:
            worker.close()

    in_threads(work, options.processes)


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--count", type=int, default=200)
    add("--seed", type=int, default=1)
    add("--processes", type=int, default=2)
    add("--budget", type=float, default=_BUDGET, help="seconds of tests for one mutant")
    add("--servers", action="store_true", help="run the tests that need Java too")
    add("--tests", type=Path, default=ROOT, help="a checkout whose tests to run")
    add("--map", type=Path, default=ROOT / ".mutants/map.jsonl")
    add("--results", type=Path, default=ROOT / ".mutants/results.jsonl", help="resumed if there")
    add("--only-survivors-of", type=Path, help="results of an earlier run")
    add("--before", type=Path, help="results of an earlier run: list what only that one killed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
