"""The guard: its command ends with it, whoever ends first and however."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from support import eventually, has_ended

from columnar_kafka.local import guard
from columnar_kafka.local.process import GuardedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., subprocess.Popen[bytes]]

PYTHON = [sys.executable, "-I", "-S", "-c"]
SLEEP = [*PYTHON, "import time; time.sleep(600)"]
IGNORE_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
BUSY_THREADS = """
import threading, zlib
for _ in range(4):
    threading.Thread(target=lambda: [zlib.crc32(bytes(1 << 20)) for _ in iter(int, 1)]).start()
"""
START_ANOTHER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def guarded() -> Iterator[Start]:
    """Start the guard as a user would; leaving ends its stdin, and so what it guards."""
    with ExitStack() as started:

        def start(*arguments: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-I", "-S", str(guard.__file__), *arguments]
            return started.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )

        yield start


def child_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    return eventually(psutil.Process(process.pid).children)[0]


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def test_passes_on_the_exit_code(guarded: Start) -> None:
    assert guarded("--", *PYTHON, "raise SystemExit(7)").wait(60) == 7


def test_a_command_ended_by_a_signal_is_128_and_its_number(guarded: Start) -> None:
    process = guarded("--", *SLEEP)
    child_of(process).kill()
    assert process.wait(60) == 128 + signal.SIGKILL


def test_a_command_that_does_not_exist_is_127(guarded: Start) -> None:
    assert guarded("--", "/nowhere/no-such-command").wait(60) == 127


def test_end_of_stdin_ends_the_command(guarded: Start) -> None:
    process = guarded("--", *SLEEP)
    child = child_of(process)
    close_stdin(process)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert has_ended(child.pid)


def test_a_command_that_ignores_term_is_killed_after_the_grace_period(guarded: Start) -> None:
    process = guarded("--grace", "0.2", "--", *PYTHON, IGNORE_TERM)
    assert first_line(process) == b"deaf\n"
    close_stdin(process)
    assert process.wait(60) == 128 + signal.SIGKILL


def test_a_suspended_command_is_ended_too(guarded: Start) -> None:
    process = guarded("--grace", "0.2", "--", *PYTHON, IGNORE_TERM)
    first_line(process)
    child = child_of(process)
    child.suspend()
    close_stdin(process)
    assert process.wait(60) == 128 + signal.SIGKILL
    assert has_ended(child.pid)


def test_a_command_has_stopped_when_suspend_returns(tmp_path: Path) -> None:
    """Also if the kernel has to wait for one of many busy threads."""
    process = GuardedProcess([*PYTHON, BUSY_THREADS], log=tmp_path / "log")
    try:
        for _ in range(50):
            process.suspend()
            assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
            process.signal(signal.SIGCONT)
    finally:
        process.close()
    process.suspend()  # nothing happens to one that has ended


def test_what_the_command_started_ends_with_it(guarded: Start) -> None:
    process = guarded("--", *PYTHON, START_ANOTHER)
    grandchild = int(first_line(process))
    close_stdin(process)
    process.wait(60)
    eventually(lambda: has_ended(grandchild))


def test_term_to_the_guard_ends_the_command(guarded: Start) -> None:
    process = guarded("--", *SLEEP)
    child = child_of(process)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert has_ended(child.pid)


def test_ctrl_c_in_the_terminal_reaches_neither_guard_nor_command(guarded: Start) -> None:
    process = guarded("--", *SLEEP)
    child = child_of(process)
    for pid in process.pid, child.pid:  # each in a session of its own, soon after its fork
        eventually(lambda pid=pid: os.getsid(pid) == pid)


def test_the_folder_to_remove_goes_only_when_the_starter_does(
    guarded: Start, tmp_path: Path
) -> None:
    kept, removed = tmp_path / "kept", tmp_path / "removed"
    kept.mkdir()
    removed.mkdir()
    assert guarded("--remove", str(kept), "--", *PYTHON, "").wait(60) == 0
    process = guarded("--remove", str(removed), "--", *SLEEP)
    child_of(process)
    close_stdin(process)
    process.wait(60)
    assert kept.exists()
    assert not removed.exists()


def test_a_killed_starter_takes_the_command_with_it(tmp_path: Path) -> None:
    """kill -9 of a Python process that holds a GuardedProcess leaves nothing running."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\n"
        "from pathlib import Path\n"
        "from columnar_kafka.local.process import GuardedProcess\n"
        f"process = GuardedProcess({SLEEP!r}, log=Path({str(tmp_path / 'log')!r}))\n"
        "print(process.pid, flush=True)\n"
        "process.wait(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as starter:
        pid = int(first_line(starter))
        starter.kill()
    eventually(lambda: has_ended(pid))


def test_close_ends_the_command_even_when_its_guard_was_killed(tmp_path: Path) -> None:
    process = GuardedProcess(SLEEP, log=tmp_path / "log")
    psutil.Process(psutil.Process(process.pid).ppid()).kill()
    process.close()
    assert has_ended(process.pid)


def test_close_twice_is_harmless(tmp_path: Path) -> None:
    process = GuardedProcess(SLEEP, log=tmp_path / "log")
    process.close()
    process.close()
    assert not process.running


def test_the_command_writes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = GuardedProcess([*PYTHON, "print('hello')"], log=log)
    assert process.wait(60) == 0
    assert log.read_text() == "hello\n"


def test_a_command_that_cannot_start_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-command"):
        GuardedProcess(["/nowhere/no-such-command"], log=tmp_path / "log")
