"""The course of the rate, from the first arrival to the last outcome."""

from __future__ import annotations

import time

from locust import LoadTestShape, User
from locust.env import Environment

from loadtest.arrivals import SHAPES
from loadtest.users.load import load_of

SPAWN_ALL = 100.0
"""Users a second: locust warns of more."""

Tick = tuple[int, float] | tuple[int, float, list[type[User]] | None] | None


class Course(LoadTestShape):
    """Prepares, lets the number of users follow the shape, and waits for the last outcome."""

    abstract = False
    use_common_options = True

    def __init__(self) -> None:
        super().__init__()
        self._began_s: float | None = None

    def tick(self) -> Tick:
        environment = self._environment
        load = load_of(environment)
        options = environment.parsed_options
        assert options is not None
        if self._began_s is None:
            load.prepare()
            self._began_s = time.monotonic()
        over_s = time.monotonic() - self._began_s
        if load.failure is not None or load.is_stopped or (options.run_time and over_s >= options.run_time):
            self._began_s = None
            load.finish()
            return None
        share = SHAPES[options.shape].share(over_s / options.run_time if options.run_time else 0.5)
        if options.progress:
            load.tell_progress(over_s)
        return max(1, round((options.num_users or 1) * share)), SPAWN_ALL

    @property
    def _environment(self) -> Environment:
        assert self.runner is not None, "a shape belongs to a runner when it ticks"
        return self.runner.environment
