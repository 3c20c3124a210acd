"""`playhead ingest` when something breaks: the broker, the memory, the process, whoever reads its words."""

import fcntl
import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest

import playhead
from playhead.config.kafka_connection import KafkaConnection
from playhead.demo.cars import Cars
from playhead.host.faults import abort_points
from playhead.record import Record
from playhead.sandbox import Endpoints
from playhead.testing import LinkProxy
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import COMMAND, RunBytes
from tests.fix_ingest import HERE, Ingesting, Start
from tests.fix_topics import records_in

POINTS = sorted(
    name for name in abort_points(Path(playhead.__file__).parent) if name.startswith("ingest.")
)
AT_THE_END = ("ingest.shut", "ingest.flushed")
KILLS = [
    *AT_THE_END,
    *(f"{name}{n}" for name in POINTS if name not in AT_THE_END for n in ("", "#7", "#100")),
]
TOLD = ("--progress", "json", "--stats-every", "200ms")
# Of 1 MiB a half is for what the client keeps beside each record, and that is 256 bytes.
MIB_RECORDS = 2_048


def numbers(first: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, stop)]


def values(records: list[Record]) -> list[bytes | None]:
    return [each.value for each in records]


def ready(ingesting: Ingesting) -> Ingesting:
    """One whose way to the broker is known to work: a record has gone it."""
    ingesting.send(b"first")
    ingesting.await_counts(delivered=1)
    return ingesting


def test_what_finds_the_memory_full_is_dropped_and_counted_exactly(
    start_ingest: Start,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    kafka: KafkaConnection,
    topic: str,
) -> None:
    servers = linked_kafka.bootstrap_servers
    ingesting = ready(start_ingest(topic, "--max-memory", "1MiB", *TOLD, servers=servers))
    broker_link.stall()
    try:
        ingesting.send(*numbers(0, 6_000))
        ingesting.await_counts(records=6_001)
        assert ingesting.told()["dropped"] == 6_000 - MIB_RECORDS
        assert ingesting.told()["waiting"] == MIB_RECORDS
    finally:
        broker_link.resume()
    ingesting.await_counts(delivered=1 + MIB_RECORDS)
    ingesting.send(*numbers(6_000, 6_100))
    found = ingesting.stop(code=1)
    assert found["dropped"] == found["lost"] == 6_000 - MIB_RECORDS
    arrived = [b"first", *numbers(0, MIB_RECORDS), *numbers(6_000, 6_100)]
    assert values(records_in(kafka, topic)) == arrived
    assert found["delivered"] == len(arrived)
    assert "--max-memory" in ingesting.said[-1]


def test_a_broker_that_goes_and_comes_back_costs_nothing(
    start_ingest: Start,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    kafka: KafkaConnection,
    make_topic: MakeTopic,
) -> None:
    topic = make_topic(partitions=2)
    ingesting = start_ingest(topic, "--key", "car", servers=linked_kafka.bootstrap_servers)
    with Cars(ingesting.port, rate_per_second=1_000) as cars:
        assert ingesting.await_true(lambda: len(records_in(kafka, topic)) > 100)
        broker_link.cut()
        ingesting.await_line("the broker has confirmed nothing for 2 s")
        broker_link.restore()
        ingesting.await_line("the broker confirms records again")
    found = ingesting.stop()
    assert found["delivered"] == found["records"] == cars.total
    assert_is_part(records_in(kafka, topic), cars, missing=0)


def assert_is_part(records: list[Record], cars: Cars, *, missing: int | None = None) -> None:
    """Nothing that was not sent, nothing twice, each car's in its order; so many are missing, or any number."""
    found = defaultdict(list)
    for each in records:
        said = json.loads(each.value or b"")
        found[said["car"]].append(said["seq"])
        assert each.value == cars.race.datagram(said["seq"] * 20 + int(said["car"][4:]))
    assert all(seqs == sorted(set(seqs)) for seqs in found.values())
    if missing is not None:
        assert cars.total - len(records) == missing


def test_the_end_waits_for_the_broker_no_longer_than_asked(
    start_ingest: Start,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    kafka: KafkaConnection,
    topic: str,
) -> None:
    servers = linked_kafka.bootstrap_servers
    ingesting = ready(start_ingest(topic, *TOLD, "--flush", "1s", servers=servers))
    broker_link.cut()
    ingesting.send(*numbers(0, 50))
    ingesting.await_counts(records=51)
    found = ingesting.stop(code=1)
    assert (found["delivered"], found["failed"], found["waiting"]) == (1, 50, 0)
    assert found["failures"] == ["no answer in time"]
    assert values(records_in(kafka, topic)) == [b"first"]


def test_a_second_ctrl_c_ends_at_once_and_says_what_was_left(
    start_ingest: Start, linked_kafka: KafkaConnection, broker_link: LinkProxy, topic: str
) -> None:
    servers = linked_kafka.bootstrap_servers
    ingesting = ready(start_ingest(topic, *TOLD, "--flush", "10m", servers=servers))
    broker_link.stall()
    try:
        ingesting.send(*numbers(0, 50))
        ingesting.await_counts(records=51)
        ingesting.process.send_signal(signal.SIGINT)
        ingesting.await_line("ending: 50 records are not confirmed yet")
        found = ingesting.stop(code=130)
    finally:
        broker_link.resume()
    assert (found["delivered"], found["waiting"]) == (1, 50)


def test_killed_it_loses_what_was_not_confirmed_and_the_next_takes_the_port_at_once(
    start_ingest: Start, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    first = start_ingest(topic, "--key", "car", *TOLD)
    with Cars(first.port, rate_per_second=2_000) as cars:
        first.await_counts(delivered=1_000)
        first.kill()
        second = start_ingest(topic, "--key", "car", *TOLD, at=f"udp://127.0.0.1:{first.port}")
        second.await_counts(delivered=1_000)
    found = second.stop()
    records = records_in(kafka, topic)
    assert_is_part(records, cars)
    assert len(records) >= first.told()["delivered"] + found["delivered"]
    assert found["delivered"] == found["records"]


def test_there_are_points_to_die_at() -> None:
    assert len(POINTS) >= 4


@pytest.mark.torture
@pytest.mark.parametrize("point", KILLS)
def test_killed_at(
    point: str, start_ingest: Start, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic, words = make_topic(partitions=2), ["--key", "car", *TOLD]
    first = start_ingest(topic, *words, PLAYHEAD_ABORT_AT=point)
    with Cars(first.port, rate_per_second=2_000) as cars:
        if point in AT_THE_END:
            first.await_counts(delivered=500)
            first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(60) == -signal.SIGKILL
        second = start_ingest(topic, *words, at=f"udp://127.0.0.1:{first.port}")
        second.await_counts(delivered=500)
    found = second.stop()
    records = records_in(kafka, topic)
    assert_is_part(records, cars)
    assert len(records) >= first.told().get("delivered", 0) + found["delivered"]


@pytest.mark.torture
def test_a_topic_that_is_deleted_and_made_again_gets_what_waited(
    start_ingest: Start, on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    ingesting = start_ingest(topic, "--key", "car")
    with Cars(ingesting.port, rate_per_second=500) as cars:
        assert ingesting.await_true(lambda: len(records_in(kafka, topic)) > 100)
        on_sandbox("topics", "delete", topic, "--yes")
        ingesting.await_line("the broker has confirmed nothing for 2 s")
        on_sandbox("topics", "create", topic, "--partitions", "1")
        ingesting.await_line("the broker confirms records again")
    found = ingesting.stop()
    assert found["delivered"] == found["records"] == cars.total
    records = records_in(kafka, topic)
    assert_is_part(records, cars)
    assert records[-1].value in [cars.race.datagram(cars.total - back) for back in range(1, 21)]


def most_memory_kib(ingesting: Ingesting) -> int:
    status = Path(f"/proc/{ingesting.process.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.torture
@pytest.mark.parametrize("size", [40, 130, 2_000])
def test_what_waits_takes_no_more_memory_than_was_allowed(
    size: int,
    start_ingest: Start,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    topic: str,
) -> None:
    servers = linked_kafka.bootstrap_servers
    ingesting = ready(start_ingest(topic, *TOLD, "--flush", "0s", servers=servers))
    before_kib = most_memory_kib(ingesting)
    broker_link.stall()
    try:
        deadline = time.monotonic() + 120
        while not ingesting.told()["dropped"] and time.monotonic() < deadline:
            ingesting.send(*[b"x" * size] * 2_000)
        assert ingesting.told()["dropped"]
        grown_kib = most_memory_kib(ingesting) - before_kib
        assert grown_kib <= 64 * 1024 + 4_096, "a few MB are for what is read at once"
        assert grown_kib >= 24 * 1024
        ingesting.stop(code=1)
    finally:
        broker_link.resume()


@pytest.mark.torture
def test_whoever_closed_its_stderr_does_not_stop_it(
    sandbox: Endpoints, kafka: KafkaConnection, topic: str, own_environment: None
) -> None:
    command = [*COMMAND, "ingest", HERE, f"kafka:{topic}", *TOLD, "-b", sandbox.bootstrap_servers]
    process = subprocess.Popen(
        [*command, "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    assert process.stdout is not None
    try:
        said = b""
        while b"receiving" not in said:
            said += process.stderr.readline()
        process.stderr.close()
        port = int(said.partition(b"udp://127.0.0.1:")[2].partition(b",")[0])
        with Cars(port, rate_per_second=500) as cars:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and cars.total < 1_000:
                time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        found = json.loads(process.stdout.read())
        process.stdout.close()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(60)
    assert found["delivered"] == found["records"] == cars.total


@pytest.mark.torture
def test_whoever_does_not_read_what_it_says_does_not_stop_it(
    sandbox: Endpoints, kafka: KafkaConnection, topic: str, own_environment: None
) -> None:
    """As a terminal does after Ctrl-S: its words have nowhere to go, and datagrams have."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, 1031, 4_096)  # F_SETPIPE_SZ: one page
    command = [*COMMAND, "ingest", HERE, f"kafka:{topic}", *TOLD, "-b", sandbox.bootstrap_servers]
    process = subprocess.Popen([*command, "-o", "json"], stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    try:
        said = b""
        while b"receiving" not in said:
            said += os.read(reading, 4_096)
        port = int(said.partition(b"udp://127.0.0.1:")[2].partition(b",")[0])
        with Cars(port, rate_per_second=500) as cars:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and cars.total < 4_000:
                time.sleep(0.1)
        before = len(records_in(kafka, topic))
        assert before > cars.total - 500, "received while nobody read"
        process.send_signal(signal.SIGTERM)
        with os.fdopen(reading, "rb") as rest:
            rest.read()
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
        process.stdout.close()
    finally:
        process.kill()
        process.wait(60)
    assert found["delivered"] == found["records"] == cars.total
