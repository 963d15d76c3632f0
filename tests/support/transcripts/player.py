"""Plays recordings: sends what was sent, and says where the answers differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, Protocol

from support.transcripts.connection import Connection, method_of
from support.transcripts.matching import Matcher
from support.transcripts.messages import BadRecording, Tree, request_bytes, tree_of, variable
from support.transcripts.recording import Case, Recording, ServerNeeds
from support.wire import Ended, Status, Stream

EXPECT_WITHIN_MS = 60_000
REPORTED_STEPS = 5
JOINED_FIELDS = {"Read": "gets", "List": "keys", "RangeScan": "records"}
"""Where a server cuts these streams into messages is its own business."""


class RestartableServer(Protocol):
    """What playing needs of a server: support.server.ServerProcess has it."""

    address: str

    @property
    def is_alive(self) -> bool: ...

    def restart(self, how: Literal["terminate", "kill"]) -> None: ...

    def close(self) -> None: ...

    def log_tail(self) -> str: ...


StartServer = Callable[[ServerNeeds], RestartableServer]


def play(recording: Recording, start_server: StartServer, cases: tuple[Case, ...] | None = None) -> list[str]:
    """Plays the judged cases, or those given, in their order; returns a line for each difference."""
    problems: list[str] = []
    server: RestartableServer | None = None
    with ExitStack() as cleanup:
        for case in recording.judged_cases if cases is None else cases:
            if server is None or case.fresh or not server.is_alive:
                cleanup.close()
                server = start_server(recording.server)
                cleanup.callback(server.close)
            lines = CasePlayer(case, server).play()
            problems += [f"{case.name} | {line}" for line in lines]
            if lines:
                problems.append(f"{case.name} | the server's log ends with:\n{server.log_tail()}")
    return problems


@dataclass
class Outcome:
    """What a step brought: messages, and the status of a call that ended."""

    receive: list[Tree]
    status: Tree | None = None


class PlayedStream:
    """An open stream of a case, with its messages as trees."""

    def __init__(self, stream: Stream, greeting_offset: int | None) -> None:
        self.stream = stream
        self._greeting_offset = greeting_offset

    def next(self, deadline_s: float) -> Tree:
        """The next message until a time of the monotonic clock.

        A server may greet a subscription that names a start offset with an empty batch at that offset, which
        the recorded one does not send: such a greeting is dropped.
        """
        tree = tree_of(self.stream.next(deadline_s - time.monotonic()))
        offset, self._greeting_offset = self._greeting_offset, None
        if offset is not None and tree["offset"] == offset and "notifications" not in tree:
            return self.next(deadline_s)
        return tree


class CasePlayer:
    """One case: its variables, its streams and its connection."""

    def __init__(self, case: Case, server: RestartableServer) -> None:
        self._case, self._server = case, server
        self._matcher = Matcher()
        self._streams: dict[str, PlayedStream] = {}
        self._connection: Connection | None = None
        self._actions: dict[str, Callable[[Tree], Outcome | None]] = {
            "sleep_ms": self._sleep,
            "restart": self._restart,
            "open": self._open,
            "call": self._call,
            "send_on": self._send_on,
            "expect_on": self._expect_on,
            "close": self._close,
            "ended": self._ended,
            "cancel": self._cancel,
        }

    def play(self) -> list[str]:
        """Executes the steps and returns the differences of the first few that differ."""
        lines: list[str] = []
        with ExitStack() as cleanup:
            cleanup.callback(self._disconnect)
            for number, step in enumerate(self._case.steps):
                title = f"step {number} {_title(step)}"
                try:
                    outcome = self._perform(step)
                    differences = self._judge(step, outcome) if outcome is not None else []
                except (BadRecording, Ended, TimeoutError) as error:
                    outcome, differences = None, [f"{type(error).__name__}: {error}"]
                if "quirk" not in step:
                    lines += [f"{title} | {'; '.join(differences[:3])}"] if differences else []
                if not self._server.is_alive:
                    lines.append(f"{title} | the server process has died")
                    break
                if _server_is_gone(step, outcome):
                    break
        return lines[:REPORTED_STEPS] + ([lines[-1]] if len(lines) > REPORTED_STEPS else [])

    # ---- what the steps do

    def _perform(self, step: Tree) -> Outcome | None:
        for name, action in self._actions.items():
            if name in step:
                return action(step)
        raise BadRecording(f"unknown step {sorted(step)}")

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._server.address)
        return self._connection

    def _disconnect(self) -> None:
        for name in list(self._streams):
            self._streams.pop(name).stream.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sleep(self, step: Tree) -> None:
        time.sleep(step["sleep_ms"] / 1000)

    def _restart(self, step: Tree) -> None:
        self._disconnect()
        self._server.restart("kill" if step["restart"] == "kill" else "terminate")

    def _call(self, step: Tree) -> Outcome:
        answer = self._connected().call(step, self._case.service, self._matcher.variables)
        trees = [tree_of(message) for message in answer.messages]
        field = JOINED_FIELDS.get(step["call"])
        if field is not None:
            items = [item for tree in trees for item in tree.get(field, ())]
            trees = [{field: items}] if items else []
        return Outcome(trees, _status_tree(answer.status))

    def _open(self, step: Tree) -> None:
        stream = self._connected().open(step, self._case.service, self._matcher.variables)
        greeting_offset = None
        if step["call"] == "GetNotifications" and "start_offset_exclusive" in step["send"][0]:
            start = step["send"][0]["start_offset_exclusive"]
            greeting_offset = variable(start, self._matcher.variables) if isinstance(start, dict) else start
        self._streams[step["open"]] = PlayedStream(stream, greeting_offset)

    def _stream(self, name: str) -> PlayedStream:
        if name not in self._streams:
            raise BadRecording(f"no open stream {name}")
        return self._streams[name]

    def _send_on(self, step: Tree) -> None:
        stream = self._stream(step["send_on"]).stream
        kind = method_of({"call": "WriteStream"}).request
        for form in step["send"]:
            stream.send(request_bytes(kind, form, self._matcher.variables))

    def _cancel(self, step: Tree) -> None:
        self._stream(step["cancel"]).stream.cancel()
        del self._streams[step["cancel"]]

    def _expect_on(self, step: Tree) -> Outcome:
        stream = self._stream(step["expect_on"])
        within_ms = step["quiet_ms"] if "quiet_ms" in step else step.get("within_ms", EXPECT_WITHIN_MS)
        deadline_s = time.monotonic() + within_ms / 1000
        outcome = Outcome([])
        # A quiet stream is one on which even a first message does not come.
        wanted = 1 if "quiet_ms" in step else len(step.get("receive", ()))
        try:
            while "until" in step or len(outcome.receive) < wanted:
                outcome.receive.append(stream.next(deadline_s))
                if "until" in step and self._matcher.matches(step["until"], outcome.receive[-1]):
                    break
        except TimeoutError:
            return outcome  # too few messages, as the judgement will say (or silence, as it was expected)
        except Ended as end:
            outcome.status = _status_tree(end.status)
        return outcome

    def _close(self, step: Tree) -> Outcome:
        self._stream(step["close"]).stream.half_close()
        return self._to_the_end(self._stream(step["close"]), step)

    def _ended(self, step: Tree) -> Outcome:
        return self._to_the_end(self._stream(step["ended"]), step)

    def _to_the_end(self, stream: PlayedStream, step: Tree) -> Outcome:
        deadline_s = time.monotonic() + step.get("within_ms", EXPECT_WITHIN_MS) / 1000
        outcome = Outcome([])
        while outcome.status is None:
            try:
                outcome.receive.append(stream.next(deadline_s))
            except Ended as end:
                outcome.status = _status_tree(end.status)
        return outcome

    # ---- what the answers are worth

    def _judge(self, step: Tree, outcome: Outcome) -> list[str]:
        """The differences from what was recorded, unless another answer is as good and came."""
        differences = self._compare(step, outcome)
        if differences and "accept" in step:
            bare = {name: step[name] for name in step if name not in ("receive", "status")}
            if any(not self._compare({**bare, **other}, outcome) for other in step["accept"]):
                return []
        return differences

    def _compare(self, expected: Tree, outcome: Outcome) -> list[str]:
        if "until" in expected:
            last = outcome.receive[-1] if outcome.receive else None
            return self._matcher.differences(expected["until"], last, "until")
        lines: list[str] = []
        if "expect_on" not in expected:
            assert outcome.status is not None
            lines = self._matcher.status_differences(expected.get("status"), outcome.status)
            if "status" in expected and "receive" not in expected:
                return lines
        elif outcome.status is not None:
            lines = [f"the stream ended: {outcome.status}"]
        return lines + self._matcher.differences(expected.get("receive", []), outcome.receive, "receive")


def _status_tree(status: Status) -> Tree:
    details = [
        {"reason": detail.reason.encode(), "domain": detail.domain.encode(), "metadata": detail.metadata}
        for detail in status.details
    ]
    return {"code": status.code.name, "message": status.message.encode(), "details": details}


def _server_is_gone(step: Tree, outcome: Outcome | None) -> bool:
    """Whether a call failed as it does without a server, which the rest of the case could only repeat."""
    if outcome is None or outcome.status is None:
        return False
    code = outcome.status["code"]
    return code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and code != step.get("status", {}).get("code")


def _title(step: Tree) -> str:
    names = ("open", "send_on", "expect_on", "close", "ended", "cancel", "restart")
    return next((f"{name} {step[name]}" for name in names if name in step), str(step.get("call")))
