"""Segments with a footer that claims any Arrow type for their columns, truly or falsely.

As a program it runs trials: see `hostile_arrow`.
"""

from __future__ import annotations

import base64
import io
import random
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import hostile_arrow
import pyarrow as pa
import pyarrow.parquet as pq
from arrow_types import optional, to_pylist
from hostile import File, Sent, changed, field, sent

from columnar_kafka.errors import SegmentError
from columnar_kafka.schema import fingerprint
from columnar_kafka.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable

_COLUMNS: Final = [
    pa.array([1, None, 3]),
    pa.array(["x", None, "x"]),
    pa.array([b"x", None, b""]),
    pa.array([[1], None, [2, 3]]),
    pa.array([{"a": 1, "b": "x"}] * 3),
    pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    pa.array([bytes(range(16))] * 3, pa.binary(16)),
    pa.array([1, 2, 3], pa.timestamp("us")),
    pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2)),
]


def _claims(kind: pa.DataType) -> list[pa.DataType]:
    """Types that Arrow may confuse with this type, or convert it to."""
    return [
        *(pa.string_view(), pa.binary_view(), pa.large_string(), pa.large_binary()),
        *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), kind)),
        *(pa.list_view(pa.int64()), pa.large_list_view(pa.int64()), pa.large_list(pa.int64())),
        *(pa.list_(pa.int64(), size) for size in (0, 2, (1 << 31) - 1)),
        *(pa.list_(kind) for kind in [*optional("uuid"), pa.dictionary(pa.int8(), pa.int64())]),
        *(*optional("uuid"), *optional("bool8"), *optional("json_")),
        *optional("opaque", kind, "name", "vendor"),
        *(pa.fixed_shape_tensor(pa.int64(), [2]), pa.run_end_encoded(pa.int32(), kind)),
        *(union([pa.field("a", kind)]) for union in (pa.dense_union, pa.sparse_union)),
        *(pa.duration("us"), pa.timestamp("ns"), pa.timestamp("us", "Nowhere/Land"), pa.date64()),
        *(pa.struct([("a", pa.int64()), ("b", pa.string_view())]), pa.struct([])),
        *(pa.map_(pa.string_view(), pa.int64()), pa.month_day_nano_interval()),
    ]


def trial(number: int) -> str:
    """Read a segment with a forged or honest schema in several ways; return the outcome.

    Raises:
        AssertionError: an honest segment is not read as it was sent.
        Exception: the segment is refused with anything but the package's error with its address.
    """
    rng = random.Random(number)
    column = rng.choice(_COLUMNS)
    kind = rng.choice(
        (column.type, rng.choice(_claims(column.type)), hostile_arrow.column(rng)(0).type)
    )
    schema = bytearray(pa.schema([pa.field("x", kind)]).serialize().to_pybytes())
    is_honest = kind == column.type and rng.random() < 0.5
    if not is_honest and rng.random() < 0.5:
        hostile_arrow.put(rng, schema)
    segment = forged(pa.table({"x": column}), bytes(schema))
    results = [_read(segment, way) for way in WAYS]
    if is_honest:
        values, records = column.to_pylist(), to_pylist(column)
        assert results == [True, values, values, records], results
        return "honest"
    return "reported" if results[1] == "refused" else "read"


def forged(rows: pa.Table, schema: bytes) -> Sent:
    """Return a segment with another Arrow schema; its headers name it if it has a fingerprint."""

    def forge(values: dict[bytes, bytes]) -> Callable[[File], None]:
        def change(file: File) -> None:
            for pair in field(file.footer, 5)[2][1]:
                key, value = field(pair, 1)[2], field(pair, 2)
                value[2] = values.get(key, value[2])

        return change

    values, honest = {b"ARROW:schema": base64.b64encode(schema)}, sent(rows)
    forged = changed(honest, forge(values))
    try:
        name = fingerprint(pq.ParquetFile(io.BytesIO(forged.value)).schema_arrow)
    except Exception:  # noqa: BLE001 - it cannot be read, or has a type that no segment has
        return forged
    forged = changed(honest, forge(values | {b"columnar.schema": name.encode()}))
    return replace(forged, header=forged.header._replace(schema=name))


WAYS: Final[tuple[Callable[[Segment], object], ...]] = (
    Segment.verify,
    lambda segment: segment.to_table()["x"].to_pylist(),
    lambda segment: segment.to_table(["x"])["x"].to_pylist(),
    lambda segment: [record.value["x"] for record in segment.records()],
)


def _read(sent_segment: Sent, way: Callable[[Segment], object]) -> object:
    segment = Segment(
        topic="t",
        partition=0,
        offset=5,
        headers=sent_segment.headers(),
        value=sent_segment.value,
    )
    try:
        return way(segment)
    except SegmentError as error:
        if "t[0]@5" not in str(error):
            raise
        return "refused"


if __name__ == "__main__":
    hostile_arrow.main(sys.argv[1:], trial)
