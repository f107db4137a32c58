"""The command line `columnar-kafka`: thin; what its commands do is in the packages they name."""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """The entry point of the `columnar-kafka` command, which exists without the extra, too."""
    try:
        commands = import_module("columnar_kafka.cli.commands")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("columnar_kafka"):
            raise
        sys.exit(f"columnar-kafka: {error}: pip install 'columnar-kafka[cli]'")
    commands.run()
