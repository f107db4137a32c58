"""A topic's schema in a registry: looked up and registered as by confluent-kafka's AvroSerializer.

That class itself asks, so its options, their defaults and their errors are its own.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from confluent_kafka import KafkaError

from columnar_kafka.errors import ColumnarError, ConfigError, RegistryError, SchemaError
from columnar_kafka.plain.registry_client import (
    ByRegistry,
    RegistryClient,
    avro_serializer,
    context,
    parsed,
)
from columnar_kafka.schema import RecordSchema
from columnar_kafka.schema.avro import record_of_list, with_types
from columnar_kafka.schema.to_avro import faithful_avro

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Registration", "Registries"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_PATIENCE: Final = 30.0
"""How many seconds a `Registration` waits for all of its answers, whatever its client does."""
_SILENCE: Final = 3.0
"""After so many it logs that it waits."""
_LATEST_OPTIONS: Final = ("use.latest.version", "use.latest.with.metadata")
_OF_REGISTRY: Final = (*_LATEST_OPTIONS, "use.schema.id")
"""The options by which the registry's schema is used, and not the one that is given."""
_LATEST: Final = {"auto.register.schemas": False, "use.latest.version": True}
_STRATEGIES: Final = ("subject.name.strategy", "subject.name.strategy.type")
_ASKED: Final = {
    "register_schema_full_response": "to register the schema as",
    "lookup_schema": "for the schema's id in",
    "get_latest_version": "for the latest schema of",
    "get_latest_with_metadata": "for the latest schema of",
    "get_schema": "for schema",
    "get_version": "for a version of",
    "get_associations_by_resource_name": "for the subject of topic",
}
_NO_NAME: Final = re.compile(r"\W", re.ASCII)


class Described(NamedTuple):
    """The schema of a topic: its columns, as Avro, and its id in the registry once it is known."""

    records: RecordSchema
    avro: Any
    schema_id: int | None = None


class Registries:
    """The registries that a producer asks: settings that are equal share a client, and its cache.

    What was answered last for a topic stays known. For any thread.
    """

    def __init__(self) -> None:
        """Ask nobody yet."""
        self._clients = ByRegistry(RegistryClient)
        self._answers: dict[str, _Answer] = {}

    def registration(self, registry: Any, topic: str, *request: Any) -> Registration:
        """Return a request, of the arguments of `Producer.set_schema`.

        Raises: see `RegistryClient` and `Registration`.
        """
        return Registration(self._clients.of(registry), self._answers, topic, *request)


class Registration:
    """One topic's request. For one thread, which waits for 30 s at most, and logs that it does."""

    def __init__(
        self,
        registry: RegistryClient,
        answers: dict[str, _Answer],
        topic: str,
        schema: Any,
        subject: str | None,
        conf: Mapping[str, Any] | None,
    ) -> None:
        """Ask nothing yet; `answers` are the last ones, by their topics.

        Raises:
            ConfigError: there are both a subject and a strategy for its name.
        """
        self._registry = registry
        self._answers = answers
        self._request = registry, subject, dict(conf or {})
        self._topic = topic
        self._schema = schema
        self._conf = dict(conf or {})
        self._asking = _Asking(registry.client)
        if subject is not None:
            if given := [name for name in _STRATEGIES if self._conf.get(name) is not None]:
                raise ConfigError(f"subject={subject!r} and {given[0]}: leave one of them out")
            self._conf["subject.name.strategy"] = lambda *_: subject
        self._given: Described | None = None
        self._is_of_registry = self._has_any(_OF_REGISTRY)
        if schema is None and not self._is_of_registry:
            self._conf, self._is_of_registry = _LATEST | self._conf, True

    def described(self) -> Described | None:
        """Return the schema that is given; None: there is none, or the registry's is used.

        Raises:
            SchemaError: it cannot be used, or Avro has no type for a field.
            RegistryError: the registry does not have, or tell, the schemas that it refers to.
            TypeError: it is no schema.
        """
        if self._schema is None:
            return None
        self._given = Described(*self._described())
        return None if self._is_of_registry else self._given

    def registered(self) -> Described:
        """Return the schema with its id: registered, found, or the registry's own.

        Raises:
            RegistryError: it refuses the schema, or does not have it; or it does not answer.
            SchemaError: its own schema cannot be used.
            ConfigError: no subject follows from the options.
            ValueError, TypeError: options that AvroSerializer refuses.
        """
        known = self._answers.get(self._topic)
        is_latest = self._has_any(_LATEST_OPTIONS)
        request = *self._request, self._text()
        if known is not None and known.request == request and not is_latest:
            return known.described
        described = self._registered()
        self._answers[self._topic] = _Answer(request, described)
        return described

    def _registered(self) -> Described:
        answer = self._answered(self._ask)
        where = f"the registry at {self._registry.place}"
        if answer is None:
            raise ConfigError(
                f"topic {self._topic!r}: no subject of {where} follows from the options: "
                "pass subject"
            )
        _log.info(
            "topic %r: its schema is %s of subject %s in %s",
            *(self._topic, answer.schema_id, answer.subject, where),
        )
        if self._given is not None and not self._is_of_registry:
            return self._given._replace(schema_id=answer.schema_id)
        try:
            avro = self._answered(lambda: self._avro_of(answer.schema))
            return Described(RecordSchema.parse(avro), avro, answer.schema_id)
        except SchemaError as error:
            raise SchemaError(f"schema {answer.schema_id} of {where}: {error.reason}") from error

    def _described(self) -> tuple[RecordSchema, Any]:
        if isinstance(self._schema, pa.Schema):
            records = RecordSchema.parse(self._schema)
            try:
                return records, faithful_avro(records, _record_name(self._topic))
            except SchemaError as error:
                what = "change it, or set the schema without a registry"
                raise SchemaError(f"{error.reason}: {what}") from error
        if hasattr(self._schema, "schema_str"):
            avro = self._answered(lambda: self._avro_of(self._schema))
        else:
            avro = _parsed(self._schema) if isinstance(self._schema, str) else self._schema
            avro = record_of_list(avro)
        return RecordSchema.parse(avro), avro

    def _has_any(self, names: tuple[str, ...]) -> bool:
        return any(self._conf.get(name) not in (None, False) for name in names)

    def _ask(self) -> Any:
        """Have a serializer ask what it asks before its first value. Returns a RegisteredSchema."""
        if self._has_any(_LATEST_OPTIONS):
            self._registry.client.clear_latest_caches()  # who calls again asks for what is new
        serializer = avro_serializer()(
            self._asking, self._text(), to_dict=_asked_all, conf=self._conf
        )
        try:
            serializer({}, context(self._topic))
        except _AskedAllError:
            return self._asking.answer
        raise RuntimeError("confluent-kafka's AvroSerializer has changed: it did not call to_dict")

    def _text(self) -> Any:
        """Return the schema as a serializer takes it."""
        given = self._given
        if given is None or hasattr(self._schema, "schema_str"):
            return self._schema
        if isinstance(self._schema, str) and _parsed(self._schema) == given.avro:
            return self._schema
        return json.dumps(_unmarked(given.avro))

    def _avro_of(self, schema: Any) -> Any:
        """Return a schema of a registry with those that it refers to inside it."""
        kind = (schema.schema_type or "AVRO").upper()
        if kind != "AVRO":
            raise SchemaError(f"its type is {kind}, and rows are produced by Avro schemas alone")
        types = self._registry.types(schema)
        avro = _parsed(schema.schema_str)
        return with_types(avro, types) if types else record_of_list(avro)

    def _answered(self, ask: Callable[[], T]) -> T:
        """Return what `ask` returns, in a thread: a client may wait for ever, or sleep."""
        future: Future[T] = Future()
        name = "columnar-kafka: schema registry"
        threading.Thread(target=_run, args=(future, ask), name=name, daemon=True).start()
        where = f"the registry at {self._registry.place}"
        if not wait([future], _SILENCE).done:
            _log.warning("topic %r: waiting for %s, asked %s", self._topic, where, self._asking)
            if not wait([future], _PATIENCE - _SILENCE).done:
                raise RegistryError(
                    f"{where} was asked {self._asking} and did not answer within {_PATIENCE:.0f} s",
                    code=KafkaError._TIMED_OUT,
                )
        try:
            return future.result()
        except ColumnarError:
            raise
        except Exception as error:
            if not self._asking.has_begun:  # then options are wrong
                raise
            raise self._registry.refusal(str(self._asking), error) from error


def _unmarked(avro: Any) -> Any:
    """Return a schema without what fastavro puts into a type that it has parsed."""
    if isinstance(avro, list):
        return list(map(_unmarked, avro))
    if not isinstance(avro, Mapping):
        return avro
    return {name: part for name, part in avro.items() if not name.startswith("__")}


def _run(future: Future[T], ask: Callable[[], T]) -> None:
    try:
        future.set_result(ask())
    except Exception as error:  # noqa: BLE001 - whoever waits raises it
        future.set_exception(error)


class _AskedAllError(Exception):
    """A serializer has asked the registry all that it needs to know."""


def _asked_all(*_: Any) -> Any:
    raise _AskedAllError


class _Asking:
    """A client for a serializer, which keeps what was asked last, and the answer."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._asked = ""
        self.answer: Any = None

    def __str__(self) -> str:
        return self._asked

    @property
    def has_begun(self) -> bool:
        """Whether anything was asked."""
        return bool(self._asked)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._client, name)
        if name not in _ASKED:
            return member

        def ask(*args: Any, **kwargs: Any) -> Any:
            about = args[0] if args else kwargs["resource_name"]
            self._asked = f"{_ASKED[name]} {about!r}"
            answer = member(*args, **kwargs)
            if hasattr(answer, "schema_id"):
                self.answer = answer
            elif name == "get_schema":
                self.answer = _Found(args[1], args[0], answer)
            return answer

        return ask


class _Answer(NamedTuple):
    """What was asked for a topic, and answered."""

    request: Any
    described: Described


class _Found(NamedTuple):
    """A schema that was asked for by its id."""

    subject: str
    schema_id: int
    schema: Any


def _parsed(text: str) -> Any:
    """Return the parts of a schema's text, the name of a type with it."""
    avro = parsed(text)
    return {"type": avro} if isinstance(avro, str) else avro


def _record_name(topic: str) -> str:
    """Return the name of a topic's record."""
    name = _NO_NAME.sub("_", topic)
    return f"_{name}" if name[0].isdigit() else name
