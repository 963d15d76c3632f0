"""One transaction that acknowledges: what it has recorded, what is on its way there, what is in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from txn.model.errors import TxnError
from txn.model.ids import TxnId
from txn.model.operation import Operation
from txn.outcomes import Followed
from txn.segment.cursor import Ack
from txn.segment.subscription.claims import Claims


class AckCall:
    """One call of `acknowledge`: all of it is recorded, or the caller is told that it is not."""

    def __init__(
        self,
        acks: Sequence[Ack],
        era: int | None = None,
        check: Callable[[Sequence[Ack]], None] = lambda acks: None,
    ) -> None:
        self.acks = acks
        self.era = era
        """In which what it names was given; None: that is not known."""
        self.check = check
        """Raises why what is new to the transaction is not the caller's to acknowledge."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def succeed(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: TxnError) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # it is no mistake if nobody waits


class Acking:
    """The part that one transaction has in one subscription."""

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.recorded = Claims()
        """What is durable in its operation records."""
        self.doubtful: list[Ack] = []
        """Of which it is not known whether it is."""
        self.had_doubt = False
        """Whether a record may still come when all is settled."""
        self.calls: list[AckCall] = []
        """Calls whose acknowledgements wait to be recorded."""
        self.keys: set[str] = set()
        """Its operation records, as far as they are known."""
        self.first_ms: int | None = None
        self.last_ms = 0
        self.visitors = 0
        """Calls that are somewhere on their way."""
        self.is_ended = False
        """Whether the outcome is known: nothing new is accepted."""
        self.took_effect = asyncio.Event()
        """Set when the outcome counts here; it may not be durable yet."""
        self.writer: asyncio.Task[None] | None = None
        self.ender: asyncio.Task[None] | None = None

    @property
    def txn_id(self) -> TxnId:
        return self.followed.txn_id

    def note_record(self, key: str, written_ms: int) -> None:
        """There is such an operation record."""
        self.keys.add(key)
        self.first_ms = written_ms if self.first_ms is None else min(self.first_ms, written_ms)
        self.last_ms = max(self.last_ms, written_ms)

    def take_calls(self, acks_max: int) -> list[AckCall]:
        """The first calls, as many as may be recorded together, at least one."""
        taken = [self.calls.pop(0)]
        left = acks_max - len(taken[0].acks)
        while self.calls and len(self.calls[0].acks) <= left:
            taken.append(self.calls.pop(0))
            left -= len(taken[-1].acks)
        return taken

    def held(self) -> Iterator[Ack]:
        """All that it must hold on to: recorded, in doubt, or waiting to be recorded."""
        yield from self.recorded.acks()
        yield from self.doubtful
        for call in self.calls:
            yield from call.acks


def unrecorded(acking: Acking, calls: Iterable[AckCall]) -> list[Ack]:
    """What has to be recorded for these calls, each once."""
    wanted = dict.fromkeys(ack for call in calls for ack in call.acks)
    return [ack for ack in wanted if not acking.recorded.covers(ack)]


def ack_of(operation: Operation) -> Ack:
    """The acknowledgement that an operation record is of."""
    return Ack(operation.position, operation.is_cumulative, operation.batch, operation.batch_size)
