"""Spark's daemon of Python workers, but one that waits for those that end.

Spark's own ignores their end, and then the system counts their CPU nowhere: what a query took in
Python would be lost with its workers.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Any

from pyspark import daemon


def _wait(*_: Any) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Run the daemon until Spark ends it."""
    set_handler = signal.signal

    def set_other(number: int, handler: Any) -> Any:
        ignores = number == signal.SIGCHLD and handler is signal.SIG_IGN
        return set_handler(number, _wait if ignores else handler)

    signal.signal = set_other
    daemon.manager()


if __name__ == "__main__":
    main()
