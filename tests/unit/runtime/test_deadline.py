"""When a call with a timeout returns, in the milliseconds that librdkafka counts in."""

from __future__ import annotations

import pytest

from columnar_kafka.runtime.deadline import up_to_ms


@pytest.mark.parametrize(
    ("seconds", "waited"),
    [
        (0.2, 0.2),
        (0.1999, 0.2),
        (0.2000001, 0.2),  # what floats make of 0.2
        (0.0001, 0.001),
        (1e-9, 1e-9),
        (0.0, 0.0),
        (-1.0, 0.0),
    ],
)
def test_seconds_are_rounded_up_to_milliseconds(seconds: float, waited: float) -> None:
    assert up_to_ms(seconds) == waited
