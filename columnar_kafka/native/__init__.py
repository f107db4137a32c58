"""The native core, or why there is none. It does in Rust what is costly in Python.

Everything works without it, more slowly: it is chosen once, when the package is imported. The
environment variable ``COLUMNAR_KAFKA_NATIVE=0`` leaves it off.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from columnar_kafka.native import _core as core

__all__ = ["enabled", "reason"]

enabled: bool
"""Whether the native core is on."""
reason: str | None = None
"""Why it is off; None if it is on."""

if os.environ.get("COLUMNAR_KAFKA_NATIVE") == "0":
    reason = "COLUMNAR_KAFKA_NATIVE=0"
else:
    try:
        from columnar_kafka.native import _core as core  # noqa: F401 - for others
    except ImportError as error:
        reason = f"this installation has no native core for this platform ({error})"
enabled = reason is None


def __getattr__(name: str) -> Any:
    if name == "core":
        raise AttributeError(f"the native core is off: {reason}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
