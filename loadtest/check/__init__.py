"""`tidemark check perf`: whether a running service is fast enough, in a minute, and what holds it back if it is not.

The idea. A *work* (puts of records, messages through a topic, transactions) is done at the rates of *profiles*, from
small to extra large, by schedule: what is due begins when it is due, whether or not what came before has been answered
(`loadtest.arrivals`). What was measured is held against bounds, and beside it stands what was used meanwhile: of the
server's processors, of its disk, of the network, and of this program, because a verdict without a reason helps nobody.

It promises
- a verdict that follows from the figures printed with it, and from nothing else (`verdict`, a pure function);
- latency from the intended start, so that a stall counts for everybody who came while it lasted;
- to leave nothing behind: what it writes is under a prefix and in a topic of its own, which it removes in the end,
  after Ctrl-C as well. It does not begin where something is there already;
- to say what it could not know, and why.

It refuses
- to measure a service that it starts itself: that is what `loadtest.bench` is for;
- to touch what it has not made: with `--discard` it removes leftovers only if all of them carry its mark.

    command, help         the options and their texts
    running, targets      from options to a report; what a URL means
    works, records, broker_works    what is done, and how it is cleared away
    measuring             a profile of a work, under way
    recorder              what was measured. Pure
    profiles, verdict     rates and bounds; whether they are met. Pure
    usage                 what limited it. Pure
    evidence, exposition, listeners    what is used: over HTTP, from /proc, from the network
    report                all that, for people and for programs

Start reading in `profiles` and `verdict`, then `measuring`. Nothing is imported here, so that `tidemark` lists its
commands without loading a store.
"""
