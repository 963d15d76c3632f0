"""`tidemark topics`: its operations and their options. What one does is in operations."""

from __future__ import annotations

import argparse
import os

from controller.console import arguments as read
from controller.console import help as texts
from controller.console.arguments import DEFAULT_BROKER, KINDS, LIMIT, LOG_LIMIT, NAMESPACE, STARTS
from controller.console.drawing import WIDTH
from metastore.commandline import positive

Commands = argparse._SubParsersAction  # what `add_subparsers` returns; argparse has no public name for it
Parser = argparse.ArgumentParser


def register(commands: Commands[Parser]) -> None:
    """Adds `topics` to the commands of `tidemark`."""
    parser = commands.add_parser(
        "topics", help="make topics, look at them, change them", description=texts.DESCRIPTION, epilog=texts.EXAMPLES
    )
    _add_common(parser)
    operations = parser.add_subparsers(title="operations", metavar="OPERATION", required=True)
    _add_topics(operations)
    _add_layout(operations)
    _add_policy(operations)
    _add_retention(operations)
    _add_subscriptions(operations)
    _add_views(operations)


def _run(arguments: argparse.Namespace) -> None:
    # Failures are told in this program's words; gRPC would print its own in between.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from controller.console.running import perform  # loads what no other command should wait for

    perform(arguments)


def _add_common(parser: Parser, repeated: bool = False) -> None:
    """Where `repeated`, an option that is left out overrules nothing that was given before."""
    group = parser.add_argument_group("brokers and output")

    def default(value: object) -> object:
        return argparse.SUPPRESS if repeated else value

    group.add_argument(
        "--broker",
        metavar="URL",
        default=default(DEFAULT_BROKER),
        help=f"brokers to ask: tidemark://HOST:PORT,HOST:PORT?OPTION=VALUE ({DEFAULT_BROKER})",
    )
    group.add_argument("--json", action="store_true", default=default(False), help="print one JSON object per line")


def _operation(operations: Commands[Parser], name: str, *, does: str = "") -> Parser:
    """An operation with its texts; `does` is the function's name where the operation's own is not enough."""
    key = does or name
    summary, description, examples = texts.OPERATIONS[key]
    parser = operations.add_parser(name, help=summary, description=description, epilog=examples)
    _add_common(parser, repeated=True)
    parser.set_defaults(run=_run, operation=key)
    return parser


def _group(operations: Commands[Parser], name: str) -> Commands[Parser]:
    """An operation of several."""
    summary, description, examples = texts.OPERATIONS[name]
    parser = operations.add_parser(name, help=summary, description=description, epilog=examples)
    _add_common(parser, repeated=True)
    return parser.add_subparsers(title="operations", metavar="OPERATION", required=True)


def _add_topic(parser: Parser) -> None:
    what = "the topic: NAME, TENANT/NAMESPACE/NAME, or topic://TENANT/NAMESPACE/NAME"
    parser.add_argument("topic", type=read.topic, metavar="TOPIC", help=what)


def _add_properties(parser: Parser, what: str) -> None:
    parser.add_argument(
        "-p", "--property", type=read.pair, action="append", default=[], metavar="KEY=VALUE", help=f"{what}; repeatable"
    )


def _add_limit(parser: Parser, limit: int, what: str) -> None:
    parser.add_argument("--limit", type=positive, default=limit, metavar="N", help=f"print at most N {what} ({limit})")


def _add_topics(operations: Commands[Parser]) -> None:
    create = _operation(operations, "create")
    _add_topic(create)
    create.add_argument("-s", "--segments", type=positive, default=1, metavar="N", help="begin with N segments (1)")
    _add_properties(create, "a property of the topic")
    create.add_argument(
        "--subscription",
        type=read.subscription,
        action="append",
        default=[],
        metavar="NAME=KIND",
        help=f"a subscription that it begins with, of kind {', '.join(KINDS)}; repeatable",
    )
    found = _operation(operations, "list", does="list_")
    found.add_argument(
        "namespace",
        type=read.namespace,
        nargs="?",
        default=read.namespace(NAMESPACE),
        metavar="NAMESPACE",
        help=f"TENANT/NAMESPACE ({NAMESPACE})",
    )
    _add_properties(found, "only topics with this property")
    _add_limit(found, LIMIT, "topics")
    _add_topic(_operation(operations, "describe"))
    delete = _operation(operations, "delete")
    _add_topic(delete)
    delete.add_argument("--yes", action="store_true", help="do not ask")
    properties = _operation(operations, "properties")
    _add_topic(properties)
    _add_properties(properties, "give it this property")
    properties.add_argument(
        "--remove", type=read.name, action="append", default=[], metavar="KEY", help="take this one away; repeatable"
    )


def _add_layout(operations: Commands[Parser]) -> None:
    split = _operation(operations, "split")
    _add_topic(split)
    split.add_argument("segment", type=read.segment_id, metavar="SEGMENT", help="the number of an active segment")
    merge = _operation(operations, "merge")
    _add_topic(merge)
    merge.add_argument(
        "segments", type=read.segment_id, nargs="+", metavar="SEGMENT", help="the numbers of neighbours, two or more"
    )


def _add_subject(parser: Parser) -> None:
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--topic", type=read.topic, metavar="TOPIC", help="of this topic")
    subject.add_argument("--namespace", type=read.namespace, metavar="NAMESPACE", help="of all topics of a namespace")


def _add_policy(operations: Commands[Parser]) -> None:
    policy = _group(operations, "policy")
    _add_subject(_operation(policy, "get", does="policy_get"))
    set_ = _operation(policy, "set", does="policy_set")
    _add_subject(set_)
    set_.add_argument(
        "overrides",
        type=read.override,
        nargs="+",
        metavar="NAME=VALUE",
        help="a setting: enabled, maxSegments, splitCooldownSeconds, ...; null: what is said above it",
    )
    _add_subject(_operation(policy, "clear", does="policy_clear"))


def _add_retention(operations: Commands[Parser]) -> None:
    retention = _group(operations, "retention")
    for name in ("get", "set", "clear"):
        parser = _operation(retention, name, does=f"retention_{name}")
        parser.add_argument("namespace", type=read.namespace, metavar="NAMESPACE", help="TENANT/NAMESPACE")
        if name == "set":
            parser.add_argument(
                "minutes", type=read.minutes, metavar="TIME", help="how long: 90m, 12h, 7d, 0s: not at all, or forever"
            )


def _add_subscriptions(operations: Commands[Parser]) -> None:
    subscriptions = _group(operations, "subscriptions")
    for name in ("create", "delete", "seek", "skip"):
        parser = _operation(subscriptions, name, does=f"subscription_{name}")
        _add_topic(parser)
        parser.add_argument("subscription", type=read.name, metavar="NAME", help="the subscription")
        if name == "create":
            parser.add_argument(
                "--kind", choices=KINDS, type=str.upper, default=KINDS[0], help=f"how it is consumed ({KINDS[0]})"
            )
            parser.add_argument("--start", choices=STARTS, default=STARTS[0], help=f"where it begins ({STARTS[0]})")
        elif name == "seek":
            parser.add_argument(
                "moment", type=read.moment, metavar="TIME", help="5m, 2h ago; 2026-05-01T12:00:00Z; or milliseconds"
            )
    for name in ("delete", "skip"):
        subscriptions.choices[name].add_argument("--yes", action="store_true", help="do not ask")


def _add_views(operations: Commands[Parser]) -> None:
    _add_topic(_operation(operations, "stats"))
    explain = _operation(operations, "explain")
    _add_topic(explain)
    explain.add_argument("--dry-run", action="store_true", help="only what would be done now, not what was considered")
    _add_limit(explain, LOG_LIMIT, "considerations, the newest")
    watch = _operation(operations, "watch")
    _add_subject(watch)
    _add_properties(watch, "of a namespace, only topics with this property")
    dag = _operation(operations, "dag")
    _add_topic(dag)
    dag.add_argument("--svg", type=read.image_file, metavar="FILE", help="write an image to this file; - is the output")
    dag.add_argument(
        "--width", type=read.picture_width, default=WIDTH, metavar="N", help=f"columns of the picture ({WIDTH})"
    )
