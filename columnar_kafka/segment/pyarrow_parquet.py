"""`pyarrow.parquet`, imported when it is first used, for it takes longer than most imports."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.parquet  # noqa: PLC0415 - see above

    value = globals()[name] = getattr(pyarrow.parquet, name)
    return value
