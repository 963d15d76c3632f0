"""Arrivals: when work begins, decided by a schedule, and never by how fast the answers come.

The idea. Users do not wait for each other: they arrive when they arrive. A load generator whose callers wait for an
answer before they ask again (a closed model) slows down together with the server, asks least while the server stands
still, and so hides the very stall that users would feel. Here the moments follow from a seed and from a rate, which
may be told beforehand or while they come. What is measured begins at the *intended* start: a call that had to wait for
its turn was late for whoever wanted it, whatever the reason.

It promises
- the same moments for the same rates, spacing and seed, ascending, in constant memory for a run of any length;
- bounded work under way. At the bound the next ones wait, and their waiting counts; what waits is not a queue but the
  part of the schedule that nobody has taken yet, so no backlog can outgrow memory;
- one outcome for every arrival: what was due and never begun is counted, not forgotten.

It refuses
- to skip: an arrival that is late is late, and is not dropped in order to catch up, unless it has waited for longer
  than a bound that has a name;
- to know what the work is.

    schedule      points on a line of expected arrivals: how far they lie apart
    flow          the moments at which they come, by a rate that may change
    pump          the loop that begins what is due, and tells every outcome
    precise       an event loop whose timers are exact to microseconds, where epoll's are to milliseconds
    shapes        how a rate changes over a run: steady, ramp, spike, soak
    keys          which keys arrivals are about: uniform, zipfian, hot
    settings      what else can be said of their work

Whoever loads from several processes gives each its share of the rate and a seed of its own: together they arrive as one
would. `tidemark check perf` and `tidemark load` both stand on the pump. Start reading in `flow`. In an event loop of
one's own it looks like this:

    flow = Flow(points(Spacing.RANDOM, random.Random(7)))
    pump = Pump("puts", flow, serve, outcomes.append, random.Random(8))
    running = asyncio.create_task(pump.run())
    pump.set_rate(200.0)
    await asyncio.sleep(60)
    await pump.finish()
    running.cancel()

and the whole of it is run by `run_precisely`.
"""

from loadtest.arrivals.flow import Flow
from loadtest.arrivals.keys import DISTRIBUTIONS
from loadtest.arrivals.precise import run_precisely
from loadtest.arrivals.schedule import Spacing, points
from loadtest.arrivals.settings import Settings
from loadtest.arrivals.shapes import SHAPES, Shape

__all__ = ["DISTRIBUTIONS", "SHAPES", "Flow", "Settings", "Shape", "Spacing", "points", "run_precisely"]
