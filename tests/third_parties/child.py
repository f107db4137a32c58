"""Run a function in a process of its own, as instrumentation patches classes for good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_CALL = "import json, sys, {module} as m; print(json.dumps(m.{name}(*json.loads(sys.argv[1]))))"


def run(function: Callable[..., Any], *args: Any, **environment: str) -> Any:
    """Call a module's function in a new process; arguments and result travel as JSON."""
    code = _CALL.format(module=function.__module__, name=function.__name__)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, json.dumps(args)],
        cwd=Path(__file__).parent,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])
