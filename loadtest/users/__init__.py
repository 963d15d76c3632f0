"""locust's part: users that stand for arrivals, shapes, workers, thresholds; `locust -f loadtest/users/locustfile.py`.

The idea. A locust user asks, waits and asks again, which is a closed model: it slows down with the service. Here a user
does nothing at all. It stands for so many arrivals a second (one, where nothing else is said), which the engine of its
process begins by schedule for as long as the user is there. So everything that locust does with users (shapes, ramps,
spreading them over workers, its web page) is done with the rate, and the open model stays.

    locustfile   the users: one class for each scenario and mix
    names        the names of these classes
    options      what can be said of a run, for locust and for `tidemark load`
    plans        what the options mean
    engines      the engine's process, from within gevent
    load         a run: engines, workers, the timeline, the verdict
    tables       locust's CSV files at the end of it
    shape        the course of the rate, from the first arrival to the last outcome

What it promises. Every outcome is one `request` event of locust, with the scenario as its type and the operation as its
name, so that locust's own statistics, CSV files and reports have them all. The same outcomes make our timeline, whose
percentiles are finer. Workers prepare before anything is timed, and are waited for at the end.

What it refuses. gRPC never runs in locust's process: see `loadtest.engine`.

Start reading at locustfile.py, then load.py.
"""
