"""A schema registry as confluent-kafka's client has it, and errors that say what was asked of whom.

Needs the extra ``registry``, of which this module itself loads nothing.
"""

from __future__ import annotations

import json
import threading
import weakref
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from confluent_kafka import KafkaError

from columnar_kafka.config import Hidden, hidden
from columnar_kafka.errors import ConfigError, RegistryError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "ByRegistry",
    "RegistryClient",
    "avro_serializer",
    "client_of",
    "context",
    "parsed",
]

T = TypeVar("T")

_NOT_FOUND: Final = 404
_DENIED: Final = (401, 403)
_OF_SERVER: Final = 500
_TIMEOUT_SECONDS: Final = 10.0
"""How long one request waits for its answer unless settings say it; confluent-kafka's for ever."""

_NUMBERS: Final = (
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "retries.max.wait.ms",
    "retries.wait.ms",
    "timeout",
)
"""Settings that may be texts, as command lines have them."""


class RegistryClient:
    """A `SchemaRegistryClient` of confluent-kafka. For any thread."""

    def __init__(self, client: Any) -> None:
        """Ask a registry.

        Args:
            client: a `SchemaRegistryClient` of confluent-kafka, or its settings, such as ``url``.

        Raises:
            ConfigError: settings are not allowed, or the extra ``registry`` is not installed.
        """
        client = hidden(client)
        self.client: Any = client
        if not hasattr(client, "get_schema"):
            self.client = client_of(client)
            weakref.finalize(self, self.client.__exit__)  # or its connections stay open

    @property
    def place(self) -> str:
        """The registry's URL without what may be a secret."""
        return ", ".join(map(_without_secrets, _urls(self.client.config())))

    def asked(self, what: str, ask: Any, *args: Any) -> Any:
        """Return what the registry answers; None if it does not exist. Blocks meanwhile.

        Raises:
            RegistryError: it does not answer, or denies it.
        """
        try:
            return ask(*args)
        except Exception as error:
            if getattr(error, "http_status_code", None) == _NOT_FOUND:
                return None
            raise self.refusal(f"for {what}", error) from error

    def refusal(self, what: str, error: Exception) -> RegistryError:
        """Return the error for a request that has failed."""
        reason = f"the registry at {self.place} was asked {what}: {type(error).__name__}"
        return RegistryError(f"{reason}: {error}", code=_code(error))

    def types(self, schema: Any) -> list[Any]:
        """Return the schemas that one refers to, parsed, those that they need first.

        Raises:
            SchemaError: one of them does not exist.
            RegistryError: see `asked`.
        """
        return list(self._referenced(schema, set()))

    def _referenced(self, schema: Any, seen: set[tuple[str | None, int | None]]) -> Iterable[Any]:
        for reference in schema.references or ():
            place = reference.subject, reference.version
            what = f"version {place[1]} of {place[0]}"
            if place in seen:
                continue
            seen.add(place)
            found = self.asked(what, self.client.get_version, *place)
            if found is None:
                raise SchemaError(f"it refers to {what}, which does not exist")
            yield from self._referenced(found.schema, seen)
            yield parsed(found.schema.schema_str)


class ByRegistry(Generic[T]):
    """What is made of each registry once: of a client, or of settings that are equal.

    For any thread.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._made: list[tuple[Any, T]] = []
        self._lock = threading.Lock()

    def of(self, registry: Any) -> T:
        """Return what is made of a registry. Raises whatever making it raises."""
        with self._lock:
            for given, made in self._made:
                if given is registry or given == registry:
                    return made
            made = self._make(registry)
            self._made.append((hidden(registry), made))
            return made


def parsed(text: str | None) -> Any:
    """Return the parts of a schema's text."""
    try:
        return json.loads(text or "")
    except ValueError:
        return text  # the bare name of a type


def avro_serializer() -> Any:
    """Return confluent-kafka's class that writes Avro values. Raises ConfigError without it."""
    return _confluent(lambda: import_module("confluent_kafka.schema_registry.avro")).AvroSerializer


def context(topic: str) -> Any:
    """Return what a serializer is told of the values of a topic. Raises as above."""
    registry = _confluent(lambda: import_module("confluent_kafka.schema_registry"))
    return registry.SerializationContext(topic, registry.MessageField.VALUE)


def _confluent(load: Callable[[], Any]) -> Any:
    try:
        return load()
    except ImportError as error:
        raise ConfigError(
            f"a registry needs more packages ({error}): pip install 'columnar-kafka[registry]'"
        ) from error


def client_of(settings: Mapping[str, Any]) -> Any:
    """Return a client with these settings. Raises as `RegistryClient`."""
    registry = _confluent(lambda: import_module("confluent_kafka.schema_registry"))
    try:
        numbers = {name: float(settings[name]) for name in _NUMBERS if name in settings}
        conf = Hidden({"timeout": _TIMEOUT_SECONDS, **settings, **numbers})
        return registry.SchemaRegistryClient.new_client(conf)
    except (TypeError, ValueError) as error:
        reason = _shown(error, settings)
    # The cause has their values.
    raise ConfigError(f"the settings of the registry: {reason}")


def _code(error: Exception) -> int:
    """Return the code of an error, by which callers know whether to try again."""
    status = getattr(error, "http_status_code", None)
    if status in _DENIED:
        return KafkaError._AUTHENTICATION
    if status is None or status >= _OF_SERVER:
        return KafkaError._TRANSPORT
    return KafkaError._INVALID_ARG


def _shown(error: Exception, settings: Mapping[str, Any]) -> str:
    """Return an error's text, without what may be a secret in a URL."""
    text = str(error)
    for url in _urls(settings):
        text = text.replace(url, _without_secrets(url))
    return text


def _urls(settings: Mapping[str, Any]) -> list[str]:
    return [url.strip() for url in str(settings.get("url", "")).split(",")]


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
