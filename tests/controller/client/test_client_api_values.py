"""What needs no broker: URLs, names, ids, batches, routes, and the outbox under every order of events."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from client_api_counter import delivery_of
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.client import InvalidRequest, MessageId, Position
from controller.client.batches import Content, pack, unpack
from controller.client.compression import Compression
from controller.client.connections import Connections
from controller.client.names import segment_of
from controller.client.routes import BROKERS_MAX, OWNERS_MAX, Routes
from controller.client.segment.outbox import Outbox, Outgoing, Packing, Parcel
from controller.client.settings import settings_of
from controller.pb import broker_pb2 as pb
from metastore.clock import ManualClock
from metastore.dialling import Security


def test_what_a_url_says() -> None:
    url = "tidemark://one:1234,two,[::1]:7?tls=true&token_file=t&request_timeout=500ms"
    found = settings_of(url)
    assert found.addresses == ("one:1234", "two:6650", "[::1]:7")
    assert found.security == Security(tls=True, token_file=Path("t"))
    assert found.request_timeout_s == 0.5


@pytest.mark.parametrize(
    "url",
    [
        "",
        "one:1234",
        "oxia://one",
        "tidemark://",
        "tidemark://one,,two",
        "tidemark://one:0",
        "tidemark://one:x",
        "tidemark://user@one",
        "tidemark://one/path",
        "tidemark://one#x",
        "tidemark://one?speed=9",
        "tidemark://one?tls=yes",
        "tidemark://one?tls=true&tls=true",
        "tidemark://one?request_timeout=0",
        "tidemark://one?request_timeout=25h",
        "tidemark://one?cert_file=c",
    ],
)
def test_what_a_url_cannot_say_is_named(url: str) -> None:
    with pytest.raises(InvalidRequest):
        settings_of(url)


def test_topics_and_segments() -> None:
    for topic in ("orders", "public/default/orders", "topic://public/default/orders"):
        assert segment_of(topic) == "segment://public/default/orders/0000-ffff-0"
    assert segment_of("segment://a/b/c/0000-7fff-3") == "segment://a/b/c/0000-7fff-3"


def test_ids_are_read_as_they_are_written() -> None:
    for each in (MessageId(Position(3, 17)), MessageId(Position(3, 17), 2)):
        assert MessageId.parse(str(each)) == each
    for text in ("", "3", "3:", "3:17/", "3:17/02", "03:1"):
        with pytest.raises(InvalidRequest):
            MessageId.parse(text)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no bearer token"):
        Connections(Security(token_file=Path(__file__)), ManualClock())
    with pytest.raises(InvalidRequest, match="cannot read"):
        Connections(Security(ca_file=tmp_path / "none"), ManualClock())


TEXTS = st.text(max_size=3)
CONTENTS = st.lists(
    st.builds(
        Content,
        st.binary(max_size=20),
        st.dictionaries(TEXTS, TEXTS, max_size=2),
        st.none() | TEXTS,
        st.integers(0, (1 << 64) - 1),
    ),
    min_size=1,
    max_size=20,
)


@given(contents=CONTENTS, compression=st.sampled_from(Compression), data=st.data())
def test_what_is_put_together_comes_apart(
    contents: list[Content], compression: Compression, data: st.DataObject
) -> None:
    gone = data.draw(st.sets(st.integers(0, len(contents) - 1))) if len(contents) > 1 else set()
    bits = sum(1 << index for index in gone).to_bytes(3, "little") if gone else b""
    delivery = delivery_of(pack(contents, range(100, 100 + len(contents)), compression), acknowledged=bits)
    unpacked = unpack("s", delivery)
    assert [(each.id.batch_index, each.sequence_id, each.damage) for each in unpacked] == [
        (index, 100 + index, "") for index in range(len(contents)) if index not in gone
    ]
    assert [Content(each.payload, each.properties, each.key, each.event_ms) for each in unpacked] == [
        content for index, content in enumerate(contents) if index not in gone
    ]


def test_routes_are_corrected_and_bounded() -> None:
    routes = Routes(["a", "b"])
    routes.note_failure("a")
    assert routes.brokers == ["b", "a"]
    routes.learn_brokers(["c", "b"])
    assert routes.brokers == ["b", "c", "a"]
    assert routes.owner("s") == "b"
    assert routes.learn_owner("s", "c", 5)
    assert not routes.learn_owner("s", "c", 5)
    assert not routes.learn_owner("s", "a", 4)
    assert routes.owner("s") == "c"
    routes.note_failure("c", "s")
    assert routes.owner("s") == "b"
    routes.learn_brokers(f"broker-{number}" for number in range(2 * BROKERS_MAX))
    assert len(routes.brokers) == BROKERS_MAX
    assert set(routes.brokers) >= {"a", "b"}
    for number in range(OWNERS_MAX + 1):
        routes.learn_owner(f"s-{number}", "c", 1)
    assert routes.owner("s-0") == routes.anyone()
    assert routes.owner("s-1") == "c"


EVENTS = st.lists(
    st.sampled_from(["add", "take", "accept", "accept", "refuse", "fail", "break", "give up"]), max_size=80
)


@settings(max_examples=150)
@given(events=EVENTS, batch=st.integers(1, 4), entries_max=st.integers(1, 4))
def test_whatever_happens_each_message_is_stored_once_or_given_up(
    events: list[str], batch: int, entries_max: int
) -> None:
    """A broker in miniature, which recognises what comes again; and every order of what can happen."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        outbox = Outbox(Packing(batch, 1_000, 3, 100_000))
        window = pb.Window(entries_max=entries_max, bytes_max=1_000)
        messages: list[Outgoing] = []
        stream: list[Parcel] = []
        stored: dict[int, tuple[int, ...]] = {}

        def take() -> None:
            if outbox.has_refused:
                outbox.retry()
            stream.extend(outbox.take(window))
            assert len(stream) <= entries_max

        def answer(kind: str) -> None:
            parcel = stream.pop(0)
            assert outbox.answered(parcel.send.sequence_id) is parcel
            if kind == "refuse" and not parcel.is_given_up:
                outbox.refuse(parcel)
                return
            if kind != "fail":
                numbers = tuple(message.sequence_id for message in parcel.messages)
                assert stored.setdefault(numbers[0], numbers) == numbers, "an entry keeps its messages"
            for message in parcel.messages:
                if not message.outcome.done():
                    message.outcome.set_result(None)
            outbox.forget(parcel)

        for event in events:
            if event == "add":
                content = Content(b"x", {})
                messages.append(Outgoing(len(messages), content, "", loop.create_future(), 0.0))
                outbox.add(messages[-1])
            elif event == "take":
                take()
            elif event == "break":
                for parcel in stream[:1]:  # it was stored, and the answer lost
                    stored[parcel.send.sequence_id] = tuple(each.sequence_id for each in parcel.messages)
                stream.clear()
                outbox.interrupt()
            elif event == "give up":
                waiting = [message for message in messages if not message.outcome.done()]
                if waiting:
                    waiting[0].outcome.cancel()
                    outbox.drop_given_up()
            elif stream:
                answer(event)
        while outbox.count:
            take()
            assert stream or not outbox.count, "something can be sent, unless what was left was given up"
            if stream:
                answer("accept")
        assert outbox.size_bytes == 0
        numbers = [number for each in stored.values() for number in each]
        assert len(numbers) == len(set(numbers))
        assert all(message.outcome.done() for message in messages)
        wanted = {message.sequence_id for message in messages if not message.outcome.cancelled()}
        assert wanted - set(numbers) <= {message.sequence_id for message in messages if "fail" in events}

    asyncio.run(scenario())
