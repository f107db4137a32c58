"""`tests/unit/` mirrors `columnar_kafka`: it has a folder for each room that is a folder."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent


def folders(parent: Path) -> set[str]:
    """Return the names of the folders that hold Python files."""
    return {path.parent.name for path in parent.glob("*/*.py")}


def test_every_room_has_its_folder_of_unit_tests() -> None:
    rooms = folders(TESTS.parent / "columnar_kafka")
    assert folders(TESTS / "unit") == rooms | {"spark_sink"}
