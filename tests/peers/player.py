"""Plays a script on one shard of a server and writes down what it says, in the script's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from google.protobuf.message import Message

from metastore.pb import oxia_pb2 as pb
from peers.labels import Labels, copied
from support.scripts import WATCHED_SEQUENCE, Script, Step
from support.wire import Answer, Ended, Stream, WireClient

JOINED_FIELDS = {"Read": "gets", "List": "keys", "RangeScan": "records"}
ARRIVES_WITHIN_S = 30.0

Saying = Message | str | bytes | int | None


@dataclass(frozen=True)
class Line:
    """One thing that a server was asked or had to tell, what it said, and what the model says."""

    about: str
    said: Saying
    expected: Saying


class Player:
    """Talks to one server; its shard must be fresh."""

    def __init__(self, client: WireClient, shard: int) -> None:
        self.client = client
        self.shard = shard
        self.labels = Labels(shard)
        self.lines: list[Line] = []

    def play(self, script: Script) -> Sequence[Line]:
        live = self._subscribe()
        greeting = pb.NotificationBatch(offset=-1)
        self._note("the greeting of a subscription", live.next(), greeting)
        watch = self._watch(WATCHED_SEQUENCE)
        metadata = (("shard-id", str(self.shard)), ("namespace", "default"))
        writes = self.client.open("WriteStream", metadata=metadata)
        for number, step in enumerate(script.steps):
            self._play_step(number, step, writes)
        writes.half_close()
        self._note("the end of the stream of writes", writes.rest().status.code.name, "OK")
        self._note_streams(script, live, watch)
        live.cancel()
        watch.cancel()
        return self.lines

    def _play_step(self, number: int, step: Step, writes: Stream) -> None:
        requests = [self.labels.to_server(request) for request in step.requests]
        said: list[Saying]
        if step.method == "WriteStream":
            for request in requests:
                writes.send(request)
            said = [writes.next() for _ in requests]
        else:
            said = [joined(step.method, self.client.call(step.method, request)) for request in requests]
        for request, answer, expected in zip(step.requests, said, step.expected, strict=True):
            self._note(f"step {number}, {step.method} {brief(request)}", answer, expected)

    def _note(self, about: str, said: Saying, expected: Saying) -> None:
        if isinstance(said, Message) and isinstance(expected, Message):
            said, expected = without_empty_values(said), without_empty_values(expected)
            said = self.labels.to_script(said, expected)
        self.lines.append(Line(about, said, expected))

    # ---------------------------------------------------------------- streams

    def _subscribe(self, start: int | None = None) -> Stream:
        request = pb.NotificationsRequest(shard=self.shard, start_offset_exclusive=start)
        return self.client.open("GetNotifications", request)

    def _watch(self, prefix: bytes) -> Stream:
        return self.client.open("GetSequenceUpdates", pb.GetSequenceUpdatesRequest(shard=self.shard, key=prefix))

    def _note_streams(self, script: Script, live: Stream, watch: Stream) -> None:
        offsets = self._note_batches("live", live, script.batches)
        half = len(offsets) // 2
        for start, batches in ((-1, script.batches), (offsets[half], script.batches[half + 1 :])):
            resumed = self._subscribe(start)
            self._note_batches(f"resumed after {half if start >= 0 else start}", resumed, batches, start)
            resumed.cancel()
        self._note_watched(watch, script.watched_keys)
        for prefix, highest in script.highest_keys.items():
            late = self._watch(prefix)
            self._note(f"the highest key of {prefix!r}", late.next().highest_sequence_key, highest)
            late.cancel()

    def _note_batches(
        self, about: str, stream: Stream, batches: Sequence[pb.NotificationBatch], start: int | None = None
    ) -> list[int]:
        """Returns the server's offsets; not the script's where Oxia spends one on a refused write."""
        offsets: list[int] = []
        for expected in batches:
            batch = arriving(stream)
            if not offsets and isinstance(batch, pb.NotificationBatch) and batch.offset == start:
                batch = arriving(stream)  # a server may greet a resumed subscription; Oxia does not
            self._note(f"batch {expected.offset}, {about}", batch, expected)
            if not isinstance(batch, pb.NotificationBatch):
                break
            offsets.append(batch.offset)
        self._note(f"ascending offsets, {about}", int(offsets == sorted(set(offsets))), 1)
        return offsets

    def _note_watched(self, watch: Stream, keys: Sequence[bytes]) -> None:
        """A server may leave out all but the latest; what it tells must be in order and end with the last."""
        told = [watch.next().highest_sequence_key]
        while told[-1] != keys[-1]:
            told.append(watch.next().highest_sequence_key)
        remaining = iter(keys)
        self._note("told in order", int(all(key in remaining for key in told)), 1)


def arriving(stream: Stream) -> Saying:
    """The next message, or why there is none."""
    try:
        return cast(Message, stream.next(ARRIVES_WITHIN_S))
    except (TimeoutError, Ended) as reason:
        return str(reason)


def joined(method: str, answer: Answer) -> Saying:
    """A whole answer as one message, wherever the server has cut it."""
    code = answer.status.code.name
    if code != "OK":
        return "INVALID_ARGUMENT" if code == "UNKNOWN" else code  # Oxia has no code for a bad request
    if method not in JOINED_FIELDS:
        return copied(cast(Message, answer.only))
    field = JOINED_FIELDS[method]
    responses: dict[str, type[Message]] = {
        "Read": pb.ReadResponse,
        "List": pb.ListResponse,
        "RangeScan": pb.RangeScanResponse,
    }
    whole = responses[method]()
    for message in answer.messages:
        getattr(whole, field).extend(getattr(message, field))
    return whole


def without_empty_values(message: Message) -> Message:
    """Oxia leaves an empty value out of its answers; to send it is as good."""
    plain = copied(message)
    for found in [*getattr(plain, "gets", ()), *getattr(plain, "records", ())]:
        if not found.value:
            found.ClearField("value")
    return plain


def brief(request: Message, limit: int = 300) -> str:
    text = " ".join(str(request).split())
    return text if len(text) <= limit else f"{text[:limit]}..."
