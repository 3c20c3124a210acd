"""The proxy between sockets: what it passes, what it refuses to pass, and what it writes down."""

import base64
import contextlib
import json
import os
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import playhead.capture.proxy
import playhead.capture.relay
from playhead.capture import frame_memory
from playhead.capture.address import HostPort
from playhead.capture.address_rewrite import rewritten
from playhead.capture.counts import Counts
from playhead.capture.frames import framed
from playhead.capture.protocol import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    as_varint,
    is_known,
)
from playhead.capture.proxy import Proxy, Setting
from playhead.capture.recorder import RecorderConfig
from playhead.host.clock import SystemClock, wait_until
from tests.kafka_bytes import frame_of, request_frame, response_frame, set_of
from tests.scripted_broker import Answer, Client, ScriptedBroker

WITHIN_S = 60.0
TOPIC = {
    "topicId": bytes(range(16)),
    "name": "orders",
    "isInternal": False,
    "partitions": [],
    "errorCode": 0,
}


class Bench:
    """Brokers, proxies before them, and clients; all gone in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ends: list[Callable[[], None]] = []

    def broker(self, answer: Answer) -> ScriptedBroker:
        broker = ScriptedBroker(answer)
        self._ends.append(broker.close)
        return broker

    def proxy(self, broker: ScriptedBroker, **more: Any) -> Proxy:
        order = {
            name: more.pop(name) for name in ("topics", "redact", "rotate_bytes") if name in more
        }
        here = HostPort("127.0.0.1", 0)
        proxy = Proxy(
            Setting(
                here,
                HostPort("127.0.0.1", broker.port),
                RecorderConfig(str(self.folder), **order),
                **more,
            )
        )
        proxy.start()
        self._ends.append(lambda: (proxy.stop(), proxy.ended.wait(WITHIN_S)))  # type: ignore[arg-type,func-returns-value]
        return proxy

    def client(self, port: int) -> Client:
        client = Client(port)
        self._ends.append(client.close)
        return client

    def ended(self, proxy: Proxy) -> tuple[Counts, list[dict[str, Any]]]:
        """Stop it; its counts, and what is in the snapshot."""
        proxy.stop()
        assert proxy.ended.wait(WITHIN_S)
        assert proxy.error is None
        files = sorted(self.folder.glob("raw*.jsonl"))
        return proxy.counts(), [
            json.loads(line) for file in files for line in file.read_text().splitlines()
        ]

    def close(self) -> None:
        for end in reversed(self._ends):
            end()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def until(probe: Callable[[], Any]) -> None:
    assert wait_until(probe, deadline_s=WITHIN_S, clock=SystemClock(), every_s=0.01)


def made_up_answers(api: int, version: int, correlation: int, _: bytes) -> bytes:
    """Something of the right form, the same each time."""
    values = frame_of(api, version, "response", random.Random(api * 100 + version))[1]
    return response_frame(
        api,
        version,
        values | {"errorCode": 0} if "errorCode" in values else values,
        correlation=correlation,
    )


def metadata_of(*ports: int) -> Answer:
    def answer(api: int, version: int, correlation: int, _: bytes) -> bytes:
        values = frame_of(api, version, "response", random.Random(1), tagged=0)[1]
        if api == METADATA:
            values["brokers"] = [
                {"nodeId": n, "host": "127.0.0.1", "port": port, "rack": None}
                for n, port in enumerate(ports)
            ]
            values["topics"] = [dict(TOPIC, topicAuthorizedOperations=0)]
        return response_frame(api, version, values, correlation=correlation)

    return answer


def produce_frame(acks: int, records: bytes, *, version: int = 9, correlation: int = 5) -> bytes:
    partition = {"index": 2, "records": records}
    topic = {"name": "orders", "topicId": TOPIC["topicId"], "partitionData": [partition]}
    values = {"transactionalId": None, "acks": acks, "timeoutMs": 1, "topicData": [topic]}
    return request_frame(PRODUCE, version, values, correlation=correlation)


def asked(api: int, version: int, correlation: int = 7) -> bytes:
    values = frame_of(api, version, "request", random.Random(3))[1]
    return request_frame(api, version, values, correlation=correlation)


def test_what_passes_is_passed_as_it_is_and_written_down(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    pairs = [(8, 8), (9, 8), (12, 4), (32, 4), (FETCH, 12), (PRODUCE, 9)]
    sent = [asked(api, version, correlation) for correlation, (api, version) in enumerate(pairs)]
    for number, frame in enumerate(sent):
        # Cut in the middle: nobody must rely on whole frames.
        client.link.sendall(frame[:7])
        assert client.ask(frame[7:]) == made_up_answers(*pairs[number], number, b"")
    assert broker.heard == sent
    counts, found = bench.ended(proxy)
    assert (counts.pairs, counts.written, counts.lost) == (6, 6, 0)
    names = ["OffsetCommit", "OffsetFetch", "Heartbeat", "DescribeConfigs", "Fetch", "Produce"]
    assert [each["command"] for each in found] == names
    for number, each in enumerate(found):
        request, response = each["kafka"]["request"], each["kafka"]["response"]
        assert (each["msgType"], each["tech"], each["direction"]) == ("rrpair", "Kafka", "OUT")
        assert each["network_address"] == broker.place
        assert request["size"] == len(sent[number])
        assert request["apiVersion"] == pairs[number][1]
        assert request["correlationId"] == response["correlationId"] == number
        assert f"{names[number]}Request" in request
        assert f"{names[number]}Response" in response
    assert len({each["uuid"] for each in found}) == 6
    assert len(base64.b64decode(found[0]["uuid"])) == 16


def test_each_broker_gets_a_port_here(bench):
    other = bench.broker(made_up_answers)
    first = bench.broker(made_up_answers)
    first.answer = metadata_of(first.port, other.port)
    proxy = bench.proxy(first)
    client = bench.client(proxy.doors.port)
    answers = {version: client.ask(asked(METADATA, version)) for version in (0, 9, 12, 13)}
    known = proxy.counts().brokers
    assert set(known) == {first.place, other.place}
    assert known[first.place] == f"127.0.0.1:{proxy.doors.port}"
    here = [int(known[place].rpartition(":")[2]) for place in (first.place, other.place)]
    for version, answer in answers.items():
        assert answer == metadata_of(*here)(METADATA, version, 7, b"")
    behind = bench.client(int(known[other.place].rpartition(":")[2]))
    frame = asked(12, 4)
    behind.ask(frame)
    assert other.heard == [frame]
    _, found = bench.ended(proxy)
    assert found[-1]["network_address"] == other.place
    brokers = found[0]["kafka"]["response"]["MetadataResponse"]["brokers"]
    assert [each["port"] for each in brokers] == [first.port, other.port]


def large_metadata_of(*ports: int) -> Answer:
    """Of a cluster with many topics; what else is asked is made up."""

    def answer(api: int, version: int, correlation: int, _: bytes) -> bytes:
        if api != METADATA:
            return made_up_answers(api, version, correlation, b"")
        values = frame_of(api, version, "response", random.Random(1), tagged=0)[1]
        values["brokers"] = [
            {"nodeId": n, "host": "127.0.0.1", "port": port, "rack": None}
            for n, port in enumerate(ports)
        ]
        values["topics"] = [dict(TOPIC, topicAuthorizedOperations=0)] * 5_000
        return response_frame(api, version, values, correlation=correlation)

    return answer


def test_nobody_waits_for_the_large_response_of_another(bench, monkeypatch):
    is_read = threading.Event()

    def slowly(*said: Any) -> bytes:
        assert is_read.wait(WITHIN_S)
        return rewritten(*said)

    monkeypatch.setattr(playhead.capture.relay, "rewritten", slowly)
    broker = bench.broker(made_up_answers)
    broker.answer = large_metadata_of(broker.port, 9)
    proxy = bench.proxy(broker)
    first, second = bench.client(proxy.doors.port), bench.client(proxy.doors.port)
    # The second of these is answered at once, and waits for its turn.
    for frame in (asked(METADATA, 12, 1), asked(12, 4, 2), asked(METADATA, 9, 3), asked(8, 8, 4)):
        first.link.sendall(frame)
    until(lambda: len(broker.heard) == 4)
    assert second.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    is_read.set()
    known = {}
    for api, version, number in ((METADATA, 12, 1), (12, 4, 2), (METADATA, 9, 3), (8, 8, 4)):
        answer = first.read()
        known = known or proxy.counts().brokers
        here = [int(known[f"127.0.0.1:{port}"].rpartition(":")[2]) for port in (broker.port, 9)]
        assert answer == large_metadata_of(*here)(api, version, number, b"")
    counts, found = bench.ended(proxy)
    assert (counts.pairs, counts.written, counts.lost) == (5, 5, 0)
    brokers = next(each for each in found if each["command"] == "Metadata")
    ports = [b["port"] for b in brokers["kafka"]["response"]["MetadataResponse"]["brokers"]]
    assert ports == [broker.port, 9], "what is written down is what the broker said"


def test_who_goes_while_its_large_response_is_read_harms_nobody(bench, monkeypatch):
    is_read = threading.Event()

    def slowly(*said: Any) -> bytes:
        assert is_read.wait(WITHIN_S)
        return rewritten(*said)

    monkeypatch.setattr(playhead.capture.relay, "rewritten", slowly)
    broker = bench.broker(large_metadata_of(9))
    proxy = bench.proxy(broker)
    gone = bench.client(proxy.doors.port)
    gone.link.sendall(asked(METADATA, 12) + asked(12, 4))
    until(lambda: len(broker.heard) == 2)
    gone.close()
    is_read.set()
    other = bench.client(proxy.doors.port)
    assert other.ask(asked(12, 4)) == made_up_answers(12, 4, 7, b"")
    counts, _ = bench.ended(proxy)
    assert (counts.pairs, counts.lost) == (3, 0)


def test_a_large_response_whose_addresses_are_hidden_is_not_passed_on_either(bench):
    whole = large_metadata_of(9, 8)
    broker = bench.broker(lambda *said: framed(whole(*said)[4:] + b"\0"))
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    assert client.ask(asked(METADATA, 12)) == b""
    counts, _ = bench.ended(proxy)
    assert any("Metadata version 12 was not forwarded" in each for each in counts.troubles)


def test_topic_ids_have_their_names(bench):
    broker = bench.broker(metadata_of(9))
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    client.ask(asked(METADATA, 12))
    client.ask(produce_frame(-1, set_of(b"a"), version=13))
    _, found = bench.ended(proxy)
    topic = found[1]["kafka"]["request"]["ProduceRequest"]["topics"][0]
    assert (topic["name"], topic["topicId"]) == (
        "orders",
        base64.b64encode(TOPIC["topicId"]).decode(),
    )


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
def test_a_produce_without_acks_has_no_response(bench, version):
    broker = bench.broker(
        lambda api, *said: None if api == PRODUCE else made_up_answers(api, *said)
    )
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    client.link.sendall(produce_frame(0, set_of(b"a"), version=version))
    assert client.ask(asked(12, 4, correlation=6)) == made_up_answers(12, 4, 6, b"")
    counts, found = bench.ended(proxy)
    assert (counts.pairs, counts.written) == (2, 2)
    assert ("response" in found[0]["kafka"], found[0]["status"]) == (False, "OK")


def test_a_request_that_nobody_answered_is_there(bench):
    broker = bench.broker(lambda *_: None)
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    client.link.sendall(asked(12, 4))
    until(lambda: broker.heard)
    _, found = bench.ended(proxy)
    assert [each["status"] for each in found] == ["NO RESPONSE"]


@pytest.mark.parametrize(
    ("begins", "why"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a client speaks TLS"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a client speaks HTTP"),
        (bytes(4), "cannot be decoded: it ends too early"),
        (struct.pack(">ihhih", 10, 12, 99, 1, -1), "Heartbeat version 99"),
        (struct.pack(">ihhih", 10, 900, 0, 1, -1), "API 900 version 0"),
        (struct.pack(">ihhih", 10, 17, 0, 1, -1) + b"\0\0", "before Kafka 1.0"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_not_passed_on(bench, begins, why):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    assert client.ask(begins) == b""
    counts, _ = bench.ended(proxy)
    assert broker.heard == []
    assert any(why in trouble for trouble in counts.troubles), counts.troubles


def test_a_response_whose_addresses_are_hidden_is_not_passed_on(bench):
    whole = metadata_of(9, 8)
    broker = bench.broker(lambda *said: framed(whole(*said)[4:] + b"\0"))
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    assert client.ask(asked(METADATA, 12)) == b""
    counts, found = bench.ended(proxy)
    assert any("Metadata version 12 was not forwarded" in each for each in counts.troubles)
    assert [each["status"] for each in found] == ["NO RESPONSE"]


def test_versions_that_are_too_new_are_not_offered(bench):
    def answer(api: int, version: int, correlation: int, _: bytes) -> bytes:
        entries = [(PRODUCE, 0, 99), (METADATA, 3, 7), (12, 40, 50), (777, 0, 1)]
        listed = [{"apiKey": a, "minVersion": b, "maxVersion": c} for a, b, c in entries]
        return response_frame(
            api,
            version,
            {"errorCode": 0, "apiKeys": listed, "throttleTimeMs": 0},
            correlation=correlation,
        )

    proxy = bench.proxy(bench.broker(answer))
    client = bench.client(proxy.doors.port)
    listed = [
        {"apiKey": PRODUCE, "minVersion": 0, "maxVersion": 13},
        {"apiKey": METADATA, "minVersion": 3, "maxVersion": 7},
    ]
    wanted = response_frame(
        API_VERSIONS, 3, {"errorCode": 0, "apiKeys": listed, "throttleTimeMs": 0}
    )
    assert client.ask(asked(API_VERSIONS, 3)) == wanted
    assert not is_known(API_VERSIONS, 9)
    newer = bench.client(proxy.doors.port)
    refused = newer.ask(struct.pack(">ihhih", 10, API_VERSIONS, 9, 4, -1))
    assert struct.unpack(">ihi", refused[4:14]) == (4, 35, 1)
    assert newer.ask(asked(API_VERSIONS, 3)) == wanted


def test_passwords_are_not_written_down(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    secret = b"\0user\0hunter2"
    frame = request_frame(36, 2, {"authBytes": secret})
    assert client.ask(frame) == made_up_answers(36, 2, 7, b"")
    counts, (found,) = bench.ended(proxy)
    assert broker.heard == [frame]
    assert found["kafka"]["request"]["size"] == len(frame)
    assert found["command"] == "SaslAuthenticate"
    raw = (bench.folder / "raw.jsonl").read_bytes()
    assert b"hunter2" not in raw
    assert base64.b64encode(secret) not in raw
    assert counts.undecodable == {}


def test_records_of_other_topics_and_fields_are_left_out(bench):
    proxy = bench.proxy(bench.broker(made_up_answers), topics=["pay*"], redact=["$.card"])
    client = bench.client(proxy.doors.port)
    for topic in ("orders", "payments"):
        partition = {"index": 0, "records": set_of(b'{"card":"4111 1111","n":1}')}
        data = [{"name": topic, "partitionData": [partition]}]
        values = {"transactionalId": None, "acks": 1, "timeoutMs": 1, "topicData": data}
        client.ask(request_frame(PRODUCE, 9, values))
    counts, _ = bench.ended(proxy)
    raw = (bench.folder / "raw.jsonl").read_text()
    assert "4111 1111" not in raw
    assert raw.count('{\\"card\\":\\"[redacted]\\",\\"n\\":1}') == 1
    assert (counts.redacted_fields, counts.records) == (1, 1)


def test_what_cannot_be_decoded_is_counted_and_kept(bench):
    proxy = bench.proxy(bench.broker(made_up_answers))
    client = bench.client(proxy.doors.port)
    frame = asked(12, 4)
    client.ask(framed(frame[4:-9]))
    client.ask(framed(frame[4:] + b"??"))
    counts, (found, longer) = bench.ended(proxy)
    (reason,) = counts.undecodable
    assert reason.startswith("Heartbeat v4: request: it ends early")
    assert longer["kafka"]["request"]["HeartbeatRequest"]["trailing"] == "Pz8="
    assert frame.endswith(
        base64.b64decode(found["kafka"]["request"]["undecoded"]["base64"]) + frame[-9:]
    )


def produce_many(client: Client, count: int, value: bytes) -> None:
    frame = produce_frame(-1, set_of(value))
    for _ in range(count):
        assert client.ask(frame)


def scribe_of(proxy: Proxy) -> int:
    until(lambda: proxy._scribe is not None)
    assert proxy._scribe is not None
    return proxy._scribe.pid


def test_drop_leaves_pairs_out_when_nobody_writes_and_traffic_goes_on(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, on_slow="drop", memory_bytes=1 << 20)
    client = bench.client(proxy.doors.port)
    produce_many(client, 1, b"first")
    os.kill(scribe_of(proxy), signal.SIGSTOP)
    try:
        produce_many(client, 80, os.urandom(60_000))
        counts = proxy.counts()
        assert counts.dropped > 10
        assert counts.most_held_bytes <= 1 << 20
    finally:
        os.kill(scribe_of(proxy), signal.SIGCONT)
    counts, found = bench.ended(proxy)
    assert len(broker.heard) == counts.pairs == 81
    assert counts.written == len(found) == 81 - counts.dropped
    assert counts.waiting == 0


def test_drop_counts_requests_without_a_copy_that_are_never_answered(bench):
    broker = bench.broker(lambda *_: None)
    proxy = bench.proxy(broker, on_slow="drop", memory_bytes=1 << 20)
    client = bench.client(proxy.doors.port)
    frame = produce_frame(-1, set_of(os.urandom(60_000)))
    for _ in range(40):
        client.link.sendall(frame)
    until(lambda: len(broker.heard) == 40)
    client.close()
    counts, found = bench.ended(proxy)
    assert counts.pairs == 40
    assert counts.dropped > 10
    assert counts.written == len(found) == 40 - counts.dropped
    assert f"{counts.dropped:,} dropped" in counts.shown()


def test_block_holds_requests_back_until_somebody_writes_again(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, on_slow="block", memory_bytes=1 << 20)
    client, other = bench.client(proxy.doors.port), bench.client(proxy.doors.port)
    produce_many(client, 1, b"first")
    os.kill(scribe_of(proxy), signal.SIGSTOP)
    client.link.settimeout(2)
    frame = produce_frame(-1, set_of(os.urandom(60_000)))
    passed = 0
    while client.ask(frame):
        passed += 1
        assert passed < 200
    heard = len(broker.heard)
    other.link.settimeout(0.5)
    assert other.ask(asked(12, 4)) == b""
    assert len(broker.heard) == heard
    os.kill(scribe_of(proxy), signal.SIGCONT)
    client.link.settimeout(WITHIN_S)
    assert client.read()
    counts, found = bench.ended(proxy)
    assert counts.dropped == 0
    assert counts.most_held_bytes < 3 << 20
    assert counts.written == len(found) == counts.pairs >= passed + 2


def test_halves_of_frames_fill_no_more_than_the_memory_and_stop_nobody_for_long(bench, monkeypatch):
    """Fifteen clients that begin a frame of 20 MB and never end it; the others' traffic goes on."""
    monkeypatch.setattr(playhead.capture.proxy, "_LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(frame_memory, "STALLED_S", 0.4)
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, memory_bytes=8 << 20)
    halves = [bench.client(proxy.doors.port) for _ in range(15)]
    begun = struct.pack(">i", 20 << 20) + b"\0" * (1 << 20)
    most = 0
    for half in halves:
        half.link.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            half.link.send(begun)
        most = max(most, proxy.halves.total_bytes)
    client = bench.client(proxy.doors.port)
    frame = produce_frame(-1, set_of(os.urandom(2_000_000)))
    answers = 0
    until_s = time.monotonic() + 10
    while answers < 3 and time.monotonic() < until_s:
        # After a few closings all are closed that fill the memory; like a producer, it connects again.
        if client.ask(frame):
            answers += 1
        else:
            client = bench.client(proxy.doors.port)
        most = max(most, proxy.halves.total_bytes)
    assert answers == 3
    # What the kernel hands over in one piece comes on top, once for each connection.
    assert most < (8 << 20) + 16 * (256 << 10)
    until(lambda: proxy.halves.total_bytes <= 8 << 20)
    counts, _ = bench.ended(proxy)
    assert any("stalled" in each for each in counts.troubles)
    assert proxy.halves.total_bytes == 0


def test_millions_of_tagged_fields_do_not_stop_who_forwards(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    head = struct.pack(">hhih", 36, 2, 1, -1) + as_varint(8_000_000) + b"\0\0" * 8_000_000
    other = bench.client(proxy.doors.port)
    assert other.ask(asked(12, 4))
    assert not bench.client(proxy.doors.port).ask(framed(head))
    produce = struct.pack(">hhih", 0, 9, 1, -1) + as_varint(8_000_000) + b"\0\0" * 8_000_000
    assert not bench.client(proxy.doors.port).ask(framed(produce))
    began = time.monotonic()
    assert other.ask(asked(12, 4))
    assert time.monotonic() - began < 2


def test_sets_that_unpack_to_gigabytes_are_counted_and_the_recorder_lives(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    bomb = pyarrow.compress(bytes(120 << 20), codec="zstd", asbytes=True)
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(bomb), 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 1)
    assert client.ask(produce_frame(-1, (head + bomb) * 6))
    produce_many(client, 1, b"after it")
    counts, found = bench.ended(proxy)
    assert counts.written == len(found) == 2
    assert proxy.scribe_error() is None
    assert sum(counts.undecodable.values()) == 6
    assert any("decompresses to more than" in each for each in counts.undecodable)


def test_traffic_goes_on_when_the_writing_process_dies(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, on_slow="block", memory_bytes=1 << 20)
    client = bench.client(proxy.doors.port)
    produce_many(client, 1, b"first")
    os.kill(scribe_of(proxy), signal.SIGKILL)
    produce_many(client, 60, os.urandom(60_000))
    until(proxy.scribe_error)
    counts, found = bench.ended(proxy)
    assert len(broker.heard) == counts.pairs == 61
    assert counts.lost == 61 - len(found)
    assert proxy.counts().waiting == 0
    assert proxy.scribe_error() == "the recorder process has ended", "pairs did not arrive too fast"


@pytest.mark.parametrize("point", ["written#3", "full", "numbered"])
def test_a_kill_while_a_file_is_written_leaves_whole_lines(bench, point, monkeypatch):
    monkeypatch.setenv("PLAYHEAD_ABORT_AT", f"capture.{point}")
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, rotate_bytes=200_000)
    scribe_of(proxy)
    client = bench.client(proxy.doors.port)
    produce_many(client, 20, b"x" * 60_000)
    until(proxy.scribe_error)
    counts, found = bench.ended(proxy)
    assert len(broker.heard) == counts.pairs == 20
    assert 0 < len(found) < 20
    assert counts.written <= len(found)
    assert counts.lost == 20 - counts.written
    if "#" not in point:
        assert (bench.folder / "raw-000001.jsonl").exists() == (point == "numbered")


def test_traffic_goes_on_when_the_disk_does_not_take_it(bench):
    bench.folder.rmdir()
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker, on_slow="block", memory_bytes=1 << 20)
    client = bench.client(proxy.doors.port)
    produce_many(client, 1, b"first")
    until(lambda: "cannot be written" in (proxy.scribe_error() or ""))
    produce_many(client, 60, os.urandom(60_000))
    counts, _ = bench.ended(proxy)
    assert len(broker.heard) == counts.pairs == counts.lost == 61
    assert "No such file" in (proxy.scribe_error() or "")


def test_files_are_rotated(bench):
    proxy = bench.proxy(bench.broker(made_up_answers), rotate_bytes=200_000)
    client = bench.client(proxy.doors.port)
    produce_many(client, 20, b"x" * 60_000)
    counts, found = bench.ended(proxy)
    assert len(found) == 20
    assert counts.files == len(list(bench.folder.iterdir())) >= 6
    assert all(file.stat().st_size <= 200_000 for file in bench.folder.iterdir())


def test_a_broker_that_is_not_there_ends_the_connection(bench):
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    broker = bench.broker(made_up_answers)
    broker.port, kept = port, broker.port
    proxy = bench.proxy(broker)
    broker.port = kept
    assert bench.client(proxy.doors.port).ask(asked(12, 4)) == b""
    counts, _ = bench.ended(proxy)
    assert any(f"127.0.0.1:{port} cannot be reached" in each for each in counts.troubles)


def test_large_frames_pass_whole(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    client = bench.client(proxy.doors.port)
    produce_many(client, 1, os.urandom(8 << 20))
    counts, (found,) = bench.ended(proxy)
    record = found["kafka"]["request"]["ProduceRequest"]["topics"][0]["partitions"][0]["records"][
        "records"
    ][0]
    assert len(base64.b64decode(record["value"])) == 8 << 20
    assert counts.undecodable == {}


def test_clients_that_come_and_go_leave_nothing_open(bench):
    broker = bench.broker(made_up_answers)
    proxy = bench.proxy(broker)
    for number in range(60):
        client = Client(proxy.doors.port)
        if number % 3:
            client.link.sendall(asked(12, 4)[: number % 20])
        client.close()
    until(lambda: proxy.counts().connections == 60 and not proxy.counts().open_connections)
    until(lambda: broker.open_links == 0)
    client = bench.client(proxy.doors.port)
    assert client.ask(asked(12, 4))
