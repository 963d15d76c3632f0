"""Recorded answers of other software, which stand beside the tests that ask ours the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from controller.layout import Layout

FOLDER = Path(__file__).parents[1] / "controller" / "vectors"


def cases(name: str) -> list[dict[str, Any]]:
    """The recorded cases of that name."""
    with gzip.open(FOLDER / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)["cases"]
    assert found, f"no case in {name}"
    return found


def changed(layout: Layout, operations: list[list[Any]]) -> Layout:
    """A layout after recorded operations: [split, id], [merge, one, other] or [prune, id], maybe with a time behind."""
    for name, *arguments in operations:
        if name == "split":
            layout = layout.split(arguments[0], *arguments[1:] or [0])
        elif name == "merge":
            layout = layout.merge(arguments[:2], *arguments[2:] or [0])
        else:
            layout = layout.prune(arguments)
    return layout
