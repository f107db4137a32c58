"""Java, and the jars that run on it: found, or fetched once into a cache folder.

Jars come from the Maven registry through the Ivy jar that pyspark carries, so Java and pip are all
that a machine needs. The cache is `COLUMNAR_KAFKA_CACHE`, or the user's cache folder.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from columnar_kafka.local.process import GuardedProcess, tail

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

OLDEST_JAVA = 17
KAFKA_VERSION = "4.3.1"
_INSTALL = "is not installed: pip install 'columnar-kafka[local]'"
_IVY_SECONDS = 240.0
_IVY_TRIES = 2  # a second try goes on from what the first one fetched

_KAFKA = f"""
<dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default"/>
"""

# pyspark 4.3's own version of these is not in the registry; this set was run on it.
_NEWEST_SPARK_KAFKA = "4.2.0"
_SPARK_KAFKA = """
<dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="{version}" conf="default">
  <exclude org="org.apache.spark" module="spark-token-provider-kafka-0-10_2.13"/>
  <exclude org="org.scala-lang"/>
</dependency>
<dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.0.0"
            conf="default" transitive="false"/>
"""


class JavaMissingError(RuntimeError):
    """There is no Java that can run the local servers; the message lists the candidates."""


class JarsMissingError(RuntimeError):
    """The jars cannot be fetched; the message says what Ivy said, or what is not installed."""


@dataclass(frozen=True)
class Java:
    """A Java runtime: its executable and full version, such as 17.0.15."""

    executable: Path
    version: str


def find_java() -> Java:
    """The Java of JAVA_HOME, else of PATH, whichever is first new enough.

    Raises:
        JavaMissingError: neither is Java 17 or newer.
    """
    seen = []
    for place, executable in _candidates():
        version = _version(executable)
        if version and int(re.split(r"\D", version)[0]) >= OLDEST_JAVA:
            return Java(executable, version)
        seen.append(f"{place}: {executable} is {version or 'not a working Java'}")
    raise JavaMissingError(
        f"Java {OLDEST_JAVA} or newer is needed for a local Kafka and for Spark. Looked at "
        + ("; ".join(seen) or "JAVA_HOME (not set or without bin/java) and PATH (no java)")
        + f". Install a JDK or JRE {OLDEST_JAVA}+ (Debian: openjdk-17-jre-headless, Homebrew: "
        "openjdk@17) and set JAVA_HOME, or put its bin folder on PATH."
    )


def _candidates() -> list[tuple[str, Path]]:
    candidates = []
    home = os.environ.get("JAVA_HOME")
    if home and (executable := Path(home, "bin", "java")).is_file():
        candidates.append(("JAVA_HOME", executable))
    if on_path := shutil.which("java"):
        candidates.append(("PATH", Path(on_path)))
    return candidates


def _version(executable: Path) -> str | None:
    try:
        said = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d[^"]*)"', said.stderr)
    return match[1] if match else None


def kafka_jars() -> Path:
    """A folder with the jars of a Kafka broker; the first call takes about a minute.

    Raises:
        JavaMissingError: there is no Java to fetch them with.
        JarsMissingError: they could not be fetched.
    """
    return jars(f"kafka-{KAFKA_VERSION}", _KAFKA)


def spark_kafka_jars() -> list[Path]:
    """The jars of Spark's own Kafka source, for `spark.jars`; fetched and raising like above."""
    installed = importlib.metadata.version("pyspark")
    version = installed if installed.startswith(("4.0.", "4.1.")) else _NEWEST_SPARK_KAFKA
    return sorted(
        jars(f"spark-kafka-{version}", _SPARK_KAFKA.format(version=version)).glob("*.jar")
    )


def cache_directory() -> Path:
    """Where fetched and prepared files are kept between runs; may not exist yet.

    Raises:
        JarsMissingError: nothing tells where the user's cache is.
    """
    return Path(os.environ.get("COLUMNAR_KAFKA_CACHE") or _user_cache()).absolute()


def _user_cache() -> str:
    try:  # not with this module: the embedded Kafka needs no cache
        platformdirs = import_module("platformdirs")
    except ModuleNotFoundError as error:
        raise JarsMissingError(f"platformdirs, which knows the cache folder, {_INSTALL}") from error
    return str(platformdirs.user_cache_dir("columnar-kafka"))


def once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, filled by `make(folder)` if it is not there yet.

    It appears whole, under its name, or not at all. If several processes ask at once, one makes it
    and the others wait. An exception of `make` is passed on, and the next call tries again.
    """
    target = cache_directory() / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with Path(target.parent, f".{name}.lock").open("w") as lock:
        _wait_for_lock(lock)  # the system lets go of it when this process ends
        if not target.exists():
            _make(target, make)
    return target


if sys.platform == "win32":

    def _wait_for_lock(file: TextIO) -> None:
        while True:
            with suppress(OSError):  # it has waited for ten seconds
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                return

else:

    def _wait_for_lock(file: TextIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


def _make(target: Path, make: Callable[[Path], None]) -> None:
    for abandoned in target.parent.glob(f".{target.name}.partial-*"):  # its maker was killed
        shutil.rmtree(abandoned, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{target.name}.partial-", dir=target.parent, ignore_cleanup_errors=True
    ) as partial:
        folder = Path(partial, "made")
        folder.mkdir()
        make(folder)
        folder.rename(target)


def jars(name: str, dependencies: str) -> Path:
    """The folder `name` of the cache with these dependencies (Ivy's XML), and what they need.

    Raises:
        JavaMissingError: there is no Java to fetch them with.
        JarsMissingError: they could not be fetched.
    """
    return once(name, lambda folder: _resolve(dependencies, folder))


def _resolve(dependencies: str, folder: Path) -> None:
    java, ivy = find_java(), _ivy_jar()
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=folder.parent) as scratch:
        module, log = Path(scratch, "ivy.xml"), Path(scratch, "ivy.log")
        module.write_text(
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
            '<info organisation="columnar-kafka" module="jars"/>'
            f"<dependencies>{dependencies}</dependencies></ivy-module>"
        )
        command: list[str | Path] = [
            java.executable,
            f"-Divy.home={scratch}",
            "-jar",
            ivy,
            "-ivy",
            module,
        ]
        command += ["-cache", Path(scratch, "cache")]
        command += ["-retrieve", f"{folder}/[artifact](-[classifier])-[revision].[ext]"]
        # Some OSGi jars call themselves bundles; what is to be unpacked is a tar.gz.
        command += ["-types", "jar", "bundle", "tar.gz"]
        if not any(_runs(command, log) for _ in range(_IVY_TRIES)):
            raise JarsMissingError(f"The Maven registry did not give the jars:\n{tail(log)}")


def _runs(command: list[str | Path], log: Path) -> bool:
    ivy = GuardedProcess(command, log=log, grace_seconds=0)
    try:
        return ivy.wait(_IVY_SECONDS) == 0
    except TimeoutError:
        return False
    finally:
        ivy.close()


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec and spec.submodule_search_locations) or ():
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise JarsMissingError(f"pyspark, which carries the Ivy jar, {_INSTALL}")
