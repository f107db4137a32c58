"""Messages that cannot land among many that can: each is in one place, whatever is killed."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import confluent_kafka
import forged
import hostile
import parquet_readers
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingesting import LETTER_POINTS, Job
from lakes import GENERATIONS, DeltaLake, DirectoryLake, IcebergLake, rows
from segments import numbered, numbers

from columnar_kafka import Producer, native
from columnar_kafka.ingest import Decoding, Rules, open_dead_letters, verify_topic
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import SourceMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from columnar_kafka.local import LocalKafka

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False)])
KINDS = [DirectoryLake, DeltaLake, IcebergLake]
COUNT = 300


def send(kafka: LocalKafka, topic: str, numbers: range, *, as_json: Sequence[int] = ()) -> None:
    """Send rows of {n}, four a segment, and after each ten of them the last one as it is.

    Those that end in one of the digits `as_json` are plain messages in JSON.
    """
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    encoding = {"columnar.encoding": "parquet", "columnar.segment.rows": 4}
    plain = confluent_kafka.Producer(servers)
    with Producer(servers | encoding) as producer:
        producer.set_schema(topic, SCHEMA)
        for n in numbers:
            if n % 10 in as_json:
                producer.flush()
                plain.produce(topic, b'{"n": %d}' % n)
                plain.flush()
            else:
                producer.produce(topic, {"n": n})
            if n % 10 == 9:
                producer.flush()
                plain.produce(topic, f"{n}".encode())
                plain.flush()


def values(place: Path) -> list[int]:
    return sorted(int(value) for value in pq.read_table(place)["value"].to_pylist())


@pytest.mark.kafka
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_is_killed_at_every_point(kafka, topic, tmp_path, kind: Any) -> None:
    name, lake, place, sent = topic(), kind(tmp_path / "lake"), tmp_path / "dead", 0
    job = Job(lake=lake, servers=kafka.bootstrap_servers, topic=name, place=str(place))
    for point in LETTER_POINTS:
        send(kafka, name, range(sent, sent + 100))
        sent += 100
        assert job.be_killed(point, 2, tmp_path / point) == point
    job.run()
    assert rows(lake) == list(range(sent))
    assert values(place / name) == list(range(9, sent, 10))


@pytest.mark.kafka
@pytest.mark.parametrize("kind", [DirectoryLake, DeltaLake])
def test_a_process_that_decodes_is_killed_at_every_point(kafka, topic, tmp_path, kind: Any) -> None:
    """Each message is a row, or a dead letter if it cannot be decoded; and verify proves it."""
    name, lake, place, sent = topic(), kind(tmp_path / "lake"), tmp_path / "dead", 0
    job = Job(
        lake=lake,
        servers=kafka.bootstrap_servers,
        topic=name,
        place=str(place),
        decoding=Decoding("json", SCHEMA),
    )
    for point in (*LETTER_POINTS, "before a file", "in a file", "between batches"):
        send(kafka, name, range(sent, sent + 100), as_json=(3, 4, 6))
        sent += 100
        assert job.be_killed(point, 2, tmp_path / point) == point
    job.run()
    assert rows(lake) == list(range(sent))
    assert values(place / name) == list(range(9, sent, 10))
    report = verify_topic(
        {"bootstrap.servers": kafka.bootstrap_servers},
        name,
        lake.table(),
        dead_letters=open_dead_letters(str(place)),
        decoding=job.decoding,
    )
    assert (report.findings, report.decoded) == ([], sent * 3 // 10)
    assert (report.rows, report.dead_letters) == (sent * 7 // 10, sent // 10)


# --- hostile messages -----------------------------------------------------------------------------


def truncated(number: int) -> hostile.Sent:
    """A good segment that ends too early; its checksum is that of what is left."""
    good = hostile.ordinary("zstd")
    return hostile.Sent(good.header, good.value[: number * 7 % len(good.value)])


def oversized(_: int) -> hostile.Sent:
    return hostile.sent(pa.table({"n": pa.nulls(1 << 20 | 1, pa.int8())}))


def empty(_: int) -> hostile.Sent:
    return hostile.sent(pa.table({"n": pa.array([], pa.int64())}))


def with_foreign_ids(_: int) -> hostile.Sent:
    """Columns that another Iceberg table has numbered; other formats have no such numbers."""
    schema = pq.read_schema(pa.BufferReader(numbered(0).value)).remove_metadata()
    field = schema.field("n").with_metadata({"PARQUET:field_id": "7"})
    table = pq.read_table(pa.BufferReader(numbered(0).value)).replace_schema_metadata(None)
    return hostile.sent(table.cast(schema.set(0, field)))


def hostiles(kind: Any) -> Iterator[hostile.Sent]:
    kinds: list[Callable[[int], hostile.Sent]] = [truncated, oversized, empty]
    kinds += [lambda _, bomb=bomb: bomb() for bomb in hostile.BOMBS.values()]  # type: ignore[misc]
    kinds += [with_foreign_ids] if kind is IcebergLake else []
    made = [[make(number) for number in range(5 if make is truncated else 1)] for make in kinds]
    return islice(cycle([sent for several in made for sent in several]), COUNT)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_messages_are_dead_letters_and_the_rest_lands(tmp_path: Path, kind: Any) -> None:
    lake = kind(tmp_path / "lake")
    messages, good, bad = [], [], []
    for number, sent in enumerate(hostiles(kind)):
        messages.append(numbered(2 * number))
        good.append(2 * number)
        bad.append(2 * number + 1)
        messages.append(
            SourceMessage(
                topic="t", partition=0, offset=bad[-1], headers=sent.headers(), value=sent.value
            )
        )
    rules = Rules(dead_letters=open_dead_letters(str(tmp_path / "dead")))
    outcome = land(messages, table=lake.table(), generations=GENERATIONS, rules=rules)
    assert (outcome.landed.messages, outcome.dead_letters) == (COUNT, COUNT)
    assert rows(lake) == numbers(good)
    assert pq.read_table(tmp_path / "dead" / "t")["offset"].to_pylist() == bad


def test_no_forged_segment_takes_a_good_row_with_it(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """With `decode`, what another reader may refuse is in a file of its own."""
    good = forged.originals()["ours", "none"]
    cases = list(forged.forged(COUNT))
    messages = [
        SourceMessage(
            topic="t", partition=0, offset=offset, headers=sent.headers(), value=sent.value
        )
        for offset, sent in enumerate(sent for _, case in cases for sent in (good, case))
    ]
    place = open_dead_letters(str(tmp_path / "dead"))
    lake = DirectoryLake(tmp_path / "lake")
    rules = Rules(verify="decode", dead_letters=place)
    outcome = land(messages, table=lake.table(), generations=GENERATIONS, rules=rules)
    record_property("dead letters", outcome.dead_letters)
    assert outcome.landed.messages + outcome.dead_letters == 2 * COUNT
    files = {str(path): path for path in lake.root.glob("t/*.parquet")}
    for reader in parquet_readers.READERS:
        outcomes = parquet_readers.read(reader, list(files))
        refused = [files[path].stem for path, rows in outcomes.items() if not rows.isdecimal()]
        record_property(f"files refused by {reader}", len(refused))
        if native.enabled:
            spans = [tuple(map(int, name.split("-")[1:])) for name in refused]
            assert all(first == last and first % 2 == 1 for first, last in spans)
