"""The story from beginning to end."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from controller.demo import doctor, scaling, shop
from controller.demo.stage import Stage


def main() -> int:
    """Tells the story; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="tidemark-demo-") as folder, Stage(Path(folder)) as stage:
        failures = shop.show_orders_becoming_invoices(stage)
        doctor.show_an_open_transaction(stage)
    with tempfile.TemporaryDirectory(prefix="tidemark-demo-") as folder:
        return max(failures, scaling.show_a_topic_that_breathes(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
