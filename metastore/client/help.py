"""The texts of `tidemark client --help`."""

from __future__ import annotations

DESCRIPTION = """\
Reads and writes the records of a metadata store: on a server that speaks Oxia's protocol, ours or a
real Oxia, or of any kind that --store has a URL for.

The output is made for people; with --json it is one JSON object per line, for programs, and a value
that is not UTF-8 is {"base64": "..."} there. The exit code is 0 if it was done, 1 if it failed (no such
key, another version, no server), 2 if the call made no sense.
"""

EXAMPLES = """\
examples:
  tidemark client put /greeting hello
  tidemark client get /greeting
  tidemark client list --key-min /jobs/ --key-max /jobs//  # the children of /jobs
  tidemark client --address db1:6648 --tls --ca-file ca.pem --auth-token-file token list
  tidemark client --store lmdb:///var/lib/tidemark list    # a directory that no server has open
"""

PUT_EXAMPLES = """\
examples:
  tidemark client put /config '{"retries": 3}'
  tidemark client put /config --std-in < config.json
  tidemark client put /config new -e 7                # only if its version id is 7
  tidemark client put /lock mine -e -1                # only if there is no such record
  tidemark client put /job work -p jobs -d 1          # makes /job-00000000000000000001, ...2, ...
  tidemark client put /user/7 Ann --index email=ann@example.org --index town=Ghent
"""

GET_EXAMPLES = """\
examples:
  tidemark client get /config > config.json           # the value, byte for byte
  tidemark client get /config -v                      # and its version
  tidemark client get /log-5 -t floor                 # the record at or before /log-5
  tidemark client get ann@example.org --index email   # by secondary key
"""

DELETE_EXAMPLES = """\
examples:
  tidemark client delete /config
  tidemark client delete /config -e 7                 # only if its version id is 7
"""

DELETE_RANGE_EXAMPLES = """\
examples:
  tidemark client delete-range -s /jobs/ -e /jobs//   # the children of /jobs
"""

LIST_EXAMPLES = """\
examples:
  tidemark client list
  tidemark client list -s /jobs/ -e /jobs//           # the children of /jobs
  tidemark client list --index town -s Gent -e Genu   # records whose town begins with Gent
"""

RANGE_SCAN_EXAMPLES = """\
examples:
  tidemark client range-scan -s /jobs/ -e /jobs//     # the children of /jobs and their values
  tidemark client range-scan -v --json > backup.jsonl
  tidemark client range-scan --index town             # all that have a town, ordered by it
"""

NOTIFICATIONS_EXAMPLES = """\
examples:
  tidemark client notifications                       # what changes from now on
  tidemark client notifications --json --count 10
"""

SEQUENCE_UPDATES_EXAMPLES = """\
examples:
  tidemark client sequence-updates /job -p jobs
"""

SESSION_EXAMPLES = """\
examples:
  tidemark client session --put /live/broker-1 10.0.0.1:6650
  tidemark client session --put /live/me "" --session-timeout 5s --for 1m
  tidemark client session --put /live/me "" --for 1s --abandon  # as if the client had crashed
"""

WATCH_EXAMPLES = """\
examples:
  tidemark client watch /jobs/                        # the children of /jobs, and what becomes of them
  tidemark client watch /jobs/ --no-snapshot --previous --json
  tidemark client watch Gent --index town --exact     # the records whose town is Gent
  tidemark client watch /jobs/ --from-token AWSa44xi  # go on where an earlier one ended
"""

ELECT_EXAMPLES = """\
examples:
  tidemark client elect /leader/jobs 10.0.0.1:8080    # lead until interrupted
  tidemark client elect /leader/jobs 10.0.0.1:8080 -- ./serve --port 8080
"""

LOCK_EXAMPLES = """\
examples:
  tidemark client lock /locks/backup                  # hold it until interrupted
  tidemark client lock --wait 10s /locks/backup -- ./backup --full
"""
