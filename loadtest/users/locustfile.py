"""The users: `locust -f loadtest/users/locustfile.py MetadataMixed --users 200`, with or without a web page.

A user stands for `--arrivals-per-user` arrivals a second, and does nothing itself.
"""

from __future__ import annotations

from typing import Any

from gevent.event import Event
from locust import User, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment

from loadtest.scenarios import MIXES, SCENARIOS
from loadtest.users.load import load_of
from loadtest.users.names import class_name_of
from loadtest.users.options import add_options, rate
from loadtest.users.shape import Course

__all__ = ["Course"]


class ArrivalsUser(User):
    """So many arrivals a second of its scenario, for as long as it is there."""

    abstract = True
    scenario: str

    def on_start(self) -> None:
        assert self.environment.parsed_options is not None
        self._rate: float = self.environment.parsed_options.arrivals_per_user
        load_of(self.environment).add_rate(self.scenario, self._rate)

    def on_stop(self) -> None:
        load_of(self.environment).add_rate(self.scenario, -self._rate)

    @task
    def stay(self) -> None:
        """Until locust takes it away."""
        Event().wait()


for _scenario in (*SCENARIOS, *MIXES):
    _name = class_name_of(_scenario)
    globals()[_name] = type(_name, (ArrivalsUser,), {"scenario": _scenario})


@events.init_command_line_parser.add_listener
def _add_options(parser: LocustArgumentParser, **_: Any) -> None:
    add_options(parser)
    parser.add_argument("--arrivals-per-user", type=rate, default=1.0, help="arrivals a second (default 1)")
    parser.add_argument("--result", metavar="FILE", help="write the result as JSON, for `tidemark load show`")
    parser.add_argument("--progress", action="store_true", help="say now and then how it goes")


@events.init.add_listener
def _begin(environment: Environment, **_: Any) -> None:
    load_of(environment)
