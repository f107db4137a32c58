"""Rows, signals and garbage bring code along: each record is reported once all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import is_long

PROGRAM = Path(__file__).with_name("code_in_values.py")
ROOT = Path(__file__).parents[2]
ROWS = 200_000 if is_long() else 20_000
SEEDS = range(4)


def check(python: str, rows: int, seed: int, **settings: str) -> dict[str, Any]:
    """Run the program with a Python; return what it found."""
    done = subprocess.run(
        [python, PROGRAM, str(rows), str(seed)],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    right = ("unreported", "twice", "refused and reported", "panics")
    assert [outcome[name] for name in right] == [0] * len(right), outcome
    assert (outcome["reached"], outcome["unexpected"]) == (outcome["raised"], []), outcome
    assert outcome["rows"] >= rows
    return outcome


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_reported_once_and_every_exception_reaches_the_caller(
    seed: int, record_property: Any
) -> None:
    outcome = check(sys.executable, ROWS // len(SEEDS), seed)
    assert outcome["raised"] > 0
    record_property("code in values", outcome)


NEWER = ROOT / ".venv-3.13/bin/python"


@pytest.mark.skipif(not NEWER.exists(), reason="it needs .venv-3.13: make newer-python")
@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_newer_python_too(seed: int, record_property: Any) -> None:
    """From 3.12 on, the garbage collector runs where signals are looked for."""
    outcome = check(str(NEWER), ROWS // len(SEEDS), seed)
    assert outcome["native"]
    record_property("code in values", outcome)
