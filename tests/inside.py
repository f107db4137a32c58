"""Parts of users' classes that tests look at or replace: each has its only name here."""

# ruff: noqa: SLF001 - that is what this file is for

from __future__ import annotations

from typing import Any


def pipeline_of(producer: Any) -> Any:
    return producer._pipeline


def shutdown_of(producer: Any) -> Any:
    return producer._shutdown


def feed_of(consumer: Any) -> Any:
    return consumer._feed


def broker_of(consumer: Any) -> Any:
    return consumer._broker


def commits_of(consumer: Any) -> Any:
    return consumer._commits


def callback_errors_of(consumer: Any) -> Any:
    return consumer._errors


def wrapped_consumer(consumer: Any) -> Any:
    """Return the `Consumer` of an `AIOConsumer`."""
    return consumer._consumer


def wrapped_producer(producer: Any) -> Any:
    """Return the `Producer` of an `AIOProducer`."""
    return producer._producer


def settings_of(client: Any) -> Any:
    return client._settings


def poller_of(producer: Any) -> Any:
    return producer._poller


def inbox_of(consumer: Any) -> Any:
    return consumer._inbox


def turn_of(consumer: Any) -> Any:
    return consumer._calls.turn


def ending_of(consumer: Any) -> Any:
    return consumer._ending


def is_closing(consumer: Any) -> bool:
    return bool(consumer._closing)


def fail_next_call(consumer: Any, error: BaseException) -> None:
    """As a callback of an `AIOConsumer` does that raises when no call is waiting."""
    consumer._undelivered._error = error


def java_of(spark: Any) -> int:
    """Return the process id of a SparkSession's Java."""
    return int(spark.sparkContext._gateway.proc.pid)


def without_pyruhvro(form: Any) -> Any:
    """Return an Avro format as it is where pyruhvro is not installed."""
    form._read = None
    return form


def with_pyruhvro_only(form: Any) -> Any:
    """Return an Avro format that cannot do without pyruhvro."""
    assert form._read is not None
    form._slowly = None  # calling it would raise
    return form
