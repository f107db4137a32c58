"""The `_kafka` column: each record's identity, key, time and headers, beside the user's columns."""

from __future__ import annotations

from array import array
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from columnar_kafka.columns.older_arrow import arange
from columnar_kafka.schema import KAFKA_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "HEADERS",
    "KEY",
    "TIMESTAMP",
    "KafkaColumn",
    "RecordHeaders",
    "header_array",
    "key_array",
    "read_headers",
    "timestamp_array",
]

RecordHeaders = list[tuple[str, bytes | None]]

KEY: Final = pa.binary()
TIMESTAMP: Final = pa.timestamp("ms", "UTC")
HEADERS: Final = pa.list_(
    pa.field("item", pa.struct([("key", pa.string()), ("value", pa.binary())]), nullable=False)
)
_MEMBERS: Final = {
    "id": [
        pa.field("segment", pa.string(), nullable=False),
        pa.field("row", pa.int32(), nullable=False),
    ],
    "key": [pa.field("key", KEY)],
    "timestamp": [pa.field("timestamp", TIMESTAMP, nullable=False)],
    "headers": [pa.field("headers", HEADERS)],
}


class KafkaColumn:
    """The `_kafka` column of one topic, with the members that ``columnar.metadata`` selects."""

    def __init__(self, members: Sequence[str]) -> None:
        self.members = tuple(members)
        self.has_all = len(self.members) == len(_MEMBERS)
        fields = [field for member in members for field in _MEMBERS[member]]
        self.field = pa.field(KAFKA_COLUMN, pa.struct(fields), nullable=False) if fields else None

    def schema(self, user: pa.Schema) -> pa.Schema:
        """Return the schema of a topic's segments, for the `user`'s columns."""
        return user if self.field is None else user.append(self.field)

    def append_to(
        self,
        batch: pa.RecordBatch,
        *,
        segment: str,
        timestamps: pa.Array,
        keys: pa.Array,
        headers: pa.Array,
    ) -> pa.RecordBatch:
        """Return `batch` with its `_kafka` column; each array has one value for each row."""
        if self.field is None:
            return batch
        rows = batch.num_rows
        parts = {
            "segment": pa.repeat(segment, rows),
            "row": arange(0, rows).cast(pa.int32()),
            "key": keys,
            "timestamp": timestamps,
            "headers": headers,
        }
        fields = list(self.field.type)
        column = pa.StructArray.from_arrays([parts[field.name] for field in fields], fields=fields)
        return batch.append_column(self.field, column)


def key_array(keys: Sequence[bytes | None]) -> pa.Array:
    """Return records' keys as a column."""
    return pa.array(keys, type=KEY)


def timestamp_array(timestamps: Sequence[int]) -> pa.Array:
    """Return records' timestamps, in milliseconds since the epoch, as a column."""
    return pa.array(timestamps, type=pa.int64()).cast(TIMESTAMP)


def header_array(headers: Sequence[RecordHeaders | None]) -> pa.Array:
    """Return records' headers as a column."""
    # There may be a hundred thousand records: the work for each is done in C.
    pairs = list(chain.from_iterable(filter(None, headers)))
    has_nulls = None in headers
    lists: Any = (pairs or () for pairs in headers) if has_nulls else headers
    ends = array("i", accumulate(map(len, lists), initial=0))
    struct = pa.StructArray.from_arrays(
        [
            pa.array([key for key, _ in pairs], type=pa.string()),
            pa.array([value for _, value in pairs], type=pa.binary()),
        ],
        fields=list(HEADERS.value_type),
    )
    return pa.ListArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(ends), [None, pa.py_buffer(ends)]),
        struct,
        type=HEADERS,
        mask=pa.array([pairs is None for pairs in headers], pa.bool_()) if has_nulls else None,
    )


def read_headers(column: pa.ListArray) -> list[RecordHeaders | None]:
    """Return records' headers as confluent-kafka has them: lists of pairs, or None."""
    if column.null_count == len(column):
        return [None] * len(column)
    ends = column.offsets.to_pylist()
    struct = column.values.slice(ends[0], ends[-1] - ends[0])
    keys, values = struct.field("key").to_pylist(), struct.field("value").to_pylist()
    pairs = list(zip(keys, values, strict=True))
    bounds = pairwise(end - ends[0] for end in ends)
    valid = column.is_valid().to_pylist()
    return [
        pairs[start:end] if is_valid else None
        for (start, end), is_valid in zip(bounds, valid, strict=True)
    ]
