"""Durations and sizes as settings and URLs write them: `90s`, `1h30m`, `512MiB`."""

from __future__ import annotations

import re

TIMEOUT_S_MAX = 24 * 3_600

_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB)?", re.ASCII)
_SIZE_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `1h`, `1h30m`; ValueError otherwise."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: examples are 500ms, 90s, 1h, 1h30m, 7d")
    return int(sum(float(number) * _DURATION_MS[unit] for number, unit in parts))


def parse_duration_s(text: str) -> float:
    """Seconds of `500ms`, `1h30m`, or of a bare number; ValueError otherwise."""
    return float(text) if _NUMBER.fullmatch(text) else parse_duration_ms(text) / 1000


def parse_timeout_s(text: str) -> float:
    """Seconds of how long to wait for an answer; ValueError if that is no time, none at all, or longer than a day."""
    timeout_s = parse_duration_s(text)
    if not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise ValueError(f"{text!r} is no time to wait for an answer: more than nothing, and at most 24h")
    return timeout_s


def parse_size_bytes(text: str) -> int:
    """Bytes of `512MiB`, `10GiB`, `1000`; ValueError otherwise."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size: examples are 512MiB, 10GiB, 1000000")
    return int(match[1]) * _SIZE_BYTES[match[2] or "B"]
