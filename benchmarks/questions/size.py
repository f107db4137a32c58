"""How many bytes does a record take in the broker's log, by the rows of a segment or batch?"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import FASTAVRO, ORJSON, OURS, OURS_AS_IT_IS
from benchmarks.measured import Claim
from benchmarks.segment_parts import parts
from benchmarks.sending import Sending, first_value

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Size against rows, bytes a record"
IS_LONG = False
ABOUT = """The bytes of the broker's log. The compared batches are librdkafka's own, with zstd,
and have as many rows as the segments. Each is measured once: only those of the smallest segments
vary, with how many share a batch of librdkafka's. *Full* has a key, a header and a time. The
targets are geometric means over the sets, and for each set what it was before the native core. By
default librdkafka compresses whole messages: headers, footers, a key that is also a column. With
`compression.type=none` it sends them as they are."""

WAYS: Final = (OURS, OURS_AS_IT_IS)
WHO: Final = (*WAYS, ORJSON, FASTAVRO)
METRIC, FILE_METRIC = "bytes", "bytes of the file"
BARE_MEAN, FULL_MEAN = 0.60, 0.53
BEFORE: Final = {"flights": 0.63, "narrow": 0.55, "log": 0.68, "nested": 0.51, "wide": 0.80}
SIZES: Final = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
SHOWN: Final = (1, 10, 100, 300)
MOST_BATCHES: Final = 50
ONE_RECORD: Final = 3_300.0
CROSSING_ROWS: Final = 35.0
_LINGER_MS: Final = 60_000.0


def answer(bench: Bench) -> Answer:
    """Measure every set with the rows of its segments, and flights with any number."""
    results = Answer()
    shares: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for name in data.NAMES:
        rows = bench.rows(data.load(name).segment_rows)
        with Children(
            {who: Child(Sending, who, name, bench.servers, rows) for who in WHO}
        ) as children:
            for full in (False, True):
                case = f"{name}, {'full' if full else 'bare'}, {rows:,} rows"
                sizes = _sizes(bench, results, case, children, rows, rows, full=full)
                for who in WAYS:
                    shares[who, full].append(sizes[who] / sizes[FASTAVRO])
        results.limit(f"{name}, bare: ours / Avro", shares[OURS, False][-1:], BEFORE[name], "×")
    for full, bound in ((False, BARE_MEAN), (True, FULL_MEAN)):
        what = f"all sets, {'full' if full else 'bare'}"
        results.limit(f"{what}: ours / Avro", [_mean(shares[OURS, full])], bound, "×")
        share = 1 / _mean(shares[OURS_AS_IT_IS, full])
        results.claims.append(Claim(f"{what}: Avro / {OURS_AS_IT_IS}", (share,)))
    most = bench.rows(SIZES[-1])
    with Children(
        {who: Child(Sending, who, "flights", bench.servers, most) for who in WHO}
    ) as children:
        _crossing(bench, results, children, most)
    return results


def _mean(shares: list[float]) -> float:
    return math.prod(shares) ** (1 / len(shares))


def _crossing(bench: Bench, results: Answer, children: Children, most: int) -> None:
    lines: dict[str, list[tuple[float, float]]] = {who: [] for who in WHO}
    for size in (size for size in SIZES if size <= most):
        rows = size * min(MOST_BATCHES, most // size)
        sizes = _sizes(bench, results, f"flights, {size:,} rows", children, rows, size, full=False)
        for who, value in sizes.items():
            lines[who].append((size, value))
    results.limit(
        f"one flight as a segment, {OURS_AS_IT_IS}",
        [lines[OURS_AS_IT_IS][0][1]],
        ONE_RECORD,
        "bytes",
    )
    rows = crossing(lines[OURS], lines[FASTAVRO])
    results.limit("smaller than Avro's batches from", [rows], CROSSING_ROWS, "rows")
    what = f"{OURS_AS_IT_IS}: smaller than Avro's batches from"
    rows = crossing(lines[OURS_AS_IT_IS], lines[FASTAVRO])
    results.claims.append(Claim(what, (rows,), unit="rows"))


def crossing(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> float:
    """Return from which x on our line is below theirs: between two points, on logarithmic axes."""
    place = math.inf
    before: tuple[float, float] | None = None
    for (x, our), (_, their) in zip(ours, theirs, strict=True):
        gap = math.log(our / their)
        if gap <= 0 and place == math.inf:
            place = x
            if before is not None:
                share = before[1] / (before[1] - gap)
                place = math.exp(math.log(before[0]) + share * math.log(x / before[0]))
        elif gap > 0:
            place = math.inf
        before = (x, gap)
    return place


def _sizes(
    bench: Bench,
    results: Answer,
    case: str,
    children: Children,
    rows: int,
    batch: int,
    *,
    full: bool,
) -> dict[str, float]:
    bench.say(case)
    topics = {who: bench.topic() for who in WHO}
    children.each("connect", batch, _LINGER_MS, rows, first=topics)
    children.each("send", False, full, first=topics)
    children.together("check", full, first=topics)
    sizes = {who: bench.log_bytes(topic) / rows for who, topic in topics.items()}
    for who, value in sizes.items():
        results.add(case, who, METRIC, value)
    if batch in SHOWN:
        for part, nbytes in parts(first_value(bench.servers, topics[OURS])).items():
            results.add(case, f"{OURS}, {part}", FILE_METRIC, nbytes)
    share = sizes[FASTAVRO] / sizes[OURS]
    results.claims.append(Claim(f"{case}: {FASTAVRO} / {OURS}", (share,)))
    return sizes
