"""The story from beginning to end."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from metastore.demo import changes, crash, leaders, records
from metastore.demo.stage import Service
from metastore.interface import BlockingStore


def main() -> int:
    """Tells the story; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="tidemark-demo-") as folder, Service(Path(folder)) as service:
        with BlockingStore.open(service.url) as store:
            records.show_records(store)
            records.show_sequences_and_indexes(store)
            records.show_a_session(store)
            changes.show_a_watch(store)
            changes.show_transactions(store)
        leaders.show_an_election(service.url)
        records.show_it_embedded(Path(folder))
        return crash.show_a_crash(service)


if __name__ == "__main__":
    sys.exit(main())
