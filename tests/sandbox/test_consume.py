"""`playhead consume` beside Kafka's console consumer: the same lines of the same records."""

import base64
import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from playhead.config.context import configure
from playhead.config.guards import Guard
from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.trim import Trim, carry_out
from playhead.kafka.read.scan import LogMovedOn, Scan, Stretch
from playhead.record import Record, TimestampType
from playhead.sandbox import Endpoints
from playhead.testing import LinkProxy
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import COMMAND, RunBytes
from tests.fix_kafka_tools import KafkaTool
from tests.fix_registry import TestRegistry
from tests.fix_topics import content, odd_records, records_in, timed, write
from tests.sandbox.kafka_log import produce_raw

WRITTEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "schemas" / "confluent.json").read_text(
        encoding="utf-8"
    )
)


# --- what one writes, the other reads back --------------------------------------------------------


def test_json_lines_travel_byte_for_byte(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    one, other = make_topic(partitions=3), make_topic(partitions=3)
    write(kafka, odd_records(one, 3))
    lines = on_sandbox("consume", one, "-o", "jsonl").stdout
    assert len(lines.split(b"\n")) == 61
    sent = on_sandbox("produce", other, "--format", "jsonl", "-o", "json", stdin=lines)
    assert json.loads(sent.stdout)["delivered"] == 60
    here, there = records_in(kafka, one), records_in(kafka, other)
    assert [content(each) for each in here] == [content(each) for each in there]
    assert [each.partition for each in here] == [each.partition for each in there]
    again = on_sandbox("consume", other, "-o", "jsonl").stdout
    assert sorted(again.replace(other.encode(), one.encode()).splitlines()) == sorted(
        lines.splitlines()
    )


def test_a_document_holds_the_same_records_and_why_it_ends(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    write(kafka, odd_records(topic, 2))
    found = json.loads(on_sandbox("consume", topic, "-o", "json").stdout)
    lines = map(json.loads, on_sandbox("consume", topic, "-o", "jsonl").stdout.splitlines())
    place = lambda each: (each["partition"], each["offset"])  # noqa: E731
    assert sorted(found["records"], key=place) == sorted(lines, key=place)
    assert (found["scanned"], found["stopped"]) == (60, "the end of the span")


# --- beside Kafka's own ----------------------------------------


ALL_SHOWN = ("timestamp", "partition", "offset", "headers", "key", "value")


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ([], []),
        (
            [f"print.{name}=true" for name in ALL_SHOWN],
            ["--show", "timestamp,partition,offset,headers,key,value"],
        ),
        (
            [
                "print.key=true",
                "print.value=false",
                "key.separator=:",
                "line.separator=|",
                "null.literal=NIL",
            ],
            ["--show", "key", "--separator", ":", "--line-separator", "|", "--null", "NIL"],
        ),
    ],
    ids=["values", "all", "separators"],
)
def test_records_are_printed_as_kafkas_consumer_prints_them(
    properties,
    options,
    on_sandbox: RunBytes,
    kafka_tool: KafkaTool,
    kafka: KafkaConnection,
    topic: str,
) -> None:  # type: ignore[no-untyped-def]
    write(kafka, odd_records(topic, 1))
    words = [word for text in properties for word in ("--formatter-property", text)]
    count = ["--max-messages", "60", "--from-beginning"]
    theirs = kafka_tool("consumer.ConsoleConsumer", "--topic", topic, *count, *words).stdout
    assert on_sandbox("consume", topic, *options).stdout == theirs
    by_their_words = [word for text in properties for word in ("--property", text)]
    assert on_sandbox("consume", topic, *by_their_words).stdout == theirs


@pytest.mark.parametrize(
    ("form", "deserializer", "data"),
    [
        ("int", "Integer", (-5).to_bytes(4, "big", signed=True)),
        ("long", "Long", (2**53 + 1).to_bytes(8, "big")),
        ("uuid", "UUID", b"0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("double", "Double", b"\x3f\xf8\0\0\0\0\0\0"),
    ],
)
def test_decoded_values_are_printed_as_kafkas_deserializers_print_them(
    form,
    deserializer,
    data,
    on_sandbox: RunBytes,
    kafka_tool: KafkaTool,
    kafka: KafkaConnection,
    topic: str,
) -> None:  # type: ignore[no-untyped-def]
    write(kafka, [Record(topic, 0, 0, 5, TimestampType.CREATE_TIME, b"k", data)])
    name = f"org.apache.kafka.common.serialization.{deserializer}Deserializer"
    words = ["--value-deserializer", name, "--max-messages", "1", "--from-beginning"]
    theirs = kafka_tool("consumer.ConsoleConsumer", "--topic", topic, *words).stdout
    assert on_sandbox("consume", topic, "--decode", form).stdout == theirs


# --- consume --------------------------------------------------------------------------------------


def test_spans_by_time_by_offset_and_by_duration(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    write(kafka, timed(topic, 0, 1_000, 2_000, 9_000, 3_000, 5_000) + timed(topic, 1, 2_500, 4_000))

    def values(*words: str) -> set[bytes]:
        return set(on_sandbox("consume", topic, *words).stdout.split())

    span = ["--from", "1970-01-01T00:00:02Z", "--to", "1970-01-01T00:00:04Z"]
    # Not 9 s, which stands between them; and 3 s, which stands after it.
    assert values(*span) == {b"v2000", b"v3000", b"v2500"}
    assert values("--from", "1970-01-01T00:00:02Z", "--for", "2s") == {b"v2000", b"v3000", b"v2500"}
    assert values("--offsets", "0:1-3,1:1-") == {b"v2000", b"v9000", b"v4000"}
    assert values("--partition", "1") == {b"v2500", b"v4000"}
    assert values("--last", "1h") == set()
    assert len(values("--from-beginning")) == 7
    told = on_sandbox("consume", topic, *span).stderr.decode()
    assert "with times outside of the span left out" in told
    assert "[1970-01-01T00:00:02.000Z, 1970-01-01T00:00:04.000Z)" in told


def test_it_always_says_how_much_it_scanned_and_why_it_stopped(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic, empty = make_topic(partitions=2), make_topic()
    write(kafka, timed(topic, 0, *range(1, 31)) + timed(topic, 1, *range(1, 11)))
    producer = Producer(kafka.for_librdkafka("producer") | {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"aborted", partition=1)
    producer.flush(30)
    producer.abort_transaction(30)

    def told(*words: str) -> str:
        return on_sandbox("consume", *words).stderr.decode().splitlines()[-1]

    # 40 records, one that was aborted, and a transaction's marker.
    assert told(topic).startswith(
        "40 records shown, 42 of 42 offsets scanned; 2 of them without a committed record; "
        "stopped: the end of the span"
    )
    assert told(topic, "--offsets", "0:0-", "--max", "7").startswith(
        "7 records shown, 7 of 30 offsets scanned; stopped: --max 7"
    )
    assert told(topic, "--grep", "^v3$").startswith(
        "2 records shown, 42 of 42 offsets scanned; 2 of them without a committed record; "
        "38 did not match"
    )
    assert told(topic, "--grep-key", "^k2$", "--max", "1").startswith("1 record shown")
    assert told(empty).startswith(
        "0 records shown, 0 of 0 offsets scanned; stopped: the end of the span"
    )


def test_a_reader_that_has_enough_ends_it(
    sandbox: Endpoints, own_environment: None, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, *range(1, 50_001)))
    process = subprocess.Popen(
        [*COMMAND, "consume", topic, "-b", sandbox.bootstrap_servers],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"v1\n"
    process.stdout.close()
    told = process.stderr.read().decode()
    assert process.wait(30) == 0
    process.stderr.close()
    assert "stopped: the reader of the output has closed it" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("sent", "ended", "why"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_follow_shows_what_comes_and_a_signal_ends_it(
    start_playhead: Callable[..., "subprocess.Popen[str]"],
    sandbox: Endpoints,
    kafka: KafkaConnection,
    topic: str,
    sent: signal.Signals,
    ended: int,
    why: str,
) -> None:
    write(kafka, timed(topic, 0, 1, 2))
    process = start_playhead("consume", topic, "--follow", "-b", sandbox.bootstrap_servers)
    assert process.stderr is not None
    assert process.stdout is not None
    assert "from now on: new records" in process.stderr.readline()
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reading.start()
    for at in (3, 4):
        write(kafka, timed(topic, 0, at))
        deadline = time.monotonic() + 30
        while len(lines) < at - 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    process.send_signal(sent)
    reading.join(30)
    told = process.stderr.read()
    assert process.wait(30) == ended
    process.stdout.close()
    process.stderr.close()
    assert lines == ["v3\n", "v4\n"]
    assert f"2 records shown, 2 offsets scanned; stopped: {why}" in told


def test_follow_from_the_beginning_ends_at_max(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, 1, 2, 3))
    done = on_sandbox("consume", topic, "--from-beginning", "--follow", "--max", "3")
    assert done.stdout == b"v1\nv2\nv3\n"
    assert b"stopped: --max 3" in done.stderr


def test_follow_outlives_a_broker_that_is_away_and_says_so(
    start_playhead: Callable[..., "subprocess.Popen[str]"], linked_kafka: KafkaConnection, broker_link: LinkProxy,
    kafka: KafkaConnection, topic: str,
) -> None:  # fmt: skip
    words = ["consume", topic, "--follow", "--max", "1", "-b", linked_kafka.bootstrap_servers or ""]
    process = start_playhead(*words)
    assert process.stderr is not None
    assert "from now on" in process.stderr.readline()
    broker_link.cut()
    assert "waiting: " in process.stderr.readline()
    write(kafka, timed(topic, 0, 7))
    broker_link.restore()
    out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == ("v7\n", 0), err


def test_an_open_transaction_hides_what_comes_after_it(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    producer = Producer(kafka.for_librdkafka("producer") | {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    write(kafka, timed(topic, 0, 5))
    assert on_sandbox("consume", topic).stdout == b""
    producer.commit_transaction(30)
    assert on_sandbox("consume", topic).stdout == b"open\nv5\n"


def test_a_pattern_of_topics_and_their_names(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    one, other = make_topic(), make_topic()
    for topic in (one, other):
        write(kafka, timed(topic, 0, 1))
    stem = one.rpartition("-")[0]
    shown = on_sandbox("consume", f"/^{stem}/", "--show", "topic,value").stdout.decode()
    assert sorted(shown.splitlines()) == sorted(f"{topic}\tv1" for topic in (one, other))
    both = on_sandbox("consume", one, other, "-o", "jsonl").stdout.splitlines()
    assert {json.loads(line)["topic"] for line in both} == {one, other}


def test_records_that_went_meanwhile_are_an_error_and_no_shorter_answer(
    kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, 1, 2, 3))
    scan = Scan(kafka, [Stretch(topic, 0, 0, 3)], patience_s=20)
    with Admin(kafka) as admin:
        carry_out(admin, [Trim(topic, 0, 0, 2, 3)], Guard(configure({})))
    with pytest.raises(LogMovedOn, match="no longer holds offset 0"):
        list(scan.run())
    assert scan.scanned == 0


def test_offsets_in_the_middle_of_a_partition_by_the_topics_name(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, 1, 2, 3))
    found = on_sandbox("consume", topic, "--offsets", f"{topic}:0:1-3", "--show", "offset,value")
    assert found.stdout == b"Offset:1\tv2\nOffset:2\tv3\n"
    assert b"2 of 2 offsets scanned" in found.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 1, "there is no topic 'nowhere'"),
        (["{topic}", "--partition", "9"], 2, "needed: 0"),
        (["{topic}", "--offsets", "9:0-"], 1, "there is no partition {topic}:9"),
        (["{topic}", "--offsets", "0:0-99"], 1, "the partition holds 0-2"),
        (["{topic}", "--offsets", "other:0:0-"], 1, "there is no partition other:0"),
        (["{topic}", "--from", "12345678901"], 2, "10 (seconds), 13 (ms)"),
        (["{topic}", "--from", "2021-08-05", "--to", "2021-08-04"], 2, "after its to"),
        (["{topic}", "--from", "end"], 2, "cannot begin at the end"),
        (["{topic}", "--follow", "--to", "now"], 2, "--follow never ends"),
        (["{topic}", "--from-beginning", "--last", "1h"], 2, "contradict"),
        (["{topic}", "--grep", "("], 2, "a regular expression"),
        (["{topic}", "--grep", "(a)\\1"], 2, "a regular expression of RE2"),
        (["{topic}", "--show", "vaule"], 2, "topic, timestamp"),
        (["{topic}", "-o", "jsonl", "--show", "key"], 2, "about lines"),
        (["{topic}", "--property", "print.kye=true"], 2, "print.FIELD=true"),
        (["{topic}", "--decode", "avroo"], 2, "avro"),
        (["{topic}", "--decode", "avro"], 1, "SCHEMA_REGISTRY_URL"),
        (["{topic}", "--decode", "int"], 1, "offset 1: its value cannot be decoded as int"),
        (["/nothing-fits-this/"], 1, "matches the pattern"),
    ],
)
def test_bad_input_of_consume(
    words, code, said, on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:  # type: ignore[no-untyped-def]
    write(
        kafka,
        [
            Record(topic, 0, n, 5, TimestampType.CREATE_TIME, None, v)
            for n, v in enumerate((b"\0\0\0\1", b"x"))
        ],
    )
    filled = [word.format(topic=topic) for word in words]
    done = on_sandbox("consume", *filled, code=code)
    assert said.format(topic=topic) in done.stderr.decode()


def test_a_record_with_an_unreadable_header_is_left_out_or_shown_without_any(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    names = (b"fine", b"\xff", b"fine")
    rows = [(5, b"k", b"%d" % n, ((name, b"1"),)) for n, name in enumerate(names)]
    produce_raw(kafka, topic, 0, rows)
    failed = on_sandbox("consume", topic, code=1)
    assert failed.stdout == b"0\n"
    assert b"offset 1: cannot be read whole: a header's name is not UTF-8" in failed.stderr
    assert on_sandbox("consume", topic, "--on-error", "skip").stdout == b"0\n2\n"
    shown = on_sandbox("consume", topic, "--on-error", "raw", "-o", "jsonl").stdout
    found = [json.loads(line) for line in shown.splitlines()]
    assert [(each["value"], each["headers"]) for each in found] == [
        ("0", [["fine", "1"]]),
        ("1", None),
        ("2", [["fine", "1"]]),
    ]


def test_records_before_one_that_cannot_be_decoded_are_shown(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    values = (b"\0\0\0\1", b"\0\0\0\2", b"x", b"\0\0\0\3", None)
    write(
        kafka,
        [Record(topic, 0, n, 5, TimestampType.CREATE_TIME, None, v) for n, v in enumerate(values)],
    )
    failed = on_sandbox("consume", topic, "--decode", "int", code=1)
    assert failed.stdout == b"1\n2\n"
    assert b"2 of 5 offsets scanned" in failed.stderr or b"3 of 5 offsets scanned" in failed.stderr
    assert (
        on_sandbox("consume", topic, "--decode", "int", "--on-error", "skip").stdout
        == b"1\n2\n3\nnull\n"
    )
    assert (
        on_sandbox("consume", topic, "--decode", "int", "--on-error", "raw").stdout
        == b"1\n2\nx\n3\nnull\n"
    )


def test_records_of_a_registry_are_decoded_and_searched(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str, registry: TestRegistry
) -> None:
    registry.schemas, registry.subjects = WRITTEN["schemas"], WRITTEN["subjects"]
    cases = [case for case in WRITTEN["cases"] if not case["is_key"]]
    key = next(case for case in WRITTEN["cases"] if case["is_key"] and not case["headers"])
    records = [
        Record(
            topic, 0, n, 5, TimestampType.CREATE_TIME, base64.b64decode(key["data"]),
            base64.b64decode(case["data"]),
            tuple((name, base64.b64decode(value)) for name, value in case["headers"]),
        )
        for n, case in enumerate(cases)
    ]  # fmt: skip
    write(kafka, records)
    words = ["--decode", "registry", "--decode-key", "avro", "--schema-registry", registry.url]
    lines = on_sandbox("consume", topic, *words, "-o", "jsonl").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["decoded_value"] for each in found] == [case["decoded"] for case in cases]
    assert {each["decoded_key"] for each in found} == {7}
    wanted = [each for each in cases if "RACE" in json.dumps(each["decoded"])]
    assert (
        len(on_sandbox("consume", topic, *words, "--grep", "RACE").stdout.splitlines())
        == len(wanted)
        == 2
    )
    with contextlib.suppress(ValueError):
        assert all(
            json.loads(line) for line in on_sandbox("consume", topic, *words).stdout.splitlines()
        )
