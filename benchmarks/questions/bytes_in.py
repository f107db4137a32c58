"""What do JSON and Avro cost that a service has serialized, and hands to `produce` as bytes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import CPU, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import OURS_AVRO, OURS_JSON, READY, READY_AVRO
from benchmarks.measured import ratios
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Bytes that become columns, a record"
ABOUT = """JSON that orjson has made before, and Avro that fastavro has, with a registry's five
bytes; bare, from the first `produce` until the last is reported: with `columnar.value.format`, and
by confluent-kafka, which sends them as they are. The bytes are those in the broker's log."""

IS_LONG = False
MOST: Final = {"flights": 0.6, "narrow": 0.6, "log": 0.8, "nested": 0.8}
MOST_BYTES: Final = 0.65
BYTES: Final = "bytes in the log"


def answer(bench: Bench) -> Answer:
    """Produce every set in both formats, and compare what it costs."""
    results = Answer()
    for name, most in MOST.items():
        _produce(bench, results, name, (OURS_JSON, READY))
        for metric, at_most in ((CPU, most), (BYTES, MOST_BYTES)):
            ours, stock = (results.values(name, who, metric) for who in (OURS_JSON, READY))
            what = f"{name}: {metric}, {OURS_JSON} / {READY}"
            results.limit(what, ratios(ours, stock), at_most, "×")
        _produce(bench, results, name, (OURS_AVRO, READY_AVRO))
    return results


def _produce(bench: Bench, results: Answer, name: str, who: tuple[str, str]) -> None:
    bench.say(f"{name}, {who[0]}")
    rows = bench.rows(data.load(name).rows)
    start = {one: Child(Sending, one, name, bench.servers, rows) for one in who}
    with Children(start) as children:
        topics = {one: bench.topic() for one, _ in children}
        costs = children.rounds(bench.rounds, "send", False, False, first=topics)
        children.together("check", False, first=topics)
    results.add_costs(name, costs, rows)
    for one, topic in topics.items():
        results.add(name, one, BYTES, bench.log_bytes(topic) / rows / (bench.rounds + 1))
    bench.drop(*topics.values())
