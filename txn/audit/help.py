"""The texts of `tidemark audit --help`."""

from __future__ import annotations

DESCRIPTION = """\
Reads all transaction records of a store with Spark, at one point, and tells what is not as it must be:
stuck, lost, leaked. It only reads. It needs Java 17; without --master Spark runs in this process.

The exit code says the gravest that was found: 0 nothing, 3 warnings, 4 errors, 5 critical.
"""

EXAMPLES = """\
examples:
  tidemark audit run --store lmdb:///var/lib/tidemark
  tidemark audit run --store oxia://pulsar-oxia:6648/broker --dialect pulsar
  tidemark audit rules                                    # what is looked for
  tidemark audit explain half-applied                     # what it means, and what to do
"""

RUN_DESCRIPTION = """\
Audits a store once, and prints how many violations there are of each rule, with examples.
"""

RUN_EXAMPLES = """\
examples:
  tidemark audit run
  tidemark audit run --output violations --limit 3
  tidemark audit run --rule half-applied --rule horizon-held --json
  tidemark audit run --master spark://spark:7077 --store oxia://store:6648 --py-files tidemark.whl
"""

WATCH_DESCRIPTION = """\
Audits a store again and again, until it is interrupted, and prints what was found each time. The exit
code is that of the last audit.
"""

WATCH_EXAMPLES = """\
examples:
  tidemark audit watch --every 10m
  tidemark audit watch --every 1m --times 3 --json
"""

RECORD_DESCRIPTION = """\
Records every change of transaction records in a ledger, exactly once, until SIGINT or SIGTERM: first the
store as it is, then its change log, which goes on where it ended the last time. `audit run --ledger` judges
by what is recorded. It needs our service or a directory: other stores have no change log.
"""

RECORD_EXAMPLES = """\
examples:
  tidemark audit record --ledger /var/lib/tidemark-ledger
  tidemark audit record --ledger /var/lib/tidemark-ledger --once --json
  tidemark audit record --ledger /shared/ledger --master spark://spark:7077 --store oxia://store:6648
"""

RULES_DESCRIPTION = """\
Lists the rules, those that other packages have added as well.
"""

RULES_EXAMPLES = """\
examples:
  tidemark audit rules
  tidemark audit rules --dialect pulsar --json
"""

EXPLAIN_DESCRIPTION = """\
Says what a rule finds, why that matters, and what to do.
"""

EXPLAIN_EXAMPLES = """\
examples:
  tidemark audit explain operations-without-header
"""
