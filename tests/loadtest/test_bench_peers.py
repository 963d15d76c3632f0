"""The peers' protocols: bytes against their definitions, and real servers behind the marker `peers`."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bench.generator import Generator
from loadtest.bench.model import BenchError, Turn
from loadtest.bench.peers import jute, perf, work
from loadtest.bench.peers.etcd import EtcdDialect, EtcdWork
from loadtest.bench.peers.lines import dialects, groups
from loadtest.bench.peers.oxia import NOTIFICATIONS, OxiaDialect
from loadtest.bench.peers.peer import Peer
from loadtest.bench.peers.programs import etcd, missing_peers, peers_here, zookeeper
from loadtest.bench.peers.work import BATCH, CHILDREN, KINDS, RECORDS
from loadtest.bench.peers.zookeeper import ZookeeperDialect, ZookeeperWork
from loadtest.bench.servers import Server, oxia, tidemark
from loadtest.bench.settings import QUICK_PLAN, Settings
from loadtest.bench.workload import VALUE_BYTES, Mixed, record_key
from loadtest.pb import etcd_pb2
from metastore.pb import oxia_pb2 as pb

TEXT = st.binary(max_size=200)
PERF = """\
INF Stats - Total ops: 2195.7 ops/s - Failed ops:    {failed} ops/s
\t\t\tWrite ops  438.5 w/s  Latency ms: 50%  22.8 - 95% 101.4 - 99% 502.2 - 99.9% 502.2 - max  502.2
\t\t\tRead  ops 1757.2 r/s  Latency ms: 50%  13.2 - 95%  86.2 - 99% 420.3 - 99.9% 420.3 - max  420.3
"""


def settings(folder: Path = Path("/nowhere")) -> Settings:
    programs = (tidemark(), oxia(Path("/no/oxia")))
    return Settings(QUICK_PLAN, programs, folder, "lean", Path("/no/oxia"), (etcd(), zookeeper(Path("/no/jar"))))


@given(st.lists(TEXT, max_size=5), st.integers(1, 50))
def test_jute_frames_come_out_as_they_went_in_however_they_are_cut(bodies: list[bytes], size: int) -> None:
    sent = b"".join(map(jute.framed, bodies))
    buffer, found = bytearray(), []
    for start in range(0, len(sent), size):
        buffer += sent[start : start + size]
        found += jute.read_frames(buffer)
    assert found == bodies
    assert not buffer


def test_a_jute_request_has_length_number_and_kind() -> None:
    asked = jute.request(jute.GET, jute.read_fields(b"/a"))
    sent = jute.numbered(7, asked)
    assert struct.unpack_from(">iii", sent) == (len(sent) - 4, 7, jute.GET)
    assert sent[12:] == b"\0\0\0\2/a\0"


def test_a_session_is_asked_for_and_told() -> None:
    asked = jute.connect_request(30_000)
    assert struct.unpack_from(">iqiqi", asked) == (0, 0, 30_000, 0, 16)
    assert jute.session_of(struct.pack(">iiq", 0, 30_000, 99) + jute.text(bytes(16))) == 99


def test_replies_are_read() -> None:
    reply = jute.reply_of(struct.pack(">iqi", 3, 1234, -101) + b"rest")
    assert reply == jute.Reply(3, -101, b"rest")
    assert jute.names_of(struct.pack(">i", 2) + jute.text(b"a") + jute.text(b"bc")) == [b"a", b"bc"]
    assert jute.value_of(jute.text(b"value") + bytes(jute.STAT_BYTES)) == b"value"
    assert jute.value_of(struct.pack(">i", -1)) == b""


def test_results_of_several_operations_are_told_apart() -> None:
    body = (
        struct.pack(">i?i", jute.SET, False, 0)
        + bytes(jute.STAT_BYTES)
        + struct.pack(">i?i", jute.GET, False, 0)
        + jute.text(b"value")
        + bytes(jute.STAT_BYTES)
        + struct.pack(">i?i", jute.CREATE, False, 0)
        + jute.text(b"/path")
        + struct.pack(">i?ii", -1, False, -101, -101)
        + jute.MULTI_END
    )
    assert list(jute.results_of(body)) == [
        (jute.SET, b""),
        (jute.GET, b"value"),
        (jute.CREATE, b"/path"),
        (-1, b""),
    ]


def test_all_dialects_overwrite_the_same_records_in_the_same_order() -> None:
    known = dialects(settings())
    ours = known["tidemark"].work("put-one").workload.requests(1)
    puts = [pb.WriteRequest.FromString(each).puts[0] for each in itertools.islice(ours, 50)]
    etcd_puts = [
        etcd_pb2.PutRequest.FromString(each)
        for each in itertools.islice(known["etcd"].work("put-one").workload.requests(1), 50)
    ]
    nodes = list(itertools.islice(known["zookeeper"].work("put-one").workload.requests(1), 50))
    assert [(put.key, put.value) for put in puts] == [(put.key, put.value) for put in etcd_puts]
    assert [put.key for put in puts] == [node[8:].split(b"\0", 1)[0] for node in nodes]
    assert [put.value for put in puts] == [node[-4 - VALUE_BYTES : -4] for node in nodes]


def test_tidemark_and_oxia_get_the_very_same_requests() -> None:
    known = dialects(settings())
    for kind in set(KINDS) - {"delivery"}:
        ours, theirs = (known[side].work(kind).workload for side in ("tidemark", "oxia"))
        assert ours == theirs


def test_no_batch_has_a_record_twice() -> None:
    request = next(EtcdWork("txn", "", operations=BATCH).requests(3))
    keys = [each.request_put.key for each in etcd_pb2.TxnRequest.FromString(request).success]
    assert len(set(keys)) == len(keys) == BATCH


def test_fills_write_every_record_once() -> None:
    requests = EtcdWork("fill", "", operations=BATCH).requests(0)
    puts = [each.request_put for request in requests for each in etcd_pb2.TxnRequest.FromString(request).success]
    assert [put.key for put in puts] == [record_key(number) for number in range(RECORDS)]
    multis = [each for each in ZookeeperWork("fill").requests(0) if each[:4] == struct.pack(">i", jute.MULTI)]
    assert sum(each.count(b"/topic-") for each in multis) == RECORDS


def test_mixed_work_keeps_methods_and_requests_in_step() -> None:
    mixed = OxiaDialect(tidemark(), NOTIFICATIONS).work("mixed").workload
    assert isinstance(mixed, Mixed)
    pairs = list(zip(itertools.cycle(mixed.methods), itertools.islice(mixed.requests(0), 20), strict=False))
    assert sum(method.endswith("/Write") for method, _ in pairs) == 4
    for method, request in pairs:
        message = (
            pb.WriteRequest.FromString(request) if method.endswith("/Write") else pb.ReadRequest.FromString(request)
        )
        assert len(message.puts if isinstance(message, pb.WriteRequest) else message.gets) == 1


@pytest.mark.parametrize(
    ("work_of", "answer", "complaint"),
    [
        (EtcdWork("put", ""), etcd_pb2.PutResponse(), "a put without a revision"),
        (EtcdWork("txn", "", operations=2), etcd_pb2.TxnResponse(succeeded=True), "0 puts done, expected 2"),
        (EtcdWork("get", ""), etcd_pb2.RangeResponse(), "0 records found, expected 1"),
        (EtcdWork("lease", ""), etcd_pb2.LeaseGrantResponse(), "a lease without an id"),
    ],
)
def test_wrong_answers_of_an_etcd_are_refused(
    work_of: EtcdWork,
    answer: etcd_pb2.PutResponse | etcd_pb2.TxnResponse | etcd_pb2.RangeResponse | etcd_pb2.LeaseGrantResponse,
    complaint: str,
) -> None:
    with pytest.raises(BenchError, match=complaint):
        work_of.check([answer.SerializeToString()])


@pytest.mark.parametrize(
    ("method", "answer", "complaint"),
    [
        ("get", jute.text(b"short"), "5 bytes read, expected 128"),
        ("children", struct.pack(">i", 0), f"0 names listed, expected {CHILDREN}"),
        ("multi", jute.MULTI_END, "0 nodes set, expected 1"),
        ("scan", jute.MULTI_END, f"0 values read, expected {CHILDREN}"),
        ("session", struct.pack(">iiq", 0, 0, 0), "no session"),
    ],
)
def test_wrong_answers_of_a_zookeeper_are_refused(method: str, answer: bytes, complaint: str) -> None:
    with pytest.raises(BenchError, match=complaint):
        ZookeeperWork(method).check([answer])


def test_an_unknown_kind_of_work_is_refused() -> None:
    assert work.known("put-one") == "put-one"
    with pytest.raises(BenchError, match="no kind of work 'put-two'; there are put-one"):
        work.known("put-two")


def test_a_missing_peer_is_named_with_what_to_install(tmp_path: Path) -> None:
    nowhere = {"ZOOKEEPER_JAR": str(tmp_path / "zookeeper.jar")}
    assert str(tmp_path / "zookeeper.jar") in missing_peers(nowhere)
    with pytest.raises(BenchError, match=r"missing: .*zookeeper.jar; apt-get install etcd-server"):
        peers_here(nowhere)


def test_the_figures_of_oxia_perf_are_read() -> None:
    told = PERF.format(failed="0.0")
    assert perf.is_whole(told)
    assert not perf.is_whole(told[:120])
    assert perf.parsed(told) == {
        "rate": 2195.7,
        "write_p50_ms": 22.8,
        "write_p99_ms": 502.2,
        "read_p50_ms": 13.2,
        "read_p99_ms": 420.3,
    }
    with pytest.raises(BenchError, match=r"3.0 operations a second failed"):
        perf.parsed(PERF.format(failed="3.0"))


def test_every_group_has_our_side_first() -> None:
    sides = {group.name: group.sides for group in groups(settings())}
    assert sides["peers"] == ("tidemark", "oxia", "etcd", "zookeeper")
    assert sides["oxia-perf"] == ("tidemark", "oxia")
    assert {name for name in sides if name.startswith("peers-alone")} == {
        f"peers-alone-{side}" for side in sides["peers"]
    }


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    with Generator("lean") as generator:
        yield generator


def play_everything(peer: Peer) -> Mapping[str, Mapping[str, float]]:
    """A short turn of every kind; each checks its answers."""
    peer.server.pause()
    peer.prepare()
    return {kind: peer.measure(Turn(0, 0.1), kind) for kind in KINDS}


@pytest.fixture(autouse=True)
def briefly_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtest.bench.peers.peer.WARM_UP_S", 0.1)


def test_tidemark_does_every_kind_of_work(generator: Generator, tmp_path: Path) -> None:
    dialect = dialects(settings())["tidemark"]
    with Server(dialect.program, tmp_path, generator) as server:
        samples = play_everything(Peer(dialect, server, generator))
    assert all(sample["requests"] >= 1 and sample["client_cpu_us"] > 0 for sample in samples.values())


@pytest.mark.peers
def test_an_oxia_does_every_kind_of_work(generator: Generator, tmp_path: Path) -> None:
    program = oxia(Path(os.environ["OXIA_BIN"]))
    known = dialects(Settings(QUICK_PLAN, (tidemark(), program), tmp_path, "lean", None, (etcd(), etcd())))
    with Server(program, tmp_path, generator) as server:
        samples = play_everything(Peer(known["oxia"], server, generator))
    assert all(sample["requests"] >= 1 for sample in samples.values())


@pytest.mark.peers
@pytest.mark.parametrize(("place", "dialect_of"), [(0, EtcdDialect), (1, ZookeeperDialect)], ids=["etcd", "zookeeper"])
def test_a_real_peer_does_every_kind_of_work(
    place: int, dialect_of: type[EtcdDialect] | type[ZookeeperDialect], generator: Generator, tmp_path: Path
) -> None:
    dialect = dialect_of(peers_here(os.environ)[place])
    with Server(dialect.program, tmp_path, generator) as server:
        samples = play_everything(Peer(dialect, server, generator))
    assert all(sample["requests"] >= 1 for sample in samples.values())
