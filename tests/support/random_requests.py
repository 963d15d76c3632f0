"""Requests that no client would send: random bytes, damaged messages, and messages of odd values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from support.wire import Method

RANDOM_BYTES_MAX = 200
ITEMS_MAX = 3
FIELD_IS_SET = 0.7
"""The probability that a field of an odd message has a value."""

ODD_NUMBERS = (0, 1, 2, -1, -2, 9, 127, 128, 2_000, 60_000, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1)
ODD_TEXTS = (
    *(b"", b"a", b"b", b"a/b", b"/", b"//", b"///", b"a//", b"a-", b"-", b"s", b"default", b"home"),
    *(b"a-00000000000000000001", b"a-18446744073709551615", b"a-18446744073709551616", b"a--1", b"a- 1"),
    *(b"__oxia/", b"__oxia/session/0000000000000001", b"__oxia/idx/i/s\x01a", b"__oxia/notifications/"),
    *(b"\x00", b"\x01", b"a\x01b", b"\xff", b"a\xff", b"\xff" * 9, b"\xed\xa0\x80", "\U0010ffff".encode()),
    *(b"%", b"%2F", b"x" * 512, b"x" * 600 + b"/", b"/" * 40_000, b"{}", b"${a}", b"\n\r\t"),
)

BOUNDS = {
    FieldDescriptor.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_FIXED64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_ENUM: (-(1 << 31), (1 << 31) - 1),
}


class RandomRequests:
    """Makes requests from a seed; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self, method: Method) -> bytes:
        kinds: list[Callable[[type[Message]], bytes]] = [self._noise, self._odd, self._damaged, self._damaged]
        return self._random.choice(kinds)(method.request)

    def requests(self, method: Method) -> list[bytes]:
        """What is sent on one stream, or in one call."""
        count = self._random.randint(0, ITEMS_MAX) if method.client_streaming else 1
        return [self.request(method) for _ in range(count)]

    def well_formed(self, method: Method) -> bytes:
        """A message that is well-formed and makes little sense."""
        return self._odd(method.request)

    def header(self) -> str:
        """A value that a header may have."""
        return self._random.choice(("", "0", "1", "-1", "00", " 0", "0x0", "1e3", "9" * 40, "nope", "~" * 5_000))

    def noise(self) -> bytes:
        return self._random.randbytes(self._random.randint(0, RANDOM_BYTES_MAX))

    def _noise(self, _kind: type[Message]) -> bytes:
        return self.noise()

    def _odd(self, kind: type[Message]) -> bytes:
        """A message that is well-formed and makes little sense."""
        message = kind()
        self._fill(message)
        return message.SerializeToString()

    def _fill(self, message: Message) -> None:
        alternatives = [each.fields for each in message.DESCRIPTOR.oneofs if len(each.fields) > 1]
        chosen = [self._random.choice(fields) for fields in alternatives]
        for field in message.DESCRIPTOR.fields:
            if field.containing_oneof is not None and len(field.containing_oneof.fields) > 1 and field not in chosen:
                continue
            # Most requests concern a shard that exists: what is refused for its shard is refused early.
            if field.name == "shard" and self._random.random() < FIELD_IS_SET:
                setattr(message, field.name, 0)
            elif self._random.random() < FIELD_IS_SET:
                self._set(message, field)

    def _set(self, message: Message, field: Any) -> None:
        count = self._random.randint(0, ITEMS_MAX) if field.is_repeated else 1
        for _ in range(count):
            if field.message_type is not None:
                value = getattr(message, field.name)
                part = value.add() if field.is_repeated else value
                part.SetInParent()
                self._fill(part)
            elif field.is_repeated:
                getattr(message, field.name).append(self._scalar(field))
            else:
                setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: Any) -> object:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._random.choice(ODD_TEXTS)
        if field.type == FieldDescriptor.TYPE_BOOL:
            return self._random.random() < 0.5
        lowest, highest = BOUNDS[field.type]
        return max(lowest, min(highest, self._random.choice((*ODD_NUMBERS, lowest, highest))))

    def _damaged(self, kind: type[Message]) -> bytes:
        """A message that some accident happened to."""
        data = bytearray(self._odd(kind))
        for _ in range(self._random.randint(1, 4)):
            start = self._random.randint(0, len(data))
            end = min(len(data), start + self._random.randint(0, 20))
            match self._random.randrange(5):
                case 0 if data:
                    data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
                case 1:
                    del data[start:end]
                case 2:
                    data[start:start] = data[start:end]
                case 3:
                    data[start:start] = self._random.randbytes(end - start)
                case 4:
                    del data[end:]
        return bytes(data)
