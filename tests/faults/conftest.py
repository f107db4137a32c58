"""Shows what the long tests measured, below their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            figures = ", ".join(f"{name} {value}" for name, value in report.user_properties)
            if figures and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid}: {figures}")
