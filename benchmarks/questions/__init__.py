"""What is measured: one file for each question, in the order in which they are answered.

A question has `TITLE`, `ABOUT`, `IS_LONG` (only `--full` asks it) and `answer`. A measured process
imports its own question and no other: what that one needs would be in its memory.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

NAMES: Final = (
    "produce",
    "bytes_in",
    "size",
    "consume",
    "bytes_out",
    "unions",
    "low_rate",
    "small",
    "plain",
    "ingest",
    "spark_landing",
    "spark_partitions",
    "spark_writer",
    "stitch",
    "commits",
    "growing",
    "freshness",
    "revision",
)


def load() -> dict[str, ModuleType | Any]:
    """Return all questions by their names."""
    return {name: import_module(f"{__name__}.{name}") for name in NAMES}
