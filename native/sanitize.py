"""Run the tests of the native core with AddressSanitizer: `make faults` does.

    python native/sanitize.py [an argument for pytest, as --hypothesis-profile=long …]

It sees what reads or writes outside of objects, or in objects that are gone, also in Python's. It
needs Linux, gcc, and Rust's nightly toolchain; without these it says so, and runs nothing.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from build import built_module

CRATE = Path(__file__).parent
ROOT = CRATE.parent
TARGET = f"{platform.machine()}-unknown-linux-gnu"
TESTS = (
    "tests/unit/native",
    "tests/unit/segment/test_native_encoder.py",
    "tests/faults/test_code_in_values.py",
    "--deselect=tests/faults/test_code_in_values.py::test_on_a_newer_python_too",
    # The sanitizer keeps what is freed, to see who uses it afterwards.
    "--deselect=tests/unit/native/test_native_tables.py::test_the_memory_of_tables_is_freed",
)


def text(*command: str) -> str:
    """Return what a command prints; empty if it fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def build() -> Path:
    """Compile the crate, and return the extension module."""
    command = ["cargo", "+nightly", "build", "--release", "--locked", "--quiet", "--target", TARGET]
    fast = ["--config", "profile.release.lto=false", "--config", "profile.release.codegen-units=16"]
    subprocess.run(
        [*command, *fast, "--target-dir", "target/sanitized"],
        cwd=CRATE,
        env=os.environ | {"RUSTFLAGS": "-Zsanitizer=address", "PYO3_PYTHON": sys.executable},
        check=True,
    )
    return CRATE / "target/sanitized" / TARGET / "release/lib_core.so"


def run(module: Path, runtime: str) -> int:
    """Run the tests on a copy of the package that has this module; return pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "columnar_kafka")
        shutil.copytree(ROOT / "columnar_kafka", package)
        shutil.copy(module, package / "native" / built_module().name)  # over the one that is there
        settings = {
            "PYTHONPATH": folder,
            "PYTHONMALLOC": "malloc",  # or the memory of objects that are gone would be in use
            "ASAN_OPTIONS": "detect_leaks=0:handle_segv=2",
            # The runtime needs C++'s, or it ends the process at pyarrow's first exception.
            "LD_PRELOAD": f"{runtime} {text('gcc', '-print-file-name=libstdc++.so.6')}",
        }
        pytest = Path(sys.executable).with_name("pytest")
        command = [pytest, *TESTS, "-p", "no:cacheprovider", "--capture", "no"]  # for the report
        command += sys.argv[1:]
        return subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=False).returncode


if __name__ == "__main__":
    runtime = text("gcc", "-print-file-name=libasan.so")
    if not Path(runtime).is_absolute() or not text("cargo", "+nightly", "--version"):
        print("not sanitized: gcc's libasan.so or Rust's nightly toolchain is missing")
    else:
        sys.exit(run(build(), runtime))
