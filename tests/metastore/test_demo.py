"""The demonstration tells its story to the end, and nothing is lost in it."""

from __future__ import annotations

import subprocess
import sys

WITHIN_S = 100.0


def test_the_demonstration_comes_to_a_good_end() -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "metastore.demo"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = ended.stdout.splitlines()
    assert told[-1] == "Nothing that was acknowledged is gone."
    chapters = [line.partition(".")[0] for line in told if line[:1].isdigit()]
    assert chapters == [str(number) for number in range(1, len(chapters) + 1)]
    assert len(chapters) == 8
