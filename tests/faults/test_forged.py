"""Forged segments among good ones: what is found before it lands, and whom the rest harms."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import forged
import parquet_readers

from columnar_kafka import Segment, SegmentError, native
from columnar_kafka.lake.stitching.stitch import stitch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 300
SHARES = {"pages": 0.94 if native.enabled else 0.85, "decode": 0.97}
"""A scan by Arrow looks at no text."""


def passes(of: forged.Sent, how: Any) -> bool:
    segment = Segment(topic="t", partition=0, offset=0, headers=of.headers(), value=of.value)
    try:
        segment.verify(how)
    except SegmentError:
        return False
    return True


def test_what_other_readers_refuse_is_found_before_it_lands(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Each forged segment lies between two good ones in a stitched file for three readers."""
    good = forged.originals()["ours", "none"]
    cases, kinds = {}, {}
    for number, (kind, case) in enumerate(forged.forged(COUNT)):
        assert passes(case, "headers"), kind
        path = tmp_path / f"{number}.parquet"
        with path.open("wb") as sink:
            stitch([good.value, case.value, good.value], sink, metadata={})
        cases[str(path)], kinds[str(path)] = case, kind
    refused: set[str] = set()
    for reader in parquet_readers.READERS:
        outcomes = parquet_readers.read(reader, list(cases))
        refused |= {path for path, rows in outcomes.items() if rows != str(3 * forged.ROWS)}
        record_property(f"refused by {reader}", dict(Counter(outcomes.values())))
    assert len(refused) > COUNT // 2
    for how, share in SHARES.items():
        passed = [path for path in refused if passes(cases[path], how)]
        record_property(f"passes {how}", dict(Counter(kinds[path] for path in passed)))
        assert len(refused) - len(passed) >= share * len(refused)
