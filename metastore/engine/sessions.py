"""Sessions: their durable record, and the one schedule by which they expire.

A session's record (timeout and identity) is written like any other; its deadline lives in memory only, and starts
anew with the full timeout when the shard opens. The schedule is a heap with one entry per session. A heartbeat only
notes the new deadline; the heap learns of it when the old entry comes up. So a heartbeat costs a dict access, and a
live session about 300 bytes.

Deadlines mean time in which heartbeats can be heard. While the process stands still they cannot, and afterwards those
that came meanwhile are still to be read: that time is given back.
"""

from __future__ import annotations

import heapq
import struct
from typing import NamedTuple

from metastore.engine.errors import SessionNotFound, StoreDamaged

SESSION_KEY_BYTES = 8
HEAP_SLACK = 1024
"""Entries of ended sessions that the heap may hold beyond one per live session."""
READING_S = 1.0
"""How long it may take at most until what came during a standstill is read."""
_TIMEOUT = struct.Struct("<I")


def session_key(session_id: int) -> bytes:
    """The key of a session's record, and the prefix of its shadows."""
    return session_id.to_bytes(SESSION_KEY_BYTES, "big")


class SessionRecord(NamedTuple):
    """What is durable of a session."""

    timeout_ms: int
    identity: bytes

    def encode(self) -> bytes:
        """The bytes in the sessions table."""
        return _TIMEOUT.pack(self.timeout_ms) + self.identity

    @classmethod
    def decode(cls, data: bytes) -> SessionRecord:
        """Reads the bytes of the sessions table."""
        if len(data) < _TIMEOUT.size:
            raise StoreDamaged(f"a session's record has {len(data)} bytes")
        (timeout_ms,) = _TIMEOUT.unpack_from(data)
        return cls(timeout_ms, data[_TIMEOUT.size :])


class SessionSchedule:
    """The deadlines of the live sessions."""

    def __init__(self) -> None:
        self._timeouts_ms: dict[int, int] = {}
        self._deadlines_s: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self._spared: set[int] = set()
        """Who was given the time to be read, and was not heard since: once is enough for who is dead."""

    def __len__(self) -> int:
        return len(self._deadlines_s)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._deadlines_s

    def add(self, session_id: int, timeout_ms: int, now_s: float) -> None:
        """A session begins, or goes on after a restart."""
        assert session_id not in self._deadlines_s, f"session id {session_id} was used twice"
        deadline_s = now_s + timeout_ms / 1000
        self._timeouts_ms[session_id] = timeout_ms
        self._deadlines_s[session_id] = deadline_s
        heapq.heappush(self._heap, (deadline_s, session_id))

    def keep_alive(self, session_id: int, now_s: float) -> None:
        """A heartbeat: the deadline moves to a full timeout from now."""
        timeout_ms = self._timeouts_ms.get(session_id)
        if timeout_ms is None:
            raise SessionNotFound(session_id)
        self._deadlines_s[session_id] = now_s + timeout_ms / 1000
        self._spared.discard(session_id)

    def stood_still(self, standstill_s: float, now_s: float) -> None:
        """Nobody was heard for so long, until now: that does not count, and what has come is read before anybody ends.

        However often that happens, who is dead ends when his timeout of other time, and READING_S, are over.
        """
        for session_id, before_s in self._deadlines_s.items():
            deadline_s = before_s + standstill_s
            if deadline_s < now_s + READING_S and session_id not in self._spared:
                deadline_s = now_s + READING_S
                self._spared.add(session_id)
            self._deadlines_s[session_id] = min(deadline_s, now_s + self._timeouts_ms[session_id] / 1000)

    def remove(self, session_id: int) -> None:
        """A session ended. Its entry in the heap is dropped when it comes up."""
        self._timeouts_ms.pop(session_id, None)
        self._deadlines_s.pop(session_id, None)
        self._spared.discard(session_id)
        if len(self._heap) > 2 * len(self._deadlines_s) + HEAP_SLACK:
            self._heap = [(deadline_s, live) for live, deadline_s in self._deadlines_s.items()]
            heapq.heapify(self._heap)

    def due(self, now_s: float, limit: int) -> list[int]:
        """Up to `limit` sessions whose deadline has passed; they stay in the schedule until removed."""
        found: list[int] = []
        while self._heap and self._heap[0][0] <= now_s and len(found) < limit:
            _, session_id = heapq.heappop(self._heap)
            deadline_s = self._deadlines_s.get(session_id)
            if deadline_s is None:
                continue
            if deadline_s <= now_s:
                found.append(session_id)
            else:
                heapq.heappush(self._heap, (deadline_s, session_id))
        for session_id in found:
            heapq.heappush(self._heap, (self._deadlines_s[session_id], session_id))
        return found

    def is_due(self, session_id: int, now_s: float) -> bool:
        """Whether a session's deadline has passed."""
        deadline_s = self._deadlines_s.get(session_id)
        return deadline_s is not None and deadline_s <= now_s

    def next_deadline_s(self) -> float | None:
        """When to look again: no session expires before."""
        return self._heap[0][0] if self._heap else None
