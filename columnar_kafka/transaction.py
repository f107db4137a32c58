"""Whether a producer is in a transaction, and whether all of its records were stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from columnar_kafka.errors import unable

if TYPE_CHECKING:
    from columnar_kafka.delivery import Delivery

__all__ = ["Transaction"]


class Transaction:
    """The state of a producer's transactions. Used by the thread that has them."""

    def __init__(self, delivery: Delivery, *, required: bool) -> None:
        """With `required`, records are produced inside transactions only."""
        self._delivery = delivery
        self._required = required
        self._open = False
        self._failures_before = 0

    def check_open(self) -> None:
        """Raise what confluent-kafka raises for a record outside of a transaction.

        Raises:
            KafkaException: ``_STATE``.
        """
        if self._required and not self._open:
            raise KafkaException(unable(KafkaError._STATE))

    def began(self) -> None:
        """Note that a transaction has begun."""
        self._open = True
        self._failures_before = self._delivery.failures

    def ended(self) -> None:
        """Note that it was committed or aborted."""
        self._open = False

    def check_flushed(self, remaining: int) -> None:
        """Raise unless every record of the transaction was stored.

        Raises:
            KafkaException: ``_TIMED_OUT``, to be retried, when some are outstanding; with
                ``txn_requires_abort`` when some have failed.
        """
        if remaining:
            raise KafkaException(
                KafkaError(
                    KafkaError._TIMED_OUT, f"{remaining} records are outstanding", retriable=True
                )
            )
        failed = self._delivery.failures - self._failures_before
        if failed:
            raise KafkaException(
                KafkaError(
                    KafkaError._FAIL,
                    f"{failed} of the transaction's records failed: see their reports",
                    txn_requires_abort=True,
                )
            )
