"""The columns that rows of plain messages have in a table: its own, and those that it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from columnar_kafka.errors import LakeError, SchemaError
from columnar_kafka.schema import FILLED, KAFKA_COLUMN, is_kafka_member
from columnar_kafka.schema.kept import from_kept
from columnar_kafka.schema.leading import led_by, of_columns, texts_of

if TYPE_CHECKING:
    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.schema import RecordSchema

__all__ = ["as_kept", "columns_and_kept", "kept_columns", "own_columns", "row_columns"]


def own_columns(rest_column: str | None) -> frozenset[str]:
    """Return the names of columns that are none of a message's fields."""
    return frozenset((*FILLED, KAFKA_COLUMN)) | ({rest_column} if rest_column else set())


def row_columns(columns: pa.Schema, rest_column: str | None, where: str) -> RecordSchema | None:
    """Return which of these columns are fields of messages; None if none are.

    Raises:
        LakeError: no row has such a column; says `where`.
    """
    own = own_columns(rest_column)
    fields = [
        field for field in columns if field.name not in own and not is_kafka_member(field.name)
    ]
    try:
        return of_columns(pa.schema(fields)) if fields else None
    except SchemaError as error:
        raise LakeError(f"{where}: {error.reason}") from error


def columns_and_kept(
    table: LakeTable, rest_column: str | None
) -> tuple[RecordSchema | None, str | None]:
    """Return a table's columns that are fields of messages, and the schema that is kept with it.

    None: there is none, or the table has no such columns.

    Raises:
        LakeError: the table cannot be read, or as `row_columns`.
    """
    # In this order: what is kept has to say of each column of texts if it has JSON text.
    columns = table.columns()
    fields = None if columns is None else row_columns(columns, rest_column, str(table))
    return fields, table.kept_schema()


def kept_columns(table: LakeTable, kept: str, leading: RecordSchema | None) -> RecordSchema:
    """Return a schema that a table keeps, as the table's leading columns have it.

    Raises:
        LakeError: it cannot be read.
    """
    schema = _parsed(table, kept)
    return schema if leading is None else led_by(schema, as_kept(table, kept, leading))


def as_kept(table: LakeTable, kept: str, columns: RecordSchema) -> RecordSchema:
    """Return a table's columns; which of them are JSON text is only in the schema that it keeps.

    Raises:
        LakeError: it cannot be read.
    """
    texts = _parsed(table, kept).json_texts
    return replace(columns, json_texts=texts & frozenset(texts_of(columns.arrow)))


def _parsed(table: LakeTable, kept: str) -> RecordSchema:
    try:
        return from_kept(kept)
    except SchemaError as error:
        raise LakeError(
            f"{table}: {error.reason}. If a newer release has written it, upgrade columnar-kafka; "
            "else remove it, and it is guessed again"
        ) from error
