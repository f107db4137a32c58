"""What does a record cost that is consumed: as a dict, in an Arrow table, as bytes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import confluent_kafka
import pyarrow.compute as pc
from confluent_kafka import TopicPartition

import columnar_kafka
from benchmarks import data
from benchmarks.answer import CPU, WALL, Answer
from benchmarks.child import Child, Children, Clock, Cost
from benchmarks.competitors import FASTAVRO, ORJSON, OURS, PYRUHVRO
from benchmarks.competitors.base import READ_AGAIN, SECONDS, consumer_config
from benchmarks.reading import CONSUME, POLL, TABLES, Reading
from benchmarks.sending import Sending, end_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench

TITLE = "Consuming, a record"
IS_LONG = False
ABOUT = """From the assignment until the last record, so all fetching counts: `poll` and its
value, `consume` of 1,000 messages and their values, `consume_arrow` against `consume` and
pyruhvro, and segments whose bytes are read only. *Some* are flights of which two of 19 columns
are read, or which a filter selects by Parquet statistics (one segment of them all). Each round
reads again with the same consumer; `fetch.wait.max.ms` is 10, or it would wait for the end of the
fetch before."""

POLLED: Final = {"flights": 1.5, "nested": 1.0}
CONSUMED: Final = {"flights": 3.0, "nested": 1.0}
AGAINST_FASTAVRO: Final = 8.0
AGAINST_PYRUHVRO: Final = {"flights": 8.0}
SENT_BY: Final = {OURS: OURS, ORJSON: ORJSON, FASTAVRO: FASTAVRO, PYRUHVRO: FASTAVRO}
ALL_OF_IT, TWO, FILTERED = "ours, all columns", "ours, 2 columns", "ours, filtered"


def answer(bench: Bench) -> Answer:
    """Read every set in three ways, and flights in all."""
    found = Answer()
    for name in data.NAMES:
        rows = bench.rows(data.load(name).rows)
        topics = _fill(bench, name, rows)
        start = {who: Child(Reading, who, name, bench.servers, rows) for who in SENT_BY}
        read = {who: topics[by] for who, by in SENT_BY.items()}
        with Children(start) as children:
            for way, who in (
                (POLL, (OURS, ORJSON)),
                (CONSUME, (OURS, ORJSON, FASTAVRO)),
                (TABLES, (OURS, PYRUHVRO)),
            ):
                case = f"{name}, {_NAMES[way]}"
                bench.say(case)
                readers = children.only(who)
                readers.together("check", way, first=read)
                found.add_costs(case, readers.rounds(bench.rounds, "read", way, first=read), rows)
        _compare(found, name)
        if name == "flights":
            _undecoded(bench, found, topics[OURS], rows)
        bench.drop(*topics.values())
    return found


_NAMES: Final = {POLL: "poll", CONSUME: "consume", TABLES: "consume_arrow"}


def _compare(found: Answer, name: str) -> None:
    found.compare(f"{name}, poll", ORJSON, at_least=POLLED.get(name))
    found.compare(f"{name}, consume", ORJSON, at_least=CONSUMED.get(name))
    against = AGAINST_FASTAVRO if name == "flights" else None
    found.compare(f"{name}, consume", FASTAVRO, at_least=against)
    against = AGAINST_PYRUHVRO.get(name)
    found.compare(f"{name}, consume_arrow", PYRUHVRO, at_least=against)
    found.compare(f"{name}, consume_arrow", PYRUHVRO, WALL)


def _fill(bench: Bench, name: str, rows: int) -> dict[str, str]:
    """Send the rows once in each format."""
    topics = {who: bench.topic() for who in set(SENT_BY.values())}
    start = {who: Child(Sending, who, name, bench.servers, rows) for who in topics}
    with Children(start) as children:
        children.each("send", False, False, first=topics)
        children.together("check", False, first=topics)
    return topics


# --- what is not decoded, or not all of it --------------------------------------------------------


class Undecoded:
    """Reads segments without making rows of them; lives in a child."""

    def __init__(self, how: str, servers: str, topic: str) -> None:
        is_stock, config, self._take = _HOW[how]
        cls: Any = confluent_kafka.Consumer if is_stock else columnar_kafka.Consumer
        self._consumer = cls(consumer_config(servers) | READ_AGAIN | config)
        self._consumer.list_topics(topic, SECONDS)
        self._topic, self._messages = topic, end_of(servers, topic)

    def read(self) -> Cost:
        """Measure one round."""
        clock = Clock()
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        self._take(self._consumer, self._messages)
        cost = clock.stop()
        self._consumer.unassign()
        return cost


def _values(consumer: Any, count: int) -> None:
    for _ in range(count):
        if not consumer.poll(SECONDS).value():
            raise AssertionError("a segment is empty")


def _segments(consumer: Any, count: int) -> None:
    for _ in range(count):
        if not consumer.poll_segment(SECONDS).bytes:
            raise AssertionError("a segment is empty")


_PARQUET: Final = {"columnar.encoding": "parquet"}
_HOW: Final[dict[str, tuple[bool, dict[str, Any], Callable[[Any, int], None]]]] = {
    "confluent-kafka": (True, {}, _values),
    "ours, fetch.raw.bytes": (False, {**_PARQUET, "fetch.raw.bytes": True}, _values),
    "ours, poll_segment": (False, _PARQUET, _segments),
}


class Partly:
    """Reads some columns or rows of the flights into tables; lives in a child."""

    def __init__(self, how: str, servers: str, topic: str, rows: int) -> None:
        flights = data.load("flights").block(rows, fresh=False)
        self._last = flights[-1]["time_hour"]
        late = sum(row["time_hour"] >= self._last for row in flights)
        self._rows = late if how == FILTERED else rows
        self._how, self._topic = how, topic
        self._consumer = columnar_kafka.Consumer(consumer_config(servers) | READ_AGAIN | _PARQUET)
        self._consumer.list_topics(topic, SECONDS)

    def read(self) -> Cost:
        """Measure one round, until all rows that are wanted were there."""
        selected: dict[str, Any] = {
            ALL_OF_IT: {},
            TWO: {"columns": ["carrier", "arr_delay"]},
            FILTERED: {"filter": pc.field("time_hour") >= self._last},
        }[self._how]
        found = 0
        clock = Clock()
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        while found < self._rows:
            left = self._rows - found
            found += self._consumer.consume_arrow(left, SECONDS, **selected).num_rows
        cost = clock.stop()
        self._consumer.unassign()
        return cost


def _undecoded(bench: Bench, found: Answer, topic: str, rows: int) -> None:
    case = "flights, undecoded"
    bench.say(case)
    with Children({how: Child(Undecoded, how, bench.servers, topic) for how in _HOW}) as children:
        found.add_costs(case, children.rounds(bench.rounds, "read"), rows)
    for us in list(_HOW)[1:]:
        found.compare(case, "confluent-kafka", CPU, us=us)
    case = "flights, some"
    bench.say(case)
    ways = (ALL_OF_IT, TWO, FILTERED)
    start = {how: Child(Partly, how, bench.servers, topic, rows) for how in ways}
    with Children(start) as children:
        found.add_costs(case, children.rounds(bench.rounds, "read"), rows)
