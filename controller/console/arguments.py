"""What the options of `tidemark topics` read, and what holds where they are left out."""

from __future__ import annotations

import json
import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.autoscale import InvalidAutoScale
from controller.autoscale.config import read_overrides
from controller.console.drawing import WIDTH_MAX, WIDTH_MIN
from controller.layout import LayoutError, NamespaceName, TopicName
from metastore.commandline import duration_s, positive

DEFAULT_BROKER = "tidemark://127.0.0.1:6650"
NAMESPACE = "public/default"
LIMIT = 1_000
"""Rows of a list that are printed."""
LOG_LIMIT = 20
"""Entries of a decision log that are printed."""
KINDS = ("STREAM", "QUEUE", "CHECKPOINT")
STARTS = ("earliest", "latest")

_EPOCH_MS = re.compile(r"[0-9]{1,16}")
_SEGMENT_ID = re.compile(r"[0-9]{1,19}")


def topic(text: str) -> TopicName:
    """A topic's name, in any of its forms."""
    try:
        return TopicName.parse(text).for_use()
    except LayoutError as error:
        raise ArgumentTypeError(str(error)) from None


def namespace(text: str) -> NamespaceName:
    """TENANT/NAMESPACE."""
    try:
        return NamespaceName.parse(text)
    except LayoutError as error:
        raise ArgumentTypeError(str(error)) from None


def name(text: str) -> str:
    """A name, which is not empty."""
    if not text.strip():
        raise ArgumentTypeError("a name is expected, and it is empty")
    return text


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ArgumentTypeError(f"{text[:80]!r}: KEY=VALUE is expected")
    return key, value


def subscription(text: str) -> tuple[str, str]:
    """NAME=KIND."""
    found, equals, kind = text.rpartition("=")
    if not equals or not found.strip() or kind.upper() not in KINDS:
        raise ArgumentTypeError(f"{text[:80]!r}: NAME=KIND is expected, of kind {', '.join(KINDS)}")
    return found, kind.upper()


def segment_id(text: str) -> int:
    """A segment's number."""
    if not _SEGMENT_ID.fullmatch(text):
        raise ArgumentTypeError(f"{text[:80]!r} is no segment's number: `describe` shows them")
    return int(text)


def override(text: str) -> tuple[str, Any]:
    """NAME=VALUE of a policy, by the names of docs/tuning.md."""
    key, value = pair(text)
    try:
        found = json.loads(value)
        read_overrides({key: found})
    except InvalidAutoScale as error:
        raise ArgumentTypeError(str(error)) from None
    except ValueError:
        raise ArgumentTypeError(f"{text[:80]!r}: true, false or a number is expected behind the =") from None
    return key, found


def minutes(text: str) -> int:
    """A time in whole minutes: 90m, 12h, 7d; `forever` is -1."""
    if text == "forever":
        return -1
    seconds = duration_s(text)
    if seconds % 60:
        raise ArgumentTypeError(f"{text!r}: whole minutes are expected, such as 90m, 12h or 7d, or forever")
    return int(seconds) // 60


def picture_width(text: str) -> int:
    """Columns of a picture."""
    width = positive(text)
    if not WIDTH_MIN <= width <= WIDTH_MAX:
        raise ArgumentTypeError(f"{text} columns: {WIDTH_MIN} to {WIDTH_MAX} are possible")
    return width


def moment(text: str) -> Moment:
    """A moment: `5m` ago, milliseconds since the epoch, or as in 2026-05-01T12:00:00Z."""
    if _EPOCH_MS.fullmatch(text):
        return Moment(int(text), False)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return Moment(round(duration_s(text) * 1000), True)
    return Moment(round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000), False)


class Moment:
    """A time, or how long it is ago."""

    def __init__(self, ms: int, is_ago: bool) -> None:
        self._ms = ms
        self._is_ago = is_ago

    def at_ms(self, now_ms: int) -> int:
        """The time, by what time it is now."""
        return max(0, now_ms - self._ms) if self._is_ago else self._ms


def changed(before: Mapping[str, str], put: Mapping[str, str], removed: list[str]) -> dict[str, str]:
    """Properties after a change."""
    return {key: value for key, value in {**before, **put}.items() if key not in removed}


def image_file(text: str) -> Path:
    """Where an image is written to; `-` is the output."""
    return Path(name(text))
