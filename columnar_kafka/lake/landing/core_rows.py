"""Rows of plain messages as the native core decodes and encodes them, without a step for each."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka import native
from columnar_kafka.columns.native_format import NotNativeError
from columnar_kafka.errors import LakeError
from columnar_kafka.lake.aside.decoding import BLOCK, block_name
from columnar_kafka.lake.landing.rewrite import SegmentPart
from columnar_kafka.lake.landing.runs import WaitingMessage
from columnar_kafka.lake.plan import plain_digest
from columnar_kafka.plain.core_rows import take_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.lake.aside.decoding import PlainDecoder
    from columnar_kafka.lake.model import Fitting, PlainMessages, SourceMessage
    from columnar_kafka.lake.plan import Placement
    from columnar_kafka.native import _core as core

__all__ = ["CoreRows", "core_rows"]

_log: Final = logging.getLogger(__name__)


class CoreRows:
    """Makes rows of plain messages as a `decoder` does, and a part of a file of them.

    For one thread.
    """

    def __init__(self, decoder: PlainDecoder) -> None:
        """Raises NotNativeError: the core does not have such rows."""
        self.decoder = decoder
        self._format, self._encoder = decoder.native()

    def begin(self, fence: str) -> core.PlainBatch:
        """Return no rows yet, of the partition with this fence. Raises LakeError as `encoded`."""
        with _no_panic():
            return native.core.PlainBatch(self._format, block_name(fence, 0)[:-1], BLOCK)

    def append(self, rows: core.PlainBatch, messages: PlainMessages, indices: range) -> int:
        """Append rows for messages; return the index of the first that has none, or the end.

        It is the decoder's: it is wrong, or has a row that the core does not take.
        """

        def row_at(index: int) -> tuple[Any, ...] | None:
            return self.decoder.row(messages.message(index))

        return take_rows(rows, messages.core, row_at, indices)

    def waiting(self, placement: Placement, message: SourceMessage) -> WaitingMessage:
        """Return a message for itself; the placement is one of its run."""
        header = self.decoder.header(placement.source.fence, message.offset)
        place = placement._replace(
            offset=message.offset, header=header, digest=plain_digest(message)
        )
        return WaitingMessage(place, message)

    def encoded(self, rows: core.PlainBatch) -> SegmentPart:
        """Return rows as a part; no other is appended to them.

        Raises:
            LakeError: the core has panicked.
        """
        with _no_panic():
            block = rows.seal()
            data = self._encoder.encode(block, "", {})
        return SegmentPart((), data, len(block), len(block), is_rewritten=True)


@contextmanager
def _no_panic() -> Iterator[None]:
    """Raise a LakeError where the core has panicked: only Kafka has the messages of rows now."""
    try:
        yield
    except RuntimeError as error:
        raise LakeError(f"{error}. COLUMNAR_KAFKA_NATIVE=0 lands without the core") from error


def core_rows(decoder: PlainDecoder, fitting: Fitting) -> CoreRows | None:
    """Return what makes rows in the core, if they can land as they are, in one partition."""
    if fitting.partitioning or fitting.cast_to is not None:
        return None
    try:
        return CoreRows(decoder)
    except (NotNativeError, native.core.PanicError) as error:
        _log.info("plain messages are decoded without the native core: %s", error)
        return None
