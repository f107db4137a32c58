"""What all commands have in common."""

from __future__ import annotations

import pytest
from commands import invoke

import columnar_kafka


def test_the_version_is_the_packages() -> None:
    result = invoke("--version")
    assert result.output == f"columnar-kafka {columnar_kafka.__version__}\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "command",
    ["demo", "ingest", "verify", "replay", "compact", "repair", "fence show", "fence reset"],
)
def test_every_command_explains_itself(command: str) -> None:
    result = invoke(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output
