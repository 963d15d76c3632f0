"""The texts of `tidemark txn --help`."""

from __future__ import annotations

DESCRIPTION = """\
Looks at the transactions of a store: which are open, what each has done, what holds a segment up.
It reads records and nothing else, so it needs no broker; `abort` alone writes, one record.

It reads the records of Tidemark and those of an Apache Pulsar 5, whose metadata is in an Oxia. The
output is made for people; with --json it is one JSON object per line, each with its "type", times and
durations in milliseconds.
"""

EXAMPLES = """\
examples:
  tidemark txn list                                       # what is open, the oldest first
  tidemark txn show md_0_17                               # one transaction and its timeline
  tidemark txn why segment://public/default/orders/0      # what holds a segment up
  tidemark txn abort md_0_17 --dry-run                    # what an abort would do
  tidemark txn --store oxia://pulsar-oxia:6648/broker stats
"""

LIST_DESCRIPTION = """\
Lists transactions, the oldest first: by default those that are open, with their age, the time they
have left, their owner, their operations and where these are.
"""

LIST_EXAMPLES = """\
examples:
  tidemark txn list
  tidemark txn list --older-than 5m --owner billing
  tidemark txn list --state all --limit 1000 --json
  tidemark txn list --segment segment://public/default/orders/0
"""

SHOW_DESCRIPTION = """\
Shows one transaction: its header, what it did with each participant, who has carried the outcome out,
and a timeline: begun, first operations, decided, applied by each participant, collected.
"""

SHOW_EXAMPLES = """\
examples:
  tidemark txn show md_0_17
  tidemark txn show md_0_17 --follow                      # what comes, until its records are gone
  tidemark txn show 1_17 --records pulsar --json
"""

WHY_DESCRIPTION = """\
Says which transaction holds the read horizon of a segment: since when, whose it is, what would free
it, and what waits behind it. Of a segment that nothing holds it says so.
"""

WHY_EXAMPLES = """\
examples:
  tidemark txn why segment://public/default/orders/0
  tidemark txn why segment://public/default/orders/0 --json
"""

ABORT_DESCRIPTION = """\
Aborts an open transaction, whosever it is, by one compare-and-set of its header, and says before what
that does. A transaction that is decided it refuses. It asks, unless --yes is given.
"""

ABORT_EXAMPLES = """\
examples:
  tidemark txn abort md_0_17 --dry-run
  tidemark txn abort md_0_17 --yes
"""

STATS_DESCRIPTION = """\
Counts all transactions: by state, the oldest open one, by owner, past their deadline and still open,
decided and not yet carried out, operation records, aborted records by segment, stuck participants.
"""

STATS_EXAMPLES = """\
examples:
  tidemark txn stats
  tidemark txn stats --stuck-after 10m --json
"""
