"""The demonstration of transactions tells its story to the end, and every order has one invoice."""

from __future__ import annotations

import subprocess
import sys

WITHIN_S = 100.0


def test_the_demonstration_comes_to_a_good_end() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "controller.demo"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = ended.stdout.splitlines()
    assert "Every order has one invoice." in told
    assert "   a reader sees: []" in told
    assert told[-1] == "   a reader sees: b'plain, and behind it'"
