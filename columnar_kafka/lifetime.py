"""How clients end that nobody has closed: at exit, in a forked child, or simply dropped.

confluent-kafka loses what is buffered then; here it was accepted, so it is sent. A forked child has
no part in its parent's clients.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import threading
import weakref
from typing import Protocol

__all__ = ["abandon_in_children", "ended", "hold_until_closed", "keep_for_ever", "started"]

_log = logging.getLogger(__name__)


class Inherited(Protocol):
    """What a forked child has a copy of, without the threads that belong to it."""

    def _abandon(self) -> None: ...


class Client(Inherited, Protocol):
    """What can end without being closed."""

    def close(self) -> bool: ...

    def _accept_only(self, thread: int | None) -> None: ...

    def _flush_fully(self) -> BaseException | None: ...

    def __len__(self) -> int: ...

    def _pause(self) -> None: ...

    def _resume(self) -> None: ...


_live: weakref.WeakSet[Client] = weakref.WeakSet()
_dropped: set[Client] = set()
_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()  # beside those
_for_ever: list[object] = []
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_for_ever))  # or the interpreter's end would free it

keep_for_ever = _for_ever.append
"""Never destroy this client, not even when the interpreter ends: it ends with the process."""


def started(client: Client) -> None:
    """Flush this client at exit, and make its copy in a forked child unusable."""
    _live.add(client)


def ended(client: Client) -> None:
    """Do that no more."""
    _live.discard(client)
    _dropped.discard(client)


def abandon_in_children(client: Inherited) -> None:
    """Let this client abandon its copy in a forked child; it has nothing to flush at exit."""
    _inherited.add(client)


def hold_until_closed(client: Client, outstanding: int) -> None:
    """Keep a client that nobody else has, and close it in the background."""
    _log.warning(
        "a producer was dropped with %d records outstanding: they are sent, and their reports run "
        "in a thread; call flush() or close() first",
        outstanding,
    )
    _dropped.add(client)
    threading.Thread(
        target=_close, args=(client,), name="columnar-kafka-close", daemon=True
    ).start()


def _close(client: Client) -> None:
    try:
        client.close()
    except Exception:  # noqa: BLE001 - there is nobody else to tell
        _log.exception("a delivery report failed while a dropped producer was closed")
    _dropped.discard(client)


def _flush_all() -> None:
    """Send what is accepted; reports may produce more. Daemon threads may not: it must end."""
    clients = {*_live, *_dropped}
    for client in clients:
        client._accept_only(threading.get_ident())
    while any(len(client) for client in clients):
        for client in clients:
            error = client._flush_fully()
            if error is not None:
                _log.error("a delivery report failed at exit", exc_info=error)
    for client in clients:
        client._accept_only(None)


_forking = threading.Lock()  # one fork at a time: two could wait for each other's clients
_paused: list[Client] = []


def _pause_all() -> None:
    """Let no client's thread be in the middle of a step, for its locks would stay locked."""
    _forking.acquire()
    for client in {*_live, *_dropped}:
        client._pause()
        _paused.append(client)


def _resume_all() -> None:
    for client in _paused:
        client._resume()
    _paused.clear()
    _forking.release()


def _abandon_all() -> None:
    for client in [*_paused, *_inherited]:
        client._abandon()
        # librdkafka would wait for its threads, which are not here, or for others in their place.
        keep_for_ever(client)
    _paused.clear()
    _live.clear()
    _dropped.clear()
    _inherited.clear()
    _forking.release()


atexit.register(_flush_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_abandon_all)
