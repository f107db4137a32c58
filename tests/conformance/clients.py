"""What the producers and the consumers under test have in common: they are made, and closed."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Maker"]

_CLOSE_SECONDS = 120


@dataclass(kw_only=True)
class Maker(ABC):
    """Makes the clients of one test, all of one kind, which are closed after it.

    Its methods hide how kinds differ: what is a record or a plain message, and what an offset is.
    """

    of: Any  # the kind
    servers: str
    create_topic: Callable[..., None]
    name: str  # the test's own: of groups, topics and transactional ids
    made: list[Any] = field(default_factory=list)

    @property
    def kind(self) -> Any:
        """The class of the clients."""
        return self.of.cls

    def read(self, value: Any) -> Any:
        """Return the bytes in a message's value, which is a record where the kind has records."""
        return value["v"] if isinstance(value, dict) else value

    def close(self) -> None:
        """Give up and close all clients; the test fails where that takes too long."""
        thread = threading.Thread(target=self._close, daemon=True)
        thread.start()
        thread.join(_CLOSE_SECONDS)
        assert not thread.is_alive(), "close() hangs"

    def _close(self) -> None:
        for client in self.made:
            self.give_up(client)

    @abstractmethod
    def give_up(self, client: Any) -> None:
        """Close one client, whatever the test has left it doing."""
