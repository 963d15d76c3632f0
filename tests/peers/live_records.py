"""What the audit, the doctor and the store itself say of the records of a live Pulsar."""

from __future__ import annotations

import asyncio
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from typing import Any

from metastore.commandline import main
from metastore.coordination import Pace, View
from metastore.interface import Record, open_store
from txn.audit.views import pulsar
from txn.decoding.pulsar import decode
from txn.decoding.rows import OperationRow
from txn.model import paths

LEADERS = "/txn/tc/leader"

Participant = tuple[str, str | None, str | None]
"""A transaction, a segment, and a subscription where it is about acknowledgements."""
Found = dict[str, set[Participant]]
Records = Mapping[str, Record]


def told(*command: str) -> tuple[int, list[dict[str, Any]]]:
    """Calls the program in this process: its exit code, and what it says to programs."""
    out = io.StringIO()
    with redirect_stdout(out):
        code = main([*command, "--json"])
    print(out.getvalue())
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def audited(url: str, *options: str) -> Found:
    """By rule, what it found. Whoever calls has waited until nothing is under way."""
    found: Found = defaultdict(set)
    limits = ("--grace", "1ms", "--limit", "1000")
    _, lines = told("audit", "run", "--store", url, "--dialect", "pulsar", *limits, *options)
    for line in lines:
        if line["type"] == "violation":
            found[line["rule"]].add((line["txn_id"] or line["key"], line["segment"], line["subscription"]))
    assert lines[-1]["type"] == "audit"
    return dict(found)


def doctor(url: str, *command: str) -> list[dict[str, Any]]:
    """What `tidemark txn` says."""
    code, lines = told("txn", "--store", url, "--dialect", "pulsar", *command)
    assert code == 0
    return lines


def states(url: str, which: str) -> dict[str, str]:
    """Transactions and their states."""
    return {line["transaction"]: line["state"] for line in doctor(url, "list", "--state", which)}


def until(url: str, path: str, fits: Callable[[Records], bool]) -> Records:
    """The records below a path, once they are as they are waited for."""

    async def wait() -> Records:
        async with (
            await open_store(url) as store,
            View(store, paths.below(path, store.key_sorting), pace=Pace()) as view,
        ):
            await view.news()
            while not fits(view.records):
                await view.news()
            return dict(view.records)

    return asyncio.run(wait())


def operations(url: str, transaction: str, count: int) -> list[OperationRow]:
    """Those of a transaction, once there are so many: the client does not wait for its acknowledgements."""
    mine = f"{pulsar.OPERATIONS}/{transaction}-"

    def of_mine(records: Records) -> Records:
        return {key: record for key, record in records.items() if key.startswith(mine)}

    found = of_mine(until(url, pulsar.OPERATIONS, lambda records: len(of_mine(records)) == count))
    rows = [decode(key, record.value or b"", 0, 0) for key, record in found.items()]
    return [row for row in rows if isinstance(row, OperationRow)]


def participants(rows: Iterable[OperationRow]) -> set[Participant]:
    """Who took part."""
    return {(row.txn_id, row.segment, row.subscription) for row in rows}


def is_applied(*undecided: str) -> Callable[[Records], bool]:
    """Whether there are operations of these transactions, and of no others."""
    return lambda records: {key.rpartition("/")[2].partition("-")[0] for key in records} == set(undecided)


def is_empty(records: Records) -> bool:
    return not records
