"""What the tests' own helpers do beside processes that end."""

from __future__ import annotations

import os
import subprocess
import sys

from support import command_lines, eventually, has_ended


def test_a_process_that_has_ended_has_no_command_line() -> None:
    """Though nobody has waited for it, as where a test is interrupted."""
    line = [sys.executable, "-c", "input()"]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as process:
        assert command_lines(os.getpid())[process.pid] == " ".join(line)
        process.kill()
        eventually(lambda: has_ended(process.pid))
        assert process.pid not in command_lines(os.getpid())
    assert command_lines(process.pid) == {}
