"""What a request must satisfy before anything of it is done."""

from __future__ import annotations

from google.protobuf.message import Message

from metastore.pb import oxia_pb2 as pb

MIN_SESSION_TIMEOUT_MS = 2_000
MAX_SESSION_TIMEOUT_MS = 300_000
OPAQUE_FIELDS = {"PutRequest.value", "DeleteRequest.partition_key"}
"""What is not text, and what is never looked at."""


class ModelInvalid(Exception):
    """The whole request is refused, with this gRPC status code; nothing has changed."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


def invalid_argument(text: str) -> ModelInvalid:
    return ModelInvalid("INVALID_ARGUMENT", text)


def require_text(message: Message) -> None:
    """Every string of the protocol that means something must be UTF-8, on every level of the message."""
    for field, value in message.ListFields():
        items = value if field.is_repeated else [value]
        for item in items:
            if isinstance(item, Message):
                require_text(item)
            elif isinstance(item, bytes) and f"{message.DESCRIPTOR.name}.{field.name}" not in OPAQUE_FIELDS:
                require_utf8(item, field.name)


def require_utf8(text: bytes, name: str) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise invalid_argument(f"{name} is not UTF-8: {text!r}") from error


def require_comparison(get: pb.GetRequest) -> None:
    if get.comparison_type not in pb.KeyComparisonType.values():
        raise invalid_argument(f"unknown comparison type {get.comparison_type}")


def require_session_timeout(timeout_ms: int) -> None:
    if not MIN_SESSION_TIMEOUT_MS <= timeout_ms <= MAX_SESSION_TIMEOUT_MS:
        raise invalid_argument(f"timeoutMs={timeout_ms}: oxia: invalid session timeout")
