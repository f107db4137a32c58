"""Clients that a worker of Spark's keeps from one task to the next."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Hashable, Iterator

__all__ = ["lent"]

_MOST: Final = 4
"""The most clients of a kind that are kept, one for each configuration: queries come and go."""


class CachedClient(Protocol):
    """What can be closed."""

    def close(self) -> object:
        """Close it. Blocks."""
        ...


K = TypeVar("K", bound="Hashable")
C = TypeVar("C", bound=CachedClient)


@contextmanager
def lent(kept: OrderedDict[K, C], key: K, make: Callable[[], C]) -> Iterator[C]:
    """Lend the client of a key from those that are `kept`, or a new one; for one thread.

    It is kept afterwards, unless an error occurs: then it is closed. Blocks where one is closed.
    """
    client = kept.pop(key) if key in kept else make()
    try:
        yield client
    except BaseException:  # also where the task needs no more rows
        client.close()
        raise
    kept[key] = client
    while len(kept) > _MOST:
        kept.popitem(last=False)[1].close()
