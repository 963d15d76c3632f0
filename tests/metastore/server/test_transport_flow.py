"""Who may send how much, and in which order things happen: back-pressure, pauses, the turns of a call."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import grpc
import pytest
from transport_helpers import (
    METHOD,
    WITHIN_S,
    Echo,
    Quiet,
    Reply,
    Requests,
    connected,
    recording,
    serving,
)

from metastore.server.transport import Call

AHEAD_MAX = 4
MESSAGES = 10_000
MESSAGE = bytes(1024)


class Producer(Quiet):
    """Streams many messages, a few ahead of its reader."""

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.produced = 0
        self.most_unsent = 0
        self.most_unsent_bytes = 0
        self.is_producing = False
        self.overlaps = 0

    def on_message(self, message: bytes) -> None:
        self.produce()

    def on_drained(self) -> None:
        self.produce()

    def produce(self) -> None:
        self.overlaps += self.is_producing
        self.is_producing = True
        while self.produced < MESSAGES and self.call.unsent_count < AHEAD_MAX:
            self.call.send(MESSAGE)
            self.produced += 1
            self.most_unsent = max(self.most_unsent, self.call.unsent_count)
            self.most_unsent_bytes = max(self.most_unsent_bytes, self.call.unsent_bytes)
        if self.produced == MESSAGES:
            self.call.finish()
        self.is_producing = False


def test_a_producer_stays_a_little_ahead_of_a_slow_reader() -> None:
    producers: SimpleQueue[Producer] = SimpleQueue()

    def router(call: Call) -> Producer | Reply:
        if call.method != METHOD:
            return Reply(call)
        producer = Producer(call)
        producers.put(producer)
        return producer

    with serving(router) as running, connected(running) as slow, connected(running) as other:
        answers = slow.unary_stream(METHOD)(b"")
        producer = producers.get(timeout=WITHIN_S)
        for _ in range(200):
            next(answers)
            other.unary_unary("/other/Call")(b"")
        assert producer.produced < MESSAGES, "the reader has taken 200, all were produced"
        assert sum(1 for _ in answers) == MESSAGES - 200
        assert producer.most_unsent == AHEAD_MAX
        assert producer.most_unsent_bytes == AHEAD_MAX * len(MESSAGE)
        assert producer.overlaps == 0


def test_what_is_unsent_is_counted_until_it_is_passed_on() -> None:
    small_window = ("grpc.http2.bdp_probe", 0)
    with recording() as (running, recorders), connected(running, small_window) as channel:
        answers = channel.unary_stream(METHOD)(b"")
        call = recorders.get(timeout=WITHIN_S).call
        assert (call.unsent_count, call.unsent_bytes) == (0, 0)
        call.send(bytes(1 << 20))  # under way until somebody reads it
        for number in range(3):
            call.send(b"%d" % number)
        assert (call.unsent_count, call.unsent_bytes) == (3, 3)
        call.finish()
        assert [len(answer) for answer in answers] == [1 << 20, 1, 1, 1]
        assert (call.unsent_count, call.unsent_bytes) == (0, 0)


def test_a_paused_call_receives_one_message_at_a_time() -> None:
    class OneByOne(Quiet):
        received: SimpleQueue[bytes] = SimpleQueue()

        def on_message(self, message: bytes) -> None:
            self.call.pause_receiving()
            self.received.put(message)

        def on_half_close(self) -> None:
            self.call.finish()

    calls: SimpleQueue[Call] = SimpleQueue()

    def router(call: Call) -> OneByOne | Echo:
        if call.method != METHOD:
            return Echo(call)
        calls.put(call)
        return OneByOne(call)

    with serving(router) as running, connected(running) as channel:
        answers = channel.stream_stream(METHOD)(iter([b"1", b"2", b"3"]))
        call = calls.get(timeout=WITHIN_S)
        for expected in (b"1", b"2", b"3"):
            assert OneByOne.received.get(timeout=WITHIN_S) == expected
            assert list(channel.stream_stream("/other/Call")(iter([b"x"]))) == [b"x"]
            assert OneByOne.received.empty(), "received although paused"
            call.resume_receiving()
        assert list(answers) == []


def test_resuming_at_once_and_resuming_for_nothing_do_no_harm() -> None:
    class Hasty(Echo):
        def on_message(self, message: bytes) -> None:
            self.call.resume_receiving()
            self.call.pause_receiving()
            self.call.resume_receiving()
            super().on_message(message)

        def on_drained(self) -> None:
            self.call.resume_receiving()

    messages = [b"%d" % number for number in range(500)]
    with serving(Hasty) as running, connected(running) as channel:
        assert list(channel.stream_stream(METHOD)(iter(messages))) == messages


def test_callbacks_of_a_call_never_overlap() -> None:
    overlaps = []

    class Watched(Echo):
        def __init__(self, call: Call) -> None:
            super().__init__(call)
            self.lock = threading.Lock()

        def once(self) -> None:
            if self.lock.acquire(blocking=False):
                self.lock.release()
            else:
                overlaps.append(self.call.method)

        def on_message(self, message: bytes) -> None:
            self.once()
            with self.lock:
                super().on_message(message)

        def on_drained(self) -> None:
            self.once()
            with self.lock:
                assert self.call.unsent_bytes >= 0

        def on_half_close(self) -> None:
            self.once()
            super().on_half_close()

        def on_over(self) -> None:
            self.once()

    def client(number: int) -> bool:
        with connected(running) as channel:
            messages = [b"%d" % index for index in range(300)]
            return list(channel.stream_stream(METHOD)(iter(messages))) == messages

    with serving(Watched) as running, ThreadPoolExecutor(4) as clients:
        assert all(clients.map(client, range(8)))
    assert overlaps == []


@pytest.mark.parametrize("senders", [2, 8])
def test_threads_that_send_at_the_same_time_keep_each_its_order(senders: int) -> None:
    with recording() as (running, recorders), connected(running) as channel:
        answers = channel.unary_stream(METHOD)(b"")
        call = recorders.get(timeout=WITHIN_S).call

        def send(sender: int) -> None:
            for number in range(500):
                call.send(b"%d:%d" % (sender, number))

        def send_all() -> None:
            with ThreadPoolExecutor(senders) as threads:
                for outcome in threads.map(send, range(senders)):
                    assert outcome is None
            call.finish()

        thread = threading.Thread(target=send_all)
        thread.start()
        received = list(answers)
        thread.join()
        assert len(received) == 500 * senders
        for sender in range(senders):
            prefix = b"%d:" % sender
            own = [answer for answer in received if answer.startswith(prefix)]
            assert own == [b"%d:%d" % (sender, number) for number in range(500)]


def test_a_deferred_action_serves_all_messages_that_came_meanwhile() -> None:
    """As a group commit does: while one runs, the next group comes together, on one and the same stream."""
    messages = [b"%d" % number for number in range(50)]
    waiting: list[bytes] = []
    groups: list[int] = []
    all_are_there = threading.Event()
    driving = threading.Lock()

    class Commit(Quiet):
        def on_message(self, message: bytes) -> None:
            waiting.append(message)
            if message == messages[-1]:
                all_are_there.set()
            running.server.defer(self.drive)

        def drive(self) -> None:
            if not driving.acquire(blocking=False):
                return
            while waiting:
                group = list(waiting)
                del waiting[: len(group)]
                assert all_are_there.wait(WITHIN_S)  # a very slow disk
                groups.append(len(group))
                for message in group:
                    self.call.send(message)
            driving.release()
            if sum(groups) == len(messages):
                self.call.finish()

    with serving(Commit) as running, connected(running) as channel:
        assert list(channel.stream_stream(METHOD)(iter(messages))) == messages
    assert sum(groups) == len(messages)
    assert len(groups) < len(messages)


def test_an_action_deferred_outside_of_a_callback_runs_at_once() -> None:
    with serving(Reply) as running:
        ran_in: list[str] = []
        running.server.defer(lambda: ran_in.append(threading.current_thread().name))
        assert ran_in == [threading.current_thread().name]


def test_a_client_that_reads_nothing_stops_only_itself() -> None:
    with serving(Producer) as running, connected(running) as stuck, connected(running) as other:
        answers = stuck.unary_stream(METHOD)(b"")
        assert sum(1 for _ in other.unary_stream(METHOD)(b"")) == MESSAGES
        answers.cancel()
        assert answers.code() is grpc.StatusCode.CANCELLED


def test_a_stream_goes_both_ways_independently() -> None:
    with recording() as (running, recorders), connected(running) as channel:
        requests = Requests()
        answers = channel.stream_stream(METHOD)(iter(requests))
        recorder = recorders.get(timeout=WITHIN_S)
        recorder.call.send(b"unasked")
        assert next(answers) == b"unasked"
        requests.send(b"unanswered")
        assert recorder.next_event() == b"unanswered"
        requests.close()
        assert recorder.next_event() == "half close"
        recorder.call.send(b"after the half close")
        assert next(answers) == b"after the half close"
        recorder.call.finish()
        assert list(answers) == []
        assert recorder.next_event() == "over"
