"""The benchmark: ratios measured in one run, as a table for people and as JSON for machines.

The idea. A *line* is one kind of work ("puts by 100, 8 outstanding"). A *group* is a place to work in, with
*sides*: the first side is ours, the others are what it is held against: a peer server, or the bare library
below us. The runner takes every line of every group through several *turns*, and in every turn each side
works once, so that whatever disturbs the machine disturbs them all. The medians become *rows*; a row may
carry *checks*, and a check ends in a verdict: `goal` reached, only the `floor` reached, or `missed`.

It promises
- one harness and one result schema (`report`) for every benchmark of the project: new work is a new module
  with a function `groups(settings)`, named once in `suite`;
- a lean load generator (`lean_client`): requests are serialized before the clock starts, and one thread
  writes their HTTP/2 frames itself, since grpcio's public interface costs more per message than the servers
  do. `--client sync` measures with that public interface, which is what a Python program sees;
- charges to the right account: while one server works, the others are stopped by signal, so that what a
  server puts off is paid in its own turns;
- answers are checked: the first and the last answer of each turn are parsed and compared with what was asked.

It refuses
- to guess: a line that failed says so in the table, and the exit status is 1;
- to hide the client: every figure over the wire keeps its CPU cost per request, the generator's and the
  server's, in the JSON.

A run is held against the stored ones (`comparison`), and the pages of `docs/benchmarks` get their tables and charts
from stored runs (`pages`, `charts`). Two kinds of runs stand beside the usual one: `peers`, the same work on other
stores, and the curves (`curve_wire`, `curve_sizes`), as load and data grow.

Start reading in `model` (what a line is), then `runner`; `wire_lines` and `limit_lines` are the work itself;
`generator`, `lean_client` and `servers` are the I/O at the edge.
"""
