"""Kafka clients that a worker of Spark's keeps from one task to the next."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Hashable, Iterator

__all__ = ["cached_client"]

_MOST: Final = 4
"""The most clients in one cache, which has one for each configuration: queries come and go."""


class CachedClient(Protocol):
    """What can be closed."""

    def close(self) -> object:
        """Close it. Blocks."""
        ...


K = TypeVar("K", bound="Hashable")
C = TypeVar("C", bound=CachedClient)


@contextmanager
def cached_client(cache: OrderedDict[K, C], key: K, make: Callable[[], C]) -> Iterator[C]:
    """Lend the client that a cache has for a key, or else a new one; for one thread.

    It is put back afterwards, unless an error occurs: then it is closed. Closing one blocks.
    """
    client = cache.pop(key) if key in cache else make()
    try:
        yield client
    except BaseException:  # also where the task needs no more rows
        client.close()
        raise
    cache[key] = client
    while len(cache) > _MOST:
        cache.popitem(last=False)[1].close()
