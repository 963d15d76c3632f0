"""The texts of `tidemark check --help`."""

from __future__ import annotations

DESCRIPTION = "Checks a running service."
PERF_DESCRIPTION = """\
Loads a running service for a minute, and says which of the profiles s, m, l and xl it bears: PASS or
FAIL, with the slowest operations, and what limited it. What it writes is under a prefix, and in a
topic, of its own, and is removed in the end, after Ctrl-C as well.

A store's URL (oxia://, any other of --store elsewhere) is checked with puts; the URL of brokers
(tidemark://) with messages and with transactions. The time is divided among what is checked. Sizes
are tried in ascending order up to the first that fails. The exit code is 0 if the smallest of those
asked for passes on every target.
"""
PERF_EXAMPLES = """\
examples:
  tidemark check perf                                   # the store at oxia://localhost:6648
  tidemark check perf --profile l                       # only 8,000 puts a second, for a minute
  tidemark check perf tidemark://localhost:6650         # messages and transactions
  tidemark check perf oxia://meta:6648 tidemark://broker-1:6650 --time 3m --json
  tidemark check perf oxia://meta:6648 --metrics meta:8080 --metrics meta:8081
"""
