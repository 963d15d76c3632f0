"""Every way in which a call can end, in every state it can be in: told once, and nothing left behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import grpc
import pytest
from transport_helpers import (
    METHOD,
    WITHIN_S,
    Deaths,
    Echo,
    Quiet,
    RawChannel,
    Recorder,
    Reply,
    Requests,
    Serving,
    code_of,
    connected,
    recording,
    serving,
)

from metastore.server.transport import Call

BEYOND_ANY_WINDOW = bytes(3 << 20)


class Probe(Quiet):
    """Gets into one of the states, says so, and counts its ends."""

    def __init__(self, call: Call, state: str, reached: SimpleQueue[Probe], release: threading.Event) -> None:
        super().__init__(call)
        self.state = state
        self.reached = reached
        self.release = release
        self.overs: SimpleQueue[bool] = SimpleQueue()
        if state == "silent":
            reached.put(self)

    def on_message(self, message: bytes) -> None:
        if self.state == "in callback":
            self.reached.put(self)
            assert self.release.wait(WITHIN_S)
        elif self.state == "paused":
            self.call.pause_receiving()
            self.reached.put(self)
        elif self.state == "unsent":
            self.send_too_much()
            self.reached.put(self)
        elif self.state == "finishing":
            self.send_too_much()
            self.call.finish()
            self.reached.put(self)
        elif self.state == "received":
            self.reached.put(self)

    def send_too_much(self) -> None:
        for _ in range(3):
            self.call.send(BEYOND_ANY_WINDOW)

    def on_half_close(self) -> None:
        if self.state == "half closed":
            self.reached.put(self)

    def on_over(self) -> None:
        assert self.call.is_over
        self.overs.put(True)


STATES = ("silent", "received", "in callback", "paused", "unsent", "finishing", "half closed")


class Probes:
    """A server of probes in one state, and what became of them."""

    def __init__(self, state: str) -> None:
        self.state = state
        self.reached: SimpleQueue[Probe] = SimpleQueue()
        self.release = threading.Event()
        self.deaths = Deaths()
        self.in_state: Probe | None = None

    def __call__(self, call: Call) -> Probe:
        self.deaths.watch(call)
        return Probe(call, self.state, self.reached, self.release)

    def begin(self, channel: RawChannel, timeout_s: float | None = None) -> grpc._CallIterator[bytes]:
        """Opens a call and brings it into the state."""
        requests = Requests() if self.state == "silent" else Requests(b"request")
        if self.state == "half closed":
            requests.close()
        answers = channel.stream_stream(METHOD)(iter(requests), timeout=timeout_s)
        self.in_state = self.reached.get(timeout=WITHIN_S)
        return answers

    def check_the_end(self) -> None:
        """The handler is told exactly once, and the call is freed."""
        self.release.set()
        probe, self.in_state = self.in_state, None
        assert probe is not None
        assert probe.overs.get(timeout=WITHIN_S)
        call, overs = probe.call, probe.overs
        call.send(b"too late")
        call.reply(b"too late")
        call.finish()
        call.cancel(grpc.StatusCode.ABORTED, "too late")
        call.pause_receiving()
        call.resume_receiving()
        assert (call.unsent_count, call.unsent_bytes) == (0, 0)
        del probe, call
        self.deaths.wait(1)
        assert overs.empty()


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """Without the collector only what is in no cycle is freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("state", STATES)
def test_a_cancelled_call_ends_once_and_is_freed(state: str) -> None:
    probes = Probes(state)
    with serving(probes) as running, connected(running) as channel:
        probes.begin(channel).cancel()
        probes.check_the_end()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("state", STATES)
def test_a_lost_connection_ends_a_call_once_and_frees_it(state: str) -> None:
    probes = Probes(state)
    with serving(probes) as running:
        with connected(running) as channel:
            probes.begin(channel)
        probes.check_the_end()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("state", ["received", "paused", "unsent"])
def test_a_deadline_ends_a_call_once_and_frees_it(state: str) -> None:
    probes = Probes(state)
    with serving(probes) as running, connected(running) as channel:
        answers = probes.begin(channel, timeout_s=3.0)
        assert answers.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        probes.check_the_end()


@pytest.mark.parametrize("state", STATES)
def test_stopping_the_server_ends_a_call_once(state: str) -> None:
    probes = Probes(state)
    with serving(probes) as running, connected(running) as channel:
        answers = probes.begin(channel)
        probes.release.set()
        running.server.stop(0)
        probes.check_the_end()
        assert code_of(lambda: list(answers)) in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("state", STATES)
def test_a_call_that_the_server_cancels_ends_once_and_is_freed(state: str) -> None:
    probes = Probes(state)
    with serving(probes) as running, connected(running) as channel:
        probes.begin(channel)
        assert probes.in_state is not None
        probes.in_state.call.cancel(grpc.StatusCode.ABORTED, "enough")
        probes.check_the_end()


def reply_at_once(call: Call) -> None:
    call.reply(BEYOND_ANY_WINDOW)


def finish_behind_messages(call: Call) -> None:
    for _ in range(3):
        call.send(BEYOND_ANY_WINDOW)
    call.finish()


def send_and_leave_open(call: Call) -> None:
    for _ in range(3):
        call.send(BEYOND_ANY_WINDOW)


@pytest.mark.parametrize("block", [reply_at_once, finish_behind_messages, send_and_leave_open])
def test_a_call_whose_client_takes_nothing_is_over_when_it_is_cancelled(block: Callable[[Call], None]) -> None:
    with recording() as (running, recorders), connected(running, ("grpc.http2.bdp_probe", 0)) as channel:
        answers = channel.unary_stream(METHOD)(b"request")
        recorder = recorders.get(timeout=WITHIN_S)
        assert [recorder.next_event(), recorder.next_event()] == [b"request", "half close"]
        block(recorder.call)
        assert recorder.call.is_sending, "else the client has taken everything"
        recorder.call.cancel(grpc.StatusCode.ABORTED, "enough")
        assert recorder.call.is_finished
        assert (recorder.call.unsent_count, recorder.call.unsent_bytes) == (0, 0)
        assert recorder.next_event() == "over"
        assert code_of(lambda: list(answers)) is grpc.StatusCode.ABORTED
        assert answers.details() == "enough"


def test_calls_may_be_cancelled_while_other_threads_send() -> None:
    """At whatever moment it comes: each call is over once, and none is left, which `serving` sees to."""
    with recording() as (running, recorders), connected(running) as channel:
        for _ in range(200):
            answers = channel.unary_stream(METHOD)(b"request")
            recorder = recorders.get(timeout=WITHIN_S)
            sender = threading.Thread(target=send_until_over, args=(recorder.call,))
            sender.start()
            assert next(answers) == b"message"
            recorder.call.cancel(grpc.StatusCode.ABORTED, "enough")
            sender.join()
            check_that_it_ends(answers, recorder)


def check_that_it_ends(answers: grpc._CallIterator[bytes], recorder: Recorder) -> None:
    assert code_of(lambda: list(answers)) is grpc.StatusCode.ABORTED
    while recorder.next_event() != "over":
        pass
    assert recorder.events.empty()


def send_until_over(call: Call) -> None:
    while not call.is_over:
        call.send(b"message")


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("handler", [Reply, Echo])
def test_calls_that_end_well_are_freed(handler: Callable[[Call], Quiet]) -> None:
    deaths = Deaths()

    def router(call: Call) -> Quiet:
        deaths.watch(call)
        return handler(call)

    with serving(router) as running, connected(running) as channel:
        for number in range(100):
            assert list(channel.stream_stream(METHOD)(iter([b"%d" % number]))) == [b"%d" % number]
        deaths.wait(100)
        assert running.server.live_call_count == 0


@pytest.mark.usefixtures("_no_collector")
def test_a_thousand_cancelled_streams_leave_nothing() -> None:
    probes = Probes("received")
    with serving(probes) as running, connected(running) as channel:
        opened = []
        for _ in range(1_000):
            opened.append(probes.begin(channel))
        probes.in_state = None
        assert running.server.live_call_count == 1_000
        for answers in opened:
            answers.cancel()
        probes.deaths.wait(1_000)
        assert running.server.live_call_count == 0


def test_a_long_producer_can_see_that_its_call_is_over() -> None:
    ends: SimpleQueue[int] = SimpleQueue()

    class Endless(Quiet):
        def on_message(self, message: bytes) -> None:
            sent = 0
            while not self.call.is_over:
                if self.call.unsent_count < 4:
                    self.call.send(bytes(1_000))
                    sent += 1
            ends.put(sent)

    with serving(Endless) as running, connected(running) as channel:
        answers = channel.unary_stream(METHOD)(b"")
        for _ in range(10):
            next(answers)
        answers.cancel()
        assert ends.get(timeout=WITHIN_S) >= 10


def test_a_finished_call_ends_though_the_client_goes_on_sending() -> None:
    with recording() as (running, recorders), connected(running) as channel:
        requests = Requests()
        answers = channel.stream_stream(METHOD)(iter(requests))
        recorder = recorders.get(timeout=WITHIN_S)
        recorder.call.finish(grpc.StatusCode.ABORTED, "enough")
        for _ in range(100):
            requests.send(b"more")
        requests.close()
        assert code_of(lambda: list(answers)) is grpc.StatusCode.ABORTED
        assert recorder.next_event() == "over", "something was told after the end"


def fail(*_: object) -> None:
    raise RuntimeError("a secret of the handler")


@pytest.mark.parametrize("callback", ["on_message", "on_half_close", "on_drained"])
def test_a_handler_that_fails_ends_its_call_and_no_other(callback: str) -> None:
    def router(call: Call) -> Quiet:
        handler = Echo(call)
        if call.method == METHOD:
            setattr(handler, callback, fail)
        return handler

    with serving(router) as running, connected(running) as channel:
        requests = Requests(b"request")
        if callback == "on_half_close":
            requests.close()
        answers = channel.stream_stream(METHOD)(iter(requests))
        assert code_of(lambda: list(answers)) is grpc.StatusCode.INTERNAL
        assert answers.details() == "internal error"
        check_the_error(running)
        assert list(channel.stream_stream("/other/Call")(iter([b"x"]))) == [b"x"]


def test_a_handler_that_fails_at_the_very_end_harms_nobody() -> None:
    def router(call: Call) -> Quiet:
        handler = Reply(call)
        handler.on_over = fail  # type: ignore[method-assign]
        return handler

    with serving(router) as running, connected(running) as channel:
        for _ in range(5):
            assert channel.unary_unary(METHOD)(b"x") == b"x"
            check_the_error(running)


def test_a_router_that_fails_ends_its_call_and_no_other() -> None:
    def router(call: Call) -> Quiet:
        if call.method == METHOD:
            fail()
        return Reply(call)

    with serving(router) as running, connected(running) as channel:
        assert code_of(lambda: channel.unary_unary(METHOD)(b"")) is grpc.StatusCode.INTERNAL
        check_the_error(running)
        assert channel.unary_unary("/other/Call")(b"x") == b"x"


def check_the_error(running: Serving) -> None:
    """It was told with the method, whole, to the server alone."""
    where, error = running.next_error()
    assert where == METHOD
    assert isinstance(error, RuntimeError)
    assert str(error) == "a secret of the handler"
