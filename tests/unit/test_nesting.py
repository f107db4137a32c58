"""Records of any schema are read by every reader; tests/faults has trees four levels deep."""

from __future__ import annotations

import nesting
import pytest
from support import examples

TRIALS = examples(48)
FIRST = 1_000_012  # from here on 12 trials have all ways to produce, and both clients


@pytest.mark.long
def test_every_reader_reads_what_was_produced() -> None:
    outcome = nesting.main(TRIALS, FIRST)
    assert (outcome["trials"], outcome["wrong"]) == (TRIALS, [])
