"""What can go wrong, as exceptions a confluent-kafka caller already catches."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

__all__ = [
    "ColumnarError",
    "ConfigError",
    "ForkError",
    "LakeError",
    "RowError",
    "SchemaError",
    "SegmentError",
]


class ColumnarError(KafkaException):
    """The root of this package's errors: a `KafkaException` with a `KafkaError` in it."""

    code = KafkaError._FAIL

    def __init__(self, reason: str, *, code: int | None = None) -> None:
        # KafkaError refuses it, and Arrow shows what it is given.
        text = reason.replace("\0", "\\0")
        super().__init__(KafkaError(self.code if code is None else code, text))
        self.reason = reason

    def __str__(self) -> str:
        return self.reason

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.reason, self.kafka_error.code()))

    @property
    def kafka_error(self) -> KafkaError:
        """The error as delivery reports and message events carry it."""
        error: KafkaError = self.args[0]
        return error


def unable(code: int) -> KafkaError:
    """Return the error that confluent-kafka's `produce` raises with this code."""
    return KafkaError(code, f"Unable to produce message: {KafkaError(code).str()}")


def _rebuild(kind: type[ColumnarError], reason: str, code: int) -> ColumnarError:
    """Unpickle an error (Spark sends them between processes)."""
    return kind(reason, code=code)


class ConfigError(ColumnarError):
    """A configuration key or value that cannot be used."""

    code = KafkaError._INVALID_ARG


class SchemaError(ColumnarError, ValueError):
    """A schema that cannot be used for segments, or not for this topic."""

    code = KafkaError._INVALID_ARG


class RowError(ColumnarError, ValueError):
    """A record that does not fit its topic's schema; the message names the field."""

    code = KafkaError._VALUE_SERIALIZATION


class SegmentError(ColumnarError, ValueError):
    """Bytes that claim to be a segment and cannot be trusted."""

    code = KafkaError._BAD_MSG


class ForkError(ColumnarError, RuntimeError):
    """A client used in a forked child of the process that made it."""

    code = KafkaError._STATE


class LakeError(ColumnarError):
    """Something that cannot land in the lake."""
