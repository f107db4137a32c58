"""Run the README's commands as on a machine without Java and cargo: `make bare`.

They run in a copy of the working tree, with an environment of their own, and with a path that has
all programs but those. `python tests/bare.py 'make test'` runs other commands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]
COMMANDS = ("make demo", "make test")
LACKING = ("cargo", "java", "rustc", "rustup")
UNSET = ("CI", "JAVA_HOME", "VIRTUAL_ENV")


def main(commands: tuple[str, ...]) -> int:
    """Return what `exit` takes: 0 if all commands have ended well."""
    with tempfile.TemporaryDirectory(prefix="columnar-kafka-bare-") as folder:
        programs, tree = Path(folder, "bin"), Path(folder, "tree")
        programs.mkdir()
        link_programs(programs, os.environ["PATH"])
        copy_tree(tree)
        for command in commands:
            began = time.monotonic()
            status = subprocess.run(
                command, shell=True, cwd=tree, env=environment(programs), check=False
            ).returncode
            sys.stderr.write(f"{command}: status {status}, {time.monotonic() - began:.0f} s\n")
            if status:
                return status
    return 0


def link_programs(folder: Path, path: str) -> None:
    """Fill a folder with links to the programs of a path; the first of a name counts."""
    for place in filter(Path.is_dir, map(Path, path.split(os.pathsep))):
        for program in place.iterdir():
            link = folder / program.name
            if (
                program.name not in LACKING
                and not link.is_symlink()
                and os.access(program, os.X_OK)
            ):
                link.symlink_to(program)


def environment(programs: Path) -> Mapping[str, str]:
    """Return the variables of a process that finds these programs, and Python by `PYTHON`."""
    kept = {key: value for key, value in os.environ.items() if key not in UNSET}
    return {**kept, "PATH": str(programs), "PYTHON": str(Path(sys.base_prefix, "bin", "python3"))}


def copy_tree(tree: Path) -> None:
    """Copy what git has, or would have, of the working tree."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (source := ROOT / name).is_file():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    subprocess.run(["git", "init", "--quiet"], cwd=tree, check=True)  # make asks git for files
    subprocess.run(["git", "add", "--all"], cwd=tree, check=True)


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or COMMANDS))
