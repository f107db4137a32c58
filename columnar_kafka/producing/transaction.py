"""The state of a producer's transactions: open or not, and whether all records were stored."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.errors import produce_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from columnar_kafka.producing.reporting.delivery import Delivery

__all__ = ["Transaction"]


class Transaction:
    """One producer's transactions. Used by the thread that begins and ends them."""

    def __init__(self, delivery: Delivery, *, required: bool) -> None:
        """With `required`, records are accepted inside transactions only."""
        self._delivery = delivery
        self._required = required
        self.open = False
        self._failures_before = 0
        self._rejections_before = 0

    def check_open(self) -> None:
        """Raise as confluent-kafka does for a record that no transaction can accept.

        Raises:
            KafkaException: ``_STATE``: there is no transaction, or Kafka has rejected one of its
                messages, so that it can only be aborted; ``_FATAL``: there can be no other.
        """
        if not self.accepts:
            code = KafkaError._FATAL if self._delivery.fatal else KafkaError._STATE
            raise KafkaException(produce_error(code))

    @property
    def accepts(self) -> bool:
        """Whether records are accepted now."""
        if self._delivery.fatal or not self._required:
            return not self._delivery.fatal
        return self.open and not self.rejected

    @property
    def rejected(self) -> bool:
        """Whether it can only be aborted: Kafka, or its limits, have rejected something of it."""
        rejected = self._delivery.rejections > self._rejections_before
        return self.open and rejected and not self._delivery.fatal

    def began(self) -> None:
        """Note that a transaction has begun."""
        self.open = True
        self._failures_before = self._delivery.failures
        self._rejections_before = self._delivery.rejections

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Note that the transaction has ended, unless confluent-kafka raises in this context."""
        try:
            yield
        except KafkaException as error:
            self._delivery.fatal = self._delivery.fatal or error.args[0].fatal()
            raise
        self.open = False

    def check_flushed(self, remaining: int) -> None:
        """Raise unless every record of the transaction was stored; `remaining` are outstanding.

        Raises:
            KafkaException: with ``txn_requires_abort`` when some have failed; otherwise
                ``_TIMED_OUT``, to be retried, when some are outstanding.
        """
        failed = self._delivery.failures - self._failures_before
        if failed and not self._delivery.fatal:  # or confluent-kafka's own error says more
            raise KafkaException(
                KafkaError(
                    KafkaError._INCONSISTENT,
                    f"{failed} message(s) failed delivery (see individual delivery reports)",
                    txn_requires_abort=True,
                )
            )
        if remaining:
            raise KafkaException(
                KafkaError(
                    KafkaError._TIMED_OUT, f"{remaining} records are outstanding", retriable=True
                )
            )
