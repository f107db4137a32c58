"""The files of an Iceberg table in an object store, through pyiceberg's own `FileIO`.

So they are written with the credentials that read them, which a REST catalog may hand out for each
table. `FileIO` overwrites silently: names must be unique.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.partitioning import PartitionKey
from pyiceberg.table import TableProperties
from pyiceberg.typedef import Record

from columnar_kafka.errors import ConfigError, LakeError
from columnar_kafka.lake.tables.files import StagedWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from columnar_kafka.lake.model import FileWriter, PartitionValues

__all__ = ["TableFiles", "create_namespace", "file_io_properties", "new_data_path"]

_PROPERTIES: Final = {
    "aws_access_key_id": "s3.access-key-id",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
    "aws_region": "s3.region",
    "aws_endpoint_url": "s3.endpoint",
    "aws_virtual_hosted_style_request": "s3.force-virtual-addressing",
    "aws_allow_http": None,  # the endpoint says it
}


def file_io_properties(storage: Mapping[str, str]) -> dict[str, str]:
    """Return pyiceberg's properties for the keys of an object store.

    What is left out comes from the environment: the endpoint here, the others where S3 is asked.

    Raises:
        ConfigError: pyiceberg has none for a key.
    """
    if unknown := [key for key in storage if key.lower() not in _PROPERTIES]:
        raise ConfigError(
            f"storage {unknown[0]}: the keys for Iceberg are {', '.join(_PROPERTIES)}; set others "
            "as properties of the catalog, by pyiceberg's names"
        )
    names = {key: _PROPERTIES[key.lower()] for key in storage}
    properties = {name: storage[key] for key, name in names.items() if name is not None}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        properties.setdefault("s3.endpoint", endpoint)
    return properties


_PLACED: Final = (
    TableProperties.WRITE_DATA_PATH,
    TableProperties.OBJECT_STORE_ENABLED,
    TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL,
)


def new_data_path(table: Table, folder: str, name: str, partition: PartitionValues) -> str:
    """Return where a file of a table is to be written: a path in it, in a `folder` of its data.

    If the table's properties say where its files go, it is a URI: where pyiceberg puts them.

    Raises:
        LakeError: pyiceberg cannot tell.
    """
    if not any(name in table.properties for name in _PLACED):
        return f"data/{folder}/{name}"
    try:
        provider = table.location_provider()
        if not partition:
            return provider.new_data_location(name)
        key = _KnownPartition([], table.spec(), table.schema(), Record(*(v for _, v in partition)))
        return provider.new_data_location(name, key)
    except Exception as error:  # a provider may be anybody's
        raise LakeError(f"the table's properties say no place for a file: {error!r}") from error


@dataclass(frozen=True)
class _KnownPartition(PartitionKey):
    """A partition of which the values are known, and not what they were made of."""

    known: Record

    @property
    def partition(self) -> Record:
        """The values."""
        return self.known


class TableFiles:
    """What an Iceberg table needs of `Files`; paths are relative to the table's location."""

    def __init__(self, io: FileIO, location: str) -> None:
        self._io = io
        self._location = location.rstrip("/")

    def uri(self, path: PurePath) -> str:
        """See `Files.uri`."""
        return f"{self._location}/{path}"

    def writer(
        self, name: str, path: PurePath, field_ids: Mapping[tuple[str, ...], int] | None = None
    ) -> FileWriter:
        """See `Files.writer`."""
        return _TableFileWriter(name, self._io, self.uri(path), field_ids)

    def size(self, path: PurePath) -> int | None:
        """See `Files.size`."""
        try:
            return len(self._io.new_input(self.uri(path)))
        except FileNotFoundError:
            return None

    def footer(self, path: PurePath, nbytes: int) -> Any:
        """See `Files.footer`."""
        return self._io.new_input(self.uri(path)).open()

    def remove(self, path: PurePath) -> None:
        """See `Files.remove`."""
        with suppress(FileNotFoundError):
            self._io.delete(self.uri(path))


class _TableFileWriter(StagedWriter):
    """A `FileWriter` for a file of an Iceberg table, which appears when it is finished."""

    def __init__(
        self, path: str, io: FileIO, uri: str, field_ids: Mapping[tuple[str, ...], int] | None
    ) -> None:
        file = io.new_output(uri).create(overwrite=True)  # no request: names are unique
        super().__init__(path, file, field_ids)
        self._io = io
        self._uri = uri

    def discard(self) -> None:
        """See `FileWriter.discard`."""
        with suppress(OSError):
            self.file.close()
        with suppress(OSError):
            self._io.delete(self._uri)


def create_namespace(catalog: Any, name: str) -> None:
    """Create a namespace if there is none; pyiceberg's look and its creation are two steps."""
    try:
        catalog.create_namespace_if_not_exists(name)
    except Exception:
        if not catalog.namespace_exists(name):  # nor has another process just created it
            raise
