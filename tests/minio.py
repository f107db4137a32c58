"""A real S3 server: minio, built once by Go into the cache folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyarrow.fs import S3FileSystem, SubTreeFileSystem
from support import eventually

from columnar_kafka.lake.tables.object_files import ObjectFiles
from columnar_kafka.local.java import cache_directory, once
from columnar_kafka.local.process import GuardedProcess, tail

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Bucket", "Minio"]

# Go's checksum database has the hash of this version's sources.
_MODULE = "github.com/minio/minio"
_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
_FOLDER = f"minio-{_VERSION}"
_USER, _PASSWORD = "tests", "tests-of-the-lake"
_BUCKET = "lake"


class Bucket(NamedTuple):
    """A folder of a bucket; `endpoint` is the server's, or a proxy's.

    `catalog` is the URI of an Iceberg REST catalog that has the folder for a namespace's tables.
    """

    endpoint: str
    path: str
    catalog: str = ""

    def __truediv__(self, name: str) -> Bucket:
        return self._replace(path=f"{self.path}/{name}")

    def __str__(self) -> str:
        return f"s3://{self.path}"

    @property
    def storage(self) -> dict[str, str]:
        """The keys that open it."""
        return {
            "aws_access_key_id": _USER,
            "aws_secret_access_key": _PASSWORD,
            "aws_region": "us-east-1",
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": "true",
        }

    def files(self) -> ObjectFiles:
        return ObjectFiles(str(self), self.storage)

    def filesystem(self) -> SubTreeFileSystem:
        return SubTreeFileSystem(self.path, _s3(self.endpoint))


class Minio:
    """A minio on 127.0.0.1 with an empty bucket, for as long as a `with` block lasts."""

    @staticmethod
    def is_built() -> bool:
        """Return whether it can start without being built first."""
        return (cache_directory() / _FOLDER).exists()

    def __enter__(self) -> Self:
        server = once(_FOLDER, _build) / "minio"
        with socket.create_server(("127.0.0.1", 0)) as one:
            address = f"127.0.0.1:{one.getsockname()[1]}"
        self.endpoint = f"http://{address}"
        self._folder = Path(tempfile.mkdtemp(prefix="minio-"))
        log = self._folder / "log"
        user = [f"MINIO_ROOT_USER={_USER}", f"MINIO_ROOT_PASSWORD={_PASSWORD}", "MINIO_BROWSER=off"]
        self._process = GuardedProcess(
            ["env", *user, server, "server", "--address", address, self._folder / "data"],
            log=log,
            remove=self._folder,
        )
        try:
            eventually(self._is_up)
            _s3(self.endpoint).create_dir(_BUCKET)
        except BaseException as error:
            error.add_note(tail(log))
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def place(self, name: str) -> Bucket:
        """Return a folder of that name."""
        return Bucket(self.endpoint, f"{_BUCKET}/{name}")

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/minio/health/ready", timeout=5):
                return True
        except OSError:
            return False


def _s3(endpoint: str) -> S3FileSystem:
    return S3FileSystem(
        access_key=_USER,
        secret_key=_PASSWORD,
        region="us-east-1",
        endpoint_override=endpoint,
        allow_bucket_creation=True,
    )


def _build(folder: Path) -> None:
    """Build minio; minutes."""
    env = os.environ | {"GOBIN": str(folder), "GOFLAGS": "-trimpath", "CGO_ENABLED": "0"}
    command = ["go", "install", "-ldflags=-s -w", f"{_MODULE}@{_VERSION}"]
    subprocess.run(command, env=env, check=True, capture_output=True, text=True)
