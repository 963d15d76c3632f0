"""A broker is killed at every named point of transactions, with logs of both kinds, and nothing is lost, torn, or left.

A *chain* is a directory and the lives that follow one another in it: each is armed with one point and works until it is
killed there; the next, another broker, takes over what it finds. Most chains have their store in the same process, one
of each kind has a store that is served, which sees only that a client is gone. In the last life everything is read by
fresh and by resumed consumers, and the notes of all lives are judged together (tests/txn_histories). Chains run side by
side: most of a life is waiting for the session of the one before to end.

TIDEMARK_TXN_ROUNDS is how often the whole matrix is gone through, with points in other orders and other counts.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from txn_process import Life, live

from support.server import ServerProcess
from txn.model.position import Position
from txn_histories.checker import check, report
from txn_histories.notes import Rest
from txn_histories.recorder import Line, history_of
from txn_histories.violations import Findings

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("TIDEMARK_TXN_ROUNDS", "1"))
CHAINS = 8
"""Of each kind of log."""
KILLED_WITHIN_S = 60.0
COUNT_MAX = 3
POINT = re.compile(r'"(txn\.[a-z.]+\.(?:before|after)|txn\.(?:own|recovery)\.[a-z.]+)"')
ONCE = re.compile(r"txn\.(own|recover|recovery|delete|cursor)\.")
"""Points that are not reached many times in a life."""
STORED_POINTS = ("segment.append.before", "segment.append.after", "segment.state.after")
LOCAL_POINTS = ("log.append.after", "log.sync.after", "segment.state.after")
"""Of the logs beneath, which have tests of their own, those on the way of every message."""


def named_points() -> list[str]:
    """All points of transactions, as the code names them."""
    found: set[str] = set()
    for path in (ROOT / "txn").rglob("*.py"):
        found |= set(POINT.findall(path.read_text("utf-8")))
    return sorted(found)


def points(is_local: bool) -> list[str]:
    return [*named_points(), *(LOCAL_POINTS if is_local else STORED_POINTS)]


def test_every_named_point_is_in_the_matrix() -> None:
    """No point is reached in the code under a name that the matrix does not know."""
    reached: set[str] = set()
    for path in (ROOT / "txn").rglob("*.py"):
        reached |= set(re.findall(r'reach\(\s*f?"(txn[^"]*)"', path.read_text("utf-8")))
    assert reached
    assert reached <= set(named_points())
    steps = {point.split(".")[1] for point in named_points()}
    assert {"begin", "publish", "ack", "commit", "abort", "timeout", "settle", "collect", "recovery", "own"} <= steps


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_broker_killed_at_every_point_breaks_no_promise(seed: int) -> None:
    choice = random.Random(seed)
    chains: list[tuple[bool, list[str]]] = []
    for is_local in (False, True):
        everything = points(is_local)
        choice.shuffle(everything)
        chains += [(is_local, everything[start::CHAINS]) for start in range(CHAINS)]
    with ThreadPoolExecutor(len(chains)) as threads:
        judged = [threads.submit(run_chain, place, *chain, seed) for place, chain in enumerate(chains)]
        findings = [each.result() for each in judged]
    total = sum((each.counts for each in findings[1:]), findings[0].counts)
    violations = [violation for each in findings for violation in each.violations]
    print(report(Findings(violations, total)))
    assert not violations, report(Findings(violations, total))
    assert total["kills"] == sum(len(chain) for _, chain in chains)


def run_chain(place: int, is_local: bool, chosen: list[str], seed: int) -> Findings:
    """All lives of a chain, and the judgement over them."""
    choice = random.Random(seed * 1_000 + place)
    lines: list[Line] = []
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-txn-", ignore_cleanup_errors=True))
        if place % CHAINS:
            url = f"lmdb://{directory}/store?shards={choice.choice([1, 4])}"
        else:
            url = f"oxia://{stack.enter_context(ServerProcess(shards=4)).address}"
        for number, point in enumerate(chosen):
            count = 1 if ONCE.match(point) else choice.randint(1, COUNT_MAX)
            life = Life(number, url, directory, is_local, f"{point}:{count}")
            heard, code = run_life(life)
            assert code == -signal.SIGKILL, f"{life} ended with {code}"
            lines += heard
        heard, code = run_life(Life(len(chosen), url, directory, is_local, None))
        assert code == 0, f"the last life ended with {code}, after {chosen}"
        lines += heard
    history = history_of(lines)
    history.rest = rest_of(lines[-1])
    findings = check(history)
    findings.counts["kills"] += len(chosen)
    return findings


def run_life(life: Life) -> tuple[list[Line], int | None]:
    """What a process noted, and how it ended."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["txn_process"])
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=live, args=(life, sending))
    process.start()
    sending.close()
    lines: list[Line] = []
    try:
        while receiving.poll(KILLED_WITHIN_S):
            lines.append(json.loads(receiving.recv_bytes()))
    except EOFError:
        process.join(KILLED_WITHIN_S)
        return lines, process.exitcode
    finally:
        process.kill()
        process.join()
        receiving.close()
    raise AssertionError(f"{life} says nothing for {KILLED_WITHIN_S} s: its point was never reached?")


def rest_of(line: Line) -> Rest:
    """How it was in the end."""
    assert line["what"] == "rest", "the last life tells that last"
    ends = {name: (Position.parse(bound), Position.parse(end)) for name, (bound, end) in line["ends"].items()}
    oldest = {name: Position.parse(text) for name, text in line["oldest"].items()}
    return Rest(ends, oldest, leftovers=line["leftovers"])
