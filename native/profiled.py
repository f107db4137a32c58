"""Build the native core as releases have it, compiled by a profile of its work: `make profile`.

    python native/profiled.py

An instrumented core runs `benchmarks/workload.py`; what the compiler then knows of its branches is
in `native/core.profdata`, which `build.py` uses wherever it is. It needs `rustup component add
llvm-tools`, and the packages of `make install`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from build import CRATE, PROFILE, build


def merger() -> Path:
    """Return LLVM's tool for profiles, of the compiler that is used.

    Raises:
        RuntimeError: it is not installed.
    """
    command = ["rustc", "--print", "target-libdir"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    found = sorted(Path(library).parent.glob("bin/llvm-profdata*"))
    if not found:
        raise RuntimeError("llvm-profdata is missing: rustup component add llvm-tools")
    return found[0]


def profile() -> None:
    """Write `native/core.profdata`.

    Raises:
        RuntimeError: the core cannot be built, the workload failed, or a tool is missing.
    """
    tool = merger()
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
        profile()
        print(f"native core, with a profile: {build().name}")
    except RuntimeError as error:
        sys.exit(f"no profile: {error}")
