"""Calls of all kinds, from an ordinary client's point of view."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import grpc
import pytest
from transport_helpers import (
    METHOD,
    UNLIMITED,
    WITHIN_S,
    Echo,
    Quiet,
    Reply,
    Requests,
    code_of,
    connected,
    recording,
    serving,
)

from metastore.server.transport import Call

MIB = 1 << 20


def test_a_unary_call_is_answered() -> None:
    with serving(Reply) as running, connected(running) as channel:
        call = channel.unary_unary(METHOD)
        assert [call(b"one"), call(b""), call(b"three")] == [b"one", b"", b"three"]


def test_a_handler_can_answer_from_another_thread_after_it_has_returned() -> None:
    with recording() as (running, recorders), connected(running) as channel:
        future = channel.unary_unary(METHOD).future(b"question")
        recorder = recorders.get(timeout=WITHIN_S)
        assert [recorder.next_event(), recorder.next_event()] == [b"question", "half close"]
        recorder.call.reply(b"answer")
        assert future.result(timeout=WITHIN_S) == b"answer"
        assert recorder.next_event() == "over"


def test_a_pipelined_stream_is_answered_in_order() -> None:
    messages = [b"%d" % number for number in range(2_000)]
    with serving(Echo) as running, connected(running) as channel:
        assert list(channel.stream_stream(METHOD)(iter(messages))) == messages


def test_answers_that_are_due_after_the_half_close_are_all_sent() -> None:
    messages = [b"%d" % number for number in range(100)]
    with recording() as (running, recorders), connected(running) as channel:
        answers = channel.stream_stream(METHOD)(iter(messages))
        recorder = recorders.get(timeout=WITHIN_S)
        received = [recorder.next_event() for _ in messages]
        assert received == messages
        assert recorder.next_event() == "half close"
        for message in messages:
            recorder.call.send(message)
        recorder.call.finish()
        assert list(answers) == messages
        assert answers.code() is grpc.StatusCode.OK


def test_a_client_stream_gets_one_answer() -> None:
    class Sum(Quiet):
        total = 0

        def on_message(self, message: bytes) -> None:
            self.total += int(message)

        def on_half_close(self) -> None:
            self.call.reply(b"%d" % self.total)

    with serving(Sum) as running, connected(running) as channel:
        assert channel.stream_unary(METHOD)(b"%d" % number for number in range(101)) == b"5050"


def test_a_reply_goes_after_what_waits() -> None:
    class Burst(Quiet):
        def on_message(self, message: bytes) -> None:
            for number in range(50):
                self.call.send(b"%d" % number)
            self.call.reply(b"last")

    with serving(Burst) as running, connected(running) as channel:
        assert list(channel.unary_stream(METHOD)(b"")) == [*(b"%d" % number for number in range(50)), b"last"]


def test_a_stream_may_end_without_any_message() -> None:
    class Nothing(Quiet):
        def on_message(self, message: bytes) -> None:
            self.call.finish()

    with serving(Nothing) as running, connected(running) as channel:
        assert list(channel.unary_stream(METHOD)(b"")) == []


def test_only_the_first_end_counts_and_nothing_follows_it() -> None:
    class Twice(Quiet):
        def on_message(self, message: bytes) -> None:
            self.call.send(b"before")
            self.call.finish(grpc.StatusCode.ABORTED, "first")
            self.call.finish(grpc.StatusCode.OK, "second")
            self.call.send(b"after")
            self.call.reply(b"after")

    with serving(Twice) as running, connected(running) as channel:
        answers = channel.unary_stream(METHOD)(b"")
        assert next(answers) == b"before"
        assert code_of(lambda: next(answers)) is grpc.StatusCode.ABORTED
        assert answers.details() == "first"


def test_a_call_knows_what_it_came_with() -> None:
    seen: SimpleQueue[Call] = SimpleQueue()

    def router(call: Call) -> Reply:
        seen.put(call)
        assert call.peer.startswith("ipv4:127.0.0.1:")
        assert call.auth_context()["transport_security_type"] == [b"insecure"]
        return Reply(call)

    with (
        serving(router) as running,
        connected(running, ("grpc.default_authority", "store.example:6648")) as channel,
    ):
        metadata = (("shard-id", "7"), ("shard-id", "8"), ("raw-bin", b"\x00\xff"))
        channel.unary_unary(METHOD)(b"", metadata=metadata)
        call = seen.get(timeout=WITHIN_S)
        assert call.method == METHOD
        assert call.authority == "store.example:6648"
        assert [pair for pair in call.metadata if pair[0] != "user-agent"] == list(metadata)


def test_the_authority_is_by_default_the_address_that_was_dialled() -> None:
    seen: SimpleQueue[str] = SimpleQueue()

    def router(call: Call) -> Reply:
        seen.put(call.authority)
        return Reply(call)

    with serving(router) as running, connected(running) as channel:
        channel.unary_unary(METHOD)(b"")
        assert seen.get(timeout=WITHIN_S) == running.address


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
def test_a_status_arrives_with_text_and_details(code: grpc.StatusCode) -> None:
    text = "schlüssel 100% „weg“\n\x01"
    trailers = (("grpc-status-details-bin", bytes(range(256))), ("reason", "gone"))

    class Fail(Quiet):
        def on_message(self, message: bytes) -> None:
            self.call.finish(code, text, trailers)

    with serving(Fail) as running, connected(running) as channel:
        future = channel.unary_unary(METHOD).future(b"")
        assert code_of(future.result) is code
        assert future.details() == text
        assert set(trailers) <= {(key, value) for key, value in future.trailing_metadata()}


def test_a_status_that_cannot_be_sent_is_an_internal_error() -> None:
    class Fail(Quiet):
        def on_message(self, message: bytes) -> None:
            self.call.finish(grpc.StatusCode.ABORTED, "text", (("ends-in-bin", "but is text"),))

    with serving(Fail) as running, connected(running) as channel:
        assert code_of(lambda: channel.unary_unary(METHOD)(b"")) is grpc.StatusCode.INTERNAL
        where, error = running.next_error()
        assert where == METHOD
        assert "ends-in-bin" in str(error)


def test_an_unknown_method_is_unimplemented() -> None:
    with serving(lambda call: None) as running, connected(running) as channel:
        future = channel.unary_unary("/no.Such/Method").future(b"")
        assert code_of(future.result) is grpc.StatusCode.UNIMPLEMENTED
        assert future.details() == "unknown method /no.Such/Method"


def test_the_router_can_refuse_a_call_itself() -> None:
    def refuse(call: Call) -> None:
        call.finish(grpc.StatusCode.UNAUTHENTICATED, "who are you?")

    with serving(refuse) as running, connected(running) as channel:
        future = channel.unary_unary(METHOD).future(b"")
        assert code_of(future.result) is grpc.StatusCode.UNAUTHENTICATED
        assert future.details() == "who are you?"


def test_big_messages_go_both_ways() -> None:
    message = bytes(range(256)) * (20 * MIB // 256)
    with serving(Reply, options=UNLIMITED) as running, connected(running, *UNLIMITED) as channel:
        assert channel.unary_unary(METHOD)(message) == message


def test_the_limit_of_a_message_is_kept_and_harms_nothing_else() -> None:
    limit = (("grpc.max_receive_message_length", MIB),)
    with serving(Echo, options=limit) as running, connected(running) as channel:
        call = channel.stream_stream(METHOD)
        assert [len(answer) for answer in call(iter([bytes(MIB)]))] == [MIB]
        assert code_of(lambda: list(call(iter([bytes(MIB + 1)])))) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert list(call(iter([b"on it goes"]))) == [b"on it goes"]


def test_compressed_requests_are_understood() -> None:
    with serving(Reply) as running, connected(running) as channel:
        message = b"again " * 10_000
        assert channel.unary_unary(METHOD)(message, compression=grpc.Compression.Gzip) == message


def test_many_clients_at_once_each_get_their_own_answers() -> None:
    def client(number: int) -> bool:
        with connected(running) as channel:
            messages = [b"%d:%d" % (number, index) for index in range(100)]
            streamed = list(channel.stream_stream(METHOD)(iter(messages)))
            return streamed == messages

    with serving(Echo) as running, ThreadPoolExecutor(8) as clients:
        assert all(clients.map(client, range(24)))


def test_more_calls_may_wait_to_be_taken_than_the_core_allows_by_default() -> None:
    calls = 3_300
    gate = threading.Event()

    def router(call: Call) -> Reply:
        assert gate.wait(WITHIN_S)
        return Reply(call)

    with serving(router, pollers=1) as running, connected(running) as channel:
        futures = [channel.unary_unary(METHOD).future(b"%d" % number) for number in range(calls)]
        gate.set()
        assert [future.result(timeout=WITHIN_S) for future in futures] == [b"%d" % n for n in range(calls)]


def test_requests_are_sent_one_by_one_and_answered_one_by_one() -> None:
    with serving(Echo) as running, connected(running) as channel:
        requests = Requests()
        answers = channel.stream_stream(METHOD)(iter(requests))
        for number in range(20):
            requests.send(b"%d" % number)
            assert next(answers) == b"%d" % number
        requests.close()
        assert list(answers) == []
