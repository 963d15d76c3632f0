"""Hashes of messages that have no key. Pure.

Those of a producer without a name take turns over the active segments, wherever chance puts them inside; those that can
share an entry take one turn together, or entries would be the smaller the more segments there are. A producer
with a name may be started again, and what it sends again has to come to the segments that had it: there the hash
follows from the number. Numbers that follow each other lie as far apart as can be: backwards, bit by bit, they halve
the ring, and halve the halves.
"""

from __future__ import annotations

import random

from controller.layout import Router

_HALF_BITS = 16
_MASK = (1 << _HALF_BITS) - 1
_GOLDEN = 0x9E3779B1
"""Whose multiples are spread evenly."""


def hash_of_number(number: int) -> int:
    """Where a message of this number goes."""
    segment = int(f"{number & _MASK:0{_HALF_BITS}b}"[::-1], 2)
    bucket = (number * _GOLDEN >> _HALF_BITS) & _MASK
    return segment << _HALF_BITS | bucket


def hash_by_turn(router: Router, chance: random.Random) -> int:
    """Where the next message goes."""
    segment = router.route(None)
    start, end = segment.range.start, segment.range.end
    return chance.randint(start, end) << _HALF_BITS | chance.getrandbits(_HALF_BITS)
