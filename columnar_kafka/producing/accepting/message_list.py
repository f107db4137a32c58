"""`produce_batch`: a list of messages, each accepted or given its error, as by confluent-kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.columns.from_rows.row_objects import is_row
from columnar_kafka.errors import RowError
from columnar_kafka.producing.accepting.arguments import encode_headers, first_given, integers

if TYPE_CHECKING:
    from collections.abc import Callable

    from columnar_kafka.producing.reporting.report import Callback

__all__ = ["pass_messages_on", "produce_messages"]


def produce_messages(
    produce: Callable[..., None],
    messages: list[dict[str, Any]],
    partition: int,
    callback: Callback,
    *,
    takes_rows: bool = True,
) -> int:
    """Produce each message with the arguments it has, or these; return how many were accepted.

    A message that was not accepted gets its error under ``_error``. Values may be rows where
    `produce` `takes_rows`.

    Raises:
        TypeError, ValueError, OverflowError: not a list of messages, or a message with a wrong
            argument (as confluent-kafka). None is accepted then.
    """
    integers(partition, 0)
    _check_messages(messages, takes_rows=takes_rows)
    accepted = 0
    for message in messages:
        try:
            produce(
                message.get("value"),
                message.get("key"),
                message.get("partition", partition),
                callback=first_given(message.get("callback"), callback),
                timestamp=message.get("timestamp", 0),
                headers=message.get("headers"),
            )
        except BufferError:
            message["_error"] = _failed(KafkaError._QUEUE_FULL)
        except RowError as error:
            message["_error"] = error.kafka_error
        except KafkaException as error:
            message["_error"] = _failed(error.args[0].code())
        else:
            accepted += 1
    return accepted


def _check_messages(messages: Any, *, takes_rows: bool) -> None:
    if not isinstance(messages, list):
        raise TypeError("messages must be a list")
    for i, message in enumerate(messages):
        if not isinstance(message, dict):
            raise TypeError(f"Message at index {i} must be a dict")
        value, key = message.get("value"), message.get("key")
        is_row_here = takes_rows and (isinstance(value, dict | tuple) or is_row(value))
        if not (isinstance(value, bytes | str | None) or is_row_here):
            raise TypeError(f"Message value at index {i} must be bytes or str")
        if not isinstance(key, bytes | str | None):
            raise TypeError(f"Message key at index {i} must be bytes or str")
        if not isinstance(message.get("partition", -1), int):
            raise TypeError(f"Message partition at index {i} must be int")
        integers(message.get("partition", 0), message.get("timestamp", 0))
        try:
            encode_headers(message.get("headers"))
        except TypeError as error:
            raise ValueError(f"Invalid headers at index {i}: {error}") from error


def _failed(code: int) -> KafkaError:
    """Return an error with the text that confluent-kafka's `produce_batch` has for it."""
    return KafkaError(code, f"Message failed: {KafkaError(code).str()}")


def pass_messages_on(
    produce_batch: Callable[[Any], int], messages: Any, wrap: Callable[[Callback], Callback]
) -> int:
    """Call confluent-kafka's `produce_batch` with the messages' callbacks wrapped."""
    if not _have_callbacks(messages):
        return produce_batch(messages)
    copies = [
        message
        if message.get("callback") is None
        else {**message, "callback": wrap(message["callback"])}
        for message in messages
    ]
    try:
        return produce_batch(copies)
    finally:
        for message, copy in zip(messages, copies, strict=True):
            if "_error" in copy:
                message["_error"] = copy["_error"]


def _have_callbacks(messages: Any) -> bool:
    """Whether these are messages at all, and some have a callback of their own."""
    return (
        isinstance(messages, list)
        and all(isinstance(message, dict) for message in messages)
        and any(message.get("callback") is not None for message in messages)
    )
