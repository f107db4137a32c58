"""Plain messages that land as rows of the table itself, beside those of segments.

A row's identity comes from its message's partition and offset alone, whatever other messages it
lands with: ``_kafka.segment`` names the fence and a block of offsets, ``_kafka.row`` is the place
in that block. So a message that is read again makes the same row, and an audit finds it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from columnar_kafka.config import hidden
from columnar_kafka.errors import ConfigError, SchemaError
from columnar_kafka.lake.aside.kept_columns import kept_columns
from columnar_kafka.lake.aside.message_rows import as_bytes, headers_in_bytes
from columnar_kafka.lake.model import SourceMessage
from columnar_kafka.plain.lenient import tokens_of
from columnar_kafka.plain.row_formats import ROW_FORMATS, WITH_IDS, registered_rows
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.leading import led_by
from columnar_kafka.segment.headers import SegmentHeader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from columnar_kafka.lake.model import PlainMessages
    from columnar_kafka.lake.tables.base import LakeTable
    from columnar_kafka.native import _core as core
    from columnar_kafka.plain.lenient import Lenient
    from columnar_kafka.plain.rows import PlainRows

__all__ = [
    "BLOCK",
    "PLAIN_ID",
    "DecodedMessages",
    "Decoding",
    "PlainDecoder",
    "Sample",
    "SchemaSource",
    "with_decimals",
]

BLOCK: Final = 1 << 16
"""The offsets that share a name in ``_kafka.segment``; an audit decodes so many together."""
PLAIN_ID: Final = "plain-"
"""What the names of blocks begin with. Those of producers' segments do not."""
_NO_TIME: Final = -1  # as Kafka says it


Sample: TypeAlias = Callable[[int], Iterable[SourceMessage]]


class SchemaSource(ABC):
    """What a schema comes from that nobody has written."""

    @abstractmethod
    def decide(self, decoding: Decoding, table: LakeTable, sample: Sample | None) -> RecordSchema:
        """Return the schema; see `Decoding.decided`."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How plain messages become rows of the table: their format and their schema. Picklable.

    `format` is one of `ROW_FORMATS`. `schema` is what `Producer.set_schema` takes: an Avro schema,
    or, for ``json`` only, a `pyarrow.Schema`, or what it comes from once there is a table (see
    `decided`). `schema_id` is for Avro values that begin with Confluent's five bytes: the
    registry's id of the schema, which all of them must have. `lenient` is for ``json`` only: what
    becomes of messages that differ from the schema; None if they are refused.

    With a `registry` each message says its schema's id, before its value or in a header, and that
    says all of this: it is a `SchemaRegistryClient` of confluent-kafka, or its settings. (A client
    cannot be pickled.)

    Raises:
        ConfigError: the format does not exist, or a field of the schema cannot be used; or the
            registry's settings cannot.
    """

    format: str = ""
    schema: Any = None
    schema_id: int | None = None
    lenient: Lenient | None = None
    registry: Any = None

    @property
    def rest_column(self) -> str | None:
        """The name of the column of what finds no other; None if there is no such column."""
        lenient = self.lenient
        return lenient.rest_column if lenient is not None and lenient.has_rest else None

    @property
    def grows(self) -> bool:
        """Whether the table gets columns for fields that it lacks."""
        return self.lenient is not None and self.lenient.unknown == "grow"

    @property
    def tokens(self) -> list[str]:
        """The names that lead to a row in its message."""
        return [] if self.lenient is None else tokens_of(self.lenient.path)

    def decided(self, table: LakeTable, sample: Sample | None = None) -> Decoding:
        """Return how messages become rows of a table, by a schema that is known. May block.

        `sample` returns the first messages of each partition, at most so many.

        Raises:
            LakeError: the source of the schema has none, or the table cannot be read or changed.
            ConfigError: its schema cannot be used.
        """
        decided = self
        if isinstance(self.schema, SchemaSource):
            decided = replace(self, schema=self.schema.decide(self, table, sample))
        if decided.grows and (kept := table.kept_schema()) is not None:
            schema = RecordSchema.parse(decided.schema)
            decided = replace(decided, schema=led_by(kept_columns(table, kept, None), schema))
        return decided

    def rows(self) -> PlainRows:
        """Return what makes rows. Raises SchemaError, TypeError; ConfigError for a registry."""
        if self.registry is not None:
            return registered_rows(self.registry)
        return ROW_FORMATS[self.format].open(self.schema, self.schema_id, self.lenient)

    def __post_init__(self) -> None:
        if self.registry is not None:
            self._check_registry()
            return
        if self.format not in ROW_FORMATS:
            raise ConfigError(
                f"the format of plain messages is {self.format!r}: it must be "
                f"{' or '.join(ROW_FORMATS)}"
            )
        form = ROW_FORMATS[self.format]
        if not form.has_ids and self.schema_id is not None:
            raise ConfigError(f"a schema id is for plain messages in {WITH_IDS}: leave it out")
        other = pa.Schema, RecordSchema, SchemaSource
        if not form.takes_arrow and isinstance(self.schema, other):
            raise ConfigError(
                f"plain messages in {form.title} need the {form.title} schema that wrote them"
            )
        if self.lenient is not None and form.lenient is None:
            raise ConfigError(
                f"plain messages in {form.title} cannot differ from the schema that wrote them: "
                "leave lenient out"
            )
        if not 0 <= (self.schema_id or 0) < 1 << 32:
            raise ConfigError(f"the schema id is {self.schema_id}: it must have 32 bits")
        if isinstance(self.schema, SchemaSource):
            return
        try:
            PlainDecoder(self)
        except (SchemaError, TypeError) as error:
            raise ConfigError(f"the schema of plain messages: {error}") from error

    def _check_registry(self) -> None:
        """Check the settings, and hide them in texts."""
        object.__setattr__(self, "registry", hidden(self.registry))
        if (self.format, self.schema, self.schema_id, self.lenient) != ("", None, None, None):
            raise ConfigError(
                "a registry has the schema of each message: leave out format, schema, schema id "
                "and lenient"
            )
        self.rows()


class DecodedMessages(NamedTuple):
    """The rows of messages, without those that were `refused`: why, by their index."""

    rows: pa.Table
    refused: dict[int, str]


class PlainDecoder:
    """Makes rows of plain messages. For one thread; `schema` is theirs, with `_kafka`."""

    def __init__(
        self, decoding: Decoding, rows: PlainRows | None = None, *, is_alone: bool = False
    ) -> None:
        """Decode by the format and the schema of `decoding`; or into other `rows`.

        Raises: see `Decoding.rows`.
        """
        self._decoding = decoding
        self.is_alone = is_alone
        self._rows = decoding.rows() if rows is None else rows
        self.schema = self._rows.schema
        self.fingerprint = self._rows.fingerprint
        # Header of the previous message, reused. The planner ignores its times.
        self._header = SegmentHeader(
            rows=1, segment="", schema=self.fingerprint, timestamp_min=0, timestamp_max=0
        )

    def header(self, fence: str, offset: int) -> SegmentHeader:
        """Return what a plan needs to know of a message: as of a segment of one row."""
        name = block_name(fence, offset // BLOCK)
        if self._header.segment != name:
            self._header = self._header._replace(segment=name)
        return self._header

    def same_values(self, one: pa.Table, other: pa.Table) -> bool:
        """Return whether two tables of one row are of equal messages, as JSON has values.

        A table that has grown may have in a column what a row has in its rest, and numbers that are
        equal count as equal. If `one` is from before it grew, a column may have another form of its
        values by now: of a time, or of a number in a text. So it is read again.
        """
        first, second = (
            with_decimals(self._rows.restored(table.to_pylist()[0])) for table in (one, other)
        )
        if first is None or one["_kafka"] != other["_kafka"]:
            return False
        return bool(first == second or with_decimals(self._rows.again(first)) == second)

    def parts(
        self,
        messages: Sequence[SourceMessage],
        fits: Callable[[PlainRows], bool] = lambda _: True,
    ) -> Iterator[tuple[PlainDecoder, Sequence[SourceMessage]]]:
        """Yield all messages, in their order, each part with what decodes it.

        Where each message says its own schema, a decoder has columns for all of a part, and those
        of the part before it, unless these contradict, or more of them do not fit: then it
        `is_alone`.

        Raises:
            RegistryError: the registry does not answer, or denies a schema. Blocks while it asks.
        """
        start, leading = 0, self
        while start < len(messages):
            decoder, count = leading._holding(messages[start:], fits)
            yield decoder, messages[start : start + count]
            leading = leading if decoder.is_alone else decoder
            start += count

    def _holding(
        self, messages: Sequence[SourceMessage], fits: Callable[[PlainRows], bool]
    ) -> tuple[PlainDecoder, int]:
        rows, count, contradicts = self._rows.holding(messages, fits)
        if rows is self._rows:
            return self, count
        return PlainDecoder(self._decoding, rows, is_alone=contradicts), count

    def decode(self, fence: str, messages: Sequence[SourceMessage]) -> DecodedMessages:
        """Decode messages of one partition, whose `fence` is part of the rows' identity."""
        refused = {
            index: "it is a tombstone, which has no value"
            for index, message in enumerate(messages)
            if message.value is None
        }
        present = [index for index in range(len(messages)) if index not in refused]
        table, errors = self._rows.decode([self._value(messages[index]) for index in present])
        refused |= {present[index]: reason for index, reason in errors.items()}
        kept = [message for index, message in enumerate(messages) if index not in refused]
        return DecodedMessages(self._with_kafka(table, fence, kept), dict(sorted(refused.items())))

    @property
    def waits_for_columns(self) -> bool:
        """Whether messages are still to say their columns."""
        return self._decoding.registry is not None and not len(self._rows.columns)

    def may_be_native(self, messages: PlainMessages) -> bool:
        """Whether the native core may decode messages by their values alone."""
        header = self._rows.id_header
        return header is None or not messages.core.has_header(header)

    def native(self) -> tuple[core.PlainFormat, core.Encoder]:
        """Return what decodes values in the native core, and what encodes their rows.

        Raises:
            NotNativeError: the core has nothing for them.
        """
        return self._rows.native()

    def row(self, message: SourceMessage) -> tuple[Any, ...] | None:
        """Return a message's row as the native core takes it; None if it has to be decoded."""
        return None if message.value is None else self._rows.row(self._value(message))

    def _value(self, message: SourceMessage) -> Any:
        return self._rows.value(bytes(message.value or b""), message.headers)

    def _with_kafka(
        self, table: pa.Table, fence: str, messages: Sequence[SourceMessage]
    ) -> pa.Table:
        return self._rows.with_kafka(
            table,
            segments=_block_names(fence, [message.offset for message in messages]),
            rows=[message.offset % BLOCK for message in messages],
            keys=[as_bytes(message.key) for message in messages],
            timestamps=[
                _NO_TIME if message.timestamp is None else message.timestamp for message in messages
            ],
            # Kafka does not tell no headers from an empty list of them.
            headers=[headers_in_bytes(message) or None for message in messages],
        )


def with_decimals(value: Any) -> Any:
    """Return a value of JSON with its numbers as they are compared: 7.0 is 7, and 0.1 is exact."""
    if isinstance(value, dict):
        return {name: with_decimals(member) for name, member in value.items()}
    if isinstance(value, list):
        return [with_decimals(item) for item in value]
    return Decimal(repr(value)) if type(value) in (float, int) else value


@lru_cache(maxsize=1024)
def block_name(fence: str, block: int) -> str:
    """Return what ``_kafka.segment`` is in the rows of a block; at most 40 characters."""
    digest = hashlib.sha256(fence.encode()).hexdigest()
    return f"{PLAIN_ID}{digest[:18]}-{block}"


def _block_names(fence: str, offsets: Sequence[int]) -> pa.Array:
    blocks = groupby(offset // BLOCK for offset in offsets)
    names = [pa.repeat(block_name(fence, block), len(list(same))) for block, same in blocks]
    return pa.concat_arrays(names) if names else pa.array([], pa.string())
