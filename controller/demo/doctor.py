"""A transaction is left open, the messages behind it wait, and the doctor says why."""

from __future__ import annotations

from controller.client import BlockingClient
from controller.demo.stage import Stage
from metastore.stagecraft import begin_chapter, say


def show_an_open_transaction(stage: Stage) -> None:
    """From a reader that gets nothing to the one who holds it up."""
    begin_chapter("Why does nothing come? An open transaction, and the doctor")
    with BlockingClient.connect(stage.url) as client, client.segment_producer("parcels") as parcels:
        forgotten = client.begin(timeout_ms=600_000)
        parcels.send(b"in a transaction that nobody ends", txn=forgotten)
        parcels.send(b"plain, and behind it")
        say(f"a reader sees: {_read(client)}")
        say(f"tidemark txn why {parcels.segment}")
        _show(stage.run("why", parcels.segment))
        say(f"tidemark txn abort {forgotten.id}")
        _show(stage.run("abort", str(forgotten.id), "--yes"))
        with client.segment_reader("parcels") as reader:
            say(f"a reader sees: {reader.receive(timeout_ms=10_000).payload!r}")


def _read(client: BlockingClient) -> list[bytes]:
    with client.segment_reader("parcels", follow=False) as reader:
        return [message.payload for message in reader]


def _show(text: str) -> None:
    for line in text.splitlines():
        say(f"   | {line}")
