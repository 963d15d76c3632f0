"""Messages on their way into the log: who waits, in which order, and what is told to whom in the end.

All stand in one line, in the order of the calls. Who writes in a transaction whose header was not looked at yet waits
aside, and so do all later messages of the same producer, but nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping

from txn.model.errors import TooManyOperations, TxnError
from txn.model.position import Position
from txn.segment.buffer.options import BufferOptions
from txn.segment.buffer.participation import Participation
from txn.segment.buffer.producers import ProducerStates, Taken, Verdict
from txn.segment.buffer.published import Published
from txn.segment.errors import SegmentBusy


class Sending:
    """A message that is neither confirmed nor refused yet."""

    __slots__ = ("confirmation", "data", "duplicates", "participation", "producer", "taken")

    def __init__(self, data: bytes, producer: str, taken: Taken | None, participation: Participation | None) -> None:
        self.data = data
        self.producer = producer
        self.taken = taken
        """None of nobody's messages, which are not told from each other."""
        self.participation = participation
        self.confirmation: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        self.duplicates: list[asyncio.Future[Published]] = []
        """Those who have sent it again, and wait for the same."""


class UnderWay:
    """All messages that are neither confirmed nor refused, and what they have taken."""

    def __init__(self, producers: ProducerStates) -> None:
        self._producers = producers
        self._by_producer: dict[str, dict[int, Sending]] = {}

    def begin(self, sending: Sending) -> None:
        """The message is accepted."""
        taken = sending.taken
        if taken is not None:
            self._producers.take(taken)
            self._by_producer.setdefault(taken.producer, {})[taken.first] = sending

    def repeat(self, message: Taken) -> asyncio.Future[Published]:
        """The answer to a message that was accepted before."""
        answer: asyncio.Future[Published] = asyncio.get_running_loop().create_future()
        original = self._by_producer.get(message.producer, {}).get(message.first)
        if original is None:
            answer.set_result(Published(None, is_duplicate=True))
        else:
            original.duplicates.append(answer)
        return answer

    def confirm(self, sending: Sending, position: Position) -> None:
        """It is in the log, durably."""
        if sending.taken is not None:
            self._forget(sending, sending.taken)
        if not sending.confirmation.done():
            sending.confirmation.set_result(Published(position))
        for answer in sending.duplicates:
            if not answer.done():
                answer.set_result(Published(position, is_duplicate=True))

    def fail(self, sending: Sending, error: Exception) -> None:
        """It is not in the log, as far as one can tell; its number is free again."""
        # Where the number was free before, and is another message's now, it stays that one's.
        if sending.taken is not None and self._forget(sending, sending.taken):
            self._producers.free(sending.taken)
        for answer in (sending.confirmation, *sending.duplicates):
            if not answer.done():
                answer.set_exception(error)

    def _forget(self, sending: Sending, taken: Taken) -> bool:
        """Whether the number was this message's."""
        sendings = self._by_producer.get(taken.producer, {})
        if sendings.get(taken.first) is not sending:
            return False
        del sendings[taken.first]
        if not sendings:
            del self._by_producer[taken.producer]
        return True

    def taken_of(self, producer: str) -> list[Taken]:
        """What those of one producer have taken."""
        return [each.taken for each in self._by_producer.get(producer, {}).values() if each.taken is not None]

    @property
    def taken(self) -> Iterable[Taken]:
        """What the messages under way have taken."""
        for sendings in self._by_producer.values():
            for sending in sendings.values():
                assert sending.taken is not None
                yield sending.taken


class Line:
    """The messages that wait."""

    def __init__(self, under_way: UnderWay, options: BufferOptions) -> None:
        self._under_way = under_way
        self._options = options
        self._ready: deque[Sending] = deque()
        self._aside: dict[str, deque[Sending]] = {}
        """By producer; the first of each waits for a look at its transaction's header."""
        self._waiting: dict[Participation, list[str]] = {}
        """Whose first ones wait for which transaction."""
        self.entries = 0
        """Messages that wait, aside or not."""
        self.bytes = 0

    @property
    def has_ready(self) -> bool:
        """Whether somebody can be taken."""
        return bool(self._ready)

    def check_room(self, size: int) -> None:
        """SegmentBusy if another message cannot wait."""
        options = self._options
        if self.entries >= options.queue_entries_max or (self.bytes + size > options.queue_bytes_max and self.bytes):
            raise SegmentBusy(
                f"{self.entries} messages of {self.bytes} bytes wait to be published: at most "
                f"{options.queue_entries_max} (queue_entries_max) of {options.queue_bytes_max} (queue_bytes_max); "
                "publish slower"
            )

    def add(self, sending: Sending) -> None:
        """Another message, at the end."""
        self.entries += 1
        self.bytes += len(sending.data)
        self._under_way.begin(sending)
        waiting = self._aside.get(sending.producer)
        if waiting is not None:
            waiting.append(sending)
        elif sending.participation is not None and not sending.participation.is_known:
            self._aside[sending.producer] = deque([sending])
            self._waiting.setdefault(sending.participation, []).append(sending.producer)
        else:
            self._ready.append(sending)

    def look_again(self, participation: Participation) -> None:
        """A header was looked at: who waited for it aside, or behind those who did, is ready."""
        assert participation.is_known
        for producer in self._waiting.pop(participation, ()):
            waiting = self._aside.get(producer)
            while waiting and ((first := waiting[0].participation) is None or first.is_known):
                self._ready.append(waiting.popleft())
            if waiting and first is not None:
                self._waiting.setdefault(first, []).append(producer)
            elif waiting is not None:
                del self._aside[producer]

    def fail_waiting(self, participation: Participation, error: Exception) -> None:
        """A header cannot be looked at: refuses who waited for it aside, and all behind them."""
        self.fail_of(dict.fromkeys(self._waiting.pop(participation, ()), error))

    def take(self, entries_max: int, bytes_max: int) -> list[Sending]:
        """The first that are ready, at least one if there is any."""
        taken: list[Sending] = []
        left = bytes_max
        while self._ready and len(taken) < entries_max:
            size = len(self._ready[0].data)
            if size > left and taken:
                break
            left -= size
            taken.append(self._ready.popleft())
        self.entries -= len(taken)
        self.bytes -= bytes_max - left
        return taken

    def fail_of(self, errors: Mapping[str, Exception]) -> None:
        """Refuses all messages of some producers: an earlier one of theirs was refused, and none is to overtake it."""
        ready, self._ready = self._ready, deque()
        for sending in ready:
            error = errors.get(sending.producer)
            if error is None:
                self._ready.append(sending)
            else:
                self._refuse(sending, error)
        for producer in errors.keys() & self._aside.keys():
            for sending in self._aside.pop(producer):
                self._refuse(sending, errors[producer])

    def fail_aside(self, error: Exception) -> None:
        """Refuses those who wait aside."""
        self.fail_of(dict.fromkeys(self._aside, error))

    def fail_all(self, error: Exception) -> None:
        """Refuses everybody."""
        self.fail_aside(error)
        while self._ready:
            self._refuse(self._ready.popleft(), error)

    def _refuse(self, sending: Sending, error: Exception) -> None:
        self.entries -= 1
        self.bytes -= len(sending.data)
        self._under_way.fail(sending, error)


def refusal(message: Taken, verdict: Verdict) -> TxnError:
    """Why a message can neither stand in line nor is a duplicate."""
    if verdict is Verdict.UNDECIDED:
        return SegmentBusy(
            f"message {message.first} of producer {message.producer!r} was sent in another transaction, of which it is "
            "not known here yet how it ended: send it again"
        )
    assert verdict is Verdict.SCATTERED
    return TooManyOperations(
        f"transaction {message.txn_id} has taken too many numbers of producer {message.producer!r} with others between "
        "them (HELD_INTERVALS_MAX): send more in a row, or use several transactions"
    )
