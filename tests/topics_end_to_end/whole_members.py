"""Applications that receive in order: members of a stream, of a namespace's stream; a reader from its checkpoint."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from controller.client import EARLIEST, Client, Confirmation
from controller.client.consumers import (
    Checkpoint,
    NamespaceStreamConsumer,
    StreamConsumer,
    StreamMessage,
)
from controller.client.consumers.attachments import Attachment
from controller.client.consumers.progress import Reached
from topics_end_to_end.whole_notebook import STRIDE, AckCall, Line, Notebook, place_of
from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.subscription import AckTooLate

TAKEN_MAX = 16

Streaming = StreamConsumer | NamespaceStreamConsumer


class Hand:
    """What a stream consumer's application has, and has not acknowledged."""

    def __init__(self, book: Notebook, subscription: str, *, is_final: bool = False) -> None:
        self._book = book
        self._subscription = subscription
        self._is_final = is_final
        self._epoch = 0
        self._units: defaultdict[Attachment, dict[Position, str]] = defaultdict(dict)

    def take(self, message: StreamMessage) -> None:
        """Something was received."""
        attachment = self._attachment(message)
        name = message.payload.decode()
        at = self._book.show(
            (attachment, self._epoch),
            message.in_segment.segment,
            message.in_segment.id,
            name,
            topic=message.topic,
            subscription=self._subscription,
            is_shared=bool(attachment.share.buckets),
            is_final=self._is_final,
        )
        self._units[attachment][at] = name

    def _attachment(self, message: StreamMessage) -> Attachment:
        """Through which it came; the segment may have been given up and taken again before."""
        found = [
            each
            for each, reached in _attachments(message)
            if each.segment == message.in_segment.segment and reached.message.id == message.in_segment.id
        ]
        return next((each for each in found if each.is_attached), found[-1])

    def begin(self, last: StreamMessage, txn: str | None = None) -> list[AckCall]:
        """All up to the last message is about to be acknowledged."""
        calls = []
        for attachment, reached in _attachments(last):
            bound = place_of(reached.message.id)
            is_shared = bool(attachment.share.buckets)
            units = {at: name for at, name in self._units[attachment].items() if is_shared or at <= bound}
            if units:
                calls.append(
                    self._book.acknowledge(attachment.topic, attachment.segment, self._subscription, units, txn)
                )
        return calls

    async def acknowledge(self, last: StreamMessage, call: Callable[[], Confirmation[None]]) -> None:
        """All up to the last message is acknowledged by that call, or may be; if it is not, it comes again."""
        calls = self.begin(last)
        try:
            await call()
        except (TxnError, asyncio.CancelledError) as error:
            self._book.counts[f"acks: {type(error).__name__}"] += 1
            self._book.doubted(calls)
            if isinstance(error, AckTooLate):
                self._came_too_late(calls)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            self.done(calls)

    def done(self, calls: list[AckCall]) -> None:
        """That was confirmed."""
        self._book.acknowledged(calls)
        self.drop(calls)

    def _came_too_late(self, calls: list[AckCall]) -> None:
        """Of shared segments others have been given some of that; the rest is acknowledged."""
        for call in calls:
            if any(each.segment == call.segment and each.share.buckets for each in self._units):
                call.is_too_late = True
                self.drop([call])

    def drop(self, calls: list[AckCall]) -> None:
        """The application has it no longer."""
        for call in calls:
            for attachment, units in self._units.items():
                if attachment.segment == call.segment:
                    for at in call.units:
                        units.pop(at, None)

    def begin_anew(self) -> None:
        """The subscription was put to the beginning."""
        self._epoch += 1
        self._units.clear()


def _attachments(message: StreamMessage) -> Iterator[tuple[Attachment, Reached]]:
    for origin, reached in message.reached.items():
        assert isinstance(origin, Attachment), "streams read through attachments"
        yield origin, reached


class Member(ABC):
    """One who receives, until it is told to go."""

    def __init__(self, book: Notebook, client: Client) -> None:
        self._book = book
        self._client = client
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Comes."""
        assert self._task is None, "it is there already"
        self._task = asyncio.create_task(self._run())

    @property
    def is_there(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._task is not None

    @property
    def task(self) -> asyncio.Task[None]:
        """What it does."""
        assert self._task is not None, "it was started"
        return self._task

    async def stop(self, *, leave: bool = True) -> None:
        """Goes; without leaving it may come back."""
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.result()
        self._task = None
        await self._close(leave)

    @abstractmethod
    async def _run(self) -> None:
        """Until cancelled."""

    @abstractmethod
    async def _close(self, leave: bool) -> None:
        """In good order."""


class StreamMember(Member):
    """One of a stream. It acknowledges by turns what it has received."""

    def __init__(self, book: Notebook, client: Client, open: Callable[[], Awaitable[Streaming]]) -> None:
        super().__init__(book, client)
        self._open = open
        self.consumer: Streaming | None = None
        self._wants_seek = asyncio.Event()
        self.sought = asyncio.Event()

    def seek(self) -> None:
        """It puts the subscription to the beginning, as soon as it can."""
        self._wants_seek.set()

    async def _run(self) -> None:
        self.consumer = consumer = await self._open()
        hand = Hand(self._book, consumer.subscription)
        while True:
            if self._wants_seek.is_set():
                await self._seek(consumer, hand)
            try:
                messages = await consumer.receive_many(TAKEN_MAX, 500)
            except TimeoutError:
                continue
            for each in messages:
                hand.take(each)
            last = messages[-1]
            await hand.acknowledge(last, partial(consumer.acknowledge_cumulative, last))

    async def _seek(self, consumer: Streaming, hand: Hand) -> None:
        assert isinstance(consumer, StreamConsumer), "namespaces are not put elsewhere"
        self._wants_seek.clear()
        while True:
            try:
                await consumer.seek(EARLIEST)
                break
            except TxnError as error:
                self._book.counts[f"seeks: {type(error).__name__}"] += 1
        self._book.forget_acks((consumer.topic, consumer.subscription))
        hand.begin_anew()
        self._book.counts["seeks"] += 1
        self.sought.set()

    async def _close(self, leave: bool) -> None:
        if isinstance(self.consumer, StreamConsumer):
            await self.consumer.close(leave=leave)
        elif self.consumer is not None:
            await self.consumer.close()


class Reader(Member):
    """Reads a topic, and keeps where it is as text."""

    def __init__(self, book: Notebook, client: Client, topic: str, group: str) -> None:
        super().__init__(book, client)
        self._topic = topic
        self._line: Line = (topic, group)
        self._text = str(Checkpoint.at(EARLIEST))

    async def _run(self) -> None:
        start = Checkpoint.parse(self._text)
        async with await self._client.checkpoint_consumer(self._topic, start=start) as consumer:
            async for message in consumer:
                segment, after = message.in_segment.segment, start.positions.get(message.segment_id)
                self._book.show(
                    (consumer, segment),
                    segment,
                    message.in_segment.id,
                    message.payload.decode(),
                    topic=self._topic,
                    subscription=None,
                    group=self._line,
                    start=None if after is None else _behind(after.position, after.batch_index),
                )
                self._text = str(consumer.checkpoint())
                self._book.settle(self._line, [message.payload.decode()])

    async def _close(self, leave: bool) -> None:
        return


def _behind(position: Position, index: int) -> Position:
    return Position(position.ledger, position.entry * STRIDE + min(index + 1, STRIDE))
