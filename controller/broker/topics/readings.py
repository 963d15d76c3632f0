"""What is read off a broker's topics when somebody asks for its metrics."""

from __future__ import annotations

from controller.autoscale import Metric
from controller.autoscale.config import Rates
from controller.broker.topics.metrics import SegmentFigures, TopicFigures, TopicsState
from controller.leading import Leaders, Meter, TopicLeader
from controller.leading.loads import STILL
from txn.hosting import Host, Segment


class TopicReadings:
    """Reads; to be asked on the broker's event loop."""

    def __init__(self, host: Host, leaders: Leaders, meter: Meter) -> None:
        self._host = host
        self._leaders = leaders
        self._meter = meter

    def state(self) -> TopicsState:
        """As it is now."""
        around = self._leaders.around
        counts = around.subscriptions.counts
        return TopicsState(
            topics=[_topic(each) for each in self._leaders.led.values()],
            segments=[self._segment(each) for each in self._host.owned.values()],
            takeovers=self._leaders.takeovers,
            operations={kind.value: count for kind, count in around.operations.done.items()},
            sealed=around.operations.sealed,
            divisions=counts.divisions,
            assignments=counts.told,
        )

    def _segment(self, segment: Segment) -> SegmentFigures:
        stats = [each.stats for each in segment.subscriptions.values()]
        return SegmentFigures(
            segment.name,
            sum(each.backlog for each in stats),
            sum(len(each.consumers) for each in stats),
            self._meter.rates.get(segment.name, STILL),
        )


def _topic(leader: TopicLeader) -> TopicFigures:
    return TopicFigures(str(leader.topic), len(leader.layout.active), leader.scaler.counts, _rates(leader))


def _rates(leader: TopicLeader) -> Rates:
    loads = leader.loads.values()
    return {metric: sum(each.rates[metric] for each in loads) for metric in Metric}
