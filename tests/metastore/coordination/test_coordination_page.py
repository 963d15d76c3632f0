"""The page about coordination: it has the limits and the names right."""

from __future__ import annotations

import re
from pathlib import Path

import metastore.coordination
from metastore.coordination import grant, guarded, line, own_record, pace

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "coordination.md").read_text(encoding="utf-8")


def test_every_name_that_one_starts_with_is_on_the_page() -> None:
    answers = {"Grant", "GuardedValue", "Leader", "LeaderView", "Member", "MembersChange", "MembersView"}
    others = {"ForeignRecord", "Pace", "Backoff", "View"}  # a mistake, and what those build with who go further
    missing = set(metastore.coordination.__all__) - answers - others - set(re.findall(r"\w+", PAGE))
    assert missing == set()


def test_the_limits_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| `(\w+)`(?:, `\w+`)? \|$", PAGE, re.MULTILINE)
    limits = {name: text for text, name in rows}
    for name, value in [
        ("LINE_LENGTH_MAX", line.LINE_LENGTH_MAX),
        ("ATTEMPTS_MAX", own_record.ATTEMPTS_MAX),
        ("FENCE_ATTEMPTS_MAX", grant.FENCE_ATTEMPTS_MAX),
        ("TAKEOVER_ATTEMPTS_MAX", guarded.TAKEOVER_ATTEMPTS_MAX),
    ]:
        assert limits[name].split(",")[0] == str(value)
    assert limits["PAUSE_FIRST_S"].startswith(f"{pace.PAUSE_FIRST_S * 1000:.0f} ms, twice")
    assert f"up to {pace.PAUSE_MAX_S:.0f} s" in limits["PAUSE_FIRST_S"]
    assert pace.PAUSE_GROWTH == 2
