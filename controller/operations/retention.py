"""Which sealed segments may go: those that nobody needs any more, after the time for which they are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

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
    return with_ancestors(
        layout,
        (each for each in aged(layout, retention, now_ms) if all(each in found for found in drained.values())),
    )


def with_ancestors(layout: Layout, segment_ids: Iterable[int]) -> tuple[int, ...]:
    """Those of these segments that can go together with all that they come from.

    What is left of the past holds back what comes behind it. Were a segment to go before its parents (an empty one is
    read to its end at once), its children would be taken for the first ones, and be read too early.
    """
    found: dict[int, None] = {}
    for segment_id in sorted(segment_ids):  # parents have smaller ids than their children
        if all(parent in found for parent in layout.segments[segment_id].parents):
            found[segment_id] = None
    return tuple(found)


def next_aged_ms(layout: Layout, retention: int | None, now_ms: int) -> int | None:
    """When the next segment will be old enough; None if none is on its way."""
    if retention is None:
        return None
    due = (each.sealed_ms + retention for each in layout.sealed if each.sealed_ms > 0)
    return min((each for each in due if each > now_ms), default=None)
