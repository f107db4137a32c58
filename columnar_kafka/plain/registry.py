"""Keys and values whose schemas are in a registry, as Confluent's serializers write them.

Needs the extra ``registry``, of which this module itself loads nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from columnar_kafka.config import hidden
from columnar_kafka.errors import SchemaError
from columnar_kafka.plain.avro import Avro
from columnar_kafka.plain.json import Json
from columnar_kafka.plain.schemas_by_id import Said, SchemasById, said_before, said_of
from columnar_kafka.schema.json_schema import read_json_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from columnar_kafka.plain.base import Format
    from columnar_kafka.plain.schemas_by_id import Found

__all__ = ["Registry"]


class Registry:
    """The format of keys or values that say the id of their schema in a registry.

    The id stands before a value or in a header, as Confluent's serializers write both. Each schema
    is fetched once, when its first value is decoded, and decoded by `Avro`, or `Json` with
    ``fields="lenient"``: what finds no column is in `_rest`. Values of several schemas in one table
    are promoted as segments are. For any thread; the others wait while one fetches a schema.
    """

    name = ""
    _place = ""

    def __init__(self, client: Any) -> None:
        """Ask a registry.

        Args:
            client: a `SchemaRegistryClient` of confluent-kafka, or its settings, such as ``url``.

        Raises:
            ConfigError: settings are not allowed, or the extra ``registry`` is not installed.
        """
        client = hidden(client)
        self._schemas = SchemasById(client)
        self._place = self._schemas.place
        self._formats: dict[Said, Format] = {}

    def __repr__(self) -> str:
        return f"<Registry {self._place}>"

    def leading(self, messages: Sequence[Any], *, is_key: bool) -> tuple[Format, int]:
        """Return the format of the first messages, and how many have it.

        Raises:
            RegistryError: the registry does not answer, or denies it; the messages may be read
                again later. Blocks while it is asked.
        """
        first, count = None, len(messages)
        for index, message in enumerate(messages):
            data = message.key() if is_key else message.value()
            if data is None:
                continue
            said = said_of(data, message.headers(), is_key=is_key)
            if first is not None and said != first:
                count = index
                break
            first = said
        return self._format(first or Said()), count

    def of_all(self, values: Iterable[bytes | None]) -> Format | None:
        """Return the format of values that all begin with one id; None: they do not.

        Raises: see `leading`.
        """
        present = [value for value in values if value is not None]
        said = said_before(present[0]) if present else Said()
        if not said.data or not all(value.startswith(said.data) for value in present):
            return None
        return self._format(said)

    def _format(self, said: Said) -> Format:
        known = self._formats.get(said)
        if known is not None:
            return known
        try:
            found = self._schemas.find(said)
        except SchemaError as error:
            return _Undecodable(error.reason)
        try:
            made = _decoded_by(found, said)
        except SchemaError as error:
            made = _Undecodable(self._schemas.refusal(said, error).reason)
        return self._formats.setdefault(said, made)


def _decoded_by(found: Found, said: Said) -> Format:
    if found.kind == "AVRO":
        return Avro(found.schema, schema_id=said.number if said.stands_before else None)
    columns = Json(read_json_schema(found.schema), fields="lenient")
    return _Behind(said.data, columns) if said.stands_before else columns


class _Undecodable:
    """The format of values that cannot be decoded."""

    name = ""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """Raise for any value."""
        if values:
            raise ValueError(self._reason)
        return pa.nulls(0)


class _Behind:
    """A format of values that stand behind an id."""

    name = ""

    def __init__(self, prefix: bytes, inner: Format) -> None:
        self._length = len(prefix)
        self._inner = inner

    def decode(self, values: Sequence[bytes]) -> pa.Array:
        """See `Format.decode`."""
        return self._inner.decode([value[self._length :] for value in values])
