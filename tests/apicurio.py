"""A real schema registry: Apicurio, with Confluent's API, on 127.0.0.1."""

from __future__ import annotations

import shutil
import signal
import socket
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from support import eventually

from columnar_kafka.local.java import find_java, jars, once
from columnar_kafka.local.process import GuardedProcess, tail

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Apicurio"]

_VERSION = "2.6.13.Final"
_NAME = "apicurio-registry-app"
_ARCHIVE = f"""
<dependency org="io.apicurio" name="{_NAME}" rev="{_VERSION}" transitive="false">
  <artifact name="{_NAME}" type="tar.gz" ext="tar.gz" m:classifier="all"/>
</dependency>
"""


class Apicurio:
    """A registry that is empty at first, for as long as a `with` block lasts.

    It keeps its port and its schemas when it is killed and started again.
    """

    def __enter__(self) -> Self:
        self._jar = once(f"apicurio-{_VERSION}", _unpack) / f"{_NAME}-{_VERSION}-runner.jar"
        with socket.create_server(("127.0.0.1", 0)) as one:
            self._port = one.getsockname()[1]
        self._folder = Path(tempfile.mkdtemp(prefix="apicurio-"))
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"
        try:
            self.start()
        except BaseException as error:
            error.add_note(tail(self._folder / "log"))
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and block until it answers."""
        command = [
            find_java().executable,
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Dquarkus.http.host=127.0.0.1",
            f"-Dquarkus.http.port={self._port}",
            f"-DREGISTRY_DATASOURCE_URL=jdbc:h2:file:{self._folder}/schemas;WRITE_DELAY=0",
            "-jar",
            self._jar,
        ]
        self._process = GuardedProcess(command, log=self._folder / "log", remove=self._folder)
        eventually(self._is_up)

    def kill(self) -> None:
        """KILL, and block until it is gone."""
        self._process.close()

    def suspend(self) -> None:
        """Freeze it: connections stay open, nothing answers."""
        self._process.suspend()

    def mend(self) -> None:
        """Let it go on, or start it again, and block until it answers."""
        self._process.signal(signal.SIGCONT)
        if self._process.running:
            eventually(self._is_up)
        else:
            self.start()

    def _is_up(self) -> bool:
        if not self._process.running:
            raise RuntimeError("Apicurio ended while it started")
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                return True
        except OSError:
            return False


def _unpack(folder: Path) -> None:
    [archive] = jars(f"apicurio-archive-{_VERSION}", _ARCHIVE).iterdir()
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    shutil.rmtree(archive.parent)
