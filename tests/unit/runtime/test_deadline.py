"""When a call with a timeout returns, in the milliseconds that librdkafka counts in."""

from __future__ import annotations

import math

import pytest

from columnar_kafka.runtime.deadline import next_step


@pytest.mark.parametrize(
    ("left", "waited"),
    [
        (math.inf, 0.2),
        (0.3, 0.2),
        (0.1999, 0.2),
        (0.1000001, 0.1),  # what floats make of 0.1
        (0.0001, 0.001),
        (1e-9, 1e-9),
        (0.0, 0.0),
        (-1.0, 0.0),
    ],
)
def test_a_step_ends_with_a_millisecond(left: float, waited: float) -> None:
    assert next_step(left, 0.2) == waited
