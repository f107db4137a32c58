"""Run a command that ends when its starter is gone, however that went.

    python -m columnar_kafka.local.guard [--grace SECONDS] [--remove DIR] [--pid-fd FD] -- CMD…

CMD runs as the guard's child, in a session of its own: a Ctrl-C in the terminal does not reach it.
The starter holds the write end of the guard's stdin. End of file there (the starter closed it,
exited, or was killed with -9: the kernel closes it either way), SIGTERM or SIGHUP ends CMD's whole
process group: TERM, then KILL after the grace period. The guard exits with CMD's own code, or with
128 + the number of the signal that ended it.

Started by file path with `python -I -S` nothing but this file and the standard library is imported.
Only a kill -9 of the guard itself leaves CMD running: `process.py` then ends it by its process id.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

_STDIN = 0
_STOPPERS = {signal.SIGTERM, signal.SIGHUP}


def main(argv: list[str]) -> int:
    """Run the command line above; blocks until CMD has ended; returns its exit code."""
    options = _parse(argv)
    wake = _wake_on_signals()
    try:
        child = subprocess.Popen(options.command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"guard: {error}\n")
        return 127
    if options.pid_fd is not None:
        os.write(options.pid_fd, b"%d\n" % child.pid)
        os.close(options.pid_fd)
    if _must_end(child, wake):
        _end(child, options.grace)
    _signal_group(child.pid, signal.SIGKILL)  # what CMD itself left behind
    if options.remove and _starter_is_gone():
        shutil.rmtree(options.remove, ignore_errors=True)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="guard", allow_abbrev=False)
    parser.add_argument("--grace", type=float, default=5.0, help="seconds between TERM and KILL")
    parser.add_argument("--remove", help="folder to remove if the starter is gone")
    parser.add_argument("--pid-fd", type=int, help="file descriptor that gets CMD's process id")
    parser.add_argument("command", nargs="+", metavar="CMD")
    return parser.parse_args(argv)


def _wake_on_signals() -> int:
    """Turn signals into bytes (their numbers) on the file descriptor returned."""
    wake, sink = os.pipe()
    os.set_blocking(sink, False)
    signal.set_wakeup_fd(sink)
    for number in (signal.SIGCHLD, signal.SIGINT, *_STOPPERS):
        signal.signal(number, lambda *_: None)
    with suppress(PermissionError):  # a shell made it the leader of its group already
        os.setsid()
    return wake


def _must_end(child: subprocess.Popen[bytes], wake: int) -> bool:
    """Block until the child has ended (False) or has to be ended (True)."""
    while child.poll() is None:
        ready, _, _ = select.select([_STDIN, wake], [], [])
        if wake in ready and _STOPPERS & set(os.read(wake, 64)):
            return True
        if _STDIN in ready and not os.read(_STDIN, 1024):
            return True
    return False


def _end(child: subprocess.Popen[bytes], grace: float) -> None:
    _signal_group(child.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        child.wait(grace)
        return
    _signal_group(child.pid, signal.SIGKILL)  # reaches a stopped process too
    child.wait()


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS: EPERM where all are zombies
        os.killpg(pid, number)


def _starter_is_gone() -> bool:
    """Whether stdin is at its end; does not block."""
    while select.select([_STDIN], [], [], 0)[0]:
        if not os.read(_STDIN, 1024):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
