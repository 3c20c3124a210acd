"""`playhead capture` between real clients and a real broker: clients notice nothing, and the snapshot has all of it."""

import json
import os
import re
import signal
import subprocess
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from playhead.config.kafka_connection import KafkaConnection
from playhead.host.clock import SystemClock, wait_until
from playhead.record import Record
from playhead.sandbox import Endpoints
from playhead.testing.fixtures import MakeTopic
from tests.fix_capture import StartCapture
from tests.fix_commands import COMMAND
from tests.fix_environment import processes_that_mention
from tests.fix_kafka_tools import KafkaTool
from tests.fix_topics import odd_records, records_in, timed, write
from tests.their_kafka import kafka as their_kafka

_WITHIN_S = 30.0


def facts(records: list[Any]) -> list[Any]:
    """What has to be the same: place, time, key, value, headers."""
    return [
        (r.topic, r.partition, r.offset, r.timestamp_ms, r.key, r.value, tuple(r.headers))
        for r in sorted(records, key=lambda r: (r.partition, r.offset))
    ]


def consumed(place: str, topic: str, count: int, **settings: Any) -> list[Any]:
    """So many records by a consumer with a group, as triples."""
    consumer = Consumer(
        {
            "bootstrap.servers": place,
            "group.id": f"{topic}-group",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    found = []
    try:
        consumer.subscribe([topic])
        while len(found) < count:
            each = consumer.poll(_WITHIN_S)
            assert each is not None, f"{len(found)} of {count} records came"
            assert each.error() is None, each.error()
            found.append((each.partition(), each.offset(), each.key(), each.value()))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(found)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_produces_and_consumes_and_the_snapshot_has_the_same_records(
    codec: str, start_capture: StartCapture, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3)
    capturing = start_capture()
    records = [r for r in odd_records(topic, 3) if r.timestamp_ms > 0] * 5
    _write(capturing.kafka, records, codec)
    original = records_in(kafka, topic)
    assert len(original) == len(records)
    assert facts(records_in(capturing.kafka, topic)) == facts(original)
    counts = capturing.stop()
    assert counts["lost"] == 0
    assert counts["undecodable"] == {}
    assert facts(capturing.caught("Produce", topic)) == facts(original)
    assert facts(capturing.caught("Fetch", topic)) == facts(original)


def _write(connection: KafkaConnection, records: list[Record], codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": connection.bootstrap_servers,
            "compression.type": codec,
            "linger.ms": 20,
        }
    )
    for each in records:
        producer.produce(
            each.topic,
            each.value,
            each.key,
            each.partition,
            None,
            None,
            each.timestamp_ms,
            list(each.headers),
        )
    assert producer.flush(_WITHIN_S) == 0


def test_a_consumer_group_through_it_is_the_same_group(
    start_capture: StartCapture, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    write(kafka, odd_records(topic, 2))
    capturing = start_capture()
    through = consumed(capturing.place, topic, 60)
    assert through == [(r.partition, r.offset, r.key, r.value) for r in records_in(kafka, topic)]
    behind = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"{topic}-group"})
    committed = behind.committed(
        [TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=_WITHIN_S
    )
    behind.close()
    assert [each.offset for each in committed] == [30, 30]
    newer = consumed(
        capturing.place, topic, 60, **{"group.id": f"{topic}-new", "group.protocol": "consumer"}
    )
    assert newer == through
    counts = capturing.stop()
    assert counts["undecodable"] == {}
    commands = {pair["command"] for pair in capturing.pairs()}
    assert {"JoinGroup", "SyncGroup", "OffsetCommit", "ConsumerGroupHeartbeat", "Fetch"} <= commands


def test_transactions_through_it_commit_and_abort(
    start_capture: StartCapture, kafka: KafkaConnection, topic: str
) -> None:
    capturing = start_capture()
    producer = Producer({"bootstrap.servers": capturing.place, "transactional.id": topic})
    producer.init_transactions(_WITHIN_S)
    for number, ends in enumerate(["commit", "abort", "commit"]):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(_WITHIN_S)
        getattr(producer, f"{ends}_transaction")(_WITHIN_S)
    assert [r.value for r in records_in(kafka, topic)] == [b"0", b"2"]
    assert [r.value for r in records_in(capturing.kafka, topic)] == [b"0", b"2"]
    counts = capturing.stop()
    assert counts["undecodable"] == {}
    assert [r.value for r in capturing.caught("Produce", topic)] == [b"0", b"1", b"2"]
    fetched = [pair for pair in capturing.pairs() if pair["command"] == "Fetch"]
    partitions = [
        partition
        for pair in fetched
        for t in pair["kafka"].get("response", {}).get("FetchResponse", {}).get("topics", ())
        for partition in t["partitions"]
    ]
    markers = [
        record["controlType"]
        for partition in partitions
        if "ATTRIBUTE_CONTROL" in partition.get("records", {}).get("attributes", ())
        for record in partition["records"]["records"]
    ]
    assert set(markers) == {"COMMIT", "ABORT"}
    assert any(partition.get("abortedTransactions") for partition in partitions)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_own_console_clients(
    protocol: str,
    start_capture: StartCapture,
    kafka_tool: KafkaTool,
    kafka: KafkaConnection,
    topic: str,
) -> None:
    capturing = start_capture()
    lines = b"".join(b"k%d\tvalue %d\n" % (n, n) for n in range(50))
    properties = ["--reader-property", "parse.key=true", "--compression-codec", "snappy"]
    kafka_tool(
        "ConsoleProducer", "--topic", topic, *properties, stdin=lines, servers=capturing.place
    )
    original = records_in(kafka, topic)
    assert [r.value for r in original] == [b"value %d" % n for n in range(50)]
    words = ["--topic", topic, "--from-beginning", "--max-messages", "50", "--group", f"{topic}-g"]
    words += ["--command-property", f"group.protocol={protocol}"]
    done = kafka_tool("consumer.ConsoleConsumer", *words, servers=capturing.place)
    assert done.stdout.splitlines() == [b"value %d" % n for n in range(50)]
    counts = capturing.stop()
    assert counts["undecodable"] == {}
    assert facts(capturing.caught("Produce", topic)) == facts(original)
    assert facts(capturing.caught("Fetch", topic)) == facts(original)


@pytest.mark.torture
def test_a_share_group_through_it(
    start_capture: StartCapture, kafka_tool: KafkaTool, kafka: KafkaConnection, topic: str
) -> None:
    capturing = start_capture()
    write(kafka, timed(topic, 0, *range(1_000, 1_020)))
    words = ["--alter", "--group", topic, "--add-config", "share.auto.offset.reset=earliest"]
    kafka_tool("kafka.admin.ConfigCommand", *words, servers=capturing.place)
    words = ["--topic", topic, "--group", topic, "--max-messages", "20", "--timeout-ms", "60000"]
    done = kafka_tool("consumer.ConsoleShareConsumer", *words, servers=capturing.place)
    assert done.stdout.splitlines() == [b"v%d" % n for n in range(1_000, 1_020)]
    assert capturing.stop()["undecodable"] == {}
    fetched = [
        record["valueString"]
        for pair in capturing.pairs()
        if pair["command"] == "ShareFetch"
        for t in pair["kafka"].get("response", {}).get("ShareFetchResponse", {}).get("topics", ())
        for partition in t["partitions"]
        for record in partition.get("records", {}).get("records", ())
    ]
    assert {f"v{n}" for n in range(1_000, 1_020)} <= set(fetched)


def test_kafka_python(start_capture: StartCapture, kafka: KafkaConnection, topic: str) -> None:
    capturing = start_capture()
    producer = their_kafka.KafkaProducer(bootstrap_servers=capturing.place, compression_type="gzip")
    for number in range(50):
        producer.send(
            topic, b"value %d" % number, b"k", [("h", b"%d" % number)], timestamp_ms=1_000 + number
        )
    producer.flush(_WITHIN_S)
    producer.close()
    original = records_in(kafka, topic)
    assert [r.value for r in original] == [b"value %d" % n for n in range(50)]
    consumer = their_kafka.KafkaConsumer(
        topic, bootstrap_servers=capturing.place, group_id=f"{topic}-g", auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )  # fmt: skip
    found = [next(consumer).value for _ in range(50)]
    consumer.close()
    assert found == [r.value for r in original]
    assert capturing.stop()["undecodable"] == {}
    assert facts(capturing.caught("Produce", topic)) == facts(original)
    assert facts(capturing.caught("Fetch", topic)) == facts(original)


def test_no_client_hears_of_the_broker_itself(
    start_capture: StartCapture, sandbox: Endpoints
) -> None:
    capturing = start_capture()
    admin = AdminClient({"bootstrap.servers": capturing.place})
    real = int(sandbox.bootstrap_servers.rpartition(":")[2])
    here = int(capturing.place.rpartition(":")[2])
    for each in (admin.list_topics(timeout=_WITHIN_S), admin.describe_cluster().result(_WITHIN_S)):
        brokers = each.brokers.values() if hasattr(each, "brokers") else each.nodes
        assert {(b.host, b.port) for b in brokers} == {("127.0.0.1", here)}
    counts = capturing.stop()
    assert counts["brokers"] == {f"127.0.0.1:{real}": f"127.0.0.1:{here}"}
    said = [
        p["kafka"]["response"]["MetadataResponse"]
        for p in capturing.pairs()
        if p["command"] == "Metadata"
    ]
    assert {broker["port"] for each in said for broker in each["brokers"]} == {real}


def test_a_kill_leaves_whole_lines_but_for_the_last(
    start_capture: StartCapture, kafka: KafkaConnection, topic: str
) -> None:
    capturing = start_capture("--rotate", "100kB")
    producer = Producer({"bootstrap.servers": capturing.place, "linger.ms": 0})
    delivered: list[bytes] = []
    while len(delivered) < 1_000:
        producer.produce(
            topic,
            b"%d" % len(delivered) * 50,
            on_delivery=lambda _, it: delivered.append(it.value()),
        )
        producer.poll(0.002)
    capturing.kill()
    assert wait_until(
        lambda: not processes_that_mention(str(capturing.folder)),
        deadline_s=_WITHIN_S,
        clock=SystemClock(),
        every_s=0.05,
    ), "the process that writes has not ended with the one that forwards"
    producer.purge()
    written = [
        file.read_bytes().split(b"\n") for file in sorted(capturing.folder.glob("raw*.jsonl"))
    ]
    assert len(written) > 1
    for *lines, _ in written:
        for line in lines:
            assert json.loads(line)["msgType"] == "rrpair"
    assert all(last == b"" for *_, last in written), "only the one that writes was not killed"
    # What was still in memory is gone; the first half is no matter of milliseconds any more.
    caught = {record.value for record in capturing.caught("Produce", topic)}
    assert set(delivered[:500]) <= caught
    refused = subprocess.run(
        [*COMMAND, "capture", "--upstream", kafka.bootstrap_servers, "--out", str(capturing.folder),
         "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60, env=os.environ,
    )  # fmt: skip
    assert refused.returncode == 6
    assert "contains captured traffic already" in refused.stderr


def test_ctrl_c_says_what_became_of_every_pair(start_capture: StartCapture, topic: str) -> None:
    capturing = start_capture("--topics", "other", "--redact", "$.card")
    write(capturing.kafka, timed(topic, 0, 1_000, 1_001, 1_002))
    counts = capturing.stop(by=signal.SIGTERM)
    assert counts["left_out"] > 0
    assert counts["pairs"] == counts["written"] + counts["left_out"]
    assert counts["records"] == 0
    assert re.search(
        r"[\d,]+ pairs = [\d,]+ written \+ [\d,]+ of other topics", "\n".join(capturing.said)
    )
