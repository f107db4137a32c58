"""Where a run took place: the machine, the versions and the settings, for the reader."""

from __future__ import annotations

import datetime as dt
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka
import psutil

from columnar_kafka import native

PROFILE = Path(__file__).parents[1] / "native/core.profdata"
PACKAGES = ("confluent-kafka", "pyarrow", "orjson", "fastavro", "pyruhvro")


@dataclass(frozen=True)
class Machine:
    """Everything that two runs may differ in."""

    date: str
    rounds: int
    load: str
    processor: str
    system: str
    versions: str
    native_core: str

    @classmethod
    def here(cls, rounds: int) -> Machine:
        """Describe this machine now, before a question is asked."""
        memory = psutil.virtual_memory().total / 2**30
        return cls(
            date=dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            rounds=rounds,
            load=f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
            processor=f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB",
            system=f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
            versions=", ".join(
                [
                    f"librdkafka {confluent_kafka.libversion()[0]}",
                    *(f"{name} {version(name)}" for name in PACKAGES),
                ]
            ),
            native_core=_native_core(),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def _native_core() -> str:
    if not native.enabled:
        return f"off: {native.reason}"
    return "on" if PROFILE.exists() else "on, compiled without a profile"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
