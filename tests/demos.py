"""`columnar-kafka demo` as users run it: in a process and a temporary folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from confluent_kafka.admin import AdminClient
from support import command_lines, eventually, has_ended

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = "from columnar_kafka.cli import main; main()"


@dataclass
class Demo:
    """A demo that runs or ran: every process it ever had is remembered."""

    process: subprocess.Popen[str]
    folder: Path
    output: str = ""
    seen: dict[int, str] = field(default_factory=dict)  # their commands

    def look(self) -> None:
        self.seen |= command_lines(self.process.pid)

    def wait_for(self, text: str) -> None:
        assert self.process.stdout is not None
        while text not in self.output:
            line = self.process.stdout.readline()
            assert line, f"it ended before {text!r}:\n{self.output}"
            self.output += line
            self.look()

    def end(self) -> int:
        self.wait_until_output_ends()
        return self.process.wait(120)

    def wait_until_output_ends(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            self.look()

    def had_a_broker(self) -> bool:
        return any(
            "mock.py" in command or "kafka.Kafka" in command for command in self.seen.values()
        )

    def leaves_nothing(self) -> bool:
        eventually(lambda: all(map(has_ended, self.seen)))
        return bool(self.seen) and not list((self.folder / "temporary").iterdir())


class Start(Protocol):
    """Starts a demo; `code` runs instead of the command's own."""

    def __call__(self, *arguments: str, java: bool, code: str = RUN) -> Demo: ...


@contextmanager
def starting_demos(tmp_path: Path) -> Iterator[Start]:
    """Start demos, in a process group and with a temporary folder of their own."""
    started: list[Demo] = []
    (tmp_path / "temporary").mkdir()

    def run(*arguments: str, java: bool, code: str = RUN) -> Demo:
        environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
        if not java:
            environment |= {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": ""}
        process = subprocess.Popen(
            [sys.executable, "-c", code, "demo", *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(Demo(process, tmp_path))
        return started[-1]

    try:
        yield run
    finally:
        for demo in started:
            if demo.process.poll() is None:
                os.killpg(demo.process.pid, signal.SIGKILL)
            demo.process.communicate()


def leaves_no_topic(servers: str) -> None:
    """Wait until no topic of a demo is left on a cluster."""
    with AdminClient({"bootstrap.servers": servers}) as admin:
        eventually(
            lambda: not [name for name in admin.list_topics().topics if "kafka-demo" in name]
        )
