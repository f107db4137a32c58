"""Both engines, for the tests that produce."""

from __future__ import annotations

import pytest

from columnar_kafka import native


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on both engines, or on the one that it names by `parametrize`."""
    chosen = [marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")]
    if "engine" not in chosen:
        engines = ["native", "pure"] if native.enabled else ["pure"]
        metafunc.parametrize("engine", engines, indirect=True)


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have producers use the native core, or not: `Producer.produce` then leaves all to Python."""
    name: str = getattr(request, "param", "native" if native.enabled else "pure")
    if name == "pure":
        monkeypatch.setattr(native, "enabled", False)
        monkeypatch.setattr(native, "reason", "a test goes without it")
    elif not native.enabled:
        pytest.skip(f"there is no native core: {native.reason}")
    return name
