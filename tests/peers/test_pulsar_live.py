"""A real Pulsar on our metastore: what its transactions came to is what the audit and the doctor say of its records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from metastore.engine.routing import place_of
from peers.live_pulsar import LivePulsar, built
from peers.live_records import (
    LEADERS,
    Participant,
    audited,
    doctor,
    is_applied,
    is_empty,
    operations,
    participants,
    states,
    until,
)
from support.server import ServerProcess
from support.spark import start_session
from txn.audit.views import pulsar

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]

ORDERS = "topic://public/default/orders"
INVOICES = "topic://public/default/invoices"
INVOICES_SEGMENT = "segment://public/default/invoices/0000-ffff-0"
COLD = "public/cold"
ARCHIVE = f"topic://{COLD}/archive"
ARCHIVE_SEGMENT = f"segment://{COLD}/archive/0000-ffff-0"
ORDERED = [f"order-{number}" for number in range(6)]
HOUR_S, SHORT_S = "3600", "5"
NONE = "-"
SHARDS = 4
SEGMENTS = 4
SENT = [f"message-{number}" for number in range(12)]
BEGUN_MAX = 100

SETTINGS = {
    "transactionCoordinatorScalableTopicsTimeoutSweepIntervalSeconds": 1,
    "transactionCoordinatorScalableTopicsGcIntervalSeconds": 5,
    "transactionCoordinatorScalableTopicsParallelism": 2,
}
COLLECT_SOON = {"transactionCoordinatorScalableTopicsGcRetentionSeconds": 1}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session in which the program, called in this process, audits."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    return built(tmp_path_factory.mktemp("built"))


class Sales:
    """Orders are turned into invoices, in transactions that end in every way there is."""

    def __init__(self, live: LivePulsar, url: str) -> None:
        self._tell, self._url = live.tell, url
        self.participants: set[Participant] = set()
        self._prepare()
        self.committed = self._invoice(["paid-0", "paid-1"], ORDERED[:2])
        self._tell("commit", self.committed)
        self.aborted = self._invoice(["cancelled"], ORDERED[2:3])
        self._tell("abort", self.aborted)
        until(url, pulsar.OPERATIONS, is_empty)
        self.left = self._invoice(["later"], ORDERED[3:5])
        self.expired = self._expire()
        until(url, pulsar.OPERATIONS, is_applied(self.left))

    def _prepare(self) -> None:
        tell = self._tell
        tell("namespace", COLD)
        tell("topic", ORDERS, "2")
        tell("topic", INVOICES, "1")
        tell("topic", ARCHIVE, "1")
        tell("subscribe", ORDERS, "billing")
        tell("subscribe", INVOICES, "books")
        for value in ORDERED:
            tell("send", NONE, ORDERS, value)
        assert sorted(tell("receive", ORDERS, "billing", str(len(ORDERED)))) == ORDERED

    def _invoice(self, invoices: list[str], orders: list[str]) -> str:
        [transaction] = self._tell("begin", HOUR_S)
        for invoice in invoices:
            self._tell("send", transaction, INVOICES, invoice)
        for order in orders:
            self._tell("acknowledge", transaction, ORDERS, "billing", order)
        self.participants |= participants(operations(self._url, transaction, len(invoices) + len(orders)))
        return transaction

    def _expire(self) -> str:
        [transaction] = self._tell("begin", SHORT_S)
        self._tell("send", transaction, INVOICES, "too late")
        self.participants.add((transaction, INVOICES_SEGMENT, None))
        return transaction

    def archive(self) -> str:
        """A transaction that is committed when its only segment is not loaded any more."""
        [transaction] = self._tell("begin", HOUR_S)
        self._tell("send", transaction, ARCHIVE, "kept")
        self._tell("leave", ARCHIVE)
        self._tell("unload", COLD)
        self._tell("commit", transaction)
        self.participants.add((transaction, ARCHIVE_SEGMENT, None))
        return transaction


def check_what_is_left_open(url: str, sales: Sales) -> None:
    """Nothing is wrong; one transaction is open, and holds a segment."""
    assert audited(url) == {}
    assert audited(url, "--hold", "1ms") == {"horizon-held": {(sales.left, INVOICES_SEGMENT, None)}}
    assert states(url, "open") == {sales.left: "OPEN"}
    decided = {sales.committed: "COMMITTED", sales.aborted: "ABORTED", sales.expired: "ABORTED"}
    assert states(url, "all") == {sales.left: "OPEN", **decided}
    shown = doctor(url, "show", sales.left)
    taking_part = {
        (sales.left, line["segment"], line["subscription"]) for line in shown if line["type"] == "participant"
    }
    assert taking_part == {each for each in sales.participants if each[0] == sales.left}
    [horizon, *behind] = doctor(url, "why", INVOICES_SEGMENT)
    assert (horizon["horizon"], horizon["transaction"], behind) == ("held", sales.left, [])


def test_what_became_of_transactions_is_found_in_the_records_of_a_pulsar_that_lives(
    spark: SparkSession, classpath: str, tmp_path: Path
) -> None:
    with ServerProcess() as server:
        url = f"oxia://{server.address}/default"
        with LivePulsar(url, classpath, tmp_path, SETTINGS) as live:
            sales = Sales(live, url)
            assert live.tell("receive", INVOICES, "books", "2") == ["paid-0", "paid-1"]
            check_what_is_left_open(url, sales)

            archived = sales.archive()
            late = {"outcome-not-applied": {(archived, ARCHIVE_SEGMENT, None)}}
            assert audited(url) == late
            [horizon, *_] = doctor(url, "why", ARCHIVE_SEGMENT)
            assert (horizon["horizon"], horizon["transaction"]) == ("unapplied", archived)
            assert states(url, "committed") == {sales.committed: "COMMITTED", archived: "COMMITTED"}

            live.kill_broker()
            until(url, LEADERS, is_empty)  # the session of the broker is over
            assert audited(url) == late
            assert states(url, "open") == {sales.left: "OPEN"}

            live.start_broker(**COLLECT_SOON)
            live.tell("subscribe", ARCHIVE, "books")
            assert live.tell("receive", ARCHIVE, "books", "1") == ["kept"]
            live.tell("commit", sales.left)
            # Nobody has acknowledged what was received.
            assert sorted(live.tell("receive", INVOICES, "books", "3")) == ["later", "paid-0", "paid-1"]
            until(url, pulsar.OPERATIONS, is_empty)
            until(url, pulsar.IDS, is_empty)
            assert audited(url) == {"announcement-left-behind": sales.participants}
            assert states(url, "all") == {}


def is_seen(key: str, transaction: str) -> bool:
    """Whether Pulsar finds a record to which an index has led it: it asks for the key alone, without the partition."""
    return place_of(key.encode(), SHARDS) == place_of(transaction.encode(), SHARDS)


def begun(live: LivePulsar) -> str:
    """A transaction whose header Pulsar sees, but not all its operations."""
    for _ in range(BEGUN_MAX):
        [transaction] = live.tell("begin", HOUR_S)
        keys = [f"{pulsar.OPERATIONS}/{transaction}-{number:020}" for number in range(1, len(SENT) + 1)]
        seen = sum(is_seen(key, transaction) for key in keys)
        if is_seen(f"{pulsar.IDS}/{transaction}", transaction) and 0 < seen < len(SENT):
            return transaction
    raise AssertionError(f"of {BEGUN_MAX} transactions one is such")


def test_what_pulsar_loses_on_several_shards_is_found(spark: SparkSession, classpath: str, tmp_path: Path) -> None:
    with ServerProcess(SHARDS) as server:
        url = f"oxia://{server.address}/default"
        with LivePulsar(url, classpath, tmp_path, SETTINGS) as live:
            live.tell("topic", ORDERS, str(SEGMENTS))
            live.tell("subscribe", ORDERS, "billing")
            transaction = begun(live)
            for value in SENT:
                live.tell("send", transaction, ORDERS, value)
            rows = operations(url, transaction, len(SENT))
            announced = participants(row for row in rows if is_seen(row.key, transaction))
            hidden = [row for row in rows if not is_seen(row.key, transaction)]
            unapplied = participants(hidden)
            delivered = [row for row in rows if (transaction, row.segment, None) in announced]

            live.tell("commit", transaction)
            assert set(live.tell("receive", ORDERS, "billing", str(len(delivered)))) <= set(SENT)
            until(url, pulsar.OPERATIONS, lambda records: records.keys() == {row.key for row in hidden})
            expected = {"outcome-not-applied": unapplied, "decision-not-announced": unapplied - announced}
            assert audited(url) == {rule: found for rule, found in expected.items() if found}

            live.kill_broker()
            until(url, LEADERS, is_empty)
            live.start_broker(**COLLECT_SOON)
            until(url, pulsar.IDS, lambda records: f"{pulsar.IDS}/{transaction}" not in records)
            assert audited(url) == {"operations-without-header": unapplied, "announcement-left-behind": announced}
