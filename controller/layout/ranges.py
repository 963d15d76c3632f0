"""A range of hashes, both ends included; the key space is the ring of 65,536 of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from controller.layout.errors import InvalidRange

HASHES = 1 << 16
HASH_MAX = HASHES - 1

_HEX = re.compile(r"([0-9a-f]{4})-([0-9a-f]{4})")


@dataclass(frozen=True, slots=True, order=True)
class HashRange:
    """From `start` to `end`, both in it."""

    start: int
    end: int

    def __post_init__(self) -> None:
        for name, bound in (("start", self.start), ("end", self.end)):
            if not 0 <= bound <= HASH_MAX:
                raise InvalidRange(f"{name} must be in [0x0000, 0xFFFF], got: {bound}")
        if self.end < self.start:
            raise InvalidRange(f"end must be >= start, got: [{self.start}, {self.end}]")

    def __str__(self) -> str:
        return f"[{self.start:04x}, {self.end:04x}]"

    @property
    def size(self) -> int:
        """How many hashes there are in it."""
        return self.end - self.start + 1

    @property
    def hex(self) -> str:
        """The form that stands in a segment's name."""
        return f"{self.start:04x}-{self.end:04x}"

    @classmethod
    def parse_hex(cls, text: str) -> HashRange:
        """Reads the form of `hex`, and no other."""
        match = _HEX.fullmatch(text)
        if match is None:
            raise InvalidRange(f"{text[:80]!r} is no range of hashes: four and four hex digits are expected, 0000-7fff")
        return cls(int(match[1], 16), int(match[2], 16))

    def __contains__(self, hash: int) -> bool:
        return self.start <= hash <= self.end

    def covers(self, other: HashRange) -> bool:
        """Whether all of the other one is in it."""
        return self.start <= other.start and other.end <= self.end

    def is_adjacent(self, other: HashRange) -> bool:
        """Whether one begins where the other ends. The ring is not closed: the last hash has no neighbour behind it."""
        return self.end + 1 == other.start or other.end + 1 == self.start

    def halves(self) -> tuple[HashRange, HashRange]:
        """The range in two; of an odd number of hashes the left half has one more."""
        if self.size == 1:
            raise InvalidRange(f"the range {self} has a single hash and cannot be split")
        middle = self.start + (self.end - self.start) // 2
        return HashRange(self.start, middle), HashRange(middle + 1, self.end)


FULL = HashRange(0, HASH_MAX)


def joined(ranges: list[HashRange]) -> HashRange:
    """The range that these are together; refuses overlaps and gaps."""
    ordered = sorted(ranges)
    for left, right in pairwise(ordered):
        if left.end + 1 != right.start:
            raise InvalidRange(f"Segments are not adjacent: {left} and {right}")
    return HashRange(ordered[0].start, ordered[-1].end)


def equal_ranges(count: int) -> list[HashRange]:
    """The ring in so many ranges of one width; the last one takes what is left over."""
    if not 1 <= count <= HASHES:
        raise InvalidRange(f"Must have at least 1 segment and at most {HASHES}, got: {count}")
    width = HASHES // count
    starts = [number * width for number in range(count)]
    return [HashRange(start, start + width - 1) for start in starts[:-1]] + [HashRange(starts[-1], HASH_MAX)]
