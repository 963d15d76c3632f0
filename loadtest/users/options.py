"""What can be said of a run. The same options, whoever reads them: locust's parser or `tidemark load run`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from loadtest.arrivals import DISTRIBUTIONS, SHAPES, Settings, Spacing
from loadtest.arrivals.pump import Limits
from metastore.commandline import positive

DEFAULT_TARGETS = ("oxia://127.0.0.1:6648", "tidemark://127.0.0.1:6650")
"""Where `tidemark standalone` serves, where nothing else is said."""
RATE_MAX = 100_000.0
_NONE = Settings((), "")
_LIMITS = Limits()


def share(text: str) -> float:
    """What an option reads as a part of a whole."""
    return _number(text, 0.0, 1.0)


def rate(text: str) -> float:
    """What an option reads as arrivals a second."""
    found = _number(text, 0.0, RATE_MAX)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: more than 0 arrivals a second")
    return found


def seconds(text: str) -> float:
    """What an option reads as a limit in seconds."""
    return _number(text, 0.1, 3_600.0)


def milliseconds(text: str) -> float:
    """What an option reads as a threshold."""
    return _number(text, 0.001, 3_600_000.0)


def _number(text: str, least: float, greatest: float) -> float:
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not least <= found <= greatest:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from {least:g} to {greatest:g}")
    return found


@dataclass(frozen=True, slots=True)
class Option:
    """One of them."""

    name: str
    help: str
    read: Callable[[str], Any] = str
    default: Any = None
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def dest(self) -> str:
        """As an attribute."""
        return self.name.replace("-", "_")


OPTIONS = (
    Option(
        "target",
        f"URL of a metadata store, or of brokers (tidemark://); give one of each for mixes "
        f"(default {' and '.join(DEFAULT_TARGETS)})",
        metavar="URL",
        more={"action": "append"},
    ),
    Option("shape", "how the rate changes over the time (default steady)", choices=tuple(SHAPES), default="steady"),
    Option(
        "spacing",
        "arrivals come at random, as people do, or evenly (default random)",
        choices=tuple(each.value for each in Spacing),
        default=Spacing.RANDOM.value,
    ),
    Option("seed", "the same seed, the same arrivals (default 0)", int, 0, "N"),
    Option("records", f"records to work on (default {_NONE.records})", positive, _NONE.records, "N"),
    Option("value-bytes", f"size of values (default {_NONE.value_bytes})", positive, _NONE.value_bytes, "BYTES"),
    Option("reads", f"share of reads among points (default {_NONE.reads:g})", share, _NONE.reads, "SHARE"),
    Option("distribution", "of keys (default: the scenario's own)", choices=tuple(DISTRIBUTIONS)),
    Option("commits", f"share of transactions that commit (default {_NONE.commits:g})", share, _NONE.commits, "SHARE"),
    Option(
        "outstanding-max",
        f"arrivals under way at one time, in each process (default {_LIMITS.outstanding_max})",
        positive,
        _LIMITS.outstanding_max,
        "N",
    ),
    Option(
        "start-within-s",
        f"how late an arrival may begin before it counts as not started (default {_LIMITS.start_within_s:g})",
        seconds,
        _LIMITS.start_within_s,
        "S",
    ),
    Option("fail-p99-ms", "fail if p99 of any operation or event is greater", milliseconds, None, "MS"),
    Option("fail-error-ratio", "fail if more of the arrivals and events are errors", share, None, "SHARE"),
)


def add_options(parser: Any) -> None:
    """Adds them to a parser of argparse, or of locust."""
    for option in OPTIONS:
        said: dict[str, Any] = {"help": option.help, "default": option.default, **option.more}
        if option.choices is not None:
            said["choices"] = option.choices
        elif "action" not in option.more:
            said["type"] = option.read
        if option.metavar is not None:
            said["metavar"] = option.metavar
        parser.add_argument(f"--{option.name}", **said)


def words_of(arguments: argparse.Namespace) -> Iterator[str]:
    """The options that were given, as words for another parser of them."""
    for option in OPTIONS:
        value = getattr(arguments, option.dest)
        for each in value if isinstance(value, list) else [value]:
            if each is not None:
                yield f"--{option.name}={each}"
