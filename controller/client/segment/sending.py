"""The stream on which a producer sends to one segment: entries in their order, until each has its outcome.

An entry that was refused for a while is sent again in its place, and before anything behind it. After a broken stream
everything without an answer is sent again, as the same entries, so that a broker knows which of them it has.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from controller.client.caller import Caller
from controller.client.errors import BrokerFailed, BrokersUnavailable, SendUnconfirmed
from controller.client.failures import error_of_answer
from controller.client.protocol import PRODUCE
from controller.client.segment.member import SegmentMember
from controller.client.segment.outbox import Outbox, Outgoing, Packing, Parcel
from controller.client.values import position_of
from controller.pb import broker_pb2 as pb
from metastore.coordination import Backoff
from txn.model.errors import TxnError, TxnRetriable
from txn.model.position import Position


class Sending(SegmentMember):
    """A member that sends what is in its outbox."""

    def __init__(self, caller: Caller, segment: str, name: str, packing: Packing, linger_ms: int) -> None:
        super().__init__(caller, segment, f"producer {name!r} of {segment}")
        self.name = name
        self._outbox = Outbox(packing, self._dropped)
        self._linger_ms = linger_ms
        self._window = pb.Window()
        self._backoff = Backoff(caller.pace)
        self._refusal: TxnError | None = None
        """The last one that was said to pass."""
        self._news = asyncio.Event()
        self._is_closing = False
        self._start(PRODUCE, self)

    @property
    def held_up_by(self) -> TxnError:
        """What is in the way, or was the last time."""
        return self._refusal if self._outbox.is_retrying and self._refusal is not None else self.trouble

    # -- what becomes of entries

    def _has_opened(self, opened: pb.ProducerOpened) -> None:
        """A stream has been opened; what the segment has of this producer."""

    @abstractmethod
    def _stored(self, parcel: Parcel, position: Position | None, is_duplicate: bool) -> None:
        """An entry is stored."""

    @abstractmethod
    def _refused(self, parcel: Parcel, error: TxnError) -> None:
        """An entry is not stored, and is not sent again here."""

    def _dropped(self, message: Outgoing) -> None:
        """A message is not sent: its outcome is known already."""

    def _claim(self) -> int:
        """The claim by which it sends; 0: none."""
        return 0

    # -- what goes over the lane

    def opening(self) -> pb.ProduceRequest:
        return pb.ProduceRequest(open=pb.OpenProducer(segment=self.segment, producer=self.name, claim=self._claim()))

    def begin(self, answer: pb.ProduceResponse) -> int:
        if not answer.HasField("opened"):
            raise BrokerFailed(f"{self._what}: the broker answers before it has opened the stream")
        opened = answer.opened
        self._window = opened.window
        self._has_opened(opened)
        return opened.term

    async def next_request(self) -> pb.ProduceRequest | None:
        while True:
            if self._outbox.has_refused:
                await self._backoff.pause()
                self._outbox.retry()
            await self._linger()
            parcels = self._outbox.take(self._window)
            if parcels:
                return pb.ProduceRequest(sends=pb.Sends(sends=[parcel.send for parcel in parcels]))
            if self.is_at_end():
                return None
            self._news.clear()
            await self._news.wait()

    async def hear(self, answer: pb.ProduceResponse) -> None:
        for told in answer.answers.answers:
            parcel = self._outbox.answered(told.sequence_id)
            if parcel is None:
                raise BrokerFailed(f"{self._what}: the broker confirms {told.sequence_id} out of turn")
            self._settle(parcel, told)
        self._news.set()

    def interrupt(self) -> None:
        self._outbox.interrupt()

    def is_at_end(self) -> bool:
        return self._is_closing and not self._outbox.count

    async def close(self) -> None:
        """Sends what waits, and ends. What is not confirmed within the request timeout fails."""
        self._is_closing = True
        self._news.set()
        await self._lane.stop(self._caller.request_timeout_s)

    async def _linger(self) -> None:
        """Waits for company, if there is any point in it."""
        if self._linger_ms and self._outbox.has_to_send and not self._outbox.fills_an_entry:
            await asyncio.sleep(self._linger_ms / 1000)

    def _settle(self, parcel: Parcel, told: pb.SendAnswer) -> None:
        """An entry has an outcome, or is to be sent again."""
        error = error_of_answer(told.error) if told.HasField("error") else None
        if isinstance(error, TxnRetriable) and not parcel.is_given_up:
            self._outbox.refuse(parcel)
            self._refusal = error
            return
        self._outbox.forget(parcel)
        if error is not None:
            self._refused(parcel, error)
        else:
            position = position_of(told.position) if told.HasField("position") else None
            self._stored(parcel, position, told.is_duplicate)

    def _unconfirmed(self, message: Outgoing) -> TxnError:
        """What is said of a message without an answer in time."""
        what = f"message {message.sequence_id} of {self._what}"
        return unconfirmed(message, what, self._caller.request_timeout_s, self.held_up_by)


def unconfirmed(message: Outgoing, what: str, timeout_s: float, trouble: TxnError) -> TxnError:
    """What is said of a message without an answer in time."""
    if message.was_sent:
        return SendUnconfirmed(f"{what} was not confirmed within {timeout_s:g} s: {trouble}")
    return BrokersUnavailable(f"{what} was not sent within {timeout_s:g} s: {trouble}")
