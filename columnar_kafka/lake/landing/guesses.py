"""Segments whose columns their producer has inferred, and others contradict.

Two producers that begin an empty topic at once may infer columns of one name and different types.
The table's come first, then those of the attempt's segments, in their order. A segment that
contradicts them is made JSON again and read into these columns: what does not fit them is in its
rest. So none is refused, and every value of it is in the table.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from columnar_kafka.errors import SchemaError, SegmentError
from columnar_kafka.lake.aside.kept_columns import row_columns
from columnar_kafka.lake.model import UnlandableError, unlandable
from columnar_kafka.schema import RecordSchema, check_growth
from columnar_kafka.schema.leading import led_by
from columnar_kafka.segment.json_layout import JSON_KEY, JsonLayout
from columnar_kafka.segment.segment import json_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.segment.segment import Segment

__all__ = ["Guesses"]


class Guesses:
    """Which columns one attempt's segments have in the table. For one thread."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self._leading: RecordSchema | None = None
        self._of_table: RecordSchema | None = None
        self._has_read = False
        self._seen: dict[str, RecordSchema | None] = {}  # by the segments' schema

    def contradict(self, name: str, schema: pa.Schema, said: Mapping[bytes, bytes]) -> bool:
        """Return whether columns are a guess that contradicts those before; take note of them.

        `name` is the fingerprint of their `schema`, and `said` what a footer says of values. Blocks
        to read the table's columns, once.

        Raises:
            UnlandableError: the footer is malformed.
            LakeError: the table cannot be read.
        """
        if name not in self._seen:
            try:
                layout = JsonLayout.parse(said.get(JSON_KEY), schema)
                self._seen[name] = self._common(schema, layout)
            except SegmentError as error:
                raise UnlandableError(error.reason) from error
        return self._seen[name] is not None

    def _common(self, schema: pa.Schema, layout: JsonLayout) -> RecordSchema | None:
        """Return the columns that rows get, if theirs are a guess that contradicts others."""
        if layout.inferred and not self._has_read:
            self._has_read = True
            if (columns := self._table.columns()) is not None:
                self._of_table = row_columns(columns, layout.rest, str(self._table))
                self._add(self._of_table)
        with unlandable():
            columns = row_columns(schema, layout.rest, "a segment")
        before = self._leading
        self._add(columns)
        if not layout.inferred or columns is None or self._leading is None or before is None:
            return None
        try:
            check_growth(columns, self._leading)
        except SchemaError:
            return replace(self._leading, json_texts=self._leading.json_texts | layout.texts)
        return None

    def _add(self, columns: RecordSchema | None) -> None:
        if columns is not None:
            before = self._leading
            self._leading = columns if before is None else led_by(columns, before)

    def adapted(self, segment: Segment) -> pa.Table:
        """Return the rows of a segment that contradicts, in the columns that lead, and a rest.

        Raises:
            UnlandableError: one cannot be read, or the table needs a value that it lacks.
        """
        common, layout = self._seen[segment.header.schema], json_layout(segment)
        assert common is not None
        assert layout is not None
        return _adapted(segment, common, layout)

    def narrowed(self, segment: Segment) -> pa.Table | None:
        """Return the rows of a segment in the table's columns alone, and a rest.

        None: it promises its columns, or there is no table. Raises as `adapted`.
        """
        layout = json_layout(segment)
        if layout is None or not layout.inferred or self._of_table is None:
            return None
        return _adapted(segment, self._of_table, layout)


def _adapted(segment: Segment, columns: RecordSchema, layout: JsonLayout) -> pa.Table:
    module: Any = import_module("columnar_kafka.lake.landing.adapting")  # few segments need it
    return module.adapted(segment, columns, layout)
