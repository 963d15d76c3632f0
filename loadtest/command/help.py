"""What `tidemark load --help` says."""

DESCRIPTION = """\
Loads a running service with locust, in the open model: arrivals come by their schedule whatever the service does,
and are timed from when they were meant to begin.
"""
EXAMPLES = """\
examples:
  tidemark load scenarios                        what there is to run
  tidemark load run metadata-mixed               for a minute, against `tidemark standalone`
  tidemark load run --help                       rates, shapes, reports, thresholds
"""
RUN_EXAMPLES = """\
examples:
  tidemark load run metadata-zipf --target oxia://127.0.0.1:6648 --rate 500 --time 2m
      five hundred arrivals a second
  tidemark load run topics-reshaping --rate 200 --shape ramp --time 5m --html topics.html --csv topics
      up to 200 a second in ten steps; a page with charts, locust's own page and CSV files beside it
  tidemark load run transactions --fail-p99-ms 100 --fail-error-ratio 0.001 --json
      for CI: a JSON object, and exit code 1 if it was too slow or failed too often
  tidemark load run everything --target oxia://10.0.0.5:6648 --target tidemark://10.0.0.5:6650 --processes 4
      all at once, from four processes of this machine
  tidemark load run everything --workers 8 --master-port 5557
      with eight processes elsewhere, each started as: tidemark load worker --master-host THIS_MACHINE
"""
WORKER_EXAMPLES = """\
examples:
  tidemark load worker --master-host 10.0.0.7
      does its part of what `tidemark load run --workers N` was told there, and ends with it
"""
SHOW_EXAMPLES = """\
examples:
  tidemark load run topics --result topics.json
  tidemark load show topics.json                 the table again
  tidemark load show topics.json --html topics.html
"""
