"""Values in a topic's format that do not fit its schema: sent as plain messages, or refused."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Misfits"]

_log: Final = logging.getLogger(__name__)
_SHOWN: Final = 300


class Misfits:
    """What becomes of them, and how many there were. For any thread."""

    def __init__(self, *, are_sent: bool) -> None:
        self.are_sent = are_sent
        """Whether they are sent as plain messages."""
        self.count = 0
        self._told: set[str] = set()

    def add(self, topic: str, reason: str) -> Callable[[], None] | None:
        """Count one that is sent; return what logs the first of a topic, or None."""
        self.count += 1
        if topic in self._told:
            return None
        self._told.add(topic)
        text = (
            "topic %r: a value does not fit the schema, and is sent as a plain message: %s. More "
            "of them are not logged; columnar.value.misfit=raise refuses them"
        )
        return partial(_log.warning, text, topic, reason[:_SHOWN])
