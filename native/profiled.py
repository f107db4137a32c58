"""Build the native core as releases have it, compiled by a profile of its work: `make profile`.

    python native/profiled.py

An instrumented core runs `benchmarks/workload.py`; what the compiler then knows of its branches is
in `native/core.profdata`, which `build.py` uses wherever it is. It needs the packages of `make
install`, and an `llvm-profdata` of the compiler's LLVM: that of rustup's component `llvm-tools`, or
one of the same major version on the path. Without it the core stays as `make install` built it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from build import CRATE, PROFILE, build


class NoToolError(RuntimeError):
    """There is no `llvm-profdata` that reads what the compiler's programs write."""


def merger() -> Path:
    """Return LLVM's tool for profiles: rustup's, or one of the same major version on the path.

    Raises:
        NoToolError: there is none.
    """
    wanted = llvm_of("rustc", "--version", "--verbose")
    library = said("rustc", "--print", "target-libdir").strip()
    for folder in (Path(library).parent / "bin", *map(Path, os.get_exec_path())):
        for tool in sorted(folder.glob("llvm-profdata*")):
            if llvm_of(tool, "merge", "--version") == wanted:
                return tool
    raise NoToolError(f"no llvm-profdata of LLVM {wanted} (rustup component add llvm-tools)")


def llvm_of(*command: str | Path) -> str:
    """Return the major version of LLVM that a program says it has."""
    version = re.search(r"LLVM version:? (\d+)", said(*command))
    return version[1] if version else ""


def said(*command: str | Path) -> str:
    """Return what a program prints."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def profile(tool: Path) -> None:
    """Write `native/core.profdata`.

    Raises:
        RuntimeError: the core cannot be built, or the workload failed.
    """
    PROFILE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        build(f"-Cprofile-generate={folder}")
        places = os.environ | {"LLVM_PROFILE_FILE": f"{folder}/%p.profraw"}
        workload = [sys.executable, "-m", "benchmarks.workload"]
        done = subprocess.run(
            workload, cwd=CRATE.parent, env=places, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        written = map(str, Path(folder).glob("*.profraw"))
        subprocess.run([tool, "merge", "-o", PROFILE, *written], check=True)


if __name__ == "__main__":
    try:
        profile(merger())
        print(f"native core, with a profile: {build().name}")
    except NoToolError as error:
        PROFILE.unlink(missing_ok=True)
        print(f"native core, without a profile: {error}")
        sys.exit("releases have one" if os.environ.get("CI") else None)
    except RuntimeError as error:
        sys.exit(f"no profile: {error}")
