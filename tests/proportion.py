"""Whether work grows in proportion to its input, by counts and not by a clock."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def in_proportion(
    module: ModuleType, work: Callable[[int], Callable[[], object]], count: int
) -> None:
    """Check that four times as much takes a module, or a package, at most five times the work.

    `work` prepares for a number of things, and returns what is done to them.
    """
    few, many = (_steps(module, work(size)) for size in (count, 4 * count))
    assert 0 < many <= 5 * few, (few, many)


def _steps(module: ModuleType, do: Callable[[], object]) -> int:
    """Return how many instructions of a module's own code run, or of a package's."""
    assert module.__file__
    place, count = module.__file__.removesuffix("__init__.py"), 0

    def step(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        if event == "call" and not frame.f_code.co_filename.startswith(place):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        do()
    finally:
        sys.settrace(before)
    return count
