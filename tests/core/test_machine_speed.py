"""Limits of time in tests: as they are on a quiet machine, longer on a slower or busier one."""

import os

import pytest

from tests.support import machine_speed
from tests.support.machine_speed import LARGEST, scaled, slowness


@pytest.mark.parametrize(
    ("cpu", "waiting", "load", "factor"),
    [
        (0.5, 1.0, 0.0, 1.0),
        (1.0, 1.2, 1.0, 1.0),
        (3.0, 1.0, 0.5, 3.0),
        (0.5, 2.0, 0.5, 2.0),
        (0.5, 1.0, 4.0, 4.0),
        (2.0, 2.0, 3.0, 6.0),
        (9.0, 9.0, 9.0, LARGEST),
    ],
)
def test_a_limit_grows_with_what_makes_a_machine_slow(monkeypatch, cpu, waiting, load, factor):
    monkeypatch.setattr(machine_speed, "_measured", lambda: (cpu, waiting))
    monkeypatch.setattr(os, "getloadavg", lambda: (load * os.cpu_count(), 0.0, 0.0))
    assert slowness() == factor
    assert scaled(0.5) == 0.5 * factor


def test_the_piece_of_work_is_measured():
    cpu, waiting = machine_speed._measured()
    assert cpu > 0
    assert waiting > 0.9
