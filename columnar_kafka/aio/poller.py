"""The thread that polls a producer for an event loop."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from columnar_kafka.producing.shutdown import LONGEST_STEP
from columnar_kafka.runtime import lifecycle

if TYPE_CHECKING:
    import asyncio

    from columnar_kafka.aio.inbox import Inbox
    from columnar_kafka.producing.producer import Producer

__all__ = ["STEP", "ProducerPoller"]

STEP: Final = 0.1
"""How long, in seconds, one flush is, and a pause after an error.

A poll is `LONGEST_STEP`, and so is the time after which the end is noticed, at most.
"""

_log = logging.getLogger(__name__)


class ProducerPoller:
    """The thread that polls a producer, and ends it.

    It knows nothing of its AIOProducer, so that one can be dropped.
    """

    def __init__(self, producer: Producer, inbox: Inbox, ended: asyncio.Future[None]) -> None:
        self.ended = ended
        self._producer = producer
        self._inbox = inbox
        self._ending = threading.Event()
        self._calls: set[concurrent.futures.Future[Any]] | None = None
        self.thread = threading.Thread(
            target=self._run, name="columnar-kafka-aio-poller", daemon=True
        )
        self.thread.start()

    def end(self) -> None:
        """End the thread when all that is outstanding is reported. Never blocks."""
        self._ending.set()

    def close(self, calls: set[concurrent.futures.Future[Any]]) -> None:
        """Also close the producer, when `calls`, which use it, are done; then `ended` is done."""
        self._calls = calls
        self.end()

    def join(self) -> None:
        """Wait for the thread; after `ended` it has nothing left to do."""
        self.thread.join()

    def _run(self) -> None:
        error = None
        try:
            while not self._ending.is_set():
                self._poll()
            self._end()
        except Exception as raised:  # noqa: BLE001 - `close` raises it
            error = raised
        self._inbox.put(_finish, self.ended, error)
        self._inbox.wake()

    def _poll(self) -> None:
        try:
            self._producer.poll(LONGEST_STEP)
        except Exception:  # noqa: BLE001 - the reports after it have to come all the same
            _log.exception("columnar-kafka's poller failed; it goes on")
            self._ending.wait(STEP)
        self._inbox.wake()

    def _end(self) -> None:
        wait = lifecycle.wait_for(self._producer, tells=self._calls is not None)
        while self._producer.flush(STEP):
            self._inbox.wake()
            wait.tell()
        self._inbox.wake()
        # What was only dropped is closed with its last reference: atexit may be flushing it now.
        if self._calls is not None:
            concurrent.futures.wait(list(self._calls))
            self._producer.close()


def _finish(ended: asyncio.Future[None], error: Exception | None) -> None:
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)
