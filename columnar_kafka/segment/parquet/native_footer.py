"""Footers of files that are stitched, read by the native core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from columnar_kafka import native

if TYPE_CHECKING:
    from columnar_kafka.native._core import CopiedFooter

__all__ = ["copy_footer"]


def copy_footer(footer: bytes, *, body_end: int, shift: int, ordinal: int) -> CopiedFooter | None:
    """Read a footer, and copy its row groups for another file.

    It refuses nothing. The result is None where the core is off, and for a footer that is damaged,
    encrypted or merely unusual: `lake.parquet_footer` judges that one, and would read every other
    with the same result.

    Args:
        footer: without the length and the magic after it.
        body_end: where the file's body ends, in which all positions must lie.
        shift: what is added to the positions.
        ordinal: the number of the first row group that has rows.
    """
    if not native.enabled:
        return None
    return native.core.copy_footer(footer, body_end, shift, ordinal)
