"""`make profile` takes a tool that reads what the compiler's programs write, or none."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

RUSTC = """
case "$1" in
--version) echo "LLVM version: 22.1.2" ;;
--print) echo "{}/toolchain/lib" ;;
esac
"""
TOOL = 'test "$1 $2" = "merge --version" && echo "  Debian LLVM version {}.0.6"'


@pytest.fixture
def profiled(monkeypatch: pytest.MonkeyPatch) -> Any:
    if sys.platform == "win32":
        pytest.skip("the programs are scripts of a shell")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "native"))
    return importlib.import_module("profiled")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Write a program; those in `bin` are on the path."""

    def write(name: str, script: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    write("bin/rustc", RUSTC.format(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return write


def test_rustups_tool_is_the_first_choice(profiled: Any, program: Any) -> None:
    program("bin/llvm-profdata", TOOL.format(22))
    rustups = program("toolchain/bin/llvm-profdata", TOOL.format(22))
    assert profiled.merger() == rustups


def test_a_tool_on_the_path_has_to_be_of_the_compilers_llvm(profiled: Any, program: Any) -> None:
    program("bin/llvm-profdata", TOOL.format(14))
    fitting = program("bin/llvm-profdata-22", TOOL.format(22))
    assert profiled.merger() == fitting


def test_without_such_a_tool_there_is_no_profile(profiled: Any, program: Any) -> None:
    program("bin/llvm-profdata", TOOL.format(14))
    with pytest.raises(profiled.NoToolError, match="no llvm-profdata of LLVM 22"):
        profiled.merger()
