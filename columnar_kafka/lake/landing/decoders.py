"""What decodes the plain messages of one attempt, as their columns become known and grow."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from columnar_kafka.lake.aside.decoding import PlainDecoder
from columnar_kafka.lake.landing.core_rows import core_rows
from columnar_kafka.lake.landing.growth import Growth
from columnar_kafka.lake.model import UnlandableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from columnar_kafka.lake.aside.decoding import Decoding
    from columnar_kafka.lake.landing.core_rows import CoreRows
    from columnar_kafka.lake.model import Fitting, PlainMessages
    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.plain.rows import PlainRows

__all__ = ["Decoders"]


class Decoders:
    """Has the `decoder` that leads, and what makes its rows in the native core. For one thread.

    With a `growth` fields that have no column tell new ones, once.
    """

    def __init__(
        self,
        decoding: Decoding,
        table: LakeTable,
        fitting: Callable[[str, pa.Schema], Fitting],
    ) -> None:
        """Decode for a table, of which `fitting` tells how a schema fits it."""
        self.decoder = PlainDecoder(decoding)
        self._table = table
        self.growth = Growth(decoding, table) if decoding.grows else None
        self._fitting = fitting
        self._core: CoreRows | None = None
        self._may_have_core = True  # until it is known

    def core(self) -> CoreRows | None:
        """Return what makes rows in the core; None: it cannot, or they would not fit."""
        decoder = self.decoder
        if self._core is None and self._may_have_core:
            # Else messages that can be decoded are refused, each of them.
            with suppress(UnlandableError):
                self._core = core_rows(decoder, self.fitting(decoder))
            self._may_have_core = self._core is not None
        return self._core

    def core_for(self, messages: PlainMessages) -> CoreRows | None:
        """Do as `core`, if it decodes all of these as the decoder would."""
        decoder = self.decoder
        if decoder.waits_for_columns or not decoder.may_be_native(messages):
            return None
        return self.core()

    def fitting(self, decoder: PlainDecoder) -> Fitting:
        """Return how the rows of a decoder fit the table. Raises UnlandableError."""
        if decoder.is_alone and self._table.columns() is None:
            raise UnlandableError("its columns contradict those of messages before it")
        return self._fitting(decoder.fingerprint, decoder.schema)

    def fits(self, rows: PlainRows) -> bool:
        """Return whether rows with more columns fit the table."""
        try:
            self._fitting(rows.fingerprint, rows.schema)
        except UnlandableError:
            return False
        return True

    def lead(self, decoder: PlainDecoder) -> bool:
        """Decode by another decoder from now on; return whether it has other columns."""
        before, self.decoder = self.decoder, decoder
        self.growth = self._core = None
        self._may_have_core = True
        return before.fingerprint != decoder.fingerprint
