"""The partition of a record, chosen as librdkafka's configured partitioner would choose it.

A record without a key goes where the one before went, while its batch is open: see
`accepting.open_batches`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from confluent_kafka import consistent, fnv1a, murmur2

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PARTITIONERS", "Partitioner"]

_HASHES: Final[dict[str, Callable[[bytes, int], int]]] = {
    "consistent": consistent,
    "consistent_random": consistent,
    "murmur2": murmur2,
    "murmur2_random": murmur2,
    "fnv1a": fnv1a,
    "fnv1a_random": fnv1a,
}
PARTITIONERS: Final = frozenset({"random", *_HASHES})


class Partitioner:
    """Chooses partitions for one client. Stateless.

    A record with a hashed key goes exactly where librdkafka would put it. If librdkafka may choose
    any partition (null keys of the ``random`` partitioners, empty keys of ``consistent_random``),
    `choose` returns None: the caller then keeps one partition for a whole batch, as Kafka's sticky
    partitioner does, so that segments fill.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._hash = _HASHES.get(name)
        self._null_hashes = self._hash is not None and not name.endswith("_random")
        self._empty_hashes = name != "consistent_random"

    def choose(self, key: bytes | None, partitions: int) -> int | None:
        """Return the partition of `key`, from 0 to `partitions` - 1, or None where any will do."""
        if self._hash is None:
            return None
        if key is None:
            return self._hash(b"", partitions) if self._null_hashes else None
        if not key and not self._empty_hashes:
            return None
        return self._hash(key, partitions)

    @staticmethod
    def any(partitions: int) -> int:
        """Return a random partition, for a batch of records that may go anywhere."""
        return int.from_bytes(os.urandom(8), "little") % partitions
