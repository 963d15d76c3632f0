"""A run: the engine of this process, the workers, the timeline of all of them, and the verdict."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import gevent
from gevent.event import Event
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from loadtest.engine.messages import Order
from loadtest.machine import describe_machine, describe_versions
from loadtest.outcomes import Kind, Outcome, Result, Timeline, violations_of
from loadtest.outcomes.histogram import merged
from loadtest.scenarios import new_mark, parts_of
from loadtest.users.engines import Engine, EngineFailed
from loadtest.users.plans import order_of, plan_of, thresholds_of
from loadtest.users.tables import write_tables

logger = logging.getLogger("tidemark.load")

PREPARE, PREPARED = "tidemark-prepare", "tidemark-prepared"
FINISH, FINISHED = "tidemark-finish", "tidemark-finished"
FAILED = "tidemark-failed"
TIMELINE = "tidemark_timeline"
PROGRESS_EVERY_S = 5.0
RATES_TOLD_AFTER_S = 0.02
"""Users come and go many at a time; the engine is told once."""


_loads: WeakKeyDictionary[Environment, Load] = WeakKeyDictionary()


def load_of(environment: Environment) -> Load:
    """The run of an environment."""
    if environment not in _loads:
        _loads[environment] = Load(environment)
    return _loads[environment]


class OutcomeError(Exception):
    """What became of an arrival, by the name of the error that its client raised."""


class WithScenario(Protocol):
    """What all users have."""

    scenario: str


class Load:
    """The run of one locust environment."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        assert environment.parsed_options is not None
        self._options = environment.parsed_options
        self._timeline = Timeline()
        self._mark = new_mark()
        self._engine: Engine | None = None
        self._rates: dict[str, float] = {}
        self._teller: gevent.Greenlet[[], None] | None = None
        self._waited: set[str] = set()
        """Workers that are to answer."""
        self._answered = Event()
        self.failure: str | None = None
        """Why the run cannot go on."""
        self.is_stopped = False
        """Somebody wants it to end before its time."""
        self.processes = 1
        self._progress_told_s = 0.0
        self._listen()

    # -- what locust says

    def _listen(self) -> None:
        events, runner = self._environment.events, self._environment.runner
        events.quitting.add_listener(self._quit)
        events.test_stop.add_listener(lambda **_: self._end())
        if not isinstance(runner, WorkerRunner):
            gevent.signal_handler(signal.SIGTERM, self._stop)  # locust's own is not there while a shape goes on
        if isinstance(runner, WorkerRunner):
            runner.register_message(PREPARE, self._on_prepare, concurrent=True)
            runner.register_message(FINISH, self._on_finish, concurrent=True)
            events.report_to_master.add_listener(self._report)
        elif isinstance(runner, MasterRunner):
            runner.register_message(PREPARED, self._on_answer)
            runner.register_message(FINISHED, self._on_finished)
            runner.register_message(FAILED, self._on_answer)
            events.worker_report.add_listener(self._on_report)

    def _stop(self) -> None:
        self.is_stopped = True

    def add_rate(self, scenario: str, rate: float) -> None:
        """A user has come or, with a negative rate, gone."""
        for part, its_share in parts_of(scenario).items():
            self._rates[part] = self._rates.get(part, 0.0) + rate * its_share
        if self._teller is None or self._teller.dead:
            self._teller = gevent.spawn_later(RATES_TOLD_AFTER_S, self._tell_rates)

    def _tell_rates(self) -> None:
        if self._engine is None:
            runner = self._environment.runner
            assert isinstance(runner, WorkerRunner), "only a worker can come too late to be asked to prepare"
            self._begin(order_of(self._options, self._rates, self._mark, runner.worker_index))
        if self._engine is not None and not self._engine.is_finished and self.failure is None:
            self._engine.set_rates({name: max(0.0, rate) for name, rate in self._rates.items()})

    # -- from the first to the last

    def prepare(self) -> None:
        """Returns when every process is prepared; `failure` says if one cannot be."""
        runner = self._environment.runner
        if isinstance(runner, MasterRunner):
            workers = [worker.id for worker in runner.clients.ready]
            self.processes = len(workers)
            self._ask(PREPARE, {id: self._order(runner.get_worker_index(id)).encode().decode() for id in workers})
        else:
            self._begin(self._order(0))

    def finish(self) -> None:
        """Returns when every arrival of every process has its outcome here."""
        runner = self._environment.runner
        if isinstance(runner, MasterRunner):
            self._ask(FINISH, dict.fromkeys([worker.id for worker in runner.clients.all], ""))
        else:
            self._end()

    def _order(self, number: int) -> Order:
        return order_of(self._options, self._scenarios, self._mark, number)

    @property
    def _scenarios(self) -> list[str]:
        return [cast("type[WithScenario]", each).scenario for each in self._environment.user_classes]

    def _begin(self, order: Order) -> None:
        """Starts the engine of this process, in place of one that has finished."""
        if self._engine is not None:
            if not self._engine.is_finished:
                return
            self._engine.close()
        self._timeline.clear()
        self._engine = Engine(order, self._hear, self._timeline.marks.append)
        gevent.spawn(self._watch, self._engine)
        try:
            self._engine.wait_ready()
        except EngineFailed as error:
            self.failure = str(error)

    def _watch(self, engine: Engine) -> None:
        """An engine that fails while it works ends the run."""
        engine.wait_ended()
        if engine.failure is not None and self.failure is None:
            self.failure = engine.failure
        if engine.failure is not None and isinstance(self._environment.runner, WorkerRunner):
            self._answer(FAILED, {})

    def _end(self) -> None:
        """No more arrivals of this process; returns when all have their outcome."""
        if self._engine is None or self._engine.is_finished or self.failure is not None:
            return
        try:
            self._engine.finish()
        except EngineFailed as error:
            self.failure = str(error)

    def _hear(self, outcome: Outcome) -> None:
        self._timeline.add(int(outcome.began_s), outcome)
        self._environment.events.request.fire(
            request_type=outcome.scenario,
            name=outcome.operation,
            response_time=outcome.latency_s * 1000,
            response_length=outcome.size,
            exception=None if outcome.error is None else OutcomeError(outcome.error),
            start_time=outcome.began_s,
            context={},
        )

    def tell_progress(self, over_s: float) -> None:
        """Says now and then how it goes."""
        if over_s < self._progress_told_s + PROGRESS_EVERY_S:
            return
        self._progress_told_s = over_s
        cells = [cell for line, cell in self._timeline.totals().items() if line.kind is Kind.ARRIVAL]
        arrivals = merged(cell.latencies for cell in cells)
        errors = sum(cell.errors.total() for cell in cells)
        p99_ms = arrivals.percentile_s(0.99) * 1000
        text = f"{over_s:5.0f} s  {arrivals.count} arrivals, {errors} errors, p99 {p99_ms:.1f} ms"
        print(text, file=sys.stderr, flush=True)

    # -- between processes

    def _ask(self, question: str, orders: Mapping[str, str]) -> None:
        """Asks workers, and returns when all of them have answered or gone."""
        runner = self._environment.runner
        assert isinstance(runner, MasterRunner)
        self._waited = set(orders)
        self._answered.clear()
        for worker, order in orders.items():
            runner.send_message(question, {"order": order}, client_id=worker)
        while self._waited and self.failure is None:
            self._answered.wait(timeout=1.0)
            self._answered.clear()
            gone = {each.id for each in runner.clients.missing} | (self._waited - set(runner.clients.keys()))
            self._waited -= gone

    def _on_prepare(self, environment: Environment, msg: Any, **_: Any) -> None:
        self._begin(Order.decode(msg.data["order"].encode()))
        self._answer(PREPARED, {})

    def _on_finish(self, environment: Environment, msg: Any, **_: Any) -> None:
        self._end()
        data: dict[str, Any] = {}
        # The last report of all that report, locust's own statistics among them: it comes before the run is over.
        environment.events.report_to_master.fire(client_id="", data=data)
        self._answer(FINISHED, data)

    def _answer(self, message: str, data: Mapping[str, Any]) -> None:
        assert isinstance(self._environment.runner, WorkerRunner)
        self._environment.runner.send_message(message, {**data, "failure": self.failure})

    def _on_finished(self, environment: Environment, msg: Any, **_: Any) -> None:
        environment.events.worker_report.fire(client_id=msg.node_id, data=msg.data)
        self._on_answer(environment, msg)

    def _on_answer(self, environment: Environment, msg: Any, **_: Any) -> None:
        if msg.data["failure"] is not None:
            self.failure = msg.data["failure"]
        self._waited.discard(msg.node_id)
        self._answered.set()

    def _report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        """What a worker has heard since its last report."""
        data[TIMELINE] = json.dumps(self._timeline.encode())
        self._timeline.clear()

    def _on_report(self, client_id: str, data: Mapping[str, Any], **_: Any) -> None:
        if TIMELINE in data:
            self._timeline.merge(Timeline.decode(json.loads(data[TIMELINE])))

    # -- the end

    def _quit(self, environment: Environment, **_: Any) -> None:
        self._end()
        if self._engine is not None:
            self._engine.close()
        if isinstance(environment.runner, WorkerRunner):
            return
        if self._options.csv_prefix:
            write_tables(environment, self._options.csv_prefix)
        result = self.result()
        complaints = [*result.violations, *([] if result.failure is None else [result.failure])]
        if self._options.result:  # whoever reads it tells them
            Path(self._options.result).write_text(json.dumps(result.as_json()), encoding="utf-8")
        else:
            for complaint in complaints:
                logger.error("%s", complaint)
        if complaints:
            environment.process_exit_code = 1

    def result(self) -> Result:
        """The run in numbers, as far as it is known."""
        failure = self.failure
        if failure is None and not any(line.kind is Kind.ARRIVAL for _, line in self._timeline.cells):
            failure = "nothing has arrived: a longer time, or a greater rate, brings arrivals"
        plan = plan_of(self._options, self._scenarios, self.processes)
        violations = violations_of(self._timeline, thresholds_of(self._options))
        return Result(plan, self._timeline, violations, describe_machine(Path.cwd()), describe_versions(None), failure)
