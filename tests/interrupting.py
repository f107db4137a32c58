"""Raises in the code under test: at chosen places, or at random by real signals."""

from __future__ import annotations

import ast
import dis
import gc
import inspect
import linecache
import random
import signal
import sys
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType, ModuleType

    from typing_extensions import Self

_CALLS = {
    code
    for name, code in dis.opmap.items()
    if name.startswith("CALL") and not name.startswith("CALL_INTRINSIC")
}
_LOOPS = {code for name, code in dis.opmap.items() if "JUMP_BACKWARD" in name}


class Interrupted(BaseException):
    """Stands for KeyboardInterrupt, and is not an `Exception` either."""


class Interrupter:
    """Raises `Interrupted` at chosen places while functions of some modules run.

    CPython runs signal handlers where a function written in Python begins, after a call to a
    function written in C, and where a loop starts its next round. These are the places, numbered
    from 0 in the order of execution. (Python 3.10 has more places, such as after every call.)
    """

    def __init__(self, *modules: ModuleType, places: set[int]) -> None:
        self.count = 0
        self._files = {inspect.getsourcefile(module) for module in modules}
        self._places = places
        self._running: dict[FrameType, int] = {}  # with their last instruction
        self._inlined: set[FrameType] = set()  # their last one called a function written in Python

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function; return its result, or raise `Interrupted`."""
        if self._places and self.count > max(self._places):
            return function()
        before = sys.gettrace()
        gc.disable()  # it would call functions at random places
        sys.settrace(self._begun)
        try:
            return function()
        finally:
            sys.settrace(before)
            gc.enable()
            self._running.clear()
            self._inlined.clear()

    def _begun(self, frame: FrameType, _: str, __: Any) -> Any:
        caller = frame.f_back
        if caller in self._running and _calls(caller.f_code, caller.f_lasti, frame.f_code.co_name):
            self._inlined.add(caller)
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace = self._step  # Python 3.13 wants it before it is asked for instructions
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._running[frame] = -1
        if (
            not frame.f_code.co_flags & inspect.CO_GENERATOR
        ):  # a generator also begins in order to be closed
            self._look()
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._running.pop(frame, None)
        elif event == "opcode":
            last, self._running[frame] = self._running.get(frame, -1), frame.f_lasti
            done = _instructions(frame.f_code)[last] if last >= 0 else -1
            is_inlined = frame in self._inlined
            self._inlined.discard(frame)
            if done in _LOOPS or (done in _CALLS and not is_inlined):
                self._look()
        return self._step

    def _look(self) -> None:
        self.count += 1
        if self.count - 1 in self._places:
            raise Interrupted


@cache
def _instructions(code: CodeType) -> bytes:
    return code.co_code


@cache
def _calls(code: CodeType, at: int, name: str) -> bool:
    """Say whether an instruction calls a function by its name, or a lambda, in its own frame."""
    if sys.version_info < (3, 11):
        return False
    line, end, column, end_column = list(code.co_positions())[at // 2]
    assert None not in {line, end, column, end_column}
    lines = [linecache.getline(code.co_filename, n) for n in range(line or 0, (end or 0) + 1)]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        called = ast.parse("".join(lines).strip(), mode="eval").body
    except SyntaxError:
        return False
    function = called.func if isinstance(called, ast.Call) else None
    named = getattr(function, "attr", getattr(function, "id", None))
    return name in {"<lambda>", named}


class Signals(ABC):
    """Sends real signals, with a handler that raises `Interrupted` where a subclass decides."""

    def __init__(self, seed: int) -> None:
        self.armed = False
        self.count = 0
        self._random = random.Random(seed)
        self._before = signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, _: int, frame: FrameType | None) -> None:
        if self.armed and frame is not None:
            self._come(frame)

    @abstractmethod
    def _come(self, frame: FrameType) -> None:
        """Decide whether to `_raise` where the program is; called only while `armed`."""

    def _raise(self) -> None:
        self.armed = False
        self.count += 1
        raise Interrupted

    def _arm(self, seconds: float) -> None:
        """Send a signal in `seconds`."""
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
