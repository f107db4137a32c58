"""What does a record cost on a topic of several types of events?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.answer import Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import FASTAVRO, OURS
from benchmarks.reading import CONSUME, Reading
from benchmarks.sending import Sending

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Events of three types, a record"
IS_LONG = False
ABOUT = """One topic whose schema is an Avro union of three records, interleaved: rows as dicts of
which each fits one of the three, produced bare and fresh, and read back by `consume`, in the order
in which they were produced. fastavro has one datum a message."""

SET: Final = "events"
WHO: Final = (OURS, FASTAVRO)
PRODUCED: Final = 5.0
CONSUMED: Final = 5.0


def answer(bench: Bench) -> Answer:
    """Produce the events, and read them back."""
    results = Answer()
    rows = bench.rows(data.load(SET).rows)
    with Children({who: Child(Sending, who, SET, bench.servers, rows) for who in WHO}) as senders:
        case = "produce"
        bench.say(case)
        topics = {who: bench.topic() for who in WHO}
        results.add_costs(
            case, senders.rounds(bench.rounds, "send", True, False, first=topics), rows
        )
        senders.together("check", False, first=topics)
        results.compare(case, FASTAVRO, at_least=PRODUCED)
        bench.drop(*topics.values())
        topics = {who: bench.topic() for who in WHO}
        senders.each("send", False, False, first=topics)
    with Children({who: Child(Reading, who, SET, bench.servers, rows) for who in WHO}) as readers:
        case = "consume"
        bench.say(case)
        readers.together("check", CONSUME, first=topics)
        results.add_costs(case, readers.rounds(bench.rounds, "read", CONSUME, first=topics), rows)
        results.compare(case, FASTAVRO, at_least=CONSUMED)
    bench.drop(*topics.values())
    return results
