"""Values → columns in the native core; what it leaves is decoded in Python, at its place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from columnar_kafka import native
from columnar_kafka.columns.native_format import NotNativeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from columnar_kafka.columns.from_rows.rows_to_columns import RowValues
    from columnar_kafka.native import _core as core
    from columnar_kafka.plain.rows import PlainRows

__all__ = ["CoreValues", "take_rows"]

_log: Final = logging.getLogger(__name__)
_BLOCK: Final = 1 << 16  # the rows have offsets too, which nobody reads


class CoreValues:
    """Decodes values as rows do, most of them in the native core if there is one.

    For one thread.
    """

    def __init__(self, rows: PlainRows) -> None:
        self._rows = rows
        self._native: tuple[core.PlainFormat, core.Encoder] | None = None
        if native.enabled:
            try:
                self._native = rows.native("none")
            except (NotNativeError, native.core.PanicError) as error:
                _log.info("values are read without the native core: %s", error)

    def decode(self, values: Sequence[bytes]) -> pa.Table:
        """Return the columns of values. Raises ValueError: one is wrong."""
        if self._native is not None:
            try:
                return pa.concat_tables(self._tables(*self._native, values))
            except RuntimeError:  # the core has panicked
                self._native = None
        return self._slowly(values)

    def _tables(
        self, form: core.PlainFormat, encoder: core.Encoder, values: Sequence[bytes]
    ) -> Iterator[pa.Table]:
        messages = native.core.PlainMessages.of_values(values)
        at = 0
        while at < len(values):
            batch = native.core.PlainBatch(form, "", _BLOCK)
            at = take_rows(batch, messages, self._row_at(values), range(at, len(values)))
            if len(batch):
                file = pa.BufferReader(encoder.encode(batch.seal(), "", {}))
                yield pq.read_table(file, columns=self._rows.columns.names)
            if at < len(values):
                yield self._slowly(values[at : at + 1])
                at += 1

    def _row_at(self, values: Sequence[bytes]) -> Callable[[int], RowValues | None]:
        return lambda index: self._rows.row(values[index])

    def _slowly(self, values: Sequence[bytes]) -> pa.Table:
        table, errors = self._rows.decode(values)
        if errors:
            raise ValueError(next(iter(errors.values())))
        return table


def take_rows(
    batch: core.PlainBatch,
    messages: core.PlainMessages,
    row_at: Callable[[int], RowValues | None],
    indices: range,
) -> int:
    """Append rows of messages to a batch; return the index of the first without one, or the end.

    `row_at` makes the row of a message that the core has not taken; None if there is none.
    """
    at = indices.start
    while (at := batch.take(messages, at, indices.stop)) < indices.stop:
        row = row_at(at)
        if row is None or not batch.append(row, messages, at):
            break
        at += 1
    return at
