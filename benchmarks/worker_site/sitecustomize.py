"""Has Spark's daemons of Python workers wait for those that end. Python imports this file itself.

The daemons ignore the end of their workers, and then the system counts their CPU nowhere: what a
query took in Python would be lost with its workers.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any

_set_handler = signal.signal


def _wait(*_: Any) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _set_other(number: int, handler: Any) -> Any:
    ignores = number == signal.SIGCHLD and handler is signal.SIG_IGN
    return _set_handler(number, _wait if ignores else handler)


if "pyspark.daemon" in sys.orig_argv:
    signal.signal = _set_other
