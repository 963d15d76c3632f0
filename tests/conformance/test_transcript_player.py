"""The player of recordings against a scripted server: every kind of wrong answer is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Literal

import grpc
import pytest

from metastore.pb import oxia_pb2
from support.ports import LOOPBACK
from support.transcripts.player import play
from support.transcripts.recording import Case, Recording, ServerNeeds

Behaviour = Callable[[Any, grpc.ServicerContext], Iterator[Any]]
SOON_MS = 50
"""How long a stream is watched for something that does not come, where nothing is to come before it."""
LATER_MS = 2_000
"""The same where something is to come before it."""


class ScriptedServer(grpc.GenericRpcHandler):
    """Answers the methods it was given, and is stopped and restarted only in name."""

    def __init__(self, **behaviours: Behaviour) -> None:
        self._behaviours = {"GetShardAssignments": self._assignments, **behaviours}
        self._server = grpc.server(ThreadPoolExecutor(8), handlers=[self])
        self.address = f"{LOOPBACK}:{self._server.add_insecure_port(f'{LOOPBACK}:0')}"
        self.is_alive = True
        self.restarts: list[str] = []
        self.closed = threading.Event()  # ends the streams that wait for something to say
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = details.method.rpartition("/")[2]
        if name not in self._behaviours:
            return None
        streaming = name == "WriteStream"
        kind = grpc.stream_stream_rpc_method_handler if streaming else grpc.unary_stream_rpc_method_handler
        return kind(self._behaviours[name], response_serializer=lambda message: message.SerializeToString())

    def _assignments(self, _request: bytes, _context: grpc.ServicerContext) -> Iterator[Any]:
        message = oxia_pb2.ShardAssignments()
        message.namespaces["default"].assignments.add(shard=0, leader=self.address.encode())
        yield message

    def restart(self, how: Literal["terminate", "kill"]) -> None:
        self.restarts.append(how)

    def log_tail(self) -> str:
        return "the log of the scripted server"

    def close(self) -> None:
        self.closed.set()
        self._server.stop(None).wait()


class Stage:
    """Plays cases against scripted servers and keeps count of them."""

    def __init__(self, cleanup: ExitStack) -> None:
        self.servers: list[ScriptedServer] = []
        self._cleanup = cleanup

    def play(self, *cases: Case, **behaviours: Behaviour) -> list[str]:
        def start(_needs: ServerNeeds) -> ScriptedServer:
            server = ScriptedServer(**behaviours)
            self._cleanup.callback(server.closed.set)
            self.servers.append(server)
            return server

        lines = play(Recording("a topic", ServerNeeds(), cases), start)
        return [line for line in lines if "log ends with" not in line]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with ExitStack() as cleanup:
        yield Stage(cleanup)


def case(*steps: dict[str, Any], **options: Any) -> Case:
    return Case("a case", list(steps), **options)


def says(*messages: Any) -> Behaviour:
    def behave(_request: bytes, _context: grpc.ServicerContext) -> Iterator[Any]:
        yield from messages

    return behave


def fails(code: grpc.StatusCode, text: str) -> Behaviour:
    def behave(_request: bytes, context: grpc.ServicerContext) -> Iterator[Any]:
        return context.abort(code, text)

    return behave


def says_and_waits(stage: Stage, *messages: Any) -> Behaviour:
    def behave(_request: bytes, _context: grpc.ServicerContext) -> Iterator[Any]:
        yield from messages
        stage.servers[-1].closed.wait()

    return behave


def put_answer(version_id: int) -> Any:
    version = oxia_pb2.Version(version_id=version_id)
    return oxia_pb2.WriteResponse(puts=[oxia_pb2.PutResponse(version=version)])


def put_step(version_id: object, **options: Any) -> dict[str, Any]:
    version = {
        "version_id": version_id,
        "modifications_count": 0,
        "created_timestamp": 0,
        "modified_timestamp": 0,
    }
    return {
        "call": "Write",
        "send": [{"shard": 0, "puts": [{"key": "a"}]}],
        "receive": [{"puts": [{"status": "OK", "version": version}]}],
        **options,
    }


def batch(offset: int, *keys: bytes) -> Any:
    entries = [oxia_pb2.NotificationEntry(key=key, value=oxia_pb2.Notification()) for key in keys]
    return oxia_pb2.NotificationBatch(shard=0, offset=offset, notifications=entries)


def subscribe(**request: Any) -> dict[str, Any]:
    return {"open": "n", "call": "GetNotifications", "send": [{"shard": 0, **request}]}


def expect(*offsets: int, **options: Any) -> dict[str, Any]:
    receive = [{"shard": 0, "offset": offset, "timestamp": 0} for offset in offsets]
    return {"expect_on": "n", "receive": receive, **options}


def test_a_right_answer_is_no_problem(stage: Stage) -> None:
    assert stage.play(case(put_step(3)), Write=says(put_answer(3))) == []


def test_a_wrong_answer_is_told_with_its_case_and_place(stage: Stage) -> None:
    assert stage.play(case(put_step(3)), Write=says(put_answer(4))) == [
        "a case | step 0 Write | receive[0].puts[0].version.version_id: expected 3, got 4"
    ]


def test_the_log_of_the_server_follows(stage: Stage) -> None:
    server = ScriptedServer(Write=says(put_answer(4)))
    lines = play(Recording("a topic", ServerNeeds(), (case(put_step(3)),)), lambda _: server)
    assert lines[-1].endswith("the server's log ends with:\nthe log of the scripted server")


def test_variables_last_for_a_case(stage: Stage) -> None:
    behaviour = says(put_answer(3))
    bind, again = put_step({"$bind": "v0"}), put_step({"$ref": "v0"})
    assert stage.play(case(bind, again), Write=behaviour) == []
    (line,) = stage.play(case(bind), case(again), Write=behaviour)
    assert "v0 was never bound" in line


def test_a_missing_and_an_additional_answer_are_told(stage: Stage) -> None:
    assert "expected 1 items, got 0" in stage.play(case(put_step(3)), Write=says())[0]
    listing = {"call": "List", "send": [{"shard": 0}], "receive": []}
    assert "expected 0 items, got 1" in stage.play(case(listing), List=says(oxia_pb2.ListResponse(keys=[b"a"])))[0]


def test_it_does_not_matter_where_a_list_is_cut(stage: Stage) -> None:
    listing = {"call": "List", "send": [{"shard": 0}], "receive": [{"keys": ["a", "b"]}]}
    halves = [oxia_pb2.ListResponse(keys=[key]) for key in (b"a", b"b")]
    assert stage.play(case(listing), List=says(*halves)) == []
    assert stage.play(case(listing), List=says(*reversed(halves))) != []


def test_an_error_for_an_answer_is_told(stage: Stage) -> None:
    (line,) = stage.play(case(put_step(3)), Write=fails(grpc.StatusCode.INTERNAL, "broken"))
    assert 'status.code: expected "OK", got "INTERNAL" ("broken")' in line


def test_an_answer_for_an_error_is_told(stage: Stage) -> None:
    step = {"call": "Write", "send": [{"shard": 0}], "status": {"code": "ABORTED"}}
    assert 'expected "ABORTED", got "OK"' in stage.play(case(step), Write=says(put_answer(0)))[0]
    assert stage.play(case(step), Write=fails(grpc.StatusCode.ABORTED, "")) == []


def test_an_answer_as_good_is_accepted(stage: Stage) -> None:
    other = {"receive": put_step(4)["receive"]}
    refused = {"status": {"code": "ABORTED"}}
    step = put_step(3, accept=[other, refused])
    assert stage.play(case(step), Write=says(put_answer(4))) == []
    assert stage.play(case(step), Write=fails(grpc.StatusCode.ABORTED, "")) == []
    assert stage.play(case(step), Write=says(put_answer(5))) != []


def test_accidents_are_played_or_left_out_but_not_judged(stage: Stage) -> None:
    accident = put_step({"$bind": "v0"}, quirk="why", status={"code": "ABORTED"})
    later = put_step({"$ref": "v0"})
    assert stage.play(case(accident, later), Write=says(put_answer(9))) == []
    assert stage.play(case(put_step(3), quirk="why"), Write=says(put_answer(9))) == []
    assert len(stage.servers) == 1


def test_messages_of_a_stream_are_awaited_in_order(stage: Stage) -> None:
    behaviour = says_and_waits(stage, batch(0), batch(1))
    steps = (subscribe(), expect(0), expect(1), expect(quiet_ms=SOON_MS), {"cancel": "n"})
    assert stage.play(case(*steps), GetNotifications=behaviour) == []
    (line,) = stage.play(case(subscribe(), expect(1, 0)), GetNotifications=behaviour)
    assert "receive[0].offset: expected 1, got 0" in line


def test_silence_is_told_where_a_message_is_due(stage: Stage) -> None:
    behaviour = says_and_waits(stage, batch(0))
    steps = (subscribe(), expect(0, 1, within_ms=LATER_MS))
    assert "expected 2 items, got 1" in stage.play(case(*steps), GetNotifications=behaviour)[0]


def test_a_message_is_told_where_silence_is_due(stage: Stage) -> None:
    behaviour = says_and_waits(stage, batch(0))
    steps = (subscribe(), expect(quiet_ms=10_000))
    assert "expected 0 items, got 1" in stage.play(case(*steps), GetNotifications=behaviour)[0]


def test_messages_are_skipped_until_one_comes(stage: Stage) -> None:
    until = {"expect_on": "n", "until": {"shard": 0, "offset": 2, "timestamp": 0}, "within_ms": LATER_MS}
    behaviour = says_and_waits(stage, batch(0), batch(1), batch(2))
    assert stage.play(case(subscribe(), until), GetNotifications=behaviour) == []
    behaviour = says_and_waits(stage, batch(0), batch(1))
    assert "until.offset: expected 2, got 1" in stage.play(case(subscribe(), until), GetNotifications=behaviour)[0]


def test_the_end_of_a_stream_is_judged(stage: Stage) -> None:
    refusal = {"code": "ABORTED", "message": "no"}
    ended = (subscribe(), {"ended": "n", "status": refusal, "within_ms": 5_000})
    assert stage.play(case(*ended), GetNotifications=fails(grpc.StatusCode.ABORTED, "no")) == []
    assert "status.message" in stage.play(case(*ended), GetNotifications=fails(grpc.StatusCode.ABORTED, "yes"))[0]
    still_open = (subscribe(), {"ended": "n", "status": refusal, "within_ms": SOON_MS})
    assert "TimeoutError" in stage.play(case(*still_open), GetNotifications=says_and_waits(stage))[0]


def test_an_early_end_is_told(stage: Stage) -> None:
    lines = stage.play(case(subscribe(), expect(0, 1)), GetNotifications=says(batch(0)))
    assert "the stream ended" in lines[0]
    lines = stage.play(case(subscribe(), expect(quiet_ms=10_000)), GetNotifications=says())
    assert "the stream ended" in lines[0]


def test_a_greeting_is_dropped_only_if_it_says_nothing_new(stage: Stage) -> None:
    steps = (subscribe(start_offset_exclusive=4), expect(5))
    assert stage.play(case(*steps), GetNotifications=says_and_waits(stage, batch(4), batch(5))) == []
    assert stage.play(case(*steps), GetNotifications=says_and_waits(stage, batch(5))) == []
    assert stage.play(case(*steps), GetNotifications=says_and_waits(stage, batch(4, b"k"), batch(5))) != []
    assert stage.play(case(*steps), GetNotifications=says_and_waits(stage, batch(4), batch(4), batch(5))) != []
    assert stage.play(case(subscribe(), expect(5)), GetNotifications=says_and_waits(stage, batch(4), batch(5))) != []


def test_both_directions_of_a_write_stream(stage: Stage) -> None:
    def answer(requests: Iterator[bytes], _context: grpc.ServicerContext) -> Iterator[Any]:
        for number, _ in enumerate(requests):
            yield put_answer(number)

    request = put_step(0)["send"][0]
    steps = (
        {"open": "w", "call": "WriteStream", "metadata": {"shard-id": "0", "namespace": "default"}},
        {"send_on": "w", "send": [request, request]},
        {"expect_on": "w", "receive": [*put_step(0)["receive"], *put_step(1)["receive"]]},
        {"send_on": "w", "send": [request]},
        {"close": "w", "receive": put_step(2)["receive"], "status": {"code": "OK"}},
    )
    assert stage.play(case(*steps), WriteStream=answer) == []
    wrong = {"close": "w", "receive": [], "status": {"code": "OK"}}
    assert "expected 0 items, got 1" in stage.play(case(*steps[:-1], wrong), WriteStream=answer)[0]


def test_a_restart_asks_for_the_signal_that_was_recorded(stage: Stage) -> None:
    steps = (put_step(3), {"restart": "kill"}, {"restart": "term"}, put_step(3))
    assert stage.play(case(*steps), Write=says(put_answer(3))) == []
    assert stage.servers[0].restarts == ["kill", "terminate"]


def test_a_fresh_case_has_a_server_of_its_own(stage: Stage) -> None:
    shared, own = case(put_step(3)), case(put_step(3), fresh=True)
    assert stage.play(own, shared, own, shared, Write=says(put_answer(3))) == []
    assert len(stage.servers) == 2


def test_the_death_of_a_server_ends_the_case_only(stage: Stage) -> None:
    def die(_request: bytes, _context: grpc.ServicerContext) -> Iterator[Any]:
        stage.servers[0].is_alive = False
        yield put_answer(3)

    lines = stage.play(case(put_step(3), put_step(3)), case(put_step(3)), Write=die)
    assert lines == ["a case | step 0 Write | the server process has died"]
    assert len(stage.servers) == 2


def test_a_fault_of_the_recording_is_told(stage: Stage) -> None:
    (line,) = stage.play(case({"fly": 1}), Write=says())
    assert "unknown step" in line
