"""Answers of a broker that do not have the protocol's form are an error of ours, whatever they are."""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from threading import Thread
from typing import Any

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable
from playhead.kafka.admin import broker_socket, leader_epochs, log_dirs, open_transactions
from playhead.kafka.admin.answer_fields import BadAnswer, Fields
from playhead.kafka.admin.broker_socket import Wire, text
from playhead.kafka.groups import commit, consumer_offsets_topic
from playhead.kafka.read import log_heads
from playhead.kafka.read.log_heads import heads_in
from playhead.source import Bounds, TopicPartition
from tests.scripted_broker import ScriptedBroker

_PLACE = ("laps", 0)
_BATCH = struct.Struct(">qiibIhiqqqhii")


def _int32(value: int) -> bytes:
    return struct.pack(">i", value)


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"\0", Fields.int16),
        (b"", Fields.is_true),
        (struct.pack(">h", 5) + b"abc", Fields.text),
        (struct.pack(">h", -2), Fields.text),
        (struct.pack(">h", 1) + b"\xff", Fields.text),
        (b"\x02\xff", Fields.compact_text),
        (b"\x05abc", Fields.compact_text),
        (_int32(4) + b"abc", Fields.bytes_),
        (_int32(-7), Fields.bytes_),
        (_int32(9) + b"12345678", Fields.length),
        (_int32(-2), Fields.length),
        (b"\x0a12345678", Fields.count),
        (b"\xff" * 4 + b"\x7f", Fields.count),
        (b"\x80" * 5 + b"\x01", Fields.count),
        (b"\x80" * 3, Fields.count),
        (b"\xe9\x07" + b"\0\0" * 1_001, Fields.skip_tags),
        (b"\x01\0\x05abc", Fields.skip_tags),
        (b"\xff" * 700_000, Fields.skip_tags),
    ],
)
def test_what_does_not_fit_is_one_error(data: bytes, read: Callable[[Fields], object]) -> None:
    began = time.monotonic()
    with pytest.raises(BadAnswer):
        read(Fields(data))
    assert time.monotonic() - began < 2


def test_what_fits_is_read() -> None:
    fields = Fields(struct.pack(">h", -1) + b"\0\x03ab" + _int32(-1) + b"\xff\xff\xff\xff\x0f")
    assert (fields.text(), fields.count(), fields.compact_text()) == ("", 0, "ab")
    assert (fields.bytes_(), fields.unsigned()) == (b"", (1 << 32) - 1)
    assert Fields(_int32(2) + b"\0" * 32).length(least=16) == 2


def _head(*, length: int = 49, last: int = 0, count: int = 1, attributes: int = 0) -> bytes:
    return _BATCH.pack(7, length, 0, 2, 0, attributes, last, 1, 1, -1, -1, -1, count)


@pytest.mark.parametrize(
    "data",
    [
        _head(length=40),  # smaller than its own head
        _head(length=-1),
        _head(length=0),
        _head(last=-9),
        _head(count=-1),
        _head(attributes=0x20),  # a marker without its record
        _head(length=57, attributes=0x20) + b"\xff" * 8,
        b"\0" * 8 + _int32(5) + b"\0" * 5,
    ],
)
def test_record_batches_that_cannot_be_are_an_error(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        list(heads_in(data))


def test_a_marker_whose_record_was_compacted_away_is_none_that_aborts() -> None:
    (head,) = heads_in(_head(attributes=0x30, count=0))
    assert (head.is_marker, head.is_abort) == (True, False)


_NOT_TEXT = struct.pack(">h", 2) + b"\xff\xfe"
_MANY = _int32(0x7FFFFFFF)


def _sizes(connection: KafkaConnection, place: str) -> None:
    log_dirs._asked(connection, (1, place), b"", 5)


def _producers(connection: KafkaConnection, place: str) -> None:
    list(open_transactions._first_open(connection, place, [_PLACE]))


def _batches(connection: KafkaConnection, place: str) -> None:
    with closing(log_heads.LogHeads(connection, timeout_s=5)) as heads:
        heads._leaders[_PLACE] = place
        heads.look(_PLACE, [0], most_bytes=1 << 20)


def _deleted(connection: KafkaConnection, place: str) -> None:
    with closing(Wire(connection, place, timeout_s=5)) as wire:
        wire.ask(47, 0, b"", commit.read_answer)


_BAD = [
    *((ask, b"") for ask in (_sizes, _producers, _batches, _deleted)),
    (_sizes, _int32(0) + _MANY),
    (_sizes, _int32(0) + _int32(1) + b"\0\0" + _NOT_TEXT),
    (_producers, b"\xff" * 700_000),
    (_producers, b"\0" + _int32(0) + b"\xff" * 700_000),
    (_producers, b"\0" + _int32(0) + b"\x02\x03\xff\xfe"),
    (_batches, _int32(0) + b"\0\0" + _int32(0) + _int32(1) + _NOT_TEXT),
    (_batches, _int32(0) + b"\0\0" + _int32(0) + _int32(1) + text("laps") + _int32(1)
        + bytes(30) + _MANY),
    (_deleted, b"\0\0" + _int32(0) + _MANY),
    (_deleted, b"\0\0" + _int32(0) + _int32(1) + _NOT_TEXT),
]  # fmt: skip


@pytest.fixture
def broker() -> Any:
    opened: list[ScriptedBroker] = []

    def start(body: bytes) -> str:
        def answer(_api: int, _version: int, correlation: int, _frame: bytes) -> bytes:
            return _int32(len(body) + 4) + _int32(correlation) + body

        opened.append(ScriptedBroker(answer))
        return opened[-1].place

    yield start
    for each in opened:
        each.close()


@pytest.mark.parametrize(("ask", "body"), _BAD)
def test_whoever_asks_a_broker_gets_an_error_that_names_it(
    broker: Callable[[bytes], str], ask: Callable[[KafkaConnection, str], None], body: bytes
) -> None:
    place = broker(body)
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match=place):
        ask(KafkaConnection(place), place)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("wait_ms", [1, 0x7FFFFFFF])
def test_a_quota_that_stays_used_up_ends_the_wait(
    broker: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch, wait_ms: int
) -> None:
    monkeypatch.setattr(log_heads, "_THROTTLED_S", 0.5)
    place = broker(_int32(wait_ms) + b"\0\0" + _int32(0) + _int32(0))
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="a quota for the client id playhead is used up"):
        _batches(KafkaConnection(place), place)
    assert 0.5 <= time.monotonic() - began < 5


def test_a_quota_that_lets_something_through_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each four questions one is answered, and the wait together is longer than the limit of one."""
    monkeypatch.setattr(log_heads, "_THROTTLED_S", 0.7)
    bounds = struct.pack(">hqqq", 0, 9, 9, 0) + _int32(0) + _int32(-1)
    full = b"\0\0" + _int32(0) + _int32(1) + text("laps") + _int32(1) + _int32(0) + bounds
    number = count()

    def answer(_api: int, _version: int, correlation: int, _frame: bytes) -> bytes:
        kept_back = _int32(200) + b"\0\0" + _int32(0) + _int32(0)
        body = kept_back if next(number) % 4 else _int32(0) + full
        return _int32(len(body) + 4) + _int32(correlation) + body

    broker = ScriptedBroker(answer)
    began = time.monotonic()
    with (
        closing(broker),
        closing(log_heads.LogHeads(KafkaConnection(broker.place), timeout_s=5)) as heads,
    ):
        heads._leaders[_PLACE] = broker.place
        assert [each.heads for each in heads.look(_PLACE, [*range(6)], most_bytes=1)] == [()] * 6
    assert time.monotonic() - began > 0.7


def test_an_answer_is_decoded_within_the_limit_of_its_request(
    broker: Callable[[bytes], str],
) -> None:
    """Ten million empty topics fit into 60 MB: they take tens of seconds."""
    topics = 10_000_000
    place = broker(_int32(0) + _int32(1) + b"\0\0" + text("d") + _int32(topics) + bytes(6 * topics))
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match=r"of 60,000,0\d\d bytes were decoded in time"):
        log_dirs._asked(KafkaConnection(place), (1, place), b"", 3)
    assert time.monotonic() - began < 8


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"\x02\x03\xff\xff\x01\0\0", id="no text"),
        pytest.param(b"\x01\0", id="no topic"),
        pytest.param(b"\x02\x05laps\x01\0\0", id="no partition"),
    ],
)
def test_a_plan_looks_again_where_a_leader_answers_nonsense(
    broker: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    place = broker(b"\0" + _int32(0) + said)
    monkeypatch.setattr(open_transactions, "describe_those", lambda *_: {"laps": _Described(place)})
    monkeypatch.setattr(open_transactions, "stable_ends", lambda *_: {_PLACE: 3})
    found = open_transactions.open_transactions(
        None,
        KafkaConnection(place),
        {_PLACE: Bounds(0, 3, 5)},  # type: ignore[arg-type]
    )
    assert found == {_PLACE}


def test_a_leader_that_tells_no_epochs_leaves_them_unknown(
    broker: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(body: bytes, epochs_now: dict[int, int]) -> dict[TopicPartition, int]:
        place = broker(body)
        monkeypatch.setattr(leader_epochs, "describe_those", lambda *_: {"laps": _Described(place)})
        monkeypatch.setattr(leader_epochs, "leader_epochs", lambda *_: {"laps": epochs_now})
        return leader_epochs.ends_of_epochs(None, KafkaConnection(place), {_PLACE: 3})  # type: ignore[arg-type]

    def answer(code: int, end: int) -> bytes:
        partition = struct.pack(">hiiq", code, 0, 3, end) + b"\0"
        return b"\0" + _int32(0) + b"\x02\x05laps\x02" + partition + b"\0\0"

    assert ends(answer(0, 700), {}) == {_PLACE: 700}
    for body in (answer(0, -1), answer(6, 700), b"", b"\xff" * 700_000):
        assert ends(body, {}) == ends(body, {0: 3}) == ends(body, {0: 4}) == {}
        # Of a cluster that was restored from a copy, no record is certainly one of before.
        assert ends(body, {0: 2}) == {_PLACE: 0}


def test_a_partition_of_another_leader_hides_no_answer_about_others(
    broker: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, known = (
        struct.pack(">hiiq", code, number, 3, end) + b"\0"
        for code, number, end in ((6, 0, -1), (0, 1, 700))
    )
    place = broker(b"\0" + _int32(0) + b"\x02\x05laps\x03" + moved + known + b"\0\0")
    monkeypatch.setattr(leader_epochs, "describe_those", lambda *_: {"laps": _Described(place)})
    monkeypatch.setattr(leader_epochs, "leader_epochs", lambda *_: {"laps": {}})
    asked = {_PLACE: 3, ("laps", 1): 3}
    found = leader_epochs.ends_of_epochs(None, KafkaConnection(place), asked)  # type: ignore[arg-type]
    assert found == {("laps", 1): 700}


def test_answers_about_a_partition_that_was_not_asked_for_are_an_error(
    broker: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an answer about the ends of epochs was a KeyError of `gaps`."""
    other = struct.pack(">hiiq", 0, 7, 3, 700) + b"\0"
    place = broker(b"\0" + _int32(0) + b"\x02\x05laps\x02" + other + b"\0\0")
    monkeypatch.setattr(leader_epochs, "describe_those", lambda *_: {"laps": _Described(place)})
    monkeypatch.setattr(leader_epochs, "leader_epochs", lambda *_: {"laps": {}})
    assert leader_epochs.ends_of_epochs(None, KafkaConnection(place), {_PLACE: 3}) == {}  # type: ignore[arg-type]
    producer = struct.pack(">qiiqiq", 1, 0, 0, 0, 0, 5) + b"\0"
    partition = struct.pack(">ih", 7, 0) + b"\x01\x02" + producer + b"\0"
    place = broker(b"\0" + _int32(0) + b"\x02\x05laps\x02" + partition + b"\0\0")
    with pytest.raises(BrokerUnavailable, match="laps:7, which was not asked for"):
        _producers(KafkaConnection(place), place)


class _Described:
    def __init__(self, place: str) -> None:
        self.leaders = {0: (1, place), 1: (1, place)}


def test_sizes_of_what_was_not_asked_for_are_no_concern(
    broker: Callable[[bytes], str],
) -> None:
    replica = struct.pack(">iqq", 0, 9, 0) + b"\0"
    other = text("other") + _int32(1) + replica
    directory = struct.pack(">h", 0) + text("/d") + _int32(2)
    place = broker(_int32(0) + _int32(1) + directory + other + text("laps") + _int32(1) + replica)
    described = {"laps": _Described(place)}
    assert log_dirs.sizes_at_leaders(KafkaConnection(place), described) == {"laps": {0: 9}}  # type: ignore[arg-type]


def _group_value(*, version: int) -> bytes:
    """A classic group with one member, as the broker writes it into its own topic."""
    is_compact = version >= 4

    def word(value: str) -> bytes:
        return bytes([len(value) + 1]) + value.encode() if is_compact else text(value)

    def held(value: bytes) -> bytes:
        return (bytes([len(value) + 1]) if is_compact else _int32(len(value))) + value

    member = word("m-1") + word("i") + word("c") + word("/h") + struct.pack(">ii", 5, 45_000)
    member += held(b"sub") + held(b"ass") + (b"\0" if is_compact else b"")
    head = struct.pack(">h", version) + word("consumer") + _int32(1) + word("range") + word("m-1")
    count = b"\x02" if is_compact else _int32(1)
    return head + struct.pack(">q", 8) + count + member + (b"\0" if is_compact else b"")


@pytest.mark.parametrize("version", [3, 4])
def test_the_groups_own_topic_is_read_in_both_forms(version: int) -> None:
    found = consumer_offsets_topic.GroupLog()
    key = struct.pack(">h", 2) + text("team")
    consumer_offsets_topic._take(found, "team", key, _group_value(version=version), 1)
    assert found.session_ms == {"m-1": 45_000}
    commit = struct.pack(">h", 1) + text("team") + text("laps") + _int32(3)
    consumer_offsets_topic._take(found, "team", commit, b"x", 77)
    assert found.committed_ms == {("laps", 3): 77}


@pytest.mark.parametrize("cut", [1, 20, 40])
def test_a_record_of_the_groups_own_topic_that_is_cut_is_one_error(cut: int) -> None:
    key = struct.pack(">h", 2) + text("team")
    found = consumer_offsets_topic.GroupLog()
    with pytest.raises(BadAnswer):
        consumer_offsets_topic._take(found, "team", key, _group_value(version=3)[:-cut], 1)


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a listener whose queue is full, so that connecting to it takes forever."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
        for each in waiting:
            each.close()


def test_certificates_that_the_client_takes_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An authority's own certificate mostly lacks its key usage, and Python from 3.13 on refuses it."""
    made = ssl.create_default_context

    def as_of_3_13(**named: Any) -> ssl.SSLContext:
        context = made(**named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_of_3_13)
    found = broker_socket.tls_context(KafkaConnection("localhost:9", protocol="SSL"))
    assert not found.verify_flags & ssl.VERIFY_X509_STRICT
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize("pause_s", [0.1, 0.4])
def test_a_long_answer_may_take_longer_than_the_time_limit(
    pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as enough of it comes; it is asked for as a whole, and a slow link is no broker that is away."""
    monkeypatch.setattr(broker_socket, "_PIECE_BYTES", 1 << 10)

    def drip(door: socket.socket) -> None:
        link, _ = door.accept()
        with link, suppress(OSError):
            link.recv(1 << 10)
            link.sendall(_int32(4 + (8 << 10)) + _int32(1))
            for _ in range(16):
                time.sleep(pause_s)
                link.sendall(bytes(512))

    with socket.create_server(("127.0.0.1", 0)) as door:
        Thread(target=drip, args=(door,), daemon=True).start()
        place = f"127.0.0.1:{door.getsockname()[1]}"
        with closing(Wire(KafkaConnection(place), place, timeout_s=0.7)) as wire:
            if pause_s == 0.1:
                assert wire.ask(1, 10, b"", lambda fields: len(fields._data)) == 8 << 10
            else:
                with pytest.raises(BrokerUnavailable, match="no complete answer|timed out"):
                    wire.ask(1, 10, b"", bool)


@pytest.mark.parametrize("answers", [False, True])
def test_all_addresses_of_a_host_share_one_time_limit(
    silent: int, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as good:
        ports = [silent, silent, good.getsockname()[1] if answers else silent]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]

        def lookup(host: str, port: int, *rest: object, **more: object) -> list[Any]:
            numeric = [(*found[0][:4], (host, port))]
            return found if host == "broker.example" else numeric

        monkeypatch.setattr(socket, "getaddrinfo", lookup)
        place, began = "broker.example:9092", time.monotonic()
        if answers:
            Wire(KafkaConnection(place), place, timeout_s=1).close()
        else:
            with pytest.raises(BrokerUnavailable):
                Wire(KafkaConnection(place), place, timeout_s=1)
        assert time.monotonic() - began < 1.9


def test_each_address_has_its_share_of_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = list[float]()

    class Refused:
        def __init__(self, *_: object) -> None:
            self.settimeout = shares.append

        def connect(self, _: object) -> None:
            raise ConnectionRefusedError

        def close(self) -> None:
            pass

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))] * 3
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "socket", Refused)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    with pytest.raises(ConnectionRefusedError):
        broker_socket._connected("broker.example", 9092, 112.0)
    assert shares == [4, 6, 12]
