"""Exceptions that callbacks raised, until raising them loses no message."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["CallbackErrors"]

_MAX_ERRORS: Final = 100


def _nothing() -> None: ...


class CallbackErrors(deque[BaseException]):
    """The exceptions of callbacks, oldest first, until a call raises them. Thread-safe.

    Raised inside librdkafka's poll, an exception destroys the message that poll has fetched.
    Only the newest 100 are kept. It is a deque because `poll` asks for its truth once a record.
    """

    def __init__(self) -> None:
        super().__init__(maxlen=_MAX_ERRORS)
        self._lock = threading.RLock()  # or clearing would lose what another thread adds

    def guard(
        self, callback: Callable[..., Any], interrupted: Callable[[], None] = _nothing
    ) -> Callable[..., Any]:
        """Return a function that calls `callback`, and keeps its exception.

        It returns None then, after it has called `interrupted`.
        """

        def run(*args: Any) -> Any:
            try:
                return callback(*args)
            except BaseException as error:  # noqa: BLE001 - raised again by raise_pending
                interrupted()
                with self._lock:
                    self.append(error)
                return None

        return run

    def raise_pending(self) -> None:
        """Raise the last exception, as confluent-kafka does, with those before it as its context.

        Does nothing where there is none.
        """
        if not self:
            return
        with self._lock:
            errors = list(self)
            self.clear()
        if errors:  # no other thread was faster
            raise _last_of(errors)


def _last_of(errors: Iterable[BaseException]) -> BaseException:
    """Chain exceptions, and return the last.

    An exception that ends the program comes last: code that handles errors must not handle it.
    """
    last, *others = sorted(errors, key=lambda error: isinstance(error, Exception), reverse=True)
    for error in others:
        chain = _context_of(error)
        if not any(known is link for known in _context_of(last) for link in chain):
            chain[-1].__context__ = last
        last = error
    return last


def _context_of(error: BaseException) -> list[BaseException]:
    """Return an exception, the one that was being handled when it was raised, and so on."""
    chain = [error]
    while (before := chain[-1].__context__) is not None:
        chain.append(before)
    return chain
