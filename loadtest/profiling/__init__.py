"""Profiles: where the processors' time goes while a line of the benchmark is measured.

The idea. The benchmark knows how to make every kind of load; a sampling profiler (py-spy) looks at every process that
takes part, from outside, while it does. So there is nothing to be built in, nothing that slows the code down where it
is looked at, and a profile can be had of any line that `python -m loadtest.bench --list` names.

It promises
- the whole picture: servers, brokers and clients are all sampled, and each one's part of the processors stands beside
  its table, so that nobody improves what costs nothing;
- figures of the interpreter's lock: a process of Python can use one processor, and who has the lock uses it.

It refuses
- to stop what it looks at: now and then it reads a stack that changes meanwhile, and leaves that out;
- to say what C code does: with the lock, it is the function in Python that calls it (LMDB); without it (fsync, gRPC's
  own threads) it is not there, and the difference to the process' cores tells how much. `perf top -p PID` shows it.

    profiler      opens a group, plays one line, has every process sampled meanwhile
    stacks        stacks as py-spy writes them, added up by function and by package. Pure
    __main__      `python -m loadtest.profiling LINE...`

Start reading in `profiler`. What came of it: docs/profiles.md.
"""
