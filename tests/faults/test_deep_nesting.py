"""Records of any schema, as deep as four levels, are read by every reader as they were produced."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nesting
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

TRIALS = 20_000
TESTS, PROCESSES = 4, 2
EACH = TRIALS // TESTS // PROCESSES


@pytest.mark.parametrize("part", range(TESTS))
def test_what_was_produced_is_read(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    """Each trial has a seed, so that `nesting.trial` shows again what it has shown here."""
    seeds = range(part * EACH * PROCESSES, (part + 1) * EACH * PROCESSES, EACH)
    running = [
        subprocess.Popen(
            [sys.executable, Path(nesting.__file__), str(EACH), str(seed)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in seeds
    ]
    try:
        outcomes = [json.loads(process.communicate()[0]) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    trials = sum(outcome["trials"] for outcome in outcomes)
    record_property("trials", trials)
    record_property("seconds", max(outcome["seconds"] for outcome in outcomes))
    assert [outcome["wrong"] for outcome in outcomes] == [[]] * PROCESSES
    assert trials == TRIALS // TESTS
