"""The requests parse to what they claim to be, and only right answers pass."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bench import workload
from loadtest.bench.model import BenchError
from loadtest.bench.workload import Fill, Gets, Listing, Puts, Scan, record_key
from metastore.engine.keys import key_order
from metastore.pb import oxia_pb2 as pb

RECORDS = 3_000
NUMBERS = st.integers(0, workload.RECORDS_MAX - 1)


@pytest.fixture(autouse=True)
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of a thousand operations, which are quickly made."""
    monkeypatch.setattr(workload, "POOL_OPERATIONS", 1_000)
    workload.put_pool.cache_clear()
    workload.get_pool.cache_clear()


def puts_of(work: Puts | Fill, turn: int, count: int) -> list[pb.WriteRequest]:
    return [pb.WriteRequest.FromString(each) for each in itertools.islice(work.requests(turn), count)]


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
@given(numbers=st.tuples(NUMBERS, NUMBERS))
def test_keys_keep_the_order_of_their_numbers(sorting: str, numbers: tuple[int, int]) -> None:
    encode = key_order(sorting).encode
    smaller, greater = sorted(numbers)
    assert (encode(record_key(smaller)) < encode(record_key(greater))) == (smaller < greater)
    folder = smaller // workload.RECORDS_PER_FOLDER
    assert encode(workload.folder_start(folder)) < encode(record_key(smaller))
    assert encode(record_key(smaller)) < encode(workload.folder_start(folder + 1))
    assert encode(record_key(greater)) < encode(workload.ALL_KEYS_END)


@pytest.mark.parametrize("batch", [1, 10, 100])
def test_puts_are_joined_into_whole_requests(batch: int) -> None:
    for request in puts_of(Puts(batch, 4, RECORDS), turn=0, count=50):
        assert request.shard == 0
        assert request.HasField("shard")
        assert len(request.puts) == batch
        assert all(len(put.value) == workload.VALUE_BYTES for put in request.puts)
        assert not any(put.secondary_indexes for put in request.puts)


def test_puts_in_order_go_through_the_records() -> None:
    requests = puts_of(Puts(100, 4, RECORDS, order="sorted"), turn=0, count=3)
    keys = [put.key for request in requests for put in request.puts]
    assert keys == [record_key(number) for number in range(300)]


def test_random_puts_stay_within_the_records_and_repeat_from_run_to_run() -> None:
    first, again = (puts_of(Puts(100, 4, RECORDS), turn=1, count=20) for _ in range(2))
    assert first == again
    keys = {put.key for request in first for put in request.puts}
    assert keys <= {record_key(number) for number in range(RECORDS)}
    assert len(keys) > 500


def test_turns_start_at_different_places() -> None:
    starts = {puts_of(Puts(10, 4, RECORDS), turn, 1)[0].SerializeToString() for turn in range(8)}
    assert len(starts) == 8


@pytest.mark.parametrize(("index", "moves"), [("same", False), ("moving", True)])
def test_index_entries_stay_or_move(index: str, moves: bool) -> None:
    entries: dict[bytes, set[bytes]] = {}
    for request in puts_of(Puts(100, 4, 50, index=index), turn=0, count=10):
        for put in request.puts:
            (entry,) = put.secondary_indexes
            entries.setdefault(put.key, set()).add(entry.secondary_key)
    assert any(len(keys) > 1 for keys in entries.values()) == moves


def test_a_fill_writes_every_record_once() -> None:
    requests = [pb.WriteRequest.FromString(each) for each in Fill(1_000, RECORDS).requests(0)]
    keys = [put.key for request in requests for put in request.puts]
    assert keys == [record_key(number) for number in range(1_000, RECORDS)]


def test_gets_ask_for_values_of_records() -> None:
    request = pb.ReadRequest.FromString(next(Gets(100, 4, RECORDS).requests(0)))
    assert len(request.gets) == 100
    assert all(get.include_value for get in request.gets)
    assert {get.key for get in request.gets} <= {record_key(number) for number in range(RECORDS)}


def put_answer(statuses: list[pb.Status.ValueType]) -> bytes:
    puts = [pb.PutResponse(status=status, version=pb.Version()) for status in statuses]
    return pb.WriteResponse(puts=puts).SerializeToString()


def test_only_puts_that_were_all_done_pass() -> None:
    work = Puts(2, 1, RECORDS)
    work.check([put_answer([pb.OK, pb.OK])])
    for wrong in ([pb.OK], [pb.OK, pb.SESSION_DOES_NOT_EXIST], []):
        with pytest.raises(BenchError, match="puts done, expected 2"):
            work.check([put_answer(wrong)])
    without_version = pb.WriteResponse(puts=[pb.PutResponse(), pb.PutResponse()]).SerializeToString()
    with pytest.raises(BenchError, match="0 puts done"):
        work.check([without_version])


def test_only_gets_that_were_all_found_pass() -> None:
    def answer(value: bytes) -> bytes:
        return pb.ReadResponse(gets=[pb.GetResponse(value=value)]).SerializeToString()

    whole = answer(bytes(workload.VALUE_BYTES))
    Gets(2, 1, RECORDS).check([whole, whole])
    with pytest.raises(BenchError, match="1 records found, expected 2"):
        Gets(2, 1, RECORDS).check([whole, answer(b"")])


def test_only_complete_ordered_scans_pass() -> None:
    def answer(numbers: range) -> bytes:
        records = [pb.GetResponse(key=record_key(number)) for number in numbers]
        return pb.RangeScanResponse(records=records).SerializeToString()

    work = Scan(1_000)
    work.check([answer(range(600)), answer(range(600, 1_000))])
    with pytest.raises(BenchError, match="999 records scanned, expected 1000"):
        work.check([answer(range(999))])
    with pytest.raises(BenchError, match="at place 0"):
        work.check([answer(range(600, 1_000)), answer(range(600))])


def test_only_complete_lists_pass() -> None:
    keys = [record_key(number) for number in range(50)]
    Listing(50).check([pb.ListResponse(keys=keys).SerializeToString()])
    with pytest.raises(BenchError, match="49 keys listed"):
        Listing(50).check([pb.ListResponse(keys=keys[:-1]).SerializeToString()])


def test_a_scan_covers_its_folders() -> None:
    request = pb.RangeScanRequest.FromString(next(Scan(2_000).requests(0)))
    assert request.start_inclusive == b"/bench/public/ns-00000/"
    assert request.end_exclusive == b"/bench/public/ns-00002/"
