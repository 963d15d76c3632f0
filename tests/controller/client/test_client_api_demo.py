"""The demonstration tells its story to the end: every order has one invoice, every message came once and in order."""

from __future__ import annotations

import subprocess
import sys

WITHIN_S = 100.0
SPLITS = 3
"""From one segment to as many as are allowed; so many merges lead back."""
PICTURES = 3


def test_the_demonstration_comes_to_a_good_end() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "controller.demo"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = ended.stdout.splitlines()
    assert "Every order has one invoice." in told
    assert "   a reader sees: []" in told
    assert "   a reader sees: b'plain, and behind it'" in told
    assert told[-1] == "Every message came once, and every key in order."
    assert next(line for line in told if line.startswith("   split of")) == "   split of 0: msgRateIn"
    assert sum(line.startswith("   merge of") for line in told) == SPLITS
    assert sum("= active   - sealed" in line for line in told) == PICTURES
