"""What is a leak and what is not: figures that are made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.leaks import Figures, Process
from soak.trends import SAMPLES_MIN, WARM_UP_SAMPLES, Allowance, trend

ALLOWANCE = Allowance(absolute=100.0, relative=0.1)
ENOUGH = WARM_UP_SAMPLES + SAMPLES_MIN
NOISE = st.lists(st.floats(min_value=-20.0, max_value=20.0), min_size=ENOUGH, max_size=40)


@given(NOISE, st.integers(min_value=0, max_value=2**32))
def test_what_only_swings_is_no_leak(noise: list[float], base: int) -> None:
    found = trend([base + each for each in noise])
    assert found is not None
    assert not found.is_leak(ALLOWANCE)


@given(NOISE, st.floats(min_value=60.0, max_value=1_000.0))
def test_what_grows_by_more_than_it_swings_is_one(noise: list[float], step: float) -> None:
    found = trend([1_000.0 + number * step + each for number, each in enumerate(noise)])
    assert found is not None
    assert found.is_leak(ALLOWANCE)
    assert found.growth == pytest.approx(step * (len(noise) - WARM_UP_SAMPLES - 1), rel=0.7)


def test_what_grows_to_a_level_and_stays_is_none() -> None:
    found = trend([100.0, 600.0, *[1_000.0, 1_010.0, 990.0] * 4])
    assert found is not None
    assert not found.is_leak(ALLOWANCE)


def test_one_outlier_is_none() -> None:
    found = trend([1_000.0] * 8 + [9_000.0])
    assert found is not None
    assert not found.is_leak(ALLOWANCE)


def test_too_few_say_nothing() -> None:
    assert trend([float(each) for each in range(ENOUGH - 1)]) is None


GROWS = """
import sys
memory, files = [], []
for line in sys.stdin:
    memory.append(b"x" * (40 << 20))
    files += [open(sys.executable, "rb") for _ in range(20)]
    print("grown", flush=True)
"""


def test_a_process_is_measured(tmp_path: Path) -> None:
    """A process of its own: what other tests left in this one would be what a growth is compared with."""
    figures = Figures()
    with subprocess.Popen(
        [sys.executable, "-I", "-c", GROWS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for number in range(ENOUGH):
            print("grow", file=child.stdin, flush=True)
            assert child.stdout.readline() == "grown\n"
            (tmp_path / str(number)).write_bytes(bytes(80 << 10))
            figures.take(Process("this one", child.pid, tmp_path))
        child.stdin.close()
    leaks = "\n".join(figures.leaks())
    assert "this one: memory grows" in leaks
    assert "this one: files grows" in leaks
    assert "disk" not in leaks
    assert f"of {ENOUGH} samples" in figures.report()
