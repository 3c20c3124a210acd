"""`playhead queries ship` on a real broker: every row of every log once, whatever happens to files and processes."""

import gzip
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

import playhead
from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import Unavailable
from playhead.host.clock import wait_until
from playhead.host.faults import abort_points
from playhead.kafka.admin.client import Admin
from playhead.kafka.write.row_shipping import RowShipper
from playhead.querylog.addresses import address_of
from playhead.querylog.cutting import cutter_of, form_of, rows_of
from playhead.querylog.located import place_in
from playhead.record import Record
from playhead.sandbox import Endpoints
from playhead.testing import LinkProxy
from tests.fix_commands import COMMAND, RunBytes
from tests.fix_topics import records_in

SAMPLES = Path(__file__).parent.parent / "data" / "querylog"
BIG = SAMPLES / "pg15_csvlog_full.csv"
POINTS = sorted(
    name for name in abort_points(Path(playhead.__file__).parent) if name.startswith("ship.")
)
PREFIX = "%m|%u|%d|%c|"


def rows(data: bytes) -> list[bytes]:
    """The rows of a log, as they are shipped."""
    cut = rows_of(iter([data]), cutter_of(form_of(data[:500]), PREFIX))
    return [row.removesuffix(b"\n") for row in cut]


class Topics:
    """The topics of one test, by their common beginning."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self.connection, self.target = connection, f"kafka:{name}_{{db}}"
        self._name = name

    def records(self) -> list[Record]:
        """In the order of their places."""
        with Admin(self.connection) as admin:
            names = [name for name in admin.cluster().topics if name.startswith(f"{self._name}_")]
        found = records_in(self.connection, *names)
        return sorted(found, key=lambda each: place_in(each.headers) or -1)

    def values(self) -> list[bytes | None]:
        return [each.value for each in self.records()]


@pytest.fixture
def topics(kafka: KafkaConnection, request: pytest.FixtureRequest) -> Topics:
    return Topics(kafka, f"ship_{abs(hash(request.node.nodeid)):x}_{time.time_ns():x}")


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_ship(own_environment: None, sandbox: Endpoints) -> Iterator[Start]:
    """Starts one, and waits until it ships; those that still run in the end are killed."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, servers: str | None = None, **more: str) -> "subprocess.Popen[str]":
        address = servers or sandbox.bootstrap_servers
        process = subprocess.Popen(
            [*COMMAND, "queries", "ship", *words, "-b", address, "-o", "json"],
            env=os.environ | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def stopped(process: "subprocess.Popen[str]", *, code: int = 0) -> dict[str, object]:
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    return dict(json.loads(out))


def shipped_once(on_sandbox: RunBytes, *words: str, code: int = 0) -> dict[str, object]:
    done = on_sandbox("queries", "ship", *words, "--once", "-o", "json", code=code)
    return dict(json.loads(done.stdout))


def holds(topics: Topics, expected: list[bytes], within_s: float = 30.0) -> bool:
    return bool(wait_until(lambda: topics.values() == expected, deadline_s=within_s, every_s=0.1))


@pytest.mark.parametrize(
    "sample",
    [
        "pg10_csvlog_full.csv",
        "pg18_csvlog_full.csv",
        "pg15_jsonlog_full.json",
        "pg15_all_stderr.log",
    ],
)
def test_every_row_of_a_log_arrives_once(
    sample: str, topics: Topics, on_sandbox: RunBytes, tmp_path: Path
) -> None:
    data = (SAMPLES / sample).read_bytes()
    shutil.copy(SAMPLES / sample, tmp_path)
    found = shipped_once(on_sandbox, str(tmp_path / "*"), topics.target)
    records = topics.records()
    assert [each.value for each in records] == rows(data)
    assert found["rows"] == len(records)
    assert found["bytes"] == len(data)
    for each in records:
        address = address_of(each.value or b"", PREFIX)
        assert (each.key, each.timestamp_ms) == (address.session, address.time_us // 1_000)
        assert each.topic.endswith(address.database or "_unmatched")
    again = shipped_once(on_sandbox, str(tmp_path / "*"), topics.target)
    assert (again["rows"], again["transactions"]) == (0, 0)
    assert topics.values() == rows(data)


class Watching:
    """A consumer that is there before the records are."""

    def __init__(self, connection: KafkaConnection, topics: list[str]) -> None:
        self._consumer = Consumer(
            connection.for_librdkafka("consumer")
            | {"group.id": "watching", "isolation.level": "read_committed", "fetch.wait.max.ms": 20}
        )
        with Admin(connection) as admin:
            counts = admin.cluster().topics
        self._consumer.assign([Place(name, n, 0) for name in topics for n in range(counts[name])])

    def await_value(self, value: bytes, within_s: float = 30.0) -> float:
        """When the record was there."""
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            found = self._consumer.poll(0.05)
            if found is not None and found.error() is None and found.value() == value:
                return time.monotonic()
        raise AssertionError("the row did not come")

    def close(self) -> None:
        self._consumer.close()


def test_a_growing_log_arrives_within_a_second(
    topics: Topics, start_ship: Start, tmp_path: Path
) -> None:
    data, log = BIG.read_bytes(), tmp_path / "a.csv"
    whole = rows(data)
    ends = [0]
    for row in whole:
        ends.append(ends[-1] + len(row) + 1)
    # Up to here every database has had a row, so that the topics are there.
    log.write_bytes(data[: ends[16]])
    process = start_ship(str(tmp_path / "*.csv"), topics.target)
    assert holds(topics, whole[:16])
    watching = Watching(topics.connection, sorted({each.topic for each in topics.records()}))
    took = []
    with log.open("ab", buffering=0) as file:
        for first in range(16, 76, 4):
            # Up to the middle of a row, which is held back.
            middle = (ends[first + 4] + ends[first + 5]) // 2
            file.write(data[file.tell() : middle])
            began = time.monotonic()
            took.append(watching.await_value(whole[first + 3]) - began)
        file.write(data[file.tell() :])
    watching.close()
    assert holds(topics, whole)
    assert max(took) < 1.0
    found = stopped(process)
    assert found["rows"] == len(whole)
    assert (found["held_bytes"], found["maybe_lost"]) == (0, 0)


def test_a_row_of_a_log_that_never_stops_growing_does_not_wait_for_a_pause(
    topics: Topics, start_ship: Start, tmp_path: Path
) -> None:
    whole, log = rows(BIG.read_bytes()), tmp_path / "a.csv"
    log.write_bytes(b"\n".join(whole) + b"\n")
    process = start_ship(str(tmp_path / "*.csv"), topics.target)
    assert holds(topics, whole)
    watching = Watching(topics.connection, sorted({each.topic for each in topics.records()}))
    awaited = whole[-1].replace(b".", b",", 1)  # No row: it goes to the topic of those.
    ends, is_over = time.monotonic() + 20, Event()

    def write() -> None:
        with log.open("ab", buffering=0) as file:
            while time.monotonic() < ends and not is_over.is_set():
                file.write(whole[-1] + b"\n")
                time.sleep(0.0001)

    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write)
        time.sleep(1)
        with log.open("ab", buffering=0) as file:
            file.write(awaited + b"\n")
        began = time.monotonic()
        assert watching.await_value(awaited) - began < 2.0
        assert not writing.done()
        is_over.set()
    watching.close()
    stopped(process)


def test_a_log_is_rotated_renamed_packed_and_truncated(
    topics: Topics, start_ship: Start, tmp_path: Path
) -> None:
    first, second, third = (
        (SAMPLES / name).read_bytes()
        for name in ("pg12_csvlog_full.csv", "pg13_csvlog_full.csv", "pg15_csvlog_full.csv")
    )
    log = tmp_path / "server.csv"
    log.write_bytes(first[:-100])
    process = start_ship(str(tmp_path / "*.csv*"), topics.target)
    expected = rows(first)
    assert holds(topics, expected[:-1])
    # Renamed, finished under its new name, and a new one begins.
    log.rename(tmp_path / "aside")
    with (tmp_path / "aside").open("ab") as file:
        file.write(first[-100:])
    log.write_bytes(second)
    expected += rows(second)
    assert holds(topics, expected)
    # Packed beside it: the same log, which is not shipped again.
    (tmp_path / "server.csv.1.gz").write_bytes(gzip.compress(second))
    time.sleep(2.5)
    # Truncated under its name, as log_truncate_on_rotation does.
    with log.open("wb") as file:
        file.write(third)
    expected += rows(third)
    assert holds(topics, expected)
    time.sleep(1.0)
    assert topics.values() == expected
    found = stopped(process)
    assert (found["files"], found["rows"], found["maybe_lost"]) == (3, len(expected), 0)


def test_what_a_copy_has_is_not_lost_when_the_log_is_truncated(
    topics: Topics, start_ship: Start, tmp_path: Path
) -> None:
    first, second = (SAMPLES / "pg12_csvlog_full.csv").read_bytes(), BIG.read_bytes()
    log, half = tmp_path / "a.csv", len((SAMPLES / "pg12_csvlog_full.csv").read_bytes()) // 2
    log.write_bytes(first[:half])
    process = start_ship(str(tmp_path / "*"), topics.target)
    assert wait_until(topics.values, deadline_s=30, every_s=0.1)
    process.send_signal(signal.SIGSTOP)
    with log.open("ab") as file:
        file.write(first[half:])
    shutil.copy(log, tmp_path / "a.csv.1")
    with log.open("wb") as file:
        file.write(second)
    process.send_signal(signal.SIGCONT)
    both = sorted(rows(first) + rows(second))
    assert wait_until(
        lambda: sorted(each or b"" for each in topics.values()) == both, deadline_s=30, every_s=0.2
    )
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    # It could not know that, and says so.
    assert "a.csv was truncated or replaced" in said
    assert process.returncode == 1


def test_a_half_row_waits_for_its_rest_also_over_a_restart(
    topics: Topics, on_sandbox: RunBytes, tmp_path: Path
) -> None:
    data, log = BIG.read_bytes(), tmp_path / "a.csv"
    cut = data.index(b"line1\nline2") + 8
    log.write_bytes(data[:cut])
    found = shipped_once(on_sandbox, str(log), topics.target)
    assert found["held_bytes"] != 0
    assert topics.values() == rows(data)[: len(topics.values())]
    log.write_bytes(data)
    shipped_once(on_sandbox, str(log), topics.target)
    assert topics.values() == rows(data)


def test_a_row_that_was_never_finished_takes_no_other_with_it(
    topics: Topics, on_sandbox: RunBytes, tmp_path: Path
) -> None:
    whole = [row + b"\n" for row in rows(BIG.read_bytes())]
    log = tmp_path / "a.csv"
    log.write_bytes(b"".join(whole[:20]) + whole[20][:150] + b"\n" + b"".join(whole[21:]))
    found = shipped_once(on_sandbox, str(log), topics.target)
    left = topics.values()
    assert left[:20] == [row[:-1] for row in whole[:20]]
    assert left[21:] == [row[:-1] for row in whole[21:]]
    assert left[20] == whole[20][:150]
    assert found["rows"] == len(whole)


@pytest.mark.parametrize("passing", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(
    point: str,
    passing: int,
    topics: Topics,
    start_ship: Start,
    on_sandbox: RunBytes,
    tmp_path: Path,
) -> None:
    data, log = BIG.read_bytes(), tmp_path / "a.csv"
    half = data.index(b"\n", len(data) // 2) + 1
    log.write_bytes(data[:half])
    words = (str(tmp_path / "*.csv"), topics.target)
    dead = start_ship(*words, PLAYHEAD_ABORT_AT=f"{point}#{passing}")
    if passing == 2:
        assert wait_until(topics.values, deadline_s=60, every_s=0.1)
    with log.open("ab") as file:
        file.write(data[half:])
    assert dead.wait(60) == -signal.SIGKILL
    shipped_once(on_sandbox, *words)
    assert topics.values() == rows(data)


def test_a_second_one_of_the_same_name_ends_the_first(
    topics: Topics, start_ship: Start, on_sandbox: RunBytes, tmp_path: Path
) -> None:
    data, log = BIG.read_bytes(), tmp_path / "a.csv"
    half = len(rows(data)) // 2
    log.write_bytes(b"".join(row + b"\n" for row in rows(data)[:half]))
    first = start_ship(str(log), topics.target)
    assert holds(topics, rows(data)[:half])
    log.write_bytes(data)
    first.send_signal(signal.SIGSTOP)
    shipped_once(on_sandbox, str(log), topics.target)
    with log.open("ab") as file:
        file.write((SAMPLES / "pg12_csvlog_full.csv").read_bytes())
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) != 0
    assert "fenced" in first.communicate()[1]
    assert topics.values() == rows(data)


def test_the_brokers_go_and_come_back(
    topics: Topics,
    start_ship: Start,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    tmp_path: Path,
) -> None:
    data, log = BIG.read_bytes(), tmp_path / "a.csv"
    whole = rows(data)
    log.write_bytes(b"")
    process = start_ship(str(log), topics.target, servers=linked_kafka.bootstrap_servers)
    with log.open("ab", buffering=0) as file:
        for number, row in enumerate(whole):
            file.write(row + b"\n")
            time.sleep(0.01)
            if number == 20:
                assert wait_until(topics.values, deadline_s=30, every_s=0.1)
                broker_link.cut()
            if number == 90:
                broker_link.restore()
    assert holds(topics, whole, within_s=120)
    assert stopped(process)["rows"] == len(whole)


def test_a_row_that_is_too_large_is_never_left_out_silently(
    topics: Topics, kafka: KafkaConnection, on_sandbox: RunBytes, tmp_path: Path
) -> None:
    whole, log = rows(BIG.read_bytes()), tmp_path / "a.csv"
    large = whole[16].replace(b'"statement: ', b'"statement: /*' + b"x" * 2_000_000 + b"*/", 1)
    assert large != whole[16]
    log.write_bytes(b"".join(row + b"\n" for row in (*whole[:16], large, *whole[17:])))
    done = on_sandbox("queries", "ship", str(log), topics.target, "--once", code=6)
    assert b"max.message.bytes" in done.stderr
    # On a busy machine, rows before it may have had a transaction of their own.
    before = topics.values()
    assert before == whole[: min(16, len(before))]
    found = shipped_once(on_sandbox, str(log), topics.target, "--on-large", "skip", code=1)
    assert found["too_large"] == 1
    assert topics.values() == [*whole[:16], *whole[17:]]
    assert sum(found["topics"].values()) == found["rows"] == len(whole) - 1 - len(before)


def test_a_topic_that_takes_only_small_sets_gets_its_small_rows(
    topics: Topics, kafka: KafkaConnection, on_sandbox: RunBytes, tmp_path: Path
) -> None:
    log, whole = tmp_path / "a.csv", rows(BIG.read_bytes())
    row = next(each for each in whole if b'"shop"' in each)
    # Compressed, too, they are together more than the topic takes.
    many = [row.replace(b"LOG", secrets.token_hex(400).encode(), 1) for _ in range(50)]
    log.write_bytes(b"".join(each + b"\n" for each in many))
    small = {"max.message.bytes": "8000"}
    names = [topics.target.removeprefix("kafka:").replace("{db}", db) for db in ("shop", "later")]
    with Admin(kafka) as admin:
        admin.create_topic(names[0], partitions=1, settings=small)
    assert shipped_once(on_sandbox, str(log), topics.target)["rows"] == len(many)
    assert topics.values() == many
    # Another program makes one while the shipper runs.
    pattern, consent = topics.target.removeprefix("kafka:"), Mock(spec=Guard)
    ours = re.compile(pattern.replace("{db}", "later")).fullmatch
    with closing(RowShipper(kafka, "later", consent, pattern, "other", ours, 5)) as shipper:
        with Admin(kafka) as admin:
            admin.create_topic(names[1], partitions=1, settings=small)
        with pytest.raises(Unavailable, match="connecting again"):
            shipper.place_of(names[1], b"k")
    with closing(RowShipper(kafka, "later", consent, pattern, "other", ours, 5)) as shipper:
        assert shipper.place_of(names[1], b"k") == (names[1], 0)


def test_a_file_that_is_no_log_is_not_passed_over(
    topics: Topics, on_sandbox: RunBytes, tmp_path: Path
) -> None:
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    shutil.copy(BIG, tmp_path)
    done = on_sandbox("queries", "ship", str(tmp_path / "*"), topics.target, "--once", code=1)
    assert b"notes.csv contains no row of a log" in done.stderr
    assert topics.values() == rows(BIG.read_bytes())


def test_clients_that_ask_for_many_databases_make_few_topics(
    start_ship: Start, topics: Topics, tmp_path: Path
) -> None:
    """Who may connect to the port of the server chooses names, without a password."""
    row = next(each for each in rows(BIG.read_bytes()) if b'"shop"' in each)
    names = ["shop", *(f"stranger{number}" for number in range(20))]
    log = tmp_path / "server.csv"
    log.write_bytes(
        b"".join(row.replace(b'"shop"', f'"{name}"'.encode(), 1) + b"\n" for name in names)
    )
    words = (str(log), topics.target, "--once", "--max-topics", "3")
    out, said = start_ship(*words).communicate(timeout=60)
    found = json.loads(out)
    assert (found["rows"], found["beyond_max_topics"]) == (21, 18), said
    assert len(found["topics"]) == 4, "three topics, and that of rows without a database"
    assert said.count("is reached (--max-topics)") == 1
    assert len(topics.values()) == 21
    # The next run knows them: what has a topic keeps it, and no other one gets one.
    with log.open("ab") as more:
        more.write(row + b"\n" + row.replace(b'"shop"', b'"another"', 1) + b"\n")
    again = start_ship(*words)
    out, _ = again.communicate(timeout=60)
    assert again.returncode == 1
    assert json.loads(out)["beyond_max_topics"] == 1
    assert len(topics.values()) == 23
