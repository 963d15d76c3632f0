"""What brokers say of themselves: when they register, and when they hold a post. And who stands first for one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from metastore.coordination.stamps import read_holder
from metastore.interface import Record
from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields

GROUP = "/brokers"
"""Where live brokers are registered."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker."""

    name: str
    address: str
    """Where clients reach it."""
    places: frozenset[str]
    """The places of logs that it serves."""

    def encode(self) -> bytes:
        """The value of its registration."""
        return _encoded({"address": self.address, "places": sorted(self.places)})

    @classmethod
    def of_record(cls, record: Record) -> Broker:
        """Reads the record of a registration."""
        _, value = read_holder(record)
        fields = decoded_fields("registration of a broker", value, FORMAT)
        try:
            name = record.key.removeprefix(f"{GROUP}/")
            return cls(name, str(fields["address"]), frozenset(map(str, fields["places"])))
        except (KeyError, TypeError) as error:
            raise RecordDamaged(f"the registration {record.key!r} says {value[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a post: owns a segment, leads a topic."""

    broker: str
    address: str
    term: int

    @staticmethod
    def value(broker: str, address: str) -> bytes:
        """What a holder's grant says."""
        return _encoded({"broker": broker, "address": address})

    @classmethod
    def of_grant(cls, record: Record) -> Owner:
        """Reads the record of a grant."""
        stamp, value = read_holder(record)
        fields = decoded_fields("grant of a broker", value, FORMAT)
        term = record.version.version_id if stamp.term is None else stamp.term
        try:
            return cls(str(fields["broker"]), str(fields["address"]), term)
        except KeyError as error:
            raise RecordDamaged(f"the grant {record.key!r} says {value[:200]!r}") from error


def line_up(post: str, brokers: Iterable[Broker], place: str | None = None) -> list[str]:
    """The brokers that can have a post, in the order in which they stand for it: all, or those that serve a place.

    Each broker draws a number for each post, and the least is first. So everybody finds the same order without talking,
    posts are spread evenly, and a broker that goes leaves its posts to all the others in equal parts.
    """
    able = (each.name for each in brokers if place is None or place in each.places)
    return sorted(able, key=lambda name: _number(post, name))


def _number(post: str, broker: str) -> bytes:
    return hashlib.sha256(f"{len(post)}:{post}{broker}".encode()).digest()


def _encoded(fields: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **fields}, separators=(",", ":")).encode()
