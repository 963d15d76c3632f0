"""Judging an answer: every difference between what came and what the recording expects."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from support.transcripts.messages import BadRecording, Tree, text_bytes, variable

PLAUSIBLE_CLOCK_ERROR_MS = 86_400_000
TIME_VARIABLE = re.compile(r"t\d+")
HOST_AND_PORT = re.compile(rb"[^/:]+:\d+|\[.*\]:\d+")
SHOWN_CHARACTERS = 160


def system_time_ms() -> int:
    return time.time_ns() // 1_000_000


class Matcher:
    """Compares trees with expectations, and remembers the variables that the expectations bind."""

    def __init__(self, now_ms: Callable[[], int] = system_time_ms) -> None:
        self.variables: dict[str, Any] = {}
        self._now_ms = now_ms

    def differences(self, expected: Any, actual: Any, path: str) -> list[str]:
        """One line per difference; none means that the answer is right."""
        if isinstance(expected, dict) and any(key.startswith("$") for key in expected):
            right = self._special(expected, actual, path)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            return self._dict_differences(expected, actual, path)
        elif isinstance(expected, list) and isinstance(actual, list):
            return self._list_differences(expected, actual, path)
        elif isinstance(actual, bytes):
            right = isinstance(expected, str | dict) and text_bytes(expected) == actual
        else:
            right = type(expected) is type(actual) and expected == actual
        return [] if right else [f"{path}: expected {self._meaning(expected)}, got {shown(actual)}"]

    def _meaning(self, expected: Any) -> str:
        if isinstance(expected, dict) and expected.get("$ref") in self.variables:
            return f"{shown(expected)} = {shown(variable(expected, self.variables))}"
        return shown(expected)

    def matches(self, expected: Any, actual: Any) -> bool:
        """Whether it is right; only then are variables bound."""
        before = dict(self.variables)
        right = not self.differences(expected, actual, "")
        if not right:
            self.variables = before
        return right

    def status_differences(self, expected: Tree | None, actual: Tree) -> list[str]:
        """Compares how a call ended; without an expectation it has to be OK."""
        wanted = {"code": "OK"} if expected is None else expected
        if actual["code"] in wanted.get("also", ()):
            return []
        lines = []
        for name in ("code", "message", "details"):
            if name in wanted:
                lines += self.differences(wanted[name], actual[name], f"status.{name}")
        if lines and actual["message"] and not any(line.startswith("status.message") for line in lines):
            lines[0] += f" ({shown(actual['message'])})"
        return lines

    def _dict_differences(self, expected: Tree, actual: Tree, path: str) -> list[str]:
        lines = []
        for name in [*expected, *(name for name in actual if name not in expected)]:
            at = f"{path}.{name}"
            if name not in expected:
                lines.append(f"{at}: expected nothing, got {shown(actual[name])}")
            elif name in actual:
                lines += self.differences(expected[name], actual[name], at)
            elif not _may_be_absent(expected[name]):
                lines.append(f"{at}: expected {shown(expected[name])}, got nothing")
        return lines

    def _list_differences(self, expected: list[Any], actual: list[Any], path: str) -> list[str]:
        lines = []
        for index, (wanted, got) in enumerate(zip(expected, actual, strict=False)):
            lines += self.differences(wanted, got, f"{path}[{index}]")
        if len(expected) != len(actual):
            at = min(len(expected), len(actual))
            wanted = shown(expected[at]) if at < len(expected) else "no more"
            got = shown(actual[at]) if at < len(actual) else "no more"
            lines.insert(0, f"{path}: expected {len(expected)} items, got {len(actual)}; "
                            f"at [{at}] expected {wanted}, got {got}")  # fmt: skip
        return lines

    def _special(self, expected: Tree, actual: Any, path: str) -> bool:
        match expected:
            case {"$bind": name}:
                kind = expected.get("is", "timestamp_ms" if TIME_VARIABLE.fullmatch(name) else "anything")
                if self._is_a(kind, actual):
                    self.variables[name] = actual
                    return True
                return False
            case {"$ref": _}:
                wanted = variable(expected, self.variables)
                return type(wanted) is type(actual) and bool(wanted == actual)
            case {"$above": name}:
                if not _is_number(actual) or actual <= variable({"$ref": name}, self.variables):
                    return False
                if "bind" in expected:
                    self.variables[expected["bind"]] = actual
                return True
            case {"$any": kind}:
                return self._is_a(kind, actual)
            case {"$empty": True}:
                return isinstance(actual, bytes) and not actual
            case {"$authority": True}:
                return isinstance(actual, bytes) and HOST_AND_PORT.fullmatch(actual) is not None
            case {"$one_of": choices}:
                return any(self.matches(choice, actual) for choice in choices)
        raise BadRecording(f"{path}: unknown matcher {expected}")

    def _is_a(self, kind: str, actual: Any) -> bool:
        match kind:
            case "timestamp_ms":
                return _is_number(actual) and abs(actual - self._now_ms()) < PLAUSIBLE_CLOCK_ERROR_MS
            case "number":
                return _is_number(actual)
            case "text":
                return isinstance(actual, bytes)
            case "anything":
                return True
        raise BadRecording(f"unknown kind of value {kind}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _may_be_absent(expected: Any) -> bool:
    match expected:
        case {"$empty": True}:
            return True
        case {"$one_of": choices}:
            return any(_may_be_absent(choice) for choice in choices)
    return False


def shown(value: Any) -> str:
    """A value for people, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, default=_readable)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def _readable(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
