"""What this broker measures of the segments that it owns, and when that is worth being written down.

A front counts what goes in and out; every so often the counts become rates, and a rate that is different enough from
what was written last is written. A record is written only over the one that was there, or where there was none: so
what a topic's leader has removed with the segment does not come back.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller.autoscale import Load, Metric, is_material
from controller.autoscale.config import Rates
from controller.autoscale.load import CHANGE_THRESHOLD
from controller.layout import LayoutError
from controller.leading.reporting import Reported, put_report, reported
from controller.topics import paths
from metastore.coordination import Pace
from metastore.interface import ABSENT, ConditionFailed, MetadataStore, StoreError, UnexpectedVersion
from txn.hosting import Host

logger = logging.getLogger("tidemark.leading")

INTERVAL_S = 10.0
"""`scalableTopicLoadReportIntervalSeconds`. 0: nothing is reported."""


class Meter:
    """Counts what goes in and out of segments."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Metric, float]] = {}
        self.rates: Mapping[str, Rates] = {}
        """Of the last time that rates were taken."""

    def count_in(self, segment: str, messages: int, size: int) -> None:
        """Messages were published."""
        self._count(segment, Metric.MSG_RATE_IN, messages)
        self._count(segment, Metric.BYTES_RATE_IN, size)

    def count_out(self, segment: str, messages: int, size: int) -> None:
        """Messages were delivered."""
        self._count(segment, Metric.MSG_RATE_OUT, messages)
        self._count(segment, Metric.BYTES_RATE_OUT, size)

    def _count(self, segment: str, metric: Metric, number: float) -> None:
        counts = self._counts.setdefault(segment, dict.fromkeys(Metric, 0.0))
        counts[metric] += number

    def take(self, seconds: float) -> Mapping[str, Rates]:
        """Rates of that many seconds, of those segments that were counted; counting begins anew."""
        counts, self._counts = self._counts, {}
        self.rates = {
            segment: {metric: number / seconds for metric, number in found.items()} for segment, found in counts.items()
        }
        return self.rates


STILL: Rates = dict.fromkeys(Metric, 0.0)


@dataclass(frozen=True, slots=True)
class _Written:
    """What a record says, as far as this broker knows."""

    rates: Rates | None
    """None where there is no record."""
    version_id: int


class LoadReporter:
    """One for each broker. `run` works until cancelled."""

    def __init__(
        self,
        host: Host,
        store: MetadataStore,
        meter: Meter,
        pace: Pace,
        *,
        interval_s: float = INTERVAL_S,
        threshold: float = CHANGE_THRESHOLD,
    ) -> None:
        self._host = host
        self._store = store
        self._meter = meter
        self._pace = pace
        self._interval_s = interval_s
        self._threshold = threshold
        self._written: dict[str, _Written] = {}

    async def run(self) -> None:
        """Reports until cancelled; what cannot be written is written the next time."""
        while self._interval_s > 0:
            before_s = self._pace.clock.monotonic_s()
            await self._pace.sleep(self._interval_s)
            rates = self._meter.take(max(self._pace.clock.monotonic_s() - before_s, self._interval_s))
            owned = self._host.owned.keys()
            self._forget(owned)
            for segment in owned:
                try:
                    await self.report(segment, rates.get(segment, STILL))
                except (StoreError, LayoutError) as error:
                    self._written.pop(segment, None)
                    logger.info("the load of %s is reported later: %s", segment, error)

    def _forget(self, owned: Collection[str]) -> None:
        """What others own is theirs to know."""
        for segment in self._written.keys() - set(owned):
            del self._written[segment]

    async def report(self, segment: str, rates: Rates) -> bool:
        """Writes down what was measured, if it is different enough; whether it was."""
        name = reported(segment)
        if name is None:
            return False
        before = self._written.get(segment) or await self._read(name)
        self._written[segment] = before
        if before.rates is not None and not is_material(before.rates, rates, self._threshold):
            return False
        key = paths.load_key(name.topic, name.segment_id)
        try:
            version_id = await put_report(self._store, name, key, Load(rates).encode(), before.version_id)
        except (UnexpectedVersion, ConditionFailed):
            del self._written[segment]  # somebody else has written it, or removed it: read it the next time
            return False
        if version_id is None:
            return False  # it is on its way out, or not in the layout yet
        self._written[segment] = _Written(rates, version_id)
        return True

    async def _read(self, name: Reported) -> _Written:
        key = paths.load_key(name.topic, name.segment_id)
        found = await self._store.get(key, partition_key=paths.partition(name.topic))
        if found is None:
            return _Written(None, ABSENT)
        load = Load.decode(found.value or b"", found.version.modified_ms)
        return _Written(load.rates, found.version.version_id)
