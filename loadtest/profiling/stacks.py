"""Stacks of a sampling profiler, added up. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::\d+)?\)")
"""A frame as py-spy writes it: `function (path/to/file.py:line)`."""
PROJECT = ("metastore/", "txn/", "controller/", "loadtest/")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of all samples."""

    name: str
    own: float
    """Of samples in which it was on top."""
    within: float
    """Of samples in which it was anywhere."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A stack, from the outermost frame to the innermost, and how often it was seen."""

    frames: tuple[str, ...]
    times: int


def parse(text: str) -> list[Sampled]:
    """The lines `frame;frame;frame N`; thread and process names in front are no frames."""
    found = []
    for line in text.splitlines():
        stack, _, times = line.rpartition(" ")
        frames = tuple(name for frame in stack.split(";") if (name := name_of(frame)) is not None)
        if frames:
            found.append(Sampled(frames, int(times)))
    return found


def name_of(frame: str) -> str | None:
    """`module.function` for a frame of the project, `file.function` for others; None if it is no frame."""
    match = _FRAME.fullmatch(frame)
    if match is None:
        return None
    file = match["file"]
    starts = [file.rindex(package) for package in PROJECT if package in file]
    short = file[min(starts) :] if starts else file.rpartition("/")[2]
    return f"{short.removesuffix('.py').replace('/', '.')}.{match['function']}"


def shares(stacks: Iterable[Sampled], depth: int | None = None) -> list[Share]:
    """Each function's part, or with a depth each package's of so many words; the greatest own part first."""
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    total = 0
    for stack in stacks:
        names = [_shortened(name, depth) for name in stack.frames]
        own[names[-1]] += stack.times
        for name in set(names):
            within[name] += stack.times
        total += stack.times
    return [Share(name, own[name] / total, within[name] / total) for name, _ in _ordered(own, within)]


def _shortened(name: str, depth: int | None) -> str:
    words = name.split(".")
    return name if depth is None else ".".join(words[: min(depth, len(words) - 1)])


def _ordered(own: Counter[str], within: Counter[str]) -> Sequence[tuple[str, int]]:
    return sorted(within.items(), key=lambda each: (-own[each[0]], -each[1], each[0]))
