"""Tables and rules by their names in options. A library is imported only where it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.config import Arguments, Hidden
from columnar_kafka.errors import ConfigError
from columnar_kafka.lake.aside.dead_letters import DeadLetters
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.tables.directory.table import ParquetDirectory
from columnar_kafka.lake.tables.files import hide_password, is_object_store, refuse_password

if TYPE_CHECKING:
    from collections.abc import Mapping

    from columnar_kafka.lake.aside.decoding import Decoding
    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.lake.tables.files import Files

__all__ = ["FORMATS", "formats_with", "open_dead_letters", "open_table", "parse_rules"]


class TableFormat(NamedTuple):
    """A table format: its class, and the options that not all formats have."""

    module: str
    kind: str
    options: tuple[str, ...] = ()

    @property
    def has_catalog(self) -> bool:
        """Whether a place is a name in a catalog, which knows where the files are."""
        return "catalog" in self.options


_HISTORY: Final = ("after_restore", "growth", "partition_by")

FORMATS: Final = {
    "parquet": TableFormat("columnar_kafka.lake.tables.directory.table", "ParquetDirectory"),
    "delta": TableFormat("columnar_kafka.lake.tables.delta.table", "DeltaLakeTable", _HISTORY),
    "iceberg": TableFormat(
        "columnar_kafka.lake.tables.iceberg.table",
        "IcebergTable",
        (*_HISTORY, "catalog", "keep_snapshots"),
    ),
}
"""The formats by their names, which are also those of their extras."""


def formats_with(option: str) -> tuple[str, ...]:
    """Return the formats that have an option of landing: all, unless some name it."""
    names = tuple(name for name, format_ in FORMATS.items() if option in format_.options)
    return names or tuple(FORMATS)


def open_table(
    table_format: str, place: str, *, storage: Mapping[str, str] | None = None, **options: Any
) -> LakeTable:
    """Return the table of a format at a place, with the options of its class.

    `storage` are keys of the object store where the files are (``aws_region``, …); what they leave
    out comes from the environment.

    Raises:
        ConfigError: the format does not exist, or needs an extra that is not installed; a key of
            `storage` does not exist, or the place is in no object store; there is a password in
            a URL.
        LakeError: the place is none for this format.
        TypeError: `storage` is no dict.
    """
    given, storage = Arguments((storage or {},), {}), None  # which shows passwords
    place, options, storage = hide_password(place), Hidden(options), given.mapping()
    refuse_password(place)
    if table_format not in FORMATS:
        raise ConfigError(
            f"table format {table_format!r} does not exist; the formats are {', '.join(FORMATS)}"
        )
    chosen = FORMATS[table_format]
    module = _imported(chosen.module, table_format, f"table format {table_format!r}")
    if chosen.has_catalog:
        options["storage"] = storage
    elif files := _files(place, storage):
        options["files"] = files
    table: LakeTable = getattr(module, chosen.kind)(place, **options)
    return table


def _files(place: str, storage: Mapping[str, str]) -> Files[Any] | None:
    """Return the object store of a place; None if it is on this machine."""
    if is_object_store(place):
        name = "columnar_kafka.lake.tables.object_files"
        stores = _imported(name, "stores", f"a table at {place}")
        files: Files[Any] = stores.ObjectFiles(place, storage)
        return files
    if storage:
        raise ConfigError(f"storage {min(storage)}: {place!r} is not in an object store")
    return None


def open_dead_letters(place: str, *, storage: Mapping[str, str] | None = None) -> DeadLetters:
    """Return a place of dead letters; `storage` counts if it is in an object store.

    Raises:
        ConfigError, LakeError, TypeError: as `open_table`.
    """
    given, storage = Arguments((storage or {},), {}), None  # which shows passwords
    place, storage = hide_password(place), given.mapping()
    refuse_password(place)
    keys = storage if is_object_store(place) else {}  # the table may be elsewhere
    return DeadLetters(ParquetDirectory(place, files=_files(place, keys)))


def parse_rules(
    *,
    verify: str,
    dead_letters: str | None,
    plain: str,
    table_format: str,
    straddle: str = "split",
    decoding: Decoding | None = None,
    storage: Mapping[str, str] | None = None,
    **options: Any,
) -> Rules:
    """Return the rules that texts state.

    Args:
        verify: a `Verification`.
        dead_letters: the place of dead letters, if there is one.
        plain: a `Plain`, or ``table:`` and the place of the plain messages' table.
        table_format: the format of that table.
        straddle: a `Straddle`.
        decoding: what makes rows of plain messages, for ``decode``.
        storage: as `open_table` takes it.
        options: the options of that table's class; partitions are not for plain messages.

    Raises:
        ConfigError: a text is not allowed, or one needs another that is missing; or as
            `open_table`.
        LakeError: a place is none for its format.
        TypeError: `storage` is no dict.
    """
    given, storage = Arguments((storage or {},), {}), None  # which shows passwords
    plain, options, storage = hide_password(plain), Hidden(options), given.mapping()
    dead_letters = None if dead_letters is None else hide_password(dead_letters)
    refuse_password(plain)
    kind, _, place = plain.partition(":")
    if kind == "table" and not place:
        raise ConfigError("plain is table: name the table, as in table:PLACE")
    letters = None if dead_letters is None else open_dead_letters(dead_letters, storage=storage)
    options.pop("partition_by", None)
    table = None
    if kind == "table":
        plain, table = kind, open_table(table_format, place, storage=storage, **options)
    texts: dict[str, Any] = {"verify": verify, "plain": plain, "straddle": straddle}
    return Rules(**texts, dead_letters=letters, plain_table=table, decoding=decoding)


def _imported(module: str, extra: str, what: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{what} needs another package ({error}): pip install 'columnar-kafka[{extra}]'"
        ) from error
