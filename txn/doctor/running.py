"""From parsed options to an open store, and from what goes wrong there to an exit code."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable

from metastore.commandline import CommandError, UsageError
from metastore.coordination import Pace
from metastore.interface import InvalidRequest, MetadataStore, StoreError, open_promptly
from txn.doctor import actions
from txn.doctor.actions import Visit
from txn.doctor.layout import LAYOUTS, RecordsKind
from txn.doctor.progress import Progress
from txn.doctor.reading import MixedRecords, Records, detect
from txn.model.errors import InvalidTxnId, TxnError

OPENING_S_MAX = 10.0
"""Somebody sits at the prompt and waits."""

Action = Callable[[Visit], Awaitable[None]]

ACTIONS: dict[str, Action] = {
    "list": actions.list_,
    "show": actions.show,
    "why": actions.why,
    "stats": actions.stats,
}


def perform(arguments: argparse.Namespace) -> None:
    """Runs one operation; what goes wrong becomes the program's message and exit code."""
    try:
        if arguments.operation == "abort":
            _abort(arguments)
        else:
            asyncio.run(_visit(arguments, ACTIONS[arguments.operation]))
    except (InvalidRequest, InvalidTxnId) as error:
        raise UsageError(str(error)) from error
    except (StoreError, TxnError, MixedRecords) as error:
        raise CommandError(str(error)) from error


def _abort(arguments: argparse.Namespace) -> None:
    """Looks, asks, acts: the store is closed while somebody thinks, and the compare-and-set sees what has changed."""
    is_asked = not (arguments.yes or arguments.dry_run)
    if is_asked and not sys.stdin.isatty():
        raise UsageError("abort: nobody is there to ask: give --yes, or --dry-run to see what it would do")
    asyncio.run(_visit(arguments, actions.plan_abort))
    if arguments.dry_run:
        return
    if is_asked:
        print(f"Abort {arguments.id}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandError(f"{arguments.id} was not aborted")
    asyncio.run(_visit(arguments, actions.abort))


async def _visit(arguments: argparse.Namespace, action: Action) -> None:
    pace = Pace()
    progress = Progress(sys.stderr, pace.clock)
    async with await _opened(arguments.store) as store:
        try:
            await visit_store(store, arguments, action, pace, progress)
        finally:
            progress.wipe()


async def visit_store(
    store: MetadataStore, arguments: argparse.Namespace, action: Action, pace: Pace, progress: Progress
) -> None:
    """Runs an operation on an open store."""
    is_said = arguments.records != "auto"
    layout = LAYOUTS[RecordsKind(arguments.records)] if is_said else await detect(store)
    visit = Visit(arguments, Records(store, layout, progress), pace, sys.stdout, progress)
    await action(visit)
    visit.write_odd()


async def _opened(url: str) -> MetadataStore:
    try:
        async with asyncio.timeout(OPENING_S_MAX):
            return await open_promptly(url)
    except TimeoutError as error:
        raise CommandError(f"{url}: no answer within {OPENING_S_MAX:g} s: check the address") from error
