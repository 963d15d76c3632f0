"""A result as a table for people, or as JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from loadtest.outcomes import Violation
from loadtest.scenarios import MIXES, MIXES_SAID, SCENARIOS, rate_of
from metastore.tables import Row, write_rows

COLUMNS = ("scenario", "operation", "from", "count", "errors", "per_s", "p50_ms", "p90_ms", "p99_ms", "max_ms")
COUNTED_FROM = {"arrival": "intended start", "step": "own start", "event": "cause's start"}


def tell(result: Mapping[str, Any], out: TextIO, *, as_json: bool) -> None:
    """Prints what became of a run."""
    if as_json:
        print(json.dumps({name: said for name, said in result.items() if name != "timeline"}), file=out)
        return
    write_rows(COLUMNS, _rows(result), out)
    plan = result["plan"]
    print(
        f"\n{result['arrivals']} arrivals in {result['seconds']:g} s ({plan['rate']:g} a second were asked for, "
        f"{plan['shape']}), {result['errors']} errors, {result['not_started']} not started in time; "
        f"99 of 100 began no more than {result['late_p99_ms']:g} ms late",
        file=out,
    )


def complaints_of(result: Mapping[str, Any]) -> list[str]:
    """Why a run has failed."""
    found = [str(Violation(**each)) for each in result["violations"]]
    return [*found, *([result["failure"]] if result["failure"] else [])]


def list_scenarios(as_json: bool) -> int:
    """Prints what there is to run."""
    write_rows(("scenario", "uses", "rate", "what"), _scenarios(), sys.stdout, as_json=as_json)
    return 0


def _scenarios() -> Iterator[Row]:
    for name, scenario in SCENARIOS.items():
        yield {"scenario": name, "uses": scenario.uses, "rate": rate_of(name), "what": scenario.said}
    for name in MIXES:
        yield {"scenario": name, "uses": "both", "rate": rate_of(name), "what": MIXES_SAID[name]}


def _rows(result: Mapping[str, Any]) -> Iterator[Row]:
    for each in result["operations"]:
        yield {
            **{name: each[name] for name in COLUMNS if name in each},
            "from": COUNTED_FROM[each["kind"]],
            "errors": sum(each["errors"].values()),
            "per_s": each["rate"],
        }
