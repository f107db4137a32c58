"""A topic of damaged and malicious segments, read by one consumer whose memory is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hostile

if TYPE_CHECKING:
    from collections.abc import Callable

FLIPS, MUTATIONS = 80_000, 10_000
MOST_BYTES = 512 * hostile.MIB


def run(*arguments: str | Path) -> Any:
    """Run a Python program that can import what this one can; return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_peak_memory_is_not_that_of_the_process_that_started_it() -> None:
    ballast = b"x" * MOST_BYTES
    assert run("-c", "import hostile; print(hostile.peak_bytes())") < len(ballast)


def test_damage_harms_only_itself(record_property: Callable[[str, object], None]) -> None:
    """Every case lies between two good segments, which are read completely.

    A damaged segment is reported once, as a whole, or all of its rows are read as they were before
    the damage (which is then in bytes that nobody reads).
    """
    result = run(Path(hostile.__file__), str(FLIPS), str(MUTATIONS))
    total = {"neighbours": 0, "reported": 0, "harmless": 0, "wrong": 0}
    for damage, counts in result["outcomes"].items():
        record_property(damage, counts)
        for name, count in counts.items():
            total[name] += count
    record_property("peak MiB", result["peak"] // hostile.MIB)
    cases = FLIPS + MUTATIONS + len(hostile.BOMBS)
    assert total["wrong"] == 0
    assert total["reported"] + total["harmless"] == cases
    assert total["neighbours"] == cases + len(result["outcomes"])
    for compression in ("zstd", "none"):
        assert result["outcomes"][f"flips, {compression}, old checksum"]["reported"] == FLIPS // 4
    assert result["outcomes"]["bombs"]["reported"] == len(hostile.BOMBS)
    assert result["peak"] <= MOST_BYTES
