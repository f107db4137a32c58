"""Errors, all of classes that a confluent-kafka caller already catches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "ColumnarError",
    "ConfigError",
    "ForkError",
    "LakeError",
    "RegistryError",
    "RowError",
    "SchemaError",
    "SegmentError",
]


class ColumnarError(KafkaException):
    """The base of this package's errors: a `KafkaException` that holds a `KafkaError`."""

    code = KafkaError._FAIL

    def __init__(self, reason: str, *, code: int | None = None) -> None:
        # KafkaError refuses NUL, and Arrow's messages may quote one.
        text = reason.replace("\0", "\\0")
        super().__init__(KafkaError(self.code if code is None else code, text))
        self.reason = reason

    def __str__(self) -> str:
        return self.reason

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.reason, self.kafka_error.code()))

    @property
    def kafka_error(self) -> KafkaError:
        """The error that delivery reports and message events carry."""
        error: KafkaError = self.args[0]
        return error


def produce_error(code: int) -> KafkaError:
    """Return the error that confluent-kafka's `produce` raises for this code."""
    return KafkaError(code, f"Unable to produce message: {KafkaError(code).str()}")


def _rebuild(cls: type[ColumnarError], reason: str, code: int) -> ColumnarError:
    """Unpickle an error (Spark sends them between processes)."""
    return cls(reason, code=code)


class ConfigError(ColumnarError):
    """A configuration key or value that cannot be used."""

    code = KafkaError._INVALID_ARG


class SchemaError(ColumnarError, ValueError):
    """A schema that cannot be used for segments, or not on this topic."""

    code = KafkaError._INVALID_ARG


class RegistryError(ColumnarError):
    """A schema registry that does not answer, or denies what it was asked for."""


class RowError(ColumnarError, ValueError):
    """A record that does not fit its topic's schema; the message names the field."""

    code = KafkaError._VALUE_SERIALIZATION


class SegmentError(ColumnarError, ValueError):
    """Bytes that claim to be a segment and cannot be trusted."""

    code = KafkaError._BAD_MSG


class ForkError(ColumnarError, RuntimeError):
    """A client used in a forked child of the process that created it."""

    code = KafkaError._STATE

    @classmethod
    def of(cls, client: str) -> Self:
        """Return the error for a `client`: a producer or a consumer."""
        return cls(f"this {client} was made before os.fork(); make one in the child process")


class LakeError(ColumnarError):
    """A message or file that cannot land in the lake."""
