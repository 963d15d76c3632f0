"""What is decided about topics, in this process: whether to split or merge, and who reads which segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from controller.assignment import Assignment, moved, round_robin, sticky
from controller.autoscale import Action, AutoScaleConfig, Load, Metric, Situation, decide
from controller.layout import Layout
from loadtest.bench.bench import Bench, Group
from loadtest.bench.figures import percentile
from loadtest.bench.model import AtMost, BenchError, Better, Line, Sample, Turn
from loadtest.bench.model import Metric as Figure
from loadtest.bench.topic_stage import SIDE

GROUP = "topics-decisions"
BOUND_MS = 1.0
SEGMENTS = CONSUMERS = 64
NOW_MS = 10_000_000
SUBSCRIPTION = "work"


def names(count: int) -> list[str]:
    """Of so many consumers."""
    return [f"consumer-{number:02d}" for number in range(count)]


class Decisions:
    """A topic of 64 segments, which were split out of one, and a subscription of 64 consumers."""

    def __init__(self) -> None:
        layout = Layout.initial(1, 0)
        while len(layout.active) < SEGMENTS:
            for segment in layout.active:
                layout = layout.split(segment.segment_id, 0)
        self._layout = layout
        self._segments = layout.active
        self._config = AutoScaleConfig(max_segments=2 * SEGMENTS)

    def decide(self, turn: Turn, rate: float, expected: Action) -> Sample:
        """Where each segment takes so many messages a second, and the last one twice as many."""
        loads = {
            segment.segment_id: Load({metric: rate * (1 + (place == SEGMENTS - 1)) for metric in Metric})
            for place, segment in enumerate(self._segments)
        }
        consumers = {SUBSCRIPTION: CONSUMERS if expected is Action.SPLIT else 1}
        situation = Situation(self._layout, loads, consumers, NOW_MS)
        decision = decide(situation, self._config)
        if decision.action is not expected:
            raise BenchError(f"{expected.value} was to be decided, not {decision}")
        return _timed(turn, lambda: decide(situation, self._config))

    def join(self, turn: Turn) -> Sample:
        """The last consumer of all joins: the division among those before him is what there was."""
        before = sticky(self._segments, names(CONSUMERS - 1), {})
        everybody = names(CONSUMERS)
        return _timed(turn, lambda: sticky(self._segments, everybody, before))

    def deal(self, turn: Turn) -> Sample:
        """By turns, whoever had what."""
        everybody = names(CONSUMERS)
        return _timed(turn, lambda: round_robin(self._segments, everybody))

    def share(self, turn: Turn) -> Sample:
        """As many consumers again as there are segments."""
        everybody = names(2 * CONSUMERS)
        before = sticky(self._segments, everybody[:-1], {})
        return _timed(turn, lambda: sticky(self._segments, everybody, before))

    def moves(self, turn: Turn) -> Sample:
        """One consumer after the other joins, up to all: the most that any of them moved, to what he may move."""
        del turn  # the work has a size of its own
        worst = 0.0
        before: Assignment = sticky(self._segments, names(1), {})
        for consumers in range(2, CONSUMERS + 1):
            after = sticky(self._segments, names(consumers), before)
            worst = max(worst, len(moved(before, after)) / -(-SEGMENTS // consumers))
            before = after
        return {"worst": worst}


def _timed(turn: Turn, work: Callable[[], object]) -> Sample:
    waits_ms: list[float] = []
    end_s = time.perf_counter() + turn.seconds
    while (began_s := time.perf_counter()) < end_s:
        work()
        waits_ms.append(1000 * (time.perf_counter() - began_s))
    waits_ms.sort()
    return {"p50_ms": percentile(waits_ms, 0.50), "p99_ms": percentile(waits_ms, 0.99)}


def group() -> Group[Decisions]:
    """The group of these lines."""
    title = f"Decisions about a topic of {SEGMENTS} segments and {CONSUMERS} consumers, in this process"
    decisions: Sequence[tuple[str, str, Callable[[Decisions, Turn], Sample]]] = (
        ("decide-split", "decide, one segment is hot,", partial(Decisions.decide, rate=9_000, expected=Action.SPLIT)),
        ("decide-merge", "decide, all segments are cold,", partial(Decisions.decide, rate=1, expected=Action.MERGE)),
        ("decide-none", "decide, nothing is to be done,", partial(Decisions.decide, rate=4_000, expected=Action.NONE)),
        ("assign-join", "assign, the last consumer joins,", Decisions.join),
        ("assign-round-robin", "assign by turns,", Decisions.deal),
        ("assign-shared", f"assign, {2 * CONSUMERS} consumers share,", Decisions.share),
    )
    bound = (AtMost(BOUND_MS),)
    times = tuple(Figure(f"{each}_ms", each, "ms", Better.LOWER, bound) for each in ("p50", "p99"))
    most = Figure("worst", "", "x", Better.LOWER, (AtMost(1.0),))
    moves = Line("join-moves", "moved by a join, to segments / consumers", (most,), Decisions.moves, is_slow=True)
    return Group(GROUP, title, (SIDE,), [*(Line(n, t, times, m) for n, t, m in decisions), moves], _open)


@contextmanager
def _open(_bench: Bench) -> Iterator[Mapping[str, Decisions]]:
    yield {SIDE: Decisions()}
