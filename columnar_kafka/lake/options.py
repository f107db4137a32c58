"""The options of landing, each with its name, type, default and help: the only list of them.

The commands take them by these names, as ``--dead-letters``, Spark's sink as
``table.dead.letters``; docs/lake.md has a table of them, which a test compares with this one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from columnar_kafka.config import Hidden
from columnar_kafka.errors import ConfigError, SchemaError
from columnar_kafka.lake.aside.decoding import Decoding
from columnar_kafka.lake.aside.rules import Rules
from columnar_kafka.lake.aside.schema_source import Infer, OfTable, log_guess
from columnar_kafka.lake.formats import FORMATS, formats_with, open_table, parse_rules
from columnar_kafka.lake.partition import STRADDLE
from columnar_kafka.lake.plan import Layout, Mode
from columnar_kafka.plain.lenient import MISFIT, UNKNOWN, Lenient
from columnar_kafka.plain.row_formats import ROW_FORMATS, WITH_IDS
from columnar_kafka.schema.json_schema import is_json_schema, read_json_schema
from columnar_kafka.segment.verification import VERIFICATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from columnar_kafka.lake.aside.schema_source import Guess
    from columnar_kafka.lake.tables.base import LakeTable

__all__ = [
    "SCHEMA_SOURCES",
    "DecodingOptions",
    "LakeOptions",
    "LandingOptions",
    "Option",
    "TableOptions",
    "options_of",
]

_RULES: Final = Rules()
_LAYOUT: Final = Layout()
_LENIENT: Final = Lenient()
_INFER: Final = Infer()
_PATIENT: Final = {"max.retries": 10}
"""So a landing waits for a registry for about a minute before it fails."""
SCHEMA_SOURCES: Final = ("infer", "table")
"""What a schema may come from that is in no file."""


class Option(NamedTuple):
    """What is said of an option: its value is one of the `choices`, or looks like `metavar`.

    `least` is the least number, `is_place` the path or URL of a table. It `may_hide` a password.
    """

    help: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    least: int | None = None
    is_place: bool = False
    may_hide: bool = False


def options_of(kind: type) -> Iterator[tuple[str, Option]]:
    """Yield the names of options that are fields of a class, and what is said of them."""
    for member in fields(kind):
        if "option" in member.metadata:
            yield member.name, member.metadata["option"]


def _option(default: Any, text: str, *choices: str, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(text, choices, **more)})


def _pairs(text: str) -> Any:
    return field(default_factory=Hidden, repr=False, metadata={"option": Option(text)})


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What opens a table, wherever it is."""

    format: str = _option("parquet", "The table's format.", *FORMATS)
    catalog: Mapping[str, str] = _pairs("A property of the Iceberg catalog, key=value; repeats.")
    storage: Mapping[str, str] = _pairs(
        "A key of the object store, such as aws_region=eu-central-1; repeats."
    )

    def misplaced(self) -> Iterator[str]:
        """Yield the options that are set, and that tables of this format do not have."""
        unset = type(self)()
        for name, _ in options_of(type(self)):
            if not self._has(name) and getattr(self, name) != getattr(unset, name):
                yield name

    def opening(self) -> Hidden:
        """Return the arguments of `open_table`, besides format and place."""
        arguments = Hidden({"storage": self.storage})
        if self._has("catalog"):
            arguments["catalog"] = self.catalog
        return arguments

    def open(self, place: str) -> LakeTable:
        """Open the table at a place. Raises as `open_table`."""
        return open_table(self.format, place, **self.opening())

    def _has(self, name: str) -> bool:
        return self.format in formats_with(name)


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How plain messages become rows."""

    plain_format: str | None = _option(
        None, "Format of the values of plain messages that land as rows.", *ROW_FORMATS
    )
    plain_schema: str | None = _option(
        None,
        "File with the Avro schema or JSON Schema of plain messages. table: they have the table's "
        "columns. infer: the schema kept with the table, or what the first messages tell.",
        metavar="FILE|infer|table",
    )
    plain_schema_id: int | None = _option(
        None,
        f"Registry id of --plain-schema, for {WITH_IDS} values with Confluent's five-byte prefix.",
        least=0,
    )
    registry: str | None = _option(
        None,
        "URL of a schema registry that has the schemas of plain messages, by the ids in these.",
        metavar="URL",
        may_hide=True,
    )
    registry_key: Mapping[str, str] = _pairs(
        "A key of the registry's client, such as basic.auth.user.info=USER:PASSWORD; repeats."
    )
    infer_messages: int = _option(
        _INFER.messages,
        "How many messages of each partition tell the schema. (--plain-schema infer)",
        least=1,
    )
    infer_times: bool = _option(
        _INFER.times,
        "Take texts for times if all are in ISO 8601. (--plain-schema infer)",
    )
    plain_fields: str = _option(
        "exact",
        "Whether JSON has exactly the fields of its schema, or may lack some and have others.",
        *("exact", "lenient"),
    )
    plain_unknown: str = _option(
        _LENIENT.unknown,
        "What to do with a field that the schema does not have. grow: the table gets a column for "
        "it. (lenient)",
        *UNKNOWN,
    )
    plain_misfit: str = _option(
        _LENIENT.misfit,
        "What to do with a value that its column cannot hold. (lenient)",
        *MISFIT,
    )
    plain_coerce: bool = _option(
        _LENIENT.coerce,
        "Take numbers and booleans in texts, and numbers as texts, where columns are. (lenient)",
    )
    plain_rest_column: str = _option(
        _LENIENT.rest_column, "The column of what finds no other, as JSON text. (lenient)"
    )
    plain_path: str = _option(
        _LENIENT.path,
        "The JSON pointer to the object in a message that is the row, such as /payload. (lenient)",
        metavar="POINTER",
    )
    plain_max_columns: int = _option(
        _LENIENT.max_columns,
        "How many columns a guess may have, and the table may grow to. (lenient)",
        least=1,
    )

    def missing(self) -> str:
        """Return the option that decoding lacks; nothing if it lacks none, or there are none."""
        if self.registry or (self.plain_format and self.plain_schema):
            return ""
        if self.registry_key:
            return "registry"
        decoding = [name for name, _ in options_of(DecodingOptions)]
        if all(getattr(self, name) == getattr(DecodingOptions(), name) for name in decoding):
            return ""
        return "plain_schema" if self.plain_format else "plain_format"

    def decoding(self, told: Callable[[Guess], None] = log_guess) -> Decoding | None:
        """Return how plain messages become rows, by the text of a schema; None if no option says.

        A schema that is guessed will be `told`.

        Raises:
            ConfigError: as `Decoding` and `lenient`, or an option is only for a schema to guess.
        """
        if self.registry is not None:
            return self._of_registry()
        if self.plain_format is None:
            return None
        schema = self._schema(told)
        return Decoding(self.plain_format, schema, self.plain_schema_id, self.lenient())

    def _of_registry(self) -> Decoding:
        unset = DecodingOptions()
        for name, _ in options_of(DecodingOptions):
            if "registry" not in name and getattr(self, name) != getattr(unset, name):
                option = name.replace("_", "-")
                raise ConfigError(
                    f"registry is set, which has all of the schemas: leave {option} out"
                )
        return Decoding(registry=Hidden({**_PATIENT, "url": self.registry, **self.registry_key}))

    def _schema(self, told: Callable[[Guess], None]) -> Any:
        infer = Infer(messages=self.infer_messages, times=self.infer_times, told=told)
        if self.plain_schema == "infer":
            return infer
        if infer != Infer(told=told):
            name = "infer-times" if self.infer_times else "infer-messages"
            raise ConfigError(f"{name} is set: it needs plain-schema to be infer")
        if self.plain_schema == "table":
            return OfTable()
        with suppress(ValueError):  # of which `Decoding` says more
            if is_json_schema(parsed := json.loads(self.plain_schema or "")):
                try:
                    return read_json_schema(parsed)
                except SchemaError as error:
                    raise ConfigError(f"the schema of plain messages: {error}") from error
        return self.plain_schema

    def lenient(self) -> Lenient | None:
        """Return what becomes of objects that differ from the schema; None if they are refused.

        Raises:
            ConfigError: as `Lenient`, or an option is only for objects that may differ.
        """
        given = {member.name: getattr(self, f"plain_{member.name}") for member in fields(Lenient)}
        if self.plain_fields == "lenient":
            return Lenient(**given)
        for name, value in given.items():
            if value != getattr(_LENIENT, name):
                option = f"plain-{name.replace('_', '-')}"
                raise ConfigError(f"{option} is {value!r}: it needs plain-fields to be lenient")
        return None


@dataclass(frozen=True, kw_only=True)
class LandingOptions(DecodingOptions, TableOptions):
    """What lands in a table, and what becomes of the rest."""

    verify: str = _option(
        _RULES.verify,
        "How closely to check a segment: decode if you do not trust its producer.",
        *VERIFICATIONS,
    )
    dead_letters: str | None = _option(
        None,
        "A directory for messages that cannot land; without it the first one is an error.",
        is_place=True,
    )
    plain: str = _option(
        _RULES.plain,
        "What to do with messages that are not segments. PLACE: a table of their own, of the same "
        "format. decode: they land as rows, see --plain-format and --registry.",
        metavar="stop|skip|dead-letter|table:PLACE|decode",
        is_place=True,
    )
    after_restore: str = _option(
        "stop",
        "Whether to land again what a restore of the table has undone.",
        *("stop", "reland"),
    )
    growth: str | None = _option(
        None,
        "Whether to add columns to the table; by default only if a landing created it.",
        *("allow", "refuse"),
    )
    partition_by: tuple[str, ...] = _option(
        (), "A partition column of a new table, or a transform such as day(column); repeats."
    )

    def opening(self) -> Hidden:
        """See `TableOptions.opening`."""
        arguments = super().opening()
        if self._has("after_restore"):
            arguments["reland"] = self.after_restore == "reland"
            arguments["growth"] = None if self.growth is None else self.growth == "allow"
            arguments["partition_by"] = self.partition_by
        return arguments

    def rules(self, decoding: Decoding | None, **more: Any) -> Rules:
        """Return the rules; their tables are opened as the table is. Raises as `parse_rules`."""
        return parse_rules(
            verify=self.verify,
            dead_letters=self.dead_letters,
            plain=self.plain,
            table_format=self.format,
            decoding=decoding,
            **more,
            **self.opening(),
        )


@dataclass(frozen=True, kw_only=True)
class LakeOptions(LandingOptions):
    """All options of a landing from Kafka."""

    layout: str = _option(
        _LAYOUT.mode.value,
        "Many segments in a file, or a file for each one, byte for byte.",
        *(mode.value for mode in Mode),
    )
    file_bytes: int = _option(
        _LAYOUT.file_bytes,
        "The size at which the next stitched file begins; it also does after 1,000 row groups.",
        least=1,
    )
    small_bytes: int = _option(
        _LAYOUT.small_bytes,
        "Segments of fewer bytes are encoded anew, with neighbours like them as one row group; "
        "0: none is. (stitched)",
        least=0,
    )
    gap: str = _option(
        "refuse",
        "Whether to go on where messages were deleted before they landed.",
        *("refuse", "allow"),
    )
    keep_snapshots: int | None = _option(
        None,
        "How many snapshots of an Iceberg table stay; by default its properties say it.",
        least=1,
    )
    straddle: str = _option(
        _RULES.straddle,
        "What to do with a segment that has rows of several partitions.",
        *STRADDLE,
    )
    topic_generation: str | None = _option(
        None,
        "A text in place of the topic's id, where brokers report none. "
        "Another text means another topic.",
    )

    def rules(self, decoding: Decoding | None, **more: Any) -> Rules:
        """See `LandingOptions.rules`."""
        return super().rules(decoding, straddle=self.straddle, **more)

    def files(self) -> Layout:
        """Return how segments become files."""
        return Layout(
            mode=Mode(self.layout), file_bytes=self.file_bytes, small_bytes=self.small_bytes
        )

    def opening(self) -> Hidden:
        """See `TableOptions.opening`."""
        arguments = super().opening()
        arguments["allow_gaps"] = self.gap == "allow"
        if self._has("keep_snapshots"):
            arguments["keep_snapshots"] = self.keep_snapshots
        return arguments
