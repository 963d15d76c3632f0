"""From parsed options to connected brokers, and from what goes wrong there to an exit code."""

from __future__ import annotations

import argparse
import asyncio
import sys

from controller.client import InvalidRequest, connect
from controller.console import layouts, policies, subscriptions, topics, views, watching
from controller.console.visit import Action, Visit
from controller.layout import LayoutError
from metastore.commandline import CommandError, UsageError
from metastore.coordination import Pace
from txn.model.errors import TxnError

REACHED_WITHIN_S = 10.0
"""Somebody sits at the prompt and waits."""

ACTIONS: dict[str, Action] = {
    "create": topics.create,
    "list_": topics.list_,
    "describe": layouts.describe,
    "delete": topics.delete,
    "properties": topics.properties,
    "split": layouts.split,
    "merge": layouts.merge,
    "dag": layouts.dag,
    "policy_get": policies.get,
    "policy_set": policies.set_,
    "policy_clear": policies.clear,
    "retention_get": policies.get_retention,
    "retention_set": policies.set_retention,
    "retention_clear": policies.clear_retention,
    "subscription_create": subscriptions.create,
    "subscription_delete": subscriptions.delete,
    "subscription_seek": subscriptions.seek,
    "subscription_skip": subscriptions.skip,
    "stats": views.stats,
    "explain": views.explain,
    "watch": watching.watch,
}


def perform(arguments: argparse.Namespace) -> None:
    """Runs one operation; what goes wrong becomes the program's message and exit code."""
    try:
        _check_asked(arguments)
        asyncio.run(_visit(arguments, ACTIONS[arguments.operation]))
    except (InvalidRequest, LayoutError) as error:
        raise UsageError(str(error)) from error
    except TxnError as error:
        raise CommandError(str(error)) from error


def _check_asked(arguments: argparse.Namespace) -> None:
    """Asks whoever is there before something is lost for good."""
    if getattr(arguments, "yes", True):
        return
    what = f"{arguments.operation.replace('_', ' ')} of {arguments.topic}"
    if "subscription" in arguments:
        what = f"{arguments.operation.removeprefix('subscription_')} {arguments.subscription!r} of {arguments.topic}"
    if not sys.stdin.isatty():
        raise UsageError(f"{what}: nobody is there to ask: give --yes")
    print(f"{what[0].upper()}{what[1:]}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError(f"{what}: not done")


async def _visit(arguments: argparse.Namespace, action: Action) -> None:
    pace = Pace()
    try:
        async with asyncio.timeout(REACHED_WITHIN_S):
            client = await connect(arguments.broker, pace)
    except TimeoutError:
        raise CommandError(f"{arguments.broker}: no answer within {REACHED_WITHIN_S:g} s: check the address") from None
    async with client:
        await action(Visit(arguments, client.topics, pace.clock, sys.stdout))
