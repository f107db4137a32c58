"""How long does the import take?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from benchmarks.answer import OURS, THREAD, WALL, Answer
from benchmarks.child import Cost
from benchmarks.measured import ratios

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Import"
IS_LONG = False
ABOUT = """A new interpreter imports both clients, against one that imports what they need. The
targets are for the importing thread and for wall time: for a few ten ms numpy's OpenBLAS, which
pyarrow imports, spins in threads of its own; how much of that is measured is chance."""

THEIRS: Final = "confluent-kafka and pyarrow"
IMPORTS: Final = {
    OURS: "from columnar_kafka import Consumer, Producer",
    THEIRS: "from confluent_kafka import Consumer, Producer; import pyarrow",
}
AT_MOST: Final = 1.3
_SCRIPT: Final = """
import json, sys, time
clocks = time.process_time, time.thread_time, time.perf_counter
began = [clock() for clock in clocks]
{}
print(json.dumps([[clock() - then for clock, then in zip(clocks, began)], len(sys.modules)]))
"""


def answer(bench: Bench) -> Answer:
    """Import in turn, in a new process each time."""
    found = Answer()
    costs: dict[str, list[Cost]] = {who: [] for who in IMPORTS}
    modules = {who: _imported(who)[1] for who in IMPORTS}  # and compiles what is not yet
    for _ in range(bench.rounds):
        for who, rounds in costs.items():
            rounds.append(_imported(who)[0])
    found.add_costs("", costs, 1)
    for who, count in modules.items():
        found.add("", who, "modules", count)
    for metric in THREAD, WALL:
        share = ratios(found.values("", OURS, metric), found.values("", THEIRS, metric))
        found.limit(f"{metric}: ours / {THEIRS}", share, AT_MOST, "×")
    return found


def _imported(who: str) -> tuple[Cost, int]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _SCRIPT.format(IMPORTS[who])]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times, modules = json.loads(run.stdout)
    return Cost(*times), modules
