"""A producer of a topic: messages go out without waiting for each other's confirmations, in order for each key.

Every message has a number, which only grows, and every producer a name. A message that is sent again, be it because an
answer was lost, because its segment was split, or because the application was started again, is stored once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from controller.client.caller import Caller
from controller.client.confirmations import Confirmation, fail
from controller.client.deadlines import Deadlines
from controller.client.errors import ClientBusy, ClientClosed, InvalidRequest
from controller.client.member import Member
from controller.client.segment.lane import as_error
from controller.client.segment.outbox import Outgoing, Packing, checked_content
from controller.client.segment.sending import unconfirmed
from controller.client.topics.ids import TopicSent
from controller.client.topics.layouts import Layouts
from controller.client.topics.producer.claim import Claim
from controller.client.topics.producer.crew import Crew
from controller.client.topics.producer.floors import Floors
from controller.client.topics.producer.hashing import hash_of_number
from controller.client.topics.producer.options import Access, ProducerOptions
from controller.client.transaction import Transaction
from controller.layout import TopicName, key_hash
from controller.pb import broker_pb2 as pb
from controller.together import together
from txn.model.errors import TxnError
from txn.segment.entry import SEQUENCE_ID_MAX, TIME_MS_MAX

KEY_BYTES_MAX = 16 << 10

logger = logging.getLogger("tidemark.client")


class Producer(Member):
    """Sends to a topic. A context manager that closes it."""

    def __init__(
        self,
        caller: Caller,
        limits: pb.Limits,
        layouts: Layouts,
        topic: TopicName,
        name: str,
        options: ProducerOptions,
        *,
        is_new: bool,
        first_sequence_id: int | None,
        create: bool,
    ) -> None:
        self.topic = str(topic)
        self.name = name
        self._caller = caller
        self._limits = limits
        self._layouts = layouts
        self._options = options
        self._what = f"producer {name!r} of {topic}"
        self._next_sequence_id = first_sequence_id
        """None: the application numbers its messages."""
        self._least_sequence_id = 0
        self._count = 0
        self._size_bytes = 0
        self._room = asyncio.Event()
        self._view = layouts.take(topic)
        self._claim: Claim | None = None
        if options.access is not Access.SHARED:
            self._claim = Claim(caller, self.topic, name, options.access)
        self._floors = None if is_new else Floors(caller, name, self._claim_number)
        self._crew: Crew | None = None
        self._deadlines = Deadlines(self._messages, self._give_up)
        self._is_dropping = False
        self._opened = asyncio.Event()
        self._is_closing = False
        self._ended: BaseException | None = None
        self._task = asyncio.create_task(self._run(create), name=self._what)
        self._task.add_done_callback(self._end)

    @property
    def running(self) -> asyncio.Task[None]:
        return self._task

    @property
    def last_sequence_id(self) -> int | None:
        """The greatest number that was stored before this producer was opened; None if there is none. A producer
        without a name is a new one."""
        return None if self._floors is None else self._floors.last

    async def wait_opened(self) -> None:
        opened = asyncio.create_task(self._opened.wait())
        try:
            await asyncio.wait([opened, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        if self._ended is not None and not self._opened.is_set():
            raise self._ended

    # -- sending

    def send(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_ms: int = 0,
        deliver_at_ms: int = 0,
        deliver_after_ms: int | None = None,
        sequence_id: int | None = None,
        txn: Transaction | None = None,
    ) -> Confirmation[TopicSent]:
        """Sends a message behind those of its key that were sent before; the confirmation comes when it is durable.

        The call itself does not wait. ClientBusy, and nothing is sent, when too much is not confirmed: `wait_room`. In
        a transaction the message is seen if and when that commits. Before `deliver_at_ms`, or `deliver_after_ms` from
        now, it is not delivered to queue consumers; consumers that keep order do not wait.
        """
        if key is not None and len(key.encode()) > KEY_BYTES_MAX:
            raise InvalidRequest(f"a key of {len(key.encode())} bytes: at most {KEY_BYTES_MAX} (KEY_BYTES_MAX)")
        if not (0 <= event_ms <= TIME_MS_MAX and 0 <= deliver_at_ms <= TIME_MS_MAX):
            times = f"event_ms={event_ms}, deliver_at_ms={deliver_at_ms}"
            raise InvalidRequest(f"{times}: 0 to {TIME_MS_MAX} ms since the epoch")
        due_ms = self._due_ms(deliver_at_ms, deliver_after_ms)
        content = checked_content(self._limits, payload, properties or {}, key, event_ms)
        crew = self._crew
        if self._is_closing or self._ended is not None or crew is None:
            raise self._ended or ClientClosed(f"{self._what} is closed")
        self._check_room()
        if txn is not None:
            txn.check_usable("send")
        loop = asyncio.get_running_loop()
        number = self._take_number(sequence_id)
        due_s = loop.time() + self._caller.request_timeout_s
        txn_id = "" if txn is None else str(txn.id)
        hash = self._hash(crew, key, number, content.size_bytes)
        message = Outgoing(number, content, txn_id, loop.create_future(), due_s, hash, due_ms)
        self._deadlines.watch(due_s)
        if txn is not None:
            txn.register(message.outcome)
        self._count += 1
        self._size_bytes += message.size_bytes
        crew.add(message)
        return Confirmation(message.outcome)

    async def wait_room(self) -> None:
        """Returns when another message can be sent."""
        while not self._has_room and self._ended is None:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Returns when everything that was sent until now is confirmed, or has failed."""
        outcomes = [message.outcome for message in self._messages()]
        if outcomes:
            await asyncio.wait(outcomes)

    async def close(self) -> None:
        """Sends what waits, and ends. What is not confirmed within the request timeout fails."""
        self._is_closing = True
        if self._opened.is_set() and not self._task.done():
            flushing = asyncio.create_task(self.flush())
            try:
                await asyncio.wait([flushing, self._task], return_when=asyncio.FIRST_COMPLETED)
            finally:
                flushing.cancel()
        self._task.cancel()
        await asyncio.wait([self._task])

    # -- what a message may be

    @property
    def _has_room(self) -> bool:
        return self._count < self._options.pending_messages_max and self._size_bytes < self._options.pending_bytes_max

    def _check_room(self) -> None:
        if not self._has_room:
            raise ClientBusy(
                f"{self._what}: {self._count} messages of {self._size_bytes} bytes are not confirmed: at most "
                f"{self._options.pending_messages_max} (pending_messages_max) or {self._options.pending_bytes_max} "
                "bytes (pending_bytes_max): await confirmations, or wait_room()"
            )

    def _due_ms(self, deliver_at_ms: int, deliver_after_ms: int | None) -> int:
        if deliver_after_ms is None:
            return deliver_at_ms
        if deliver_at_ms or deliver_after_ms < 0:
            raise InvalidRequest("either deliver_at_ms, or a deliver_after_ms of 0 or more")
        return self._caller.pace.clock.wall_ms() + deliver_after_ms if deliver_after_ms else 0

    def _take_number(self, given: int | None) -> int:
        """The message's number; InvalidRequest if it is not behind those before."""
        if (given is None) == (self._next_sequence_id is None):
            raise InvalidRequest(
                f"{self._what}: either it has a first_sequence_id and numbers its messages itself, or every send gives "
                "a sequence_id"
            )
        number = self._next_sequence_id if given is None else given
        assert number is not None, "one of them numbers the messages"
        if not self._least_sequence_id <= number <= SEQUENCE_ID_MAX:
            raise InvalidRequest(f"sequence_id={number}: from {self._least_sequence_id} on, to {SEQUENCE_ID_MAX}")
        self._least_sequence_id = number + 1
        if given is None:
            self._next_sequence_id = number + 1
        return number

    def _hash(self, crew: Crew, key: str | None, number: int, size_bytes: int) -> int:
        if key is not None:
            return key_hash(key)
        if self._floors is not None:
            return hash_of_number(number)
        return crew.hash_by_turn(size_bytes)

    # -- what becomes of messages

    def _messages(self) -> Iterable[Outgoing]:
        return () if self._crew is None else self._crew.messages

    def _release(self, messages: Sequence[Outgoing]) -> None:
        """They have left: there is room for others."""
        for message in messages:
            self._count -= 1
            self._size_bytes -= message.size_bytes
        self._room.set()

    def _give_up(self, message: Outgoing) -> None:
        """There was no answer in time."""
        assert self._crew is not None, "it was sent"
        what = f"message {message.sequence_id} of {self._what}"
        trouble = self._crew.held_up_by(message)
        fail(message.outcome, unconfirmed(message, what, self._caller.request_timeout_s, trouble))
        if not self._is_dropping:
            self._is_dropping = True
            asyncio.get_running_loop().call_soon(self._drop_given_up)  # once for all that are overdue

    def _drop_given_up(self) -> None:
        self._is_dropping = False
        if self._crew is not None:
            self._crew.drop_given_up()

    # -- from beginning to end

    async def _run(self, create: bool) -> None:
        try:
            await self._view.found(create, self._caller.request_timeout_s)
            if self._claim is None:
                await self._produce()
            else:
                await together(self._produce(), self._claim.run())
        except Exception as error:
            self._ended = error  # who sends meanwhile is told
            raise
        finally:
            await self._leave()

    async def _produce(self) -> None:
        timeout_s = self._caller.request_timeout_s
        if self._claim is not None:
            await self._wait_granted(self._claim, timeout_s)
        state = await self._view.found(False, timeout_s)
        options = self._options
        packing = Packing.within(
            self._limits, options.batch_messages_max, options.batch_bytes_max, options.compression, has_gaps=True
        )
        self._crew = Crew(
            self._caller,
            self._view,
            state,
            self.name,
            packing,
            options.linger_ms,
            self._claim,
            self._floors,
            self._release,
        )
        try:
            async with asyncio.timeout(timeout_s):
                await self._crew.open()
        except TimeoutError:
            what = f"look what {self._what} has stored, once what it has begun is decided"
            raise self._caller.out_of_time(what, timeout_s, self._crew.trouble) from None
        self._opened.set()
        await self._crew.run()

    async def _wait_granted(self, claim: Claim, timeout_s: float) -> None:
        waits_for_others = self._options.access is Access.WAIT
        try:
            async with asyncio.timeout(None if waits_for_others else timeout_s):
                await claim.granted.wait()
        except TimeoutError:
            raise self._caller.out_of_time(f"claim {self.topic}", timeout_s, claim.trouble) from None

    async def _leave(self) -> None:
        """Gives back what is others' by now."""
        self._is_closing = True
        if self._crew is not None:
            await self._crew.close()
        if self._claim is not None:
            try:
                await self._claim.release()
            except TxnError as error:
                logger.info("the claim of %s ends by its grace: %s", self._what, error)
        await self._layouts.give_back(self._view)

    def _claim_number(self) -> int:
        return 0 if self._claim is None else self._claim.number

    def _end(self, task: asyncio.Task[None]) -> None:
        """Nothing more will be confirmed."""
        self._ended = as_error(task, self._what)
        self._deadlines.stop()
        for message in list(self._messages()):
            fail(message.outcome, self._ended)
        self._room.set()
