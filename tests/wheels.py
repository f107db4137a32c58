"""Build the wheels of both kinds, and have pip choose between them: `make wheels`.

A platform that a wheel with the native core is for gets that one, every other one the pure wheel.
In an environment of its own the chosen wheel says that its core is on. No compiler is on its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".versions/wheels"
OTHER_PLATFORMS = ("win_arm64", "linux_riscv64")


def main() -> None:
    """Raise CalledProcessError or AssertionError where something else comes out."""
    index = FOLDER / "index"
    for kind in ("pure", "native"):
        build(kind, index)
    for wheel in sorted(index.glob("*.whl")):
        say(f"{wheel.name}: {wheel.stat().st_size / 1000:.0f} kB")
    for platform in OTHER_PLATFORMS:
        chosen = choose(index, platform)
        say(f"on {platform}: {chosen}")
        assert chosen.endswith("-py3-none-any.whl")
    environment = FOLDER / "environment"
    venv.create(environment, clear=True, with_pip=True)
    python = environment / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--find-links", index, "columnar-kafka")
    code = "from columnar_kafka import native; print(native.enabled, native.reason)"
    state = run(python, "-I", "-c", code, PATH="")
    say(f"here: native.enabled, native.reason = {state}")
    assert state == "True None"
    if sys.platform == "linux":
        code = "from columnar_kafka.native import core; print(core.__file__)"
        assert "libpython" not in run("ldd", run(python, "-I", "-c", code))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def build(kind: str, index: Path, python: str | Path = sys.executable) -> Path:
    """Add a wheel of this kind to a folder, and return it; a native one is for the interpreter.

    Raises:
        CalledProcessError: it cannot be built; the reason is on stderr.
    """
    index.mkdir(parents=True, exist_ok=True)
    pattern = "*-py3-none-any.whl" if kind == "pure" else "*-cp*.whl"
    for old in index.glob(pattern):
        old.unlink()
    uv = Path(sys.executable).parent / "uv"
    command = (uv, "build", "--quiet", "--wheel", "--python", python, "--out-dir", index, ROOT)
    run(*command, COLUMNAR_KAFKA_WHEEL=kind)
    [wheel] = index.glob(pattern)
    return wheel


def choose(index: Path, platform: str) -> str:
    """Return the name of the wheel that pip takes for another platform."""
    place = FOLDER / platform
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-index")
    wheels = ("--only-binary=:all:", "--find-links", index, "--dest", place)
    run(*pip, *wheels, "--platform", platform, "columnar-kafka")
    [wheel] = place.iterdir()
    return wheel.name


def run(*command: str | Path, **variables: str) -> str:
    """Return what a command prints."""
    return subprocess.run(
        [str(part) for part in command],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()


if __name__ == "__main__":
    main()
