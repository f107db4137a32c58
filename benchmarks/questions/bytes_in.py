"""What does JSON cost that a service has serialized, and hands to `produce` as bytes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import CPU, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import OURS_JSON, READY
from benchmarks.measured import ratios
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Bytes that become columns, a record"
ABOUT = """JSON that orjson has made before, bare, from the first `produce` until the last is
reported: with `columnar.value.format=json`, and by confluent-kafka, which sends it as it is. The
bytes are those in the broker's log."""

IS_LONG = False
MOST: Final = {"flights": 0.6, "narrow": 0.6, "log": 0.8, "nested": 0.8}
MOST_BYTES: Final = 0.65
BYTES: Final = "bytes in the log"


def answer(bench: Bench) -> Answer:
    """Produce every set, and compare what it costs."""
    results = Answer()
    for name, most in MOST.items():
        bench.say(name)
        rows = bench.rows(data.load(name).rows)
        start = {who: Child(Sending, who, name, bench.servers, rows) for who in (OURS_JSON, READY)}
        with Children(start) as children:
            topics = {who: bench.topic() for who, _ in children}
            costs = children.rounds(bench.rounds, "send", False, False, first=topics)
            children.together("check", False, first=topics)
        results.add_costs(name, costs, rows)
        for who, topic in topics.items():
            results.add(name, who, BYTES, bench.log_bytes(topic) / rows / (bench.rounds + 1))
        bench.drop(*topics.values())
        for metric, at_most in ((CPU, most), (BYTES, MOST_BYTES)):
            ours, stock = (results.values(name, who, metric) for who in (OURS_JSON, READY))
            what = f"{name}: {metric}, {OURS_JSON} / {READY}"
            results.limit(what, ratios(ours, stock), at_most, "×")
    return results
