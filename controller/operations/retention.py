"""Which sealed segments may go: those that nobody needs any more, after the time for which they are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from controller.layout import Layout

KEEP: int | None = None
"""A retention in milliseconds that never ends."""
MINUTE_MS = 60_000
BROKER_DEFAULT_MINUTES = 0
"""As soon as nobody needs them."""


def retention_ms(minutes: int) -> int | None:
    """A retention as policies say it, in minutes: negative for ever, 0 not at all."""
    return KEEP if minutes < 0 else minutes * MINUTE_MS


def aged(layout: Layout, retention: int | None, now_ms: int) -> tuple[int, ...]:
    """The segments that were sealed so long ago."""
    if retention is None:
        return ()
    return tuple(
        each.segment_id for each in layout.sealed if each.sealed_ms > 0 and now_ms - each.sealed_ms >= retention
    )


def prunable(
    layout: Layout, retention: int | None, now_ms: int, drained: Mapping[str, Collection[int]]
) -> tuple[int, ...]:
    """Those of them that every subscription with cursors has wholly acknowledged. Without one nobody waits for any."""
    return tuple(
        each for each in aged(layout, retention, now_ms) if all(each in found for found in drained.values())
    )


def next_aged_ms(layout: Layout, retention: int | None, now_ms: int) -> int | None:
    """When the next segment will be old enough; None if none is on its way."""
    if retention is None:
        return None
    due = (each.sealed_ms + retention for each in layout.sealed if each.sealed_ms > 0)
    return min((each for each in due if each > now_ms), default=None)
