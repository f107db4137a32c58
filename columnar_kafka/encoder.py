"""RecordBatch → bytes. Pure, but for what it has learned of its topic's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka.schema import KAFKA_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Encoder", "ParquetEncoder"]

_SAMPLE_ROWS: Final = 20_000
_DICTIONARY: Final = "DICTIONARY"

# What a column may be tried with besides a dictionary, by its Arrow type. All of them are read by
# Spark's vectorised reader, Trino, duckdb and polars.
_NUMBERS: Final = ("PLAIN", "DELTA_BINARY_PACKED")
_STRINGS: Final = ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")


class Encoder(Protocol):
    """Encodes the segments of one topic. Not thread-safe: one thread owns it."""

    def encode(self, batch: pa.RecordBatch, footer: Mapping[str, str]) -> pa.Buffer:
        """Return `batch` as one self-contained file with `footer` as its key-value metadata."""
        ...


class ParquetEncoder:
    """Writes one row group per segment, each column in the encoding that suits its data.

    The choice is made on the first segment, and again when one arrives that tells much more.
    Page checksums are on: without them four of five flipped bits decode as wrong rows.
    """

    def __init__(self, compression: str) -> None:
        self._compression = compression
        self._choices: dict[str, str] = {}
        self._learned_rows = 0
        self._schema: pa.Schema | None = None

    def encode(self, batch: pa.RecordBatch, footer: Mapping[str, str]) -> pa.Buffer:
        """See `Encoder.encode`."""
        if batch.schema != self._schema or batch.num_rows >= 8 * self._learned_rows:
            self._learn(batch)
        return self._write(batch, self._choices, footer)

    def _write(
        self, batch: pa.RecordBatch, choices: Mapping[str, str], footer: Mapping[str, str]
    ) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink,
            batch.schema,
            compression=self._compression,
            use_dictionary=[path for path, name in choices.items() if name == _DICTIONARY],
            column_encoding={path: name for path, name in choices.items() if name != _DICTIONARY}
            or None,
            write_statistics=[path for path in choices if _wants_statistics(path)],
            write_page_checksum=True,
        ) as writer:
            writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            writer.add_key_value_metadata(dict(footer))
        return sink.getvalue()

    def _learn(self, batch: pa.RecordBatch) -> None:
        sample = batch.slice(0, _SAMPLE_ROWS)
        self._choices = {}
        for i, each in enumerate(batch.schema):
            self._choices |= self._choose(sample.select([i]), each)
        self._learned_rows = batch.num_rows
        self._schema = batch.schema

    def _choose(self, column: pa.RecordBatch, each: pa.Field) -> dict[str, str]:
        """Return the smallest encoding of each leaf of one column."""
        leaves = _leaves(each, each.name)
        best = dict.fromkeys(leaves, _DICTIONARY)
        sizes = self._sizes(column, best)
        for attempt in range(max(len(_candidates(kind)) for kind in leaves.values())):
            trial = {
                path: _candidates(kind)[min(attempt, len(_candidates(kind)) - 1)]
                for path, kind in leaves.items()
            }
            for path, size in self._sizes(column, trial).items():
                if size < sizes[path]:
                    best[path], sizes[path] = trial[path], size
        return best

    def _sizes(self, column: pa.RecordBatch, choices: Mapping[str, str]) -> dict[str, int]:
        file = pq.read_metadata(pa.BufferReader(self._write(column, choices, {})))
        group = file.row_group(0)
        chunks = [group.column(i) for i in range(group.num_columns)]
        return {chunk.path_in_schema: chunk.total_compressed_size for chunk in chunks}


def _candidates(kind: pa.DataType) -> tuple[str, ...]:
    if pa.types.is_boolean(kind):
        return (_DICTIONARY,)
    if pa.types.is_floating(kind) or pa.types.is_fixed_size_binary(kind):
        return ("PLAIN",)
    if any(test(kind) for test in _TEXT):
        return _STRINGS
    # Decimals are stored as fixed-size bytes.
    return ("PLAIN",) if pa.types.is_decimal(kind) else _NUMBERS


_TEXT: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def _wants_statistics(path: str) -> bool:
    """Keys and headers are never searched by range; their statistics would only cost."""
    return not path.startswith(f"{KAFKA_COLUMN}.") or path == f"{KAFKA_COLUMN}.timestamp"


def _leaves(each: pa.Field, path: str) -> dict[str, pa.DataType]:
    """Return the Parquet paths of a field's leaves, and their types."""
    kind = each.type
    if pa.types.is_struct(kind):
        children = [(child, child.name) for child in (kind.field(i) for i in range(len(kind)))]
    elif pa.types.is_map(kind):
        children = [(kind.key_field, "key_value.key"), (kind.item_field, "key_value.value")]
    elif _is_list(kind):
        children = [(kind.value_field, "list.element")]
    else:
        return {path: kind}
    found: dict[str, Any] = {}
    for child, name in children:
        found |= _leaves(child, f"{path}.{name}")
    return found


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
