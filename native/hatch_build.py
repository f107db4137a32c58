"""Puts the native core into a wheel, where ``COLUMNAR_KAFKA_WHEEL=native`` asks for it.

Without that the wheel is for every platform and has no core. Nobody who installs from source needs
a compiler, so it is not built just because cargo is there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from build import build


class NativeWheel(BuildHookInterface):
    """The hook of hatchling that pyproject.toml names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the core, and have the wheel named after this interpreter and platform."""
        if version == "editable" or os.environ.get("COLUMNAR_KAFKA_WHEEL") != "native":
            return
        module = build()
        build_data["artifacts"].append(f"columnar_kafka/native/{module.name}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
