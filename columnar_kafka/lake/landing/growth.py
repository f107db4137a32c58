"""Columns for fields that plain messages have and their table lacks.

Which ones there are is agreed on by the schema that is kept with the table (see `LakeTable`): of
two processes that grow it at the same time, the second one takes what the first has kept, and adds
to that. The columns themselves come with the files, as they do when segments have new ones.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.aside.kept_columns import columns_and_kept, kept_columns, own_columns
from columnar_kafka.lake.model import UnlandableError
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.kept import to_kept
from columnar_kafka.schema.leading import led_by, number_of_columns
from columnar_kafka.schema.unknown_fields import columns_of_unknown

if TYPE_CHECKING:
    import pyarrow as pa

    from columnar_kafka.lake.aside.decoding import Decoding
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = ["Growth"]

_log = logging.getLogger(__name__)

_PATIENCE: Final = 64
_COST: Final = 16
"""An attempt looks at so many runs of messages, as long as they tell no column. One that has rests
counts for some."""


class Growth:
    """Lets a table grow once, in one attempt. For one thread."""

    def __init__(self, decoding: Decoding, table: LakeTable) -> None:
        self._decoding = decoding
        self._table = table
        self._patience = _PATIENCE

    def after(self, rows: pa.Table) -> Decoding | None:
        """Return how to decode from now on, if these rows have told it; None if they have not.

        Blocks for requests to the table, if there are fields to have columns.

        Raises:
            LakeError: the table cannot be read or changed.
        """
        assert self._decoding.lenient is not None
        rows = rows.filter(rows[self._decoding.lenient.rest_column].is_valid())
        self._patience -= _COST if len(rows) else 1
        schema = RecordSchema.parse(self._decoding.schema)
        told = self._told(rows, schema) if len(rows) else None
        wider = None if told is None else self._agreed(told, schema)
        if wider is None and self._patience > 0:
            return None
        # Once in an attempt: what comes after has the rest.
        lenient = replace(self._decoding.lenient, unknown="rest")
        return replace(self._decoding, schema=wider or schema, lenient=lenient)

    def _told(self, rows: pa.Table, schema: RecordSchema) -> RecordSchema | None:
        """Return the columns that fields without one would have; all of these rows have rests."""
        lenient = self._decoding.lenient
        assert lenient is not None
        left = lenient.max_columns - number_of_columns(schema.arrow)
        if left <= 0:
            _warn_of_most(str(self._table), lenient.max_columns)
            return None
        return columns_of_unknown(
            rows,
            schema.arrow,
            lenient.rest_column,
            max_columns=left,
            reserved=own_columns(lenient.rest_column),
            tokens=self._decoding.tokens,
        )

    def _agreed(self, told: RecordSchema, schema: RecordSchema) -> RecordSchema | None:
        """Keep a schema with more columns; return the one that is kept, None if it has no more."""
        while True:
            columns, kept = columns_and_kept(self._table, self._decoding.rest_column)
            others = columns if kept is None else kept_columns(self._table, kept, columns)
            before = schema if others is None else led_by(others, schema)
            wider = led_by(told, before)
            if wider.arrow == before.arrow:  # another process has done it
                return None if before.arrow == schema.arrow else before
            rows = PlainDecoder(replace(self._decoding, schema=wider)).schema
            text = to_kept(wider)
            try:
                if self._table.keep_schema(text, rows, kept) == text:
                    _log.info("%s: columns for new fields: %s", self._table, text)
                    return wider
            except UnlandableError as error:
                _log.warning("%s gets no columns for new fields: %s", self._table, error)
                return None


@lru_cache(maxsize=1024)
def _warn_of_most(table: str, most: int) -> None:
    """Warn once."""
    _log.warning("%s has %d columns: what else is new in messages goes to the rest", table, most)
