"""What older versions of pyarrow lack. Each part says until which version, and can go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HAS_MAPS_AS_DICTS", "HAS_PAGE_ROWS", "READS_NULL_FIXED_LISTS", "VERSION", "arange"]

VERSION: Final = tuple(map(int, pa.__version__.split(".")[:2]))
"""The major and minor version of the pyarrow that is installed."""

HAS_MAPS_AS_DICTS: Final = VERSION >= (20, 0)
"""Whether `to_pylist` takes `maps_as_pydicts`."""

HAS_PAGE_ROWS: Final = VERSION >= (23, 0)
"""Whether a Parquet page has a bound on its rows, and `ParquetWriter` takes it."""

READS_NULL_FIXED_LISTS: Final = VERSION >= (26, 0)
"""Whether a fixed-size list can be read from Parquet where a null stands in place of one."""


def _arange(start: int, stop: int) -> pa.Array:
    """Return the integers from `start` up to but not including `stop`."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), stop - start), start=start - 1)


arange: Callable[[int, int], Any] = getattr(pa, "arange", _arange)  # since 21
