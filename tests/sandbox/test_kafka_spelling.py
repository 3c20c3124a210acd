"""Commands typed as Kafka's own tools, or kcat, have them do the same."""

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from playhead.config.kafka_connection import KafkaConnection
from playhead.files.formats.csv_format import HEADER
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.commit import commit
from playhead.kafka.groups.describe import committed
from playhead.kafka.groups.plan import CommittedOffset
from playhead.record import Record, TimestampType
from playhead.sandbox import Endpoints
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import COMMAND, RunBytes
from tests.fix_topics import records_in, timed, write

Typed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def typed(own_environment: None, sandbox: Endpoints) -> Typed:
    """A command with `--bootstrap-server` among its options."""

    def run(*words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        server = ["--bootstrap-server", sandbox.bootstrap_servers]
        command = [*COMMAND, words[0], *server, *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stderr
        return done

    return run


def test_groups_are_listed_described_reset_and_deleted_by_flags(
    typed: Typed, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, *range(1, 11)))
    with Admin(kafka) as admin:
        commit(admin, topic, {(topic, 0): CommittedOffset(7)})
    assert topic in typed("groups", "--list").stdout
    described = typed("groups", "--describe", "--group", topic, "-o", "json").stdout
    assert '"committed": 7' in described or '"offset": 7' in described
    words = ["--group", topic, "--topic", f"{topic}:0", "--reset-offsets", "--to-earliest"]
    typed("groups", *words, "--dry-run")
    with Admin(kafka) as admin:
        assert committed(admin, topic)[topic, 0].offset == 7
    typed("groups", *words, "--execute")
    with Admin(kafka) as admin:
        assert committed(admin, topic)[topic, 0].offset == 0
    typed("groups", "--delete", "--group", topic, "--yes")
    assert topic not in typed("groups", "--list").stdout


def test_topics_are_made_described_altered_and_deleted_by_flags(typed: Typed, topic: str) -> None:
    name = f"{topic}-made"
    typed("topics", "--create", "--topic", name, "--partitions", "2", "--replication-factor", "1")
    assert name in typed("topics", "--list").stdout
    assert name in typed("topics", "--topic", name, "--describe").stdout
    typed("topics", "--alter", "--topic", name, "--partitions", "3", "--yes")
    typed("topics", "--delete", "--topic", name, "--yes")
    assert name not in typed("topics", "--list").stdout


def test_a_topic_by_flag_and_a_missing_or_doubled_one(
    typed: Typed, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, 1, 2, 3))
    read = typed("consume", "--topic", topic, "--from-beginning", "--max-messages", "2")
    assert read.stdout == "v1\nv2\n"
    for most in ("--limit", "-n"):
        assert typed("consume", "-t", topic, most, "2").stdout == read.stdout
    assert "Missing argument 'TOPIC…'" in typed("consume", code=2).stderr
    twice = typed("produce", topic, "a-file", "--topic", "other", code=2)
    assert "TOPIC is given twice" in twice.stderr


def test_a_file_beside_a_topic_by_flag(
    typed: Typed, kafka: KafkaConnection, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("a\nb\n", encoding="utf-8")
    for words in (("--topic", topic, str(file)), (str(file), "-t", topic), (topic, str(file))):
        typed("produce", *words)
    assert [each.value for each in records_in(kafka, topic)] == [b"a", b"b"] * 3


def test_the_last_records_of_each_partition(
    on_sandbox: RunBytes, make_topic: MakeTopic, kafka: KafkaConnection
) -> None:
    topic = make_topic(partitions=2)
    write(kafka, timed(topic, 0, *range(1, 31)) + timed(topic, 1, 99))
    done = on_sandbox("consume", topic, "--tail", "2")
    assert set(done.stdout.split()) == {b"v29", b"v30", b"v99"}
    assert b"from 2 offsets before the end" in done.stderr
    assert b"--follow continues" in done.stderr
    assert on_sandbox("consume", topic, "--tail", "0").stdout == b""
    on_sandbox("consume", topic, "--tail", "2", "--last", "1h", code=2)


def test_what_a_group_has_still_to_read(
    on_sandbox: RunBytes, make_topic: MakeTopic, kafka: KafkaConnection
) -> None:
    topic = make_topic(partitions=3)
    records = timed(topic, 0, *range(1, 11)) + timed(topic, 1, 50, 51) + timed(topic, 2, 90)
    write(kafka, records)
    offsets = {(topic, 0): CommittedOffset(8), (topic, 2): CommittedOffset(40)}
    with Admin(kafka) as admin:
        commit(admin, topic, offsets)
    done = on_sandbox("consume", topic, "--group", topic)
    assert set(done.stdout.split()) == {b"v9", b"v10", b"v50", b"v51"}
    told = done.stderr.decode()
    assert f"has committed nothing for {topic}:1: reading all of it" in told
    assert f"has committed offset 40 of {topic}:2, which ends at 1" in told
    with Admin(kafka) as admin:
        assert {place: each.offset for place, each in committed(admin, topic).items()} == {
            (topic, 0): 8,
            (topic, 2): 40,
        }
    missing = on_sandbox("consume", topic, "--group", f"{topic}-none", code=2)
    assert missing.stdout == b""
    assert b"without it, everything is read; `playhead groups list`" in missing.stderr


def test_records_in_a_format_as_csv_and_with_times_that_people_read(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    create = TimestampType.CREATE_TIME
    write(
        kafka,
        [
            Record(topic, 0, 0, 1_000, create, b"k,1", b'say "a"\nb', (("h", b"x"),)),
            Record(topic, 0, 1, 2_500, create, None, b"\xff"),
            Record(topic, 0, 2, 3_000, create, b"", None),
        ],
    )
    form = r"%t %p %o %T %D %k/%K %s/%S 100%% %h\x7c\n"
    lines = on_sandbox("consume", topic, "--format", form).stdout.split(b"|\n")
    head = topic.encode() + b" 0 "
    assert lines == [
        head + b'0 1000 1970-01-01T00:00:01.000Z k,1/3 say "a"\nb/9 100% h:x',
        head + b"1 2500 1970-01-01T00:00:02.500Z /-1 \xff/1 100% NO_HEADERS",
        head + b"2 3000 1970-01-01T00:00:03.000Z /0 /-1 100% NO_HEADERS",
        b"",
    ]
    bad = on_sandbox("consume", topic, "--format", "%x", code=2)
    assert b"--format" in bad.stderr
    kcats = on_sandbox("consume", topic, "-f", "%k", code=2)
    assert b"-f is --follow; the text of a record is --format TEXT" in kcats.stderr
    shown = on_sandbox("consume", topic, "--show", "time,value", "--max", "1").stdout
    assert shown.startswith(b"1970-01-01T00:00:01.000Z\tsay")
    text = on_sandbox("consume", topic, "-o", "csv").stdout.decode()
    rows = [*csv.DictReader(io.StringIO(text, newline=""))]
    assert tuple(rows[0]) == HEADER
    assert [(row["key"], row["key_form"], row["value"], row["value_form"]) for row in rows] == [
        ("k,1", "text", 'say "a"\nb', "text"),
        ("", "null", "/w==", "base64"),
        ("", "text", "", "null"),
    ]
    assert json.loads(rows[0]["headers"]) == [["h", "x"]]


def test_one_key_for_all_records(on_sandbox: RunBytes, kafka: KafkaConnection, topic: str) -> None:
    on_sandbox("produce", topic, "--key", "car-7", stdin=b"a\nb\n")
    on_sandbox("produce", topic, "--key", "car-8", "--format", "jsonl", stdin=b'{"value": "c"}\n')
    assert [(each.key, each.value) for each in records_in(kafka, topic)] == [
        (b"car-7", b"a"),
        (b"car-7", b"b"),
        (b"car-8", b"c"),
    ]
    on_sandbox("produce", topic, "--key", "x", "--with", "key", stdin=b"k\tv\n", code=2)
    words = ["--property", "parse.key=true", "--property", "parse.headers=true"]
    apart = on_sandbox(
        "produce", topic, *words, "--property", "key.separator=:", stdin=b"h:1\tk:v\n", code=2
    )
    assert b"headers.delimiter and key.separator differ" in apart.stderr


def test_a_group_that_has_not_read_what_is_gone(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    producer = Producer(kafka.for_librdkafka("producer"))
    for number in range(10):
        producer.produce(topic, b"v%d" % number, partition=0)
    producer.flush(30)
    with Admin(kafka) as admin:
        commit(admin, topic, {(topic, 0): CommittedOffset(2)})
    on_sandbox("topics", "trim", topic, "--offsets", "0:-5", "--yes")
    done = on_sandbox("consume", topic, "--group", topic)
    assert done.stdout == b"v5\nv6\nv7\nv8\nv9\n"
    assert b"offsets 2 to 4 are gone from the log" in done.stderr
