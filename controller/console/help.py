"""The texts of `tidemark topics --help`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DESCRIPTION = """\
Makes topics, looks at them, changes them: by asking any broker, which knows the way to who can answer.

The output is made for people; with --json it is one JSON object per line, each with its "type", times
in milliseconds.
"""

EXAMPLES = """\
examples:
  tidemark topics create orders --segments 4 -p team=billing
  tidemark topics list -p team=billing
  tidemark topics describe orders                         # a table, and the picture of its segments
  tidemark topics split orders 2
  tidemark topics --broker tidemark://broker-1:6650,broker-2:6650 stats orders
  tidemark topics OPERATION --help                        # what an operation takes
"""


class Texts(NamedTuple):
    """What is said of an operation."""

    summary: str
    description: str
    examples: str


def _texts(summary: str, description: str, *examples: str) -> Texts:
    lines = "\n".join(f"  tidemark topics {each}" for each in examples)
    return Texts(summary, description, f"examples:\n{lines}\n")


OPERATIONS: Mapping[str, Texts] = {
    "create": _texts(
        "create a topic",
        "Creates a topic. When it says so, its segments and subscriptions are there.",
        "create orders",
        "create shop/eu/orders --segments 8 -p team=billing -p tier=gold",
        "create orders --subscription billing=STREAM --subscription audit=QUEUE",
    ),
    "list_": _texts(
        "list topics",
        "Lists the topics of a namespace, in the order of their names: all, or those that have all these properties.",
        "list",
        "list shop/eu -p team=billing --json",
    ),
    "describe": _texts(
        "show a topic and its segments",
        "Shows a topic: its properties, who leads it, its segments with who serves them, and their picture.",
        "describe orders",
        "describe orders --json",
    ),
    "delete": _texts(
        "delete a topic",
        "Deletes a topic with its messages, subscriptions and consumers. It asks, unless --yes is given.",
        "delete orders --yes",
    ),
    "properties": _texts(
        "show or change properties",
        "Changes the properties of a topic, and shows them. Those that are not named stay as they are.",
        "properties orders",
        "properties orders -p tier=gold --remove team",
    ),
    "split": _texts(
        "split a segment",
        "Puts two segments in place of an active one. What is in it stays there, and is read first.",
        "split orders 2",
    ),
    "merge": _texts(
        "merge segments",
        "Puts one segment in place of two or more active ones that lie side by side.",
        "merge orders 3 4",
        "merge orders 3 4 5 6",
    ),
    "policy": _texts(
        "how topics split and merge by themselves",
        "What a topic or a namespace says about splitting and merging by itself. A topic's word counts more than its\n"
        "namespace's, and that more than the broker's; docs/tuning.md has the names.",
        "policy get --topic orders",
        "policy set --namespace public/default maxSegments=16",
        "policy clear --topic orders",
    ),
    "policy_get": _texts(
        "show a policy",
        "Shows what is said here, and what holds.",
        "policy get --topic orders",
        "policy get --namespace public/default --json",
    ),
    "policy_set": _texts(
        "change a policy",
        "Changes the settings that are named; those that are not stay as they are.",
        "policy set --topic orders enabled=false",
        "policy set --topic orders maxSegments=8 splitMsgRateInThreshold=2500",
    ),
    "policy_clear": _texts(
        "take a policy back",
        "Takes back all that is said here, so that what is said above it holds.",
        "policy clear --topic orders",
    ),
    "retention": _texts(
        "how long messages are kept that nobody needs",
        "How long a namespace keeps sealed segments that every subscription has read.",
        "retention get public/default",
        "retention set public/default 7d",
        "retention clear public/default",
    ),
    "retention_get": _texts(
        "show a retention", "Shows what a namespace says, and what holds.", "retention get shop/eu"
    ),
    "retention_set": _texts(
        "set a retention",
        "Sets how long a namespace keeps what nobody needs any more.",
        "retention set shop/eu 12h",
        "retention set shop/eu forever",
    ),
    "retention_clear": _texts(
        "take a retention back", "Lets what the broker says hold again.", "retention clear shop/eu"
    ),
    "subscriptions": _texts(
        "create, delete and move subscriptions",
        "Subscriptions of whole topics. `stats` lists them, with their consumers.",
        "subscriptions create orders billing",
        "subscriptions seek orders billing 2h",
    ),
    "subscription_create": _texts(
        "create a subscription",
        "Creates a subscription, with a cursor in every segment. One that is there stays as it is.",
        "subscriptions create orders billing",
        "subscriptions create orders audit --kind QUEUE --start latest",
    ),
    "subscription_delete": _texts(
        "delete a subscription",
        "Deletes a subscription with its cursors and its consumers' sessions. It asks, unless --yes is given.",
        "subscriptions delete orders billing --yes",
    ),
    "subscription_seek": _texts(
        "go to a time",
        "Lets a subscription have everything again that was published since a time, and nothing before it.",
        "subscriptions seek orders billing 30m",
        "subscriptions seek orders billing 2026-05-01T12:00:00Z",
        "subscriptions seek orders billing 0                # from the very first",
    ),
    "subscription_skip": _texts(
        "skip all that there is",
        "Lets all that there is count as acknowledged. It asks, unless --yes is given.",
        "subscriptions skip orders billing --yes",
    ),
    "stats": _texts(
        "show a topic in numbers",
        "Shows the loads and backlogs of the segments, the subscriptions, their consumers and what each of these has.",
        "stats orders",
        "stats orders --json",
    ),
    "explain": _texts(
        "say why a topic did or did not split",
        "Says what splitting and merging by itself would do now, and what it has considered before, and why.",
        "explain orders",
        "explain orders --dry-run --json",
    ),
    "watch": _texts(
        "follow changes",
        "Prints a topic, or the topics of a namespace, and then every change, until it is interrupted.",
        "watch --topic orders",
        "watch --namespace public/default -p team=billing --json",
    ),
    "dag": _texts(
        "draw a topic's segments",
        "Draws the segments of a topic: the hashes from left to right, time from above to below.",
        "dag orders",
        "dag orders --width 100",
        "dag orders --svg orders.svg",
    ),
}
