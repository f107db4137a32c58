"""What does a row cost that is landed from Kafka as Parquet?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import confluent_kafka
import orjson

from benchmarks import data
from benchmarks.answer import CPU, WALL, Answer
from benchmarks.child import Child, Children
from benchmarks.competitors import FASTAVRO, ORJSON, OURS, OURS_AVRO, OURS_JSON
from benchmarks.competitors.base import connection
from benchmarks.landing import Ingesting, InOneProcess, OnSpark
from benchmarks.sending import send_repeatedly
from columnar_kafka.ingest import Decoding, Rules
from columnar_kafka.plain import Lenient

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Landing, a row"
IS_LONG = True
ABOUT = """The same flights in three topics of one partition: our segments of 10,000 rows, and a
message a row of orjson's JSON and of fastavro's Avro, all with zstd. Each process lands its topic
in a directory of Parquet files with zstd, which is read and compared with what was sent. The CPU
is that of the process and of all that it has started, Spark's Java included; a µs a row is a
second a million rows. It is that of a *further* row: what landing all rows takes, less what
landing the first 10,000 takes. The last column is the latter, which has connecting, planning and
committing. *headers* and *pages* are `--verify`; *pure* is without the native core; *plain*
messages are those of the others, landed by `--plain decode`; *lenient* ones by `--plain-fields
lenient`, and *differing* ones have an unknown field in every tenth row besides. *From JSON* and
*from Avro* are segments too, of bytes that a producer with `columnar.value.format` was given, with
`--verify pages`. Spark runs a batch
query, which takes less than a stream, and has landed everything four times before the first round.
The others decode and write 100,000 rows at a time."""

ROWS: Final = 100_000
TIMES: Final = 10
CASE: Final = "flights"
HEADERS, PAGES, PURE = "ours, headers", "ours, pages", "ours, pages, pure"
PLAIN_JSON, PLAIN_AVRO = "ours, plain JSON", "ours, plain Avro"
LENIENT, DIFFERING = "ours, lenient JSON", "ours, differing JSON"
OF_JSON, OF_AVRO = "ours, from JSON", "ours, from Avro"
FROM_JSON, FROM_AVRO = "Spark from_json", "Spark from_avro"
JSON: Final = "pyarrow.json"
THEIRS: Final = {
    FROM_JSON: (OnSpark, "json", ORJSON),
    FROM_AVRO: (OnSpark, "avro", FASTAVRO),
    "fastavro": (InOneProcess, "fastavro", FASTAVRO),
    JSON: (InOneProcess, "pyarrow.json", ORJSON),
    "pyruhvro": (InOneProcess, "pyruhvro", FASTAVRO),
}
TARGETS: Final[dict[str, dict[str, float | None]]] = {
    HEADERS: {FROM_JSON: 85, FROM_AVRO: 45, "fastavro": 170, JSON: 42, "pyruhvro": 21},
    PAGES: {FROM_JSON: 40, FROM_AVRO: 20, "fastavro": 80, JSON: 18, "pyruhvro": 9},
    PURE: dict.fromkeys(THEIRS),
    OF_JSON: {PAGES: 1},
    OF_AVRO: {PAGES: 1},
    PLAIN_JSON: {FROM_JSON: 3.4, JSON: None},
    LENIENT: {PLAIN_JSON: 1 / 1.1, FROM_JSON: 3},
    DIFFERING: {PLAIN_JSON: 1 / 1.3},
    PLAIN_AVRO: {FROM_AVRO: 2.5, "pyruhvro": 1, "fastavro": None},
}
SEGMENTS: Final = (OURS, OURS_JSON, OURS_AVRO)
MOST_PLAIN: Final = {PLAIN_JSON: 1.5, PLAIN_AVRO: 0.9}
FEW: Final = "the first 10,000, CPU ms"
WARM_UPS: Final = 2  # besides the round that is dropped


def answer(bench: Bench) -> Answer:
    """Send the rows once in each format, and land each topic in turn."""
    results = Answer()
    rows, times = bench.rows(ROWS), 2 if bench.short else TIMES
    topics = {who: bench.topic() for who in (*SEGMENTS, ORJSON, FASTAVRO)}
    ends = {who: _fill(bench, who, topic, rows, times) for who, topic in topics.items()}
    topics[DIFFERING] = bench.topic()
    ends[DIFFERING] = ends[ORJSON]
    _fill_differing(bench.servers, topics[DIFFERING], rows, times)
    own = {HEADERS: OURS, PAGES: OURS, PURE: OURS, PLAIN_JSON: ORJSON, PLAIN_AVRO: FASTAVRO}
    own |= {LENIENT: ORJSON, DIFFERING: DIFFERING, OF_JSON: OURS_JSON, OF_AVRO: OURS_AVRO}
    places = own | {who: sender for who, (_, _, sender) in THEIRS.items()}
    with Children(_start(bench, topics)) as children:
        bench.say("the rows that land")
        for who, child in children:
            child.call("check", ends[places[who]][1], rows, times)
        for _ in range(WARM_UPS):
            for who, child in children:
                bench.say(f"{who}, warming up")
                child.call("measure", ends[places[who]])
        first = {who: ends[place] for who, place in places.items()}
        bench.say("landing")
        costs = children.rounds(bench.rounds, "measure", first=first)
    for who, rounds in costs.items():
        results.add(CASE, who, CPU, [landed.cpu for landed in rounds])
        results.add(CASE, who, WALL, [landed.wall for landed in rounds])
        results.add(CASE, who, FEW, [landed.few.cpu * 1e3 for landed in rounds])
    for us, targets in TARGETS.items():
        for them, target in targets.items():
            results.compare(CASE, them, CPU, at_least=target, us=us)
    for who, most in MOST_PLAIN.items():
        results.limit(f"{CASE}: {CPU}, {who}", results.values(CASE, who, CPU), most, "µs")
    bench.drop(*topics.values())
    return results


def _fill(bench: Bench, who: str, topic: str, rows: int, times: int) -> tuple[int, int]:
    """Send the rows; return the offsets after the first 10,000 of them, and after all."""
    end = send_repeatedly(bench, who, CASE, topic, rows, times)
    return 1 if who in SEGMENTS else min(rows, data.load(CASE).segment_rows), end


def _fill_differing(servers: str, topic: str, rows: int, times: int) -> None:
    """Send the rows as JSON, every tenth one with one more field."""
    values = [
        orjson.dumps({**row, "note": "diverted"} if number % 10 == 0 else row)
        for number, row in enumerate(data.load(CASE).block(rows, fresh=False))
    ]
    producer = confluent_kafka.Producer({**connection(servers), "compression.type": "zstd"})
    for _ in range(times):
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=0)
            if not number % 1_000:
                producer.flush()
    producer.flush()


def _start(bench: Bench, topics: dict[str, str]) -> dict[str, Child]:
    servers, avro = bench.servers, data.load(CASE).avro
    headers, pages = Rules(verify="headers"), Rules(verify="pages")
    pure = {"COLUMNAR_KAFKA_NATIVE": "0"}
    as_json, as_avro = (
        Rules(plain="decode", decoding=Decoding(form, avro)) for form in ("json", "avro")
    )
    lenient = Rules(plain="decode", decoding=Decoding("json", avro, lenient=Lenient()))
    start = {
        HEADERS: Child(Ingesting, headers, servers, topics[OURS]),
        PAGES: Child(Ingesting, pages, servers, topics[OURS]),
        PURE: Child(Ingesting, pages, servers, topics[OURS], environment=pure),
        OF_JSON: Child(Ingesting, pages, servers, topics[OURS_JSON]),
        OF_AVRO: Child(Ingesting, pages, servers, topics[OURS_AVRO]),
        PLAIN_JSON: Child(Ingesting, as_json, servers, topics[ORJSON]),
        LENIENT: Child(Ingesting, lenient, servers, topics[ORJSON]),
        DIFFERING: Child(Ingesting, lenient, servers, topics[DIFFERING]),
        PLAIN_AVRO: Child(Ingesting, as_avro, servers, topics[FASTAVRO]),
    }
    for who, (make, how, sender) in THEIRS.items():
        start[who] = Child(make, how, servers, topics[sender])
    return start
