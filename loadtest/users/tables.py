"""Locust's CSV files, as they are at the end: locust writes them at intervals, and not when a run is over."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from locust.env import Environment
from locust.stats import PERCENTILES_TO_REPORT, StatsCSV


def write_tables(environment: Environment, prefix: str) -> None:
    """Puts the last word in place of what locust wrote at its last interval, each file at once.

    Its own files stay open until it ends, and what it still writes to them nobody sees. The history is not among these:
    a row for each interval is what it is.
    """
    tables = StatsCSV(environment, PERCENTILES_TO_REPORT)
    writes = {"stats": tables.requests_csv, "failures": tables.failures_csv, "exceptions": tables.exceptions_csv}
    for name, write in writes.items():
        path = Path(f"{prefix}_{name}.csv")
        fresh = path.with_name(f"{path.name}.new")
        with fresh.open("w", encoding="utf-8", newline="") as file:
            write(csv.writer(file))
        os.replace(fresh, path)
