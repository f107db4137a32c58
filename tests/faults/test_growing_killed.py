"""Objects whose shapes drift, landed by two processes that have one table grow, and are killed."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pyarrow.parquet as pq
import pytest
from drifting import comparable
from ingesting import GROWING_POINTS, Job
from lakes import DeltaLake, DirectoryLake, IcebergLake
from support import by_profile

from columnar_kafka.ingest import Decoding, Infer, verify_topic
from columnar_kafka.plain import Lenient, restored
from columnar_kafka.schema.kept import from_kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.local import LocalKafka

pytestmark = pytest.mark.kafka

PARTITIONS = 4
KILLS = 10
DECODING = Decoding("json", Infer(messages=200), lenient=Lenient(unknown="grow"))


@dataclass(frozen=True)
class Size:
    """What a topic has, and how many bytes of it make a commit."""

    rows: int
    roll_bytes: int


SIZE = by_profile(Size(rows=12_000, roll_bytes=40_000), Size(rows=300_000, roll_bytes=400_000))


def drifting(number: int) -> dict[str, Any]:
    """Return one of the objects: the fields that are usual at its time, and others seldom."""
    rng = random.Random(number)
    age = 60 * number // SIZE.rows
    message: dict[str, Any] = {"n": number}
    for _ in range(rng.randint(0, 4)):
        field = age + rng.randint(0, 5)
        message[f"f{field}"] = value_of(field if rng.random() < 0.95 else rng.randint(0, 9), rng)
    return message


def value_of(field: int, rng: random.Random) -> Any:
    """Return a value that a field has, by its number; some are of two types."""
    return rng.choice(
        [
            [7, -(2**40), 0],
            ["a", "é", ""],
            [0.5, 2.25, 10],
            [True, False, None],
            [{"x": 1}, {"x": 2, f"y{rng.randint(0, field)}": "z"}, {}],
            [[1, 2], [], [None]],
            [[{"k": "v"}], [{"k": "w", f"m{rng.randint(0, field)}": 1}, {}]],
            [{"1": 1, f"{rng.randint(0, 10**6)}": 2}],
            [1, "one", [1]],
            [10**30, 1],
        ][field % 10]
    )


@pytest.fixture(scope="module")
def filled(kafka: LocalKafka) -> str:
    """Return the name of a topic with all objects, in the order of their numbers."""
    name = "drifting"
    kafka.create_topic(name, PARTITIONS, {"retention.ms": "-1"})
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "queue.buffering.max.messages": 10**7}
    )
    for number in range(SIZE.rows):
        text = json.dumps(drifting(number))
        producer.produce(name, text, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()
    return name


@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake, IcebergLake])
def test_each_message_lands_once_with_all_that_it_has(
    kafka, filled, tmp_path, record_property, kind: Any
) -> None:
    """And there is no more than one change of schema a commit, or a process that was killed."""
    lake = kind(tmp_path / "lake")
    jobs = [
        Job(
            lake=lake,
            servers=kafka.bootstrap_servers,
            topic=filled,
            partitions=partitions,
            roll_bytes=SIZE.roll_bytes,
            decoding=DECODING,
        )
        for partitions in ((0, 1), (2, 3))
    ]
    killed: Counter[str] = Counter()
    for number in range(KILLS // 2):
        points = GROWING_POINTS[2 * number : 2 * number + 2]
        at = 2 if number else 1  # only the first may come to keep the first schema
        armed = [
            job.armed(point, at, tmp_path / f"{number} {point}")
            for job, point in zip(jobs, points, strict=True)
        ]
        for (process, orders), point in zip(armed, points, strict=True):
            process.join()
            killed[point] += orders.killed() == [point]
            assert process.exitcode == -signal.SIGKILL, (point, process.exitcode)
    together = [job.started() for job in jobs]
    for process in together:
        process.join()
    assert [process.exitcode for process in together] == [0, 0]
    record_property("killed", dict(killed))
    schema = from_kept(lake.table().kept_schema())
    numbers: list[int] = []
    columns = Counter[str]()
    for row in rows(lake):
        columns.update(name for name, value in row.items() if value is not None)
        message = restored(row, schema)
        numbers.append(message["n"])
        assert comparable(message) == comparable(drifting(message["n"]))
    assert sorted(numbers) == list(range(SIZE.rows))
    record_property("rests", f"{columns['_rest']} of {SIZE.rows}")
    record_property("columns", len(schema.arrow))
    changes, commits = changes_of(lake)
    record_property("changes", f"{changes} in {commits} commits")
    assert 5 < changes <= commits + KILLS
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    report = verify_topic(config, filled, lake.table(), decoding=DECODING)
    assert (report.findings, report.decoded) == ([], SIZE.rows)


def rows(lake: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, each file's for themselves: they have columns of their own."""
    if isinstance(lake, DirectoryLake):
        for file in lake.root.glob("[!_]*/*.parquet"):
            yield from pq.read_table(file, partitioning=None).to_pylist()
        return
    table = lake.read()
    if isinstance(lake, IcebergLake):  # whose reader takes null for an empty list of records
        import polars as pl  # noqa: PLC0415 - for this format only

        table = pl.scan_iceberg(lake.load()).collect().to_arrow()
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def changes_of(lake: Any) -> tuple[int, int]:
    """Return how often a table's schema changed, and how many commits with files there were."""
    if isinstance(lake, DirectoryLake):
        kept = [*lake.root.glob("_columnar/schema/*.json")]
        return len(kept), len([*lake.root.glob("_columnar/log/*.json")])
    if isinstance(lake, IcebergLake):
        metadata = lake.load().metadata
        return len(metadata.schemas), lake.table().head().state[1].sequence
    actions = [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(lake.root.glob("_delta_log/*.json"))
    ]
    schemas = [
        action["metaData"]["schemaString"]
        for entry in actions
        for action in entry
        if "metaData" in action
    ]
    changed = 1 + sum(one != other for one, other in pairwise(schemas))
    return changed, sum(any("txn" in action for action in entry) for entry in actions)
