"""Run the tests of each tracer and framework in an environment of its own, on one Kafka.

`make third-parties` runs all; `python tests/third_parties/run.py kombu` runs those of kombu, and
passes its other arguments to pytest. The environments are kept in `.third-parties`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from columnar_kafka.local import JavaMissingError, LocalKafka

ROOT = Path(__file__).parents[2]
LOCKS = {path.stem: path for path in sorted((ROOT / "requirements/third-parties").glob("*.lock"))}
BIN = Path(sys.executable).parent


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 if all tests have passed."""
    names = [argument for argument in arguments if argument in LOCKS] or list(LOCKS)
    options = [argument for argument in arguments if argument not in LOCKS]
    pythons = {name: environment(name) for name in names}
    try:
        with LocalKafka() as kafka:
            codes = [
                tests(name, python, kafka.bootstrap_servers, options)
                for name, python in pythons.items()
            ]
    except JavaMissingError as error:
        sys.stderr.write(f"skipped: {error}\n")
        return 1 if os.environ.get("CI") else 0
    return max(codes)


def environment(name: str) -> Path:
    """Return the Python of an environment with exactly the locked packages; create it if needed."""
    folder, lock = ROOT / ".third-parties" / name, LOCKS[name]
    python, installed = folder / "bin/python", folder / "installed.lock"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        uv = [str(BIN / "uv"), "--quiet"]
        subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, folder], check=True)
        # Not with pip, which would check the version ranges that the lock overrides.
        install = [*uv, "pip", "sync", "--require-hashes", "--python", str(python), str(lock)]
        subprocess.run(install, check=True)
        installed.write_bytes(lock.read_bytes())
    return python


def tests(name: str, python: Path, servers: str, options: list[str]) -> int:
    """Run the tests of one framework; return pytest's exit code."""
    sys.stdout.write(f"== {name}\n")
    sys.stdout.flush()
    file = Path(__file__).with_name(f"test_{name}.py")
    variables = {"PYTHONPATH": str(ROOT), "THIRD_PARTIES_SERVERS": servers}
    command = [str(python), "-m", "pytest", *options, str(file)]
    return subprocess.run(command, env=os.environ | variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
