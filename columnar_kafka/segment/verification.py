"""How closely a segment is looked at before it lands, undecoded, in a file with others.

The checks that any reader makes before Arrow decodes are in `decoder` and `parquet.page_checks`.

=============  =====================================================================================
``headers``    Checksum, footer, number of rows, schema: for producers that one trusts.
``pages``      And the headers of all pages, and the pages: levels, sizes, checksums, encodings,
               indices into dictionaries.
``decode``     And every value.
=============  =====================================================================================

The native core decodes every value in less time than Arrow scans pages. So where it is on,
``pages`` is as strict as ``decode``. What the core does not read is up to Arrow, and so is
everything where there is no core. Arrow is C++ that reads foreign bytes: it does so in a child
process, where the system has what that needs (see `isolated`).

Pages of encrypted columns can only be taken as they are: ``pages`` does, and ``decode`` does not.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, get_args

from columnar_kafka.errors import SegmentError
from columnar_kafka.segment.decoder import InlineDecoder, default_decoder
from columnar_kafka.segment.isolated import IsolatedDecoder
from columnar_kafka.segment.parquet.metadata import has_encrypted_columns
from columnar_kafka.segment.parquet.page_checks import footer_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.segment.decoder import Decoder, RawSegment, SegmentFile

__all__ = ["VERIFICATIONS", "Verification", "verify"]

Verification = Literal["headers", "pages", "decode"]
VERIFICATIONS: Final[tuple[Verification, ...]] = get_args(Verification)


def verify(raw: RawSegment, how: Verification, opened: Callable[[], SegmentFile]) -> bool:
    """Check a segment's bytes; `opened` opens its file in this process. For any thread.

    Blocks while a child process decodes, and half a second while one is started.

    Returns:
        Whether its rows may share a file with others. With ``decode`` that needs the core: there
        are files that Arrow takes, and duckdb or polars refuses.

    Raises:
        SegmentError: as `SegmentFile`.
        ColumnarError: no child process could be started.
    """
    if how == "headers":
        opened().schema  # noqa: B018 - reading the property checks
        return True
    core = default_decoder().core
    if core is not None:
        known = core.open(*raw, schema=lambda: opened().schema)
        if known is not None and known.check():
            return True
    opened().schema  # noqa: B018 - as above
    try:
        arrow_decoder(os.getpid()).open(raw).check(decode=how == "decode" or core is not None)
    except SegmentError:
        if not has_encrypted_columns(footer_bytes(bytes(raw.value))):
            raise
        if how == "decode":
            raise SegmentError("has encrypted columns, which cannot be decoded") from None
        return False
    return how == "pages" or core is None


@lru_cache(maxsize=1)
def arrow_decoder(_process: int) -> Decoder:
    """Return Arrow's decoder; a forked process needs a child of its own."""
    return IsolatedDecoder() if hasattr(os, "memfd_create") else InlineDecoder()
