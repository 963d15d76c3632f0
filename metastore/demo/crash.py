"""kill -9 in the middle of everything, and a count of what is left."""

from __future__ import annotations

import threading
import time

from metastore.demo.stage import Service
from metastore.interface import BlockingStore, OutcomeUnknown, Unavailable, children_of
from metastore.stagecraft import begin_chapter, say

WRITERS = 4
WRITES_BEFORE_THE_CRASH = 2_000
WRITES_WITHIN_S = 60.0


def show_a_crash(service: Service) -> int:
    """Kills the service under its writers; returns the exit code: 1 if anything that was acknowledged is lost."""
    begin_chapter(f"{WRITERS} writers, and kill -9 in the middle")
    written = _write_until_killed(service)
    say(f"{len(written)} writes were acknowledged before the server was gone")
    began_s = time.monotonic()
    service.start()
    say(f"started again in {time.monotonic() - began_s:.1f} s, on what the log holds")
    with BlockingStore.open(service.url) as store:
        stored = {record.key: record.value for record in store.scan(children_of("/crash"))}
    lost = [key for key, value in written.items() if stored.get(key) != value]
    say(f"acknowledged and lost: {len(lost)}; stored though its answer never came: {len(stored.keys() - written)}")
    print("\nNothing that was acknowledged is gone." if not lost else f"\nLOST: {lost[:10]}", flush=True)
    return 1 if lost else 0


def _write_until_killed(service: Service) -> dict[str, bytes]:
    """What was acknowledged until the service was killed."""
    written: dict[str, bytes] = {}
    is_enough = threading.Event()
    writers = [threading.Thread(target=_write, args=(service.url, each, written, is_enough)) for each in range(WRITERS)]
    for writer in writers:
        writer.start()
    is_in_time = is_enough.wait(WRITES_WITHIN_S)
    service.kill()
    for writer in writers:
        writer.join()
    assert is_in_time, f"no {WRITES_BEFORE_THE_CRASH} writes within {WRITES_WITHIN_S} s"
    return written


def _write(url: str, writer: int, written: dict[str, bytes], is_enough: threading.Event) -> None:
    """Writes one record after another for as long as there is a server."""
    with BlockingStore.open(f"{url}?request_timeout=2s") as store:
        number = 0
        while True:
            key, value = f"/crash/{writer}-{number:06d}", b"%d" % number
            try:
                store.put(key, value)
            except (Unavailable, OutcomeUnknown):
                return  # the server is gone, as it should be
            written[key] = value
            number += 1
            if len(written) >= WRITES_BEFORE_THE_CRASH:
                is_enough.set()
