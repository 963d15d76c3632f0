"""What became of arrivals, and what that comes to: histograms, a timeline, a verdict. Pure values, without I/O.

    outcome      what became of one arrival, one step of it, or one event
    histogram    latencies by buckets of a constant ratio
    timeline     outcomes by second and operation
    result       a run in numbers, and its one JSON schema
    verdict      thresholds that a run must keep

What it promises. Percentiles are within 2 % of the exact ones, maxima are exact. Timelines of several processes add up
to the timeline of all.

Start reading at outcome.py.
"""

from loadtest.outcomes.histogram import Histogram
from loadtest.outcomes.outcome import NOT_STARTED, UNFINISHED, Kind, Outcome, Record
from loadtest.outcomes.result import Plan, Result
from loadtest.outcomes.timeline import Cell, Mark, Timeline
from loadtest.outcomes.verdict import Thresholds, Violation, violations_of

__all__ = [
    "NOT_STARTED",
    "UNFINISHED",
    "Cell",
    "Histogram",
    "Kind",
    "Mark",
    "Outcome",
    "Plan",
    "Record",
    "Result",
    "Thresholds",
    "Timeline",
    "Violation",
    "violations_of",
]
