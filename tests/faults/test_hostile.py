"""A topic of damaged and malicious segments, read by one consumer whose memory is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hostile

if TYPE_CHECKING:
    from collections.abc import Callable

FLIPS, MUTATIONS = 80_000, 10_000
MOST_BYTES = 512 * hostile.MIB


def test_damage_harms_only_itself(record_property: Callable[[str, object], None]) -> None:
    """Each case lies between two good segments, which are read whole.

    Of a damaged segment no row is handed out that is not one of its original, which is one with
    all its rows (the damage is where nobody looks); else it is reported, once.
    """
    done = subprocess.run(
        [sys.executable, Path(hostile.__file__), str(FLIPS), str(MUTATIONS)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    outcome = json.loads(done.stdout)
    total = {"neighbours": 0, "reported": 0, "harmless": 0, "wrong": 0}
    for kind, counts in outcome["found"].items():
        record_property(kind, counts)
        for name, count in counts.items():
            total[name] += count
    record_property("peak MiB", outcome["peak"] // hostile.MIB)
    cases = FLIPS + MUTATIONS + len(hostile.BOMBS)
    assert total["wrong"] == 0
    assert total["reported"] + total["harmless"] == cases
    assert total["neighbours"] == cases + len(outcome["found"])
    for compression in ("zstd", "none"):
        assert outcome["found"][f"flips, {compression}, checksum"]["reported"] == FLIPS // 4
    assert outcome["found"]["bombs"]["reported"] == len(hostile.BOMBS)
    assert outcome["peak"] <= MOST_BYTES
