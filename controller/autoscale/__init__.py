"""When a topic splits and merges by itself: settings, loads, and a decision that is a pure function of them.

    config     names, defaults, overrides of namespaces and topics
    load       what owners of segments report, and when it is worth reporting
    decision   `decide`: one step at most, with its reasons

What it promises. The same situation gives the same decision on every broker. A decision says why it was taken, and
what stood against the one that was not. A segment that is hot and cannot be split keeps no other from being split, and
nothing is merged that consumers need.

What it refuses. It does nothing by itself, has no clock and no timers.

Start reading at decision.py.
"""

from controller.autoscale.config import AutoScaleConfig, InvalidAutoScale, Metric
from controller.autoscale.decision import Action, Decision, Situation, Suppression, decide
from controller.autoscale.load import Load, is_material

__all__ = [
    "Action",
    "AutoScaleConfig",
    "Decision",
    "InvalidAutoScale",
    "Load",
    "Metric",
    "Situation",
    "Suppression",
    "decide",
    "is_material",
]
