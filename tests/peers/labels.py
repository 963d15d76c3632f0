"""Makes answers comparable: a server's own times, session ids and offsets become the script's."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import Message

from metastore.pb import oxia_pb2 as pb

AnyMessage = TypeVar("AnyMessage", bound=Message)

LABELLED_FIELDS = {
    "created_timestamp": "time",
    "modified_timestamp": "time",
    "timestamp": "time",
    "session_id": "session",
    "offset": "offset",
    "shard": "shard",
}


class Labels:
    """What one server calls the times, sessions and offsets of a script.

    Each is learned when an answer first shows it; from then on it must be the same. A record that claims to
    be of another write's time keeps the server's number, and stands out.
    """

    def __init__(self, shard: int) -> None:
        self._known = {("shard", 0): shard}

    def to_server(self, request: Any) -> Any:
        """A request of the script as this server must get it."""
        sent = copied(request)
        sent.shard = self._known["shard", 0]
        if isinstance(sent, pb.WriteRequest):
            for put in sent.puts:
                if put.HasField("session_id"):
                    put.session_id = self._known.get(("session", put.session_id), put.session_id)
        elif isinstance(sent, pb.SessionHeartbeat | pb.CloseSessionRequest):
            sent.session_id = self._known.get(("session", sent.session_id), sent.session_id)
        return sent

    def to_script(self, said: Message, expected: Message) -> Message:
        """An answer in the script's terms, as far as it is like the one expected."""
        said = copied(said)
        self._translate(said, expected)
        return said

    def _translate(self, said: Any, expected: Any) -> None:
        for field in said.DESCRIPTOR.fields:
            if field.has_presence and not said.HasField(field.name):
                continue
            there, here = getattr(said, field.name), getattr(expected, field.name)
            if field.message_type and field.is_repeated:
                for one_there, one_here in zip(there, here, strict=False):
                    self._translate(one_there, one_here)
            elif field.message_type:
                self._translate(there, here)
            elif field.name in LABELLED_FIELDS:
                label = (LABELLED_FIELDS[field.name], here)
                if self._known.setdefault(label, there) == there:
                    setattr(said, field.name, here)


def copied(message: AnyMessage) -> AnyMessage:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
