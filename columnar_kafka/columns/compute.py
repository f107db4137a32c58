"""`pyarrow.compute`, imported when it is first used, for it takes longer than most imports."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute  # noqa: PLC0415 - see above

    value = globals()[name] = getattr(pyarrow.compute, name)
    return value
