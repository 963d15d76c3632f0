"""`tidemark load`: a run of locust in one command, with a report, a summary and an exit code.

    parser     its operations and their options
    help       texts
    running    starts locust, and tells what it found
    telling    a result as a table, or as JSON
    making     `make load`: a service of its own, a run of everything, a report

What it promises. It says what it could not do in one line. The exit code is 0 if every threshold was kept, 1 if not or
if nothing could be measured, 2 if it was called wrongly.

Start reading at running.py.
"""
