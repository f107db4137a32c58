"""The end of clients that nobody has closed: at exit, in a forked child, or dropped.

confluent-kafka loses buffered messages then. Here they were accepted, so they are sent. That may
take as long as `message.timeout.ms`; the wait is logged, and Ctrl-C ends it. A forked child does
not share its parent's clients.
"""

from __future__ import annotations

import atexit

# Its own hooks are to be registered before this module's, and so hold its lock in none of them.
import concurrent.futures.thread  # noqa: F401
import ctypes
import logging
import os
import signal
import sys
import threading
import time
import weakref
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from columnar_kafka import native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "GRACE",
    "MUTUAL",
    "ForkGate",
    "Wait",
    "abandon_in_children",
    "close_in_background",
    "ended",
    "flush_fully",
    "flush_interrupted",
    "forks_here",
    "hold_until_closed",
    "keep_for_ever",
    "notice_fork",
    "process_mark",
    "started",
    "wait_for",
]

# Before this module's exit handler: it still works there. docs/producer.md names this log.
_log = logging.getLogger("columnar_kafka").getChild("lifecycle")

_STEP: Final = 0.1
"""Seconds for which clients are flushed in turn: one may wait for a cluster that is gone."""
_FIRST_LINE: Final = 2.0  # connecting to a healthy cluster takes one
_NEXT_LINE: Final = 10.0
GRACE: Final = 5.0
"""Seconds for which a wait goes on without progress: a fork's, or after an interrupted flush.

The latter's are for Kafka, not for our own work: the first conversion alone may take longer, since
pyarrow imports pandas in it.
"""
MUTUAL: Final = 1.0
"""Seconds for which one thread waits for another that may wait for it."""
_LAST: Final = -100
"""The priority of a finalizer that runs after those of multiprocessing's queues."""


class Client(Protocol):
    """What this module does with a client that may end without being closed."""

    flush_interrupted: bool
    """Whether Ctrl-C has interrupted a flush, and something has been outstanding ever since."""

    @property
    def longest_wait(self) -> float:
        """How long, in seconds, a record can be outstanding."""
        ...

    @property
    def working(self) -> bool:
        """Whether the background thread converts, encodes or sends records at this moment."""
        ...

    def __len__(self) -> int:
        """Return how much is outstanding."""
        ...

    def flush_for(self, seconds: float) -> BaseException | None:
        """Flush for at most so long; return the exception of a delivery report."""
        ...

    def describe_outstanding(self) -> str:
        """Return what is outstanding, for the log; "" when nothing is."""
        ...

    def accept_only(self, *threads: int) -> None:
        """Refuse new records, except from the threads with these identifiers."""
        ...

    def wait_for_step(self) -> None:
        """Wait until the background thread does nothing, or for `GRACE` gets no further.

        It begins nothing while a `ForkGate` is closed.
        """
        ...

    def abandon(self) -> None:
        """Make this copy of the client unusable: it is a forked child's."""
        ...


T = TypeVar("T")

process_mark: Final[Callable[[], int]] = native.core.forks if native.enabled else os.getpid
"""Returns a number that is another one in a forked child, also of a fork in C.

The core's costs no system call.
"""


class Closable(Protocol):
    """The object that the user has, as far as this module is concerned."""

    def close(self) -> object: ...


_clients: weakref.WeakKeyDictionary[Closable, Client] = weakref.WeakKeyDictionary()
LIVE: weakref.WeakKeyDictionary[Closable, None] = weakref.WeakKeyDictionary()
"""Those to be flushed at exit. No WeakSet: it cannot be copied while other threads add to it."""
DROPPED: set[Closable] = set()
_inherited: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
"""How to abandon a forked child's copies of clients that have nothing to flush."""
_for_ever: list[object] = []
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_for_ever))  # or the interpreter's end would free it

keep_for_ever = _for_ever.append
"""Never destroy this client, not even when the interpreter ends: it ends with the process."""


def started(owner: Closable, client: Client) -> None:
    """Flush `client` at exit while `owner` lives, and make its copy in a forked child unusable.

    `client` is kept as long as `owner`, and so must not refer to it.
    """
    notice_fork()  # or it would be taken for one of the parent's
    _clients[owner] = client
    LIVE[owner] = None
    _register_with_multiprocessing()


def ended(owner: Closable) -> None:
    """Do that no more."""
    LIVE.pop(owner, None)
    DROPPED.discard(owner)
    _clients.pop(owner, None)


def abandon_in_children(owner: T, abandon: Callable[[T], None]) -> None:
    """Call `abandon` with a client in forked children; there is nothing to flush at exit."""
    notice_fork()  # as in `started`
    _inherited[owner] = abandon


def flush_interrupted(owner: Closable) -> None:
    """Note that a flush was interrupted: from now on a wait needs progress to go on."""
    client = _clients.get(owner)
    if client is not None:
        client.flush_interrupted = True


def hold_until_closed(owner: Closable, client: Client, outstanding: int) -> None:
    """Keep a producer that nobody else has, and close it in the background."""
    _log.warning(
        "a producer was dropped with %d records outstanding: they are sent, and their reports run "
        "in a thread; call flush() or close() first",
        outstanding,
    )
    close_in_background(owner, client)


def close_in_background(owner: Closable, client: Client) -> None:
    """Close a producer in a thread; a report's exception is logged."""
    _clients[owner] = client  # garbage collection may have removed it
    DROPPED.add(owner)
    threading.Thread(target=_close, args=(owner,), name="columnar-kafka-close", daemon=True).start()


def _close(owner: Closable) -> None:
    try:
        owner.close()
    except Exception:  # noqa: BLE001 - there is nobody else to tell
        _log.exception("a delivery report failed while a producer was closed in the background")
    DROPPED.discard(owner)


class Wait:
    """A wait until clients' records are acknowledged, and its lines in the log."""

    def __init__(
        self,
        clients: Iterable[Client],
        *,
        tells: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        now = clock()
        self._left = {client: len(client) for client in clients}
        self._progress = dict.fromkeys(self._left, now)
        self._ends = {client: time.time() + client.longest_wait for client in self._left}
        self._interrupted = {client for client in self._left if client.flush_interrupted}
        self._tells = tells
        self._next_line = now + _FIRST_LINE

    def clients(self) -> list[Client]:
        """Return the clients to go on flushing: those that have something outstanding.

        A client whose flush was interrupted before must also make progress: work, or have records
        acknowledged.
        """
        now = self._clock()
        for client, before in self._left.items():
            left = len(client)
            if left < before:  # it may grow: librdkafka's own events count
                self._left[client] = left
            if left < before or client.working:
                self._progress[client] = now
        return [
            client
            for client in self._left
            if len(client)
            and not (client in self._interrupted and now - self._progress[client] >= GRACE)
        ]

    def tell(self) -> None:
        """Log what is outstanding, after two seconds and then every ten."""
        now = self._clock()
        if now < self._next_line or not self._tells:
            return
        self._next_line = now + _NEXT_LINE
        for client in self.clients():
            outstanding = client.describe_outstanding()
            if outstanding:
                _log.warning(
                    "waiting until Kafka has %s; this ends %s, or at once with Ctrl-C",
                    outstanding,
                    self._end(client),
                )

    def _end(self, client: Client) -> str:
        if client in self._interrupted:
            return f"{GRACE:g} s after the last acknowledgement, as a flush was interrupted"
        ends = self._ends[client]
        if ends == float("inf"):
            return "only then (message.timeout.ms=0)"
        return f"by {time.strftime('%H:%M:%S', time.localtime(ends))} (message.timeout.ms)"

    def give_up(self) -> None:
        """Log what is left, and so given up."""
        for client in self._left:
            outstanding = client.describe_outstanding()
            if outstanding:
                _log.warning("gave up %s: not acknowledged, and so probably lost", outstanding)


def wait_for(owner: Closable, *, tells: bool = True) -> Wait:
    """Return a wait for one producer; where nothing of it is buffered, for nothing."""
    client = _clients.get(owner)
    return Wait([] if client is None else [client], tells=tells)


def flush_fully(wait: Wait, failed: Callable[[BaseException], None]) -> None:
    """Flush until nothing is outstanding, or the wait is over; pass reports' errors to `failed`.

    Raises:
        KeyboardInterrupt: at once.
    """
    while clients := wait.clients():
        for client in clients:
            error = client.flush_for(_STEP)
            if error is not None:
                failed(error)
        wait.tell()


def flush_all(*threads: int) -> None:
    """Send all accepted records. Only reports and these threads may produce more."""
    notice_fork()
    alive = [owner for reference in LIVE.keyrefs() if (owner := reference()) is not None]
    known = map(_clients.get, {*alive, *DROPPED})  # `alive` keeps them meanwhile
    clients = [client for client in known if client is not None]  # not closed since
    for client in clients:
        client.accept_only(threading.get_ident(), *threads)
    wait = Wait(clients)
    failures = _Failures()
    try:
        with _ctrl_c_raises():
            flush_fully(wait, failures.add)
    finally:
        failures.tell_rest()
        wait.give_up()
        for client in clients:
            client.accept_only(*threads)


class _Failures:
    """Counts delivery reports that fail at exit. All may fail alike, so only one is logged."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, error: BaseException) -> None:
        """Log the first one."""
        self._count += 1
        if self._count == 1:
            _log.error("a delivery report failed at exit", exc_info=error)

    def tell_rest(self) -> None:
        """Log how many others there were."""
        if self._count > 1:
            _log.error("%d more delivery reports failed at exit", self._count - 1)


@contextmanager
def _ctrl_c_raises() -> Iterator[None]:
    """Let Ctrl-C interrupt the wait even if the program handles SIGINT: its own work is over."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _at_exit() -> None:
    try:
        flush_all()
    except KeyboardInterrupt:
        # A KeyboardInterrupt that leaves executed code makes Python end as an uncaught Ctrl-C does:
        # by SIGINT, after the other exit handlers have run.
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102


# --- children of multiprocessing ------------------------------------------------------------------

_process = 0  # the one whose finalizer is registered


def _register_with_multiprocessing() -> None:
    """Have children of multiprocessing flush at their end, which for many is `os._exit`.

    A child has imported multiprocessing; without that import there is nothing to do.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None or _process == os.getpid():
        return
    if sys.modules["multiprocessing.process"].parent_process() is not None:
        _flush_finally()
    else:  # not yet: a main module with a producer is imported before its process is a child
        util.register_after_fork(LIVE, _flush_finally)


def _flush_finally(_: object = None) -> None:
    global _process  # noqa: PLW0603
    if _process != os.getpid():
        _process = os.getpid()
        sys.modules["multiprocessing.util"].Finalize(None, _at_childs_end, exitpriority=_LAST)


def _at_childs_end() -> None:
    """Flush after all threads that the child waits for have ended."""
    if _others():
        threading.Thread(target=_flush_after_others, name="columnar-kafka-exit").start()
    else:
        _flush_after_others()


def _flush_after_others() -> None:
    while others := _others():
        for thread in others:
            thread.join()
    main = threading.main_thread().ident
    assert main is not None
    flush_all(main)  # a spawned child's exit handlers are still to come


def _others() -> list[threading.Thread]:
    ours = (threading.current_thread(), threading.main_thread())
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in ours]


# --- forking --------------------------------------------------------------------------------------

_home = process_mark()  # of the process that the clients belong to
FORKING: Final[list[int]] = []
"""The threads that are in `os.fork`, hooks included; one twice if a handler there forks too."""
PAST: Final[list[int]] = []
"""Those of them that have waited for the clients. Each fork has an int object of its own here."""


class ForkGate:
    """Closed to one client's thread while others fork: it begins nothing then.

    A child has copies of all locks, and of those that another thread holds they stay locked:
    Arrow's and the allocator's, too. The thread asks with what a fork waits for already held.
    """

    def __init__(self) -> None:
        self._past: dict[int, tuple[int, float]] = {}
        """By their identity: forks that wait for no client any more, and when that was seen."""

    def is_open(self, now: float) -> bool:
        """Whether no thread forks, or each that does has waited for clients over `MUTUAL` ago.

        Another library's hook may keep it: by a lock whose holder waits for this very thread.
        """
        forking, past = len(FORKING), [*PAST]
        self._past = {id(fork): self._past.get(id(fork), (fork, now)) for fork in past}
        return forking <= sum(now - since >= MUTUAL for _, since in self._past.values())


def forks_here() -> bool:
    """Return whether this thread forks: then a signal handler asks, and must wait for no client."""
    return threading.get_ident() in FORKING


def _wait_for_steps() -> None:
    """Wait until all clients' threads are between two steps."""
    for reference in _clients.keyrefs():  # other threads make clients meanwhile
        owner = reference()
        client = None if owner is None else _clients.get(owner)
        if client is not None:
            client.wait_for_step()


def notice_fork() -> None:
    """Abandon all clients if this is a forked child that has not done so.

    Python may not have been told, as of uWSGI's fork in C, or a handler may have raised in a hook.
    Any lock may have been held then, for ever, so this takes none; nor may its caller before.
    """
    if process_mark() != _home:
        _abandon_all()


def _abandon_all() -> None:
    # librdkafka would wait for its threads, which are not here, or for others in their place. So
    # no client is ever destroyed. What a signal handler interrupts is done again.
    global _home  # noqa: PLW0603
    for owner, client in [*_clients.items()]:
        client.abandon()
        keep_for_ever(owner)
        ended(owner)
    for other, abandon in [*_inherited.items()]:  # a client may be destroyed meanwhile
        abandon(other)
        keep_for_ever(other)
        _inherited.pop(other, None)
    FORKING.clear()  # of threads that are not here
    PAST.clear()
    _home = process_mark()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    # What a signal handler raises ends a hook, and the fork goes on. So hooks that belong together
    # are in C, where no handler runs; the others may end anywhere, and are called once more.
    _this_thread = iter(threading.get_ident, None)
    for threads in (FORKING, PAST):
        os.register_at_fork(
            after_in_parent=partial(next, map(threads.remove, _this_thread)),
            after_in_child=threads.clear,
        )
    # The last that is registered is the first to run before a fork.
    os.register_at_fork(before=partial(next, map(PAST.append, _this_thread)))
    for _ in range(2):
        os.register_at_fork(before=_wait_for_steps, after_in_child=notice_fork)
    os.register_at_fork(before=partial(next, map(FORKING.append, _this_thread)))
