"""`playhead ingest` on a real broker: what was sent to the port is what the topic has, and every count is true."""

import json
import signal
import socket
import time
from collections import defaultdict

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.demo.cars import Cars
from playhead.kafka.write.partitioner import KeyPartitioner
from playhead.record import Record
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import RunBytes
from tests.fix_ingest import HERE, Ingesting, Start
from tests.fix_topics import records_in

JSON = ("--key", "car", "--timestamp", "ts")


def drive(ingesting: Ingesting, at_least: int, *, rate_per_second: float = 10_000) -> Cars:
    """Twenty cars until they have sent so many; they have stopped."""
    with Cars(ingesting.port, rate_per_second=rate_per_second, seed=5) as cars:
        assert ingesting.await_true(lambda: cars.total >= at_least)
    return cars


def values(records: list[Record]) -> list[bytes | None]:
    return [each.value for each in records]


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=lambda it: it.name)
def test_the_topic_has_what_twenty_cars_have_sent(
    by: signal.Signals, start_ingest: Start, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=4)
    ingesting = start_ingest(topic, *JSON)
    cars = drive(ingesting, 20_000 if by == signal.SIGINT else 2_000)
    found = ingesting.stop(by=by)
    counted = [found[name] for name in ("datagrams", "records", "delivered")]
    assert counted == [cars.total] * 3
    assert (found["lost"], found["waiting"], found["kernel_drops"]) == (0, 0, 0)
    by_car, place_of = defaultdict(list), KeyPartitioner(4).partition_of
    for each in records_in(kafka, topic):
        by_car[each.key].append(each)
        assert each.timestamp_ms == json.loads(each.value or b"")["ts"]
        assert each.headers == ()
        assert each.partition == place_of(each.key or b"")
    sent = [cars.race.datagram(number) for number in range(cars.total)]
    for place, (name, count) in enumerate(cars.sent.items()):
        assert values(by_car[name.encode()]) == sent[place::20]
        assert len(by_car[name.encode()]) == count


def test_bytes_of_every_kind_arrive_as_they_are(
    start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    odd = [b"", b"\x00", b"\xff\xfe", b"x" * 65_507, b"a\nb\r\n", "größer".encode()]
    ingesting = start_ingest(topic, "--header-peer")
    began_ms = int(time.time() * 1000)
    ingesting.send(*odd)
    found = ingesting.stop()
    ended_ms = int(time.time() * 1000)
    records = records_in(kafka, topic)
    assert values(records) == odd
    assert {each.key for each in records} == {None}
    assert {each.headers for each in records} == {(("peer", ingesting.peer.encode()),)}
    assert all(began_ms <= each.timestamp_ms <= ended_ms for each in records)
    assert (found["datagrams"], found["bytes"], found["delivered"]) == (6, sum(map(len, odd)), 6)


def test_ipv6_and_a_key_of_the_bytes(
    start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    ingesting = start_ingest(topic, "--key", "bytes:1-3", at="udp://[::1]:0")
    ingesting.send(b"\x00\xff\x01rest", b"\x01")
    found = ingesting.stop(code=1)
    assert [(each.key, each.value) for each in records_in(kafka, topic)] == [
        (b"\xff\x01", b"\x00\xff\x01rest")
    ]
    assert (found["delivered"], found["refusals"]) == (1, {"no key": 1})


GOOD = b'{"car":"a","ts":1628080200123}'
BAD = [b"", b"{", b"\xff", b"[" * 50_000, b'{"ts":1628080200123}', b'{"car":"a","ts":"soon"}']
KINDS = {"no JSON": 3, "not UTF-8": 1, "no key": 1, "no time": 1}


def test_what_is_no_record_is_left_out_and_counted_by_kind(
    start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    ingesting = start_ingest(topic, *JSON)
    ingesting.send(GOOD, *BAD, GOOD)
    found = ingesting.stop(code=1)
    assert (found["delivered"], found["refused"], found["lost"]) == (2, 6, 6)
    assert found["refusals"] == KINDS
    assert found["first_refusal"].startswith("no JSON: ")
    assert values(records_in(kafka, topic)) == [GOOD, GOOD]
    assert "--on-bad dlq:TOPIC" in ingesting.said[-1]


def test_a_time_that_the_topic_does_not_take_takes_no_other_record_with_it(
    start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    """A broker refuses all records of a set for one whose time is an hour ahead."""
    ingesting = start_ingest(topic, *JSON)
    ahead = [b'{"car":"a","ts":"2286-11-20T17:46:40Z"}', b'{"car":"a","ts":"9999-12-31T00:00:00Z"}']
    ingesting.send(GOOD, ahead[0], GOOD, ahead[1], GOOD)
    found = ingesting.stop(code=1)
    assert (found["delivered"], found["refused"], found["failed"]) == (3, 2, 0)
    assert found["refusals"] == {"no time": 2}
    assert "message.timestamp.after.max.ms" in found["first_refusal"]
    assert values(records_in(kafka, topic)) == [GOOD] * 3


def test_dead_letters_keep_what_is_no_record_and_say_why(
    start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    letters = f"{topic}-dead"
    words = ["--on-bad", f"dlq:{letters}", "--max-datagram", "60000"]
    ingesting = start_ingest(topic, *JSON, *words)
    ingesting.send(GOOD, *BAD, b"x" * 60_001, GOOD)
    found = ingesting.stop()
    assert (found["delivered"], found["dead_lettered"], found["lost"]) == (2, 7, 0)
    assert (found["truncated"], found["refusals"]) == (1, KINDS | {"truncated": 1})
    assert values(records_in(kafka, topic)) == [GOOD, GOOD]
    dead = records_in(kafka, letters)
    assert values(dead) == [*BAD, b"x" * 60_001]
    said = [
        {name.removeprefix("__playhead.errors."): value for name, value in each.headers}
        for each in dead
    ]
    assert {each["topic"] for each in said} == {topic.encode()}
    assert [each["kind"].decode() for each in said if each["kind"]] == [
        "no JSON", "no JSON", "not UTF-8", "no JSON", "no key", "no time", "truncated",
    ]  # fmt: skip
    assert said[4]["reason"] == b"there is no car"


def test_the_first_bad_record_ends_it_where_that_is_wanted(
    start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    ingesting = start_ingest(topic, *JSON, "--on-bad", "fail")
    ingesting.send(GOOD, b"bad", GOOD)
    found = ingesting.result(code=1)
    assert found["records"] == found["delivered"] + found["refused"]
    assert found["refused"] == 1
    assert len(records_in(kafka, topic)) == found["delivered"] >= 1


def test_each_line_of_a_datagram_is_a_record(
    start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    ingesting = start_ingest(topic, "--key", "car", "--lines")
    ingesting.send(b'{"car":"a","n":1}\n{"car":"b","n":2}\r\n\n{"car":"a","n":3}', b"\n", b"")
    found = ingesting.stop()
    assert [(each.key, json.loads(each.value or b"")["n"]) for each in records_in(kafka, topic)] == [
        (b"a", 1), (b"b", 2), (b"a", 3),
    ]  # fmt: skip
    assert (found["datagrams"], found["records"], found["empty"]) == (3, 3, 2)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_acks_are_said_in_words(
    acks: str, start_ingest: Start, kafka: KafkaConnection, topic: str
) -> None:
    ingesting = start_ingest(topic, "--acks", acks, "--compression", "lz4", "--for", "500ms")
    ingesting.send(*[b"%d" % number for number in range(100)])
    assert ingesting.result()["delivered"] == 100
    assert ingesting.await_line(f"acks {acks}: a record counts as delivered when")
    assert values(records_in(kafka, topic)) == [b"%d" % number for number in range(100)]


def test_a_record_that_the_topic_does_not_take_fails_and_the_others_arrive(
    start_ingest: Start, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="2000")
    ingesting = start_ingest(topic)
    ingesting.send(b"a", b"x" * 5_000, b"b")
    found = ingesting.stop(code=1)
    assert (found["delivered"], found["failed"]) == (2, 1)
    assert "MSG_SIZE_TOO_LARGE" in found["failures"][0]
    assert values(records_in(kafka, topic)) == [b"a", b"b"]


def test_a_dry_run_looks_at_everything_and_writes_nothing(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    done = on_sandbox("ingest", HERE, f"kafka:{topic}", "--dry-run", "--key", "$.car")
    assert b"key car, timestamp arrival" in done.stderr
    assert records_in(kafka, topic) == []


def test_two_cannot_have_one_port(start_ingest: Start, on_sandbox: RunBytes, topic: str) -> None:
    first = start_ingest(topic)
    where = f"udp://127.0.0.1:{first.port}"
    second = on_sandbox("ingest", where, f"kafka:{topic}", code=1)
    assert b"another process uses the port" in second.stderr
    first.stop()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([HERE, "kafka:nowhere"], 1, "there is no topic 'nowhere'"),
        (["udp://0.0.0.0:0", "kafka:{topic}"], 6, "--listen-anywhere"),
        (["udp://0.0.0.0:0", "kafka:{topic}", "--listen-anywhere"], 2, "--allow"),
        (["tcp://127.0.0.1:0", "kafka:{topic}"], 2, "udp://"),
        ([HERE, "postgres:cars"], 2, "kafka:TOPIC"),
        ([HERE, "kafka:{topic},other"], 2, "one topic"),
        ([HERE, "kafka:{topic}", "--key", "a b"], 2, "--key"),
        ([HERE, "kafka:{topic}", "--on-bad", "dlq:{topic}"], 2, "its own dead-letter topic"),
        ([HERE, "kafka:{topic}", "--acks", "2"], 2, "0, 1 or all"),
        ([HERE, "kafka:{topic}", "--max-memory", "1"], 2, "--max-memory"),
        ([HERE, "kafka:{topic}", "--max-datagram", "70000"], 2, "--max-datagram"),
    ],
)
def test_bad_input_of_ingest(
    words: list[str], code: int, said: str, on_sandbox: RunBytes, topic: str
) -> None:
    filled = [word.format(topic=topic) for word in words]
    assert said in on_sandbox("ingest", *filled, code=code).stderr.decode()


def test_a_read_only_context_takes_nothing_in(
    on_sandbox: RunBytes, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYHEAD_READ_ONLY", "true")
    done = on_sandbox("ingest", HERE, f"kafka:{topic}", code=6)
    assert b"read-only" in done.stderr
