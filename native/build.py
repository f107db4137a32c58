"""Build the native core into the package: `make install` does, and so do the builds of its wheels.

    python native/build.py

It needs cargo. Without the core the package does the same, more slowly.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

CRATE = Path(__file__).parent
PLACE = CRATE.parent / "columnar_kafka/native"
PROFILE = CRATE / "core.profdata"  # written by `profiled.py`
INLINING = "-Cllvm-args=-inline-threshold=500"
"""Without a profile, jiter's small functions stay calls: reading JSON takes a sixth longer."""


def build(*flags: str) -> Path:
    """Compile the crate for this interpreter, and return the extension module.

    The module's name says which interpreter that is: another one that imports the package from
    here, as in `make versions`, would crash with it.

    Args:
        flags: rustc's; without any, the profile is used where there is one.

    Raises:
        RuntimeError: there is no cargo, or it failed; the text is what it said.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise RuntimeError("there is no cargo: https://rustup.rs installs it")
    if not flags and PROFILE.exists():
        flags = (f"-Cprofile-use={PROFILE}",)
    command = [cargo, "build", "--release", "--locked", "--quiet"]
    # Beside those of `.cargo/config.toml`; RUSTFLAGS would take their place.
    command += ["--config", f"target.'cfg(all())'.rustflags = {json.dumps([INLINING, *flags])}"]
    done = subprocess.run(
        command,
        cwd=CRATE,
        # Most installations of Python have no libpython to link with.
        env=os.environ | {"PYO3_PYTHON": sys.executable, "PYO3_BUILD_EXTENSION_MODULE": "1"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    [library] = (
        CRATE / "target/release" / name
        for name in ("lib_core.so", "lib_core.dylib", "_core.dll")
        if (CRATE / "target/release" / name).exists()
    )
    module = built_module()
    new = module.with_suffix(".new")
    shutil.copy(library, new)
    new.replace(module)  # a process may have loaded the old one
    return module


def built_module() -> Path:
    """Return where the extension module of this interpreter is."""
    return PLACE / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"


if __name__ == "__main__":
    try:
        print(f"native core: {build().name}")
    except RuntimeError as error:
        print(f"no native core, so all is done in Python, more slowly: {error}")
