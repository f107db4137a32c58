"""Footers that claim types which no segment has: each reader reads the rows, or refuses them."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hostile_schema
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from arrow_types import NESTED, optional, to_pylist
from confluent_kafka import TopicPartition
from hostile import Sent, sent

from columnar_kafka import SegmentError
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.landing.stage import land
from columnar_kafka.lake.model import SourceMessage, TopicGeneration
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.segment.segment import Segment
from columnar_kafka.testing import FakeKafka

if TYPE_CHECKING:
    from collections.abc import Callable

LISTS: Final = pa.list_(pa.int64())
CLAIMS: Final[dict[str, tuple[pa.DataType, Any, pa.DataType]]] = {
    "list view": (LISTS, [1, 2], pa.list_view(pa.int64())),
    "large list view": (LISTS, [1, 2], pa.large_list_view(pa.int64())),
    "list view of list views": (pa.list_(LISTS), [[1]], pa.list_view(pa.list_view(pa.int64()))),
    "runs": (pa.int64(), 1, pa.run_end_encoded(pa.int32(), pa.int64())),
    "dictionary": (pa.string(), "x", pa.dictionary(pa.int32(), pa.string())),
    "dictionary of lists": (LISTS, [1, 2], pa.dictionary(pa.int8(), LISTS)),
    "dense union": (pa.int64(), 1, pa.dense_union([pa.field("a", pa.int64())])),
    "sparse union": (LISTS, [1, 2], pa.sparse_union([pa.field("a", LISTS)])),
    "string view": (pa.string(), "x", pa.string_view()),
    "binary view": (pa.binary(), b"x", pa.binary_view()),
    "null": (pa.int64(), 1, pa.null()),
    "interval": (pa.int64(), 1, pa.month_day_nano_interval()),
    "tensor": (LISTS, [1, 2], pa.fixed_shape_tensor(pa.int64(), [2])),
    **{f"{kind}": (pa.binary(16), bytes(16), kind) for kind in optional("uuid")},
}
"""The type of a column, a value of it, and the type that the footer claims for it."""

MAPS: Final = pa.map_(pa.string(), pa.int64())


def segment(case: Sent) -> Segment:
    headers = case.headers()
    return Segment(topic="t", partition=0, offset=0, headers=headers, value=case.value)


def consumer(case: Sent) -> Any:
    """A consumer of a topic with this segment only."""
    kafka = FakeKafka()
    kafka.create_topic("t")
    kafka.append("t", 0, case.value, headers=case.headers())
    reading = kafka.Consumer({"group.id": "g", "columnar.encoding": "parquet"})
    reading.assign([TopicPartition("t", 0, 0)])
    return reading


def consumed(case: Sent) -> list[Any]:
    with closing(consumer(case)) as reading:
        messages = reading.consume(2, 0)
    for error in filter(None, (message.error() for message in messages)):
        raise SegmentError(error.str())
    return [message.value()["x"] for message in messages]


def consumed_columns(case: Sent, **options: Any) -> list[Any]:
    with closing(consumer(case)) as reading:
        return to_pylist(reading.consume_arrow(2, 0, **options)["x"])


def landed(case: Sent) -> list[Any]:
    """The rows of the only file of a lake."""
    message = SourceMessage(
        topic="t", partition=0, offset=0, headers=case.headers(), value=case.value
    )
    with tempfile.TemporaryDirectory() as root:
        lake = ParquetDirectory(Path(root))
        try:
            land([message], table=lake, generations={"t": TopicGeneration("cluster", "id")})
        except LakeError:
            assert list(lake.root.rglob("*.parquet")) == []
            raise
        [file] = lake.root.rglob("*.parquet")
        return to_pylist(pq.read_table(file)["x"])


READERS: Final[list[Callable[[Sent], list[Any]]]] = [
    lambda case: to_pylist(segment(case).to_table()["x"]),
    lambda case: to_pylist(segment(case).to_table(["x"])["x"]),
    lambda case: [record.value["x"] for record in segment(case).records()],
    consumed,
    consumed_columns,
    lambda case: consumed_columns(case, filter=pc.scalar(value=True)),
    landed,
]


def outcomes(case: Sent) -> list[list[Any] | str]:
    """The rows that each reader finds, or "refused" where its error names the place."""
    return [_outcome(read, case) for read in READERS]


def _outcome(read: Callable[[Sent], list[Any]], case: Sent) -> list[Any] | str:
    try:
        return read(case)
    except (SegmentError, LakeError) as error:
        return "refused" if "segment at t[0]@0: " in str(error) else str(error)


@pytest.mark.parametrize("nesting", NESTED)
@pytest.mark.parametrize("name", CLAIMS)
def test_a_false_type_is_ignored_or_refused_by_every_reader(name: str, nesting: str) -> None:
    stored, value, claimed = CLAIMS[name]
    kind, nest = NESTED[nesting]
    rows = pa.array([nest(value)] * 2, kind(stored))
    schema = pa.schema([pa.field("x", kind(claimed))])
    case = hostile_schema.forged(pa.table({"x": rows}), schema.serialize().to_pybytes())
    results = outcomes(case)
    expected = "refused" if "refused" in results else to_pylist(rows)
    assert results == [expected] * len(READERS)


@pytest.mark.parametrize("metadata", [None, {"pandas": "{}"}], ids=["plain", "metadata"])
def test_a_schema_may_have_metadata(metadata: dict[str, str] | None) -> None:
    rows = pa.table({"x": pa.array([1, None])}).replace_schema_metadata(metadata)
    assert outcomes(sent(rows)) == [[1, None]] * len(READERS)


@pytest.mark.parametrize("kind", [MAPS, LISTS], ids=str)
def test_a_footer_may_have_no_arrow_schema(kind: pa.DataType) -> None:
    rows = pa.array([[("k", 1)] if pa.types.is_map(kind) else [1], None], kind)
    case = sent(pa.table({"x": rows}), store_schema=False)
    assert outcomes(case) == [to_pylist(rows)] * len(READERS)
