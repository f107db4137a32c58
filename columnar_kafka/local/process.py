"""A child process that cannot outlive this one: the starter's side of `guard.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GUARD = Path(__file__).with_name("guard.py")
_CLOSE_SECONDS = 10.0


class GuardedProcess:
    """COMMAND under a guard: it ends with `close()`, or when this process ends in any way.

    Output goes to the end of the file `log`. `remove` is a folder that the guard removes if this
    process vanishes without `close()`. Blocks about 50 ms, until the command runs.
    Not thread-safe. A forked child that lives on keeps the command alive until it exits too.

    Raises:
        OSError: the command could not be started.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        grace_seconds: float = 5.0,
        remove: Path | None = None,
    ) -> None:
        reader, writer = os.pipe()
        guard = [sys.executable, "-I", "-S", str(_GUARD), "--grace", str(grace_seconds)]
        if remove is not None:
            guard += ["--remove", str(remove)]
        guard += ["--pid-fd", str(writer), "--", *map(str, command)]
        with os.fdopen(reader, "rb") as pid, log.open("ab") as output:
            try:
                self._guard = subprocess.Popen(
                    guard,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=[writer],
                )
            finally:
                os.close(writer)
            line = pid.readline()
        if not line:
            self._reap()
            raise OSError(f"could not start {command[0]}: {tail(log, lines=3)}")
        self.pid = int(line)

    @property
    def running(self) -> bool:
        """Whether the command has not ended yet (a suspended one has not)."""
        return self._guard.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the command; nothing happens once it has ended."""
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def suspend(self) -> None:
        """SIGSTOP the command, and block until it has stopped, where /proc says so (Linux).

        The kernel tells one of its threads, which tells the others when it gets to run.
        """
        self.signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.pid}/stat")
        with suppress(OSError):  # no /proc, or the command has ended
            while self.running and stat.read_text().rpartition(")")[2][1] != "T":
                time.sleep(0.001)

    def wait(self, timeout: float) -> int:
        """Wait for the command's end; its exit code, or 128 + the number of its signal.

        Raises:
            TimeoutError: it still runs after `timeout` seconds.
        """
        try:
            code = self._guard.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} still runs after {timeout:.0f} s") from None
        self._reap()
        return code

    def close(self) -> None:
        """KILL the command and wait until it is gone; harmless when it is already."""
        if self.running:
            self.signal(signal.SIGKILL)
            with suppress(TimeoutError):
                self.wait(_CLOSE_SECONDS)
        self._reap()
        if self._guard.returncode == -signal.SIGKILL:
            self._close_without_guard()

    def _reap(self) -> None:
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(_CLOSE_SECONDS)
            return
        self._guard.kill()
        self._guard.wait()

    def _close_without_guard(self) -> None:
        """End an orphan: someone killed its guard. Its group's number is the command's own."""
        deadline = time.monotonic() + _CLOSE_SECONDS
        with suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < deadline:
                os.killpg(self.pid, signal.SIGKILL)
                time.sleep(0.01)


def tail(log: Path, *, lines: int = 30) -> str:
    """The last lines of a log file, for an error message; empty if there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
