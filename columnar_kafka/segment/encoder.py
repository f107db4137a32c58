"""Arrow columns to Parquet bytes; no I/O. An encoder learns which encodings suit its topic."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from columnar_kafka.columns import compute as pc
from columnar_kafka.columns.older_arrow import HAS_PAGE_ROWS, VERSION
from columnar_kafka.errors import SchemaError
from columnar_kafka.position import MAX_ROWS
from columnar_kafka.schema import KAFKA_COLUMN, canonical
from columnar_kafka.schema.type_families import family
from columnar_kafka.segment import pyarrow_parquet as pq
from columnar_kafka.segment.declared_types import cannot_be_written, with_sizes, without_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "ParquetEncoder",
    "check_can_be_written",
    "columns_with_nan",
    "leaf_columns",
    "needs_arrow_schema",
]

_SAMPLE_ROWS: Final = 20_000
_DICTIONARY: Final = "DICTIONARY"
_WORTH_ROWS: Final = 100
"""Reading text takes six times as long without a dictionary. Another encoding must save a byte for
every so many rows."""
_STATISTICS_BYTES: Final = 64
"""Columns with longer values get no statistics, which hold the least and greatest value twice."""

# The encodings that are tried besides a dictionary, by Arrow type. All are read by Spark's
# vectorised reader, Trino, duckdb and polars.
_NUMBERS: Final = ("PLAIN", "DELTA_BINARY_PACKED")
_STRINGS: Final = ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")


# Pages end by size only: readers look at every page.
_PAGES: Final = {"max_rows_per_page": MAX_ROWS} if HAS_PAGE_ROWS else {}


class ParquetEncoder:
    """Writes one row group for each segment, and every column in the encoding that suits its data.

    Encodings are chosen from the first segment, and again from one with at least 8 times the rows.
    Page checksums are on: without them four of five flipped bits decode as wrong rows. Not
    thread-safe: one thread owns it.
    """

    def __init__(self, compression: str) -> None:
        """Start without any choice; `compression` is that of ``columnar.encoding.compression``."""
        self.compression = compression
        self._choices: dict[str, str] = {}
        self._learned_rows = 0
        self._schema: pa.Schema | None = None
        self._store_schema = True

    def encode(self, batch: pa.RecordBatch, footer: Mapping[str, bytes]) -> pa.Buffer:
        """Return `batch` as one Parquet file with `footer` as its key-value metadata."""
        if batch.schema != self._schema or batch.num_rows >= 8 * self._learned_rows:
            self._learn(batch)
        return self._write(batch, self._choices, footer)

    def _write(
        self,
        batch: pa.RecordBatch,
        choices: Mapping[str, str],
        footer: Mapping[str, bytes],
    ) -> pa.Buffer:
        if not cannot_be_written(batch.schema):
            return self._write_columns(batch, choices, footer)
        written = self._write_columns(without_sizes(batch), choices, footer)
        return with_sizes(written, batch.schema)

    def _write_columns(
        self,
        batch: pa.RecordBatch,
        choices: Mapping[str, str],
        footer: Mapping[str, bytes],
    ) -> pa.Buffer:
        sink = pa.BufferOutputStream(pa.system_memory_pool())  # as `RecordBlock.concat`
        unstated = {path for path, leaf in _leaf_arrays(batch) if _is_long(leaf) or _has_nan(leaf)}
        with pq.ParquetWriter(
            sink,
            batch.schema,
            compression=self.compression,
            use_dictionary=[path for path, name in choices.items() if name == _DICTIONARY],
            column_encoding={path: name for path, name in choices.items() if name != _DICTIONARY}
            or None,
            write_statistics=[p for p in choices if p not in unstated and _wants_statistics(p)],
            write_page_checksum=True,
            store_schema=self._store_schema,
            **_PAGES,
        ) as writer:
            writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            writer.add_key_value_metadata(dict(footer))
        return sink.getvalue()

    def _learn(self, batch: pa.RecordBatch) -> None:
        """Choose the smallest encoding of every leaf, trying all columns at once."""
        if batch.schema != self._schema:
            self._store_schema = needs_arrow_schema(batch.schema)
        sample = batch.slice(0, _SAMPLE_ROWS)
        leaves = [
            (".".join(path), kind, field.name)
            for field in batch.schema
            for path, kind in leaf_columns(field, (field.name,))
        ]
        # Names may contain dots, and pyarrow's options cannot distinguish two leaves of one path.
        count = Counter(path for path, _, _ in leaves)
        candidates = {path: _candidates(kind) for path, kind, _ in leaves if count[path] == 1}
        best = dict.fromkeys(count, _DICTIONARY)
        sizes = self.sizes(sample, best)
        for attempt in range(max(map(len, candidates.values()), default=0)):
            trial = {path: names[attempt] for path, names in candidates.items() if names[attempt:]}
            tried = dict.fromkeys(name for path, _, name in leaves if path in trial)
            for path, size in self.sizes(sample.select(list(tried)), best | trial).items():
                least = sample.num_rows // _WORTH_ROWS if candidates.get(path) == _STRINGS else 0
                if path in trial and size < sizes[path] - least:
                    best[path], sizes[path] = trial[path], size
        self._choices = best
        self._learned_rows = batch.num_rows
        self._schema = batch.schema

    def sizes(self, batch: pa.RecordBatch, choices: Mapping[str, str]) -> dict[str, int]:
        """Return the bytes of each column as these encodings have it."""
        file = pq.read_metadata(pa.BufferReader(self._write(batch, choices, {})))
        group = file.row_group(0)
        chunks = [group.column(i) for i in range(group.num_columns)]
        return {chunk.path_in_schema: chunk.total_compressed_size for chunk in chunks}


def needs_arrow_schema(schema: pa.Schema) -> bool:
    """Return whether a file has to store the Arrow schema, so that it is read back as it was.

    Where the Parquet schema says it all, 2 KB are saved, which is half of a segment of one record.
    """
    if any(map(_restored_by_arrow_schema, schema.types)):
        return True
    empty = pa.BufferOutputStream()
    with pq.ParquetWriter(empty, schema, store_schema=False):
        pass
    read_back = pq.read_schema(pa.BufferReader(empty.getvalue()))
    return read_back != schema or canonical(read_back) != canonical(schema)


def _restored_by_arrow_schema(arrow: pa.DataType) -> bool:
    """Return whether some reader finds this type, or one inside it, in the Arrow schema alone.

    With an older pyarrow, our reader looks there for what is in maps: see `declared_types`.
    """
    return pa.types.is_map(arrow) or any(
        _restored_by_arrow_schema(arrow.field(i).type) for i in range(arrow.num_fields)
    )


def check_can_be_written(schema: pa.Schema) -> None:
    """Check that the installed pyarrow can write all types of a schema.

    pyarrow 19 to 21 have decimals of 32 and 64 bits, and write none.

    Raises:
        SchemaError: there is one that it cannot write.
    """
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), schema).close()
    except pa.ArrowNotImplementedError as error:
        newer = "; decimal32 and decimal64 need pyarrow 22 or later" if VERSION < (22, 0) else ""
        raise SchemaError(f"pyarrow {pa.__version__} cannot write it: {error}{newer}") from error


def _candidates(kind: pa.DataType) -> tuple[str, ...]:
    """Return the encodings to try for a leaf of this type, besides a dictionary."""
    values = family(kind)
    if values == "boolean":
        return ()
    # Decimals are stored as fixed-size bytes.
    if values in ("float", "decimal") or pa.types.is_fixed_size_binary(kind):
        return ("PLAIN",)
    return _STRINGS if values in _BYTES else _NUMBERS


_BYTES: Final = ("string", "binary")


def _wants_statistics(path: str) -> bool:
    """Return whether a leaf gets statistics; nobody searches keys and headers by range."""
    return not path.startswith(f"{KAFKA_COLUMN}.") or path == f"{KAFKA_COLUMN}.timestamp"


def columns_with_nan(batch: pa.RecordBatch) -> set[str]:
    """Return the leaves that hold a NaN, by their Parquet paths.

    Arrow states bounds of their other values. Readers take these for the bounds of all, and find
    too few rows, or too many.
    """
    return {path for path, leaf in _leaf_arrays(batch) if _has_nan(leaf)}


def _leaf_arrays(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    for column, field in zip(batch.columns, batch.schema, strict=True):
        yield from _leaves_below(column, field.name)


def _leaves_below(column: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    kind = column.type
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _leaves_below(column.field(i), f"{path}.{kind.field(i).name}")
    elif pa.types.is_map(kind):
        yield from _leaves_below(column.keys, f"{path}.key_value.key")
        yield from _leaves_below(column.items, f"{path}.key_value.value")
    elif family(kind) == "list":
        yield from _leaves_below(column.flatten(), f"{path}.list.element")
    else:
        yield path, column


def _has_nan(leaf: pa.Array) -> bool:
    if not pa.types.is_floating(leaf.type):
        return False
    return pa.types.is_float16(leaf.type) or bool(pc.any(pc.is_nan(leaf)).as_py())


def _is_long(leaf: pa.Array) -> bool:
    """Return whether a leaf holds values too long for statistics."""
    if family(leaf.type) not in _BYTES:
        return False
    return bool((pc.max(pc.binary_length(leaf)).as_py() or 0) > _STATISTICS_BYTES)


def leaf_columns(
    field: pa.Field, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yield the Parquet path and the type of each leaf of the field that has this path."""
    kind = field.type
    children: list[tuple[pa.Field, tuple[str, ...]]]
    if pa.types.is_struct(kind):
        children = [(child, (child.name,)) for child in kind]
    elif pa.types.is_map(kind):
        children = [(kind.key_field, ("key_value", "key"))]
        children.append((kind.item_field, ("key_value", "value")))
    elif family(kind) == "list":
        children = [(kind.value_field, ("list", "element"))]
    else:
        yield path, kind
        return
    for child, names in children:
        yield from leaf_columns(child, path + names)
