"""From parsed options to an open store, and from what happens there to an exit code."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from metastore.client import following, holding, records
from metastore.client.connection import store_url
from metastore.commandline import CommandError, UsageError
from metastore.interface import BlockingStore, InvalidRequest, StoreError, open_promptly

EXIT_TERMINATED = 128 + signal.SIGTERM

Action = Callable[[BlockingStore, argparse.Namespace], None]
Check = Callable[[argparse.Namespace], None]

ACTIONS: dict[str, Action] = {
    "put": records.put,
    "get": records.get,
    "delete": records.delete,
    "delete-range": records.delete_range,
    "list": records.list_keys,
    "range-scan": records.range_scan,
    "watch": following.watch,
    "notifications": following.notifications,
    "sequence-updates": following.sequence_updates,
}
HOLDERS: dict[str, holding.Holder] = {
    "session": holding.session,
    "elect": holding.elect,
    "lock": holding.lock,
}
CHECKS: dict[str, Check] = {
    "put": records.check_put,
    "watch": following.check_watch,
    "elect": holding.check_command,
    "lock": holding.check_command,
}


class Terminated(KeyboardInterrupt):
    """SIGTERM. It ends an operation as Ctrl-C does, with an exit code of its own."""


def perform(arguments: argparse.Namespace) -> int | None:
    """Runs one operation; what goes wrong becomes the program's message and exit code."""
    operation = arguments.operation
    try:
        if operation in CHECKS:
            CHECKS[operation](arguments)
        with store_url(arguments) as url:
            if operation in HOLDERS:
                return asyncio.run(holding.hold(HOLDERS[operation], url, arguments))
            with _terminable(), BlockingStore(lambda: open_promptly(url)) as store:
                ACTIONS[operation](store, arguments)
    except Terminated:
        return EXIT_TERMINATED
    except InvalidRequest as error:
        raise UsageError(str(error)) from error
    except StoreError as error:
        raise CommandError(str(error)) from error
    return None


@contextmanager
def _terminable() -> Iterator[None]:
    """While this lasts, SIGTERM ends the operation and not the process: the store is closed."""

    def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
