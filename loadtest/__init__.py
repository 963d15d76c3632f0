"""Load and comparison: what the services do under work, told in figures that a stranger can measure again.

A claim of speed is worth what its measurement is worth, so everything here measures side by side: our
service and a peer under the very same requests, in the same run, on the same machine, next to what the
machine itself can do.

It promises
- the same bytes for everybody: a request is made once and sent to every server that is compared;
- the whole truth: a line where we lose is printed like a line where we win, with its repeats and their
  spread;
- no traces: servers, processes and folders of a run end with the run.

It refuses
- figures without durability: every server runs with synced writes, as it is meant to be run;
- figures from different days in one row: what is compared was measured interleaved;
- to be imported by the packages it measures: nothing depends on `loadtest`.

Start reading in `loadtest.bench`, the benchmark (`python -m loadtest.bench`). `loadtest.arrivals` says
when work begins, for whatever must not wait for answers; `loadtest.scenarios` is such work, `loadtest.engine`
begins it, `loadtest.users` puts locust around it, and `loadtest.command` is `tidemark load`. `loadtest.drawing` is
what all charts are drawn with, and `loadtest.machine` says where a run took place.
"""
