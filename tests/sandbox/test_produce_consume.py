"""`playhead produce` and `consume` beside Kafka's console tools: the same records, the same lines."""

import base64
import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from playhead.connection import KafkaConnection
from playhead.kafka.admin import Admin
from playhead.kafka.scan import LogMovedOn, Scan, Stretch
from playhead.kafka.trim import Trim, carry_out
from playhead.record import Record, TimestampType
from playhead.sandbox import Endpoints
from playhead.testing import LinkProxy
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import COMMAND
from tests.fix_kafka_tools import KafkaTool
from tests.fix_registry import TestRegistry
from tests.fix_topics import content, records_in, write

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
WRITTEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "schemas" / "confluent.json").read_text(
        encoding="utf-8"
    )
)


@pytest.fixture
def run(own_environment: None, sandbox: Endpoints) -> Run:
    """A command with bytes for stdin and stdout; expects it to succeed unless told."""

    def run(*words: str, stdin: bytes = b"", code: int = 0, servers: str | None = None) -> Any:
        command = [*COMMAND, *words, "-b", servers or sandbox.bootstrap_servers]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
        assert done.returncode == code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return done

    return run


def odd_records(topic: str, partitions: int) -> list[Record]:
    """Null and empty, bytes that are no text, separators, headers that repeat and come without a value."""
    bodies: Sequence[bytes | None] = [
        None,
        b"",
        b"plain",
        "Å\u2028\x85".encode(),
        b"\xff\x00\xfe",
        b"a\tb\nc\r\n",
    ]
    headers = [(), (("h", b"1"), ("h", None)), (("Ü", b"\xff"), ("", b""))]
    return [
        Record(
            topic,
            number % partitions,
            number,
            1_600_000_000_000 + number if number % 5 else -1,
            TimestampType.CREATE_TIME,
            bodies[number % len(bodies)],
            bodies[number * 5 // 3 % len(bodies)],
            headers[number % len(headers)],
        )
        for number in range(60)
    ]


# --- what one writes, the other reads back --------------------------------------------------------


def test_json_lines_travel_byte_for_byte(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    one, other = make_topic(partitions=3), make_topic(partitions=3)
    write(kafka, odd_records(one, 3))
    lines = run("consume", one, "-o", "jsonl").stdout
    assert len(lines.split(b"\n")) == 61
    sent = run("produce", other, "--format", "jsonl", "-o", "json", stdin=lines)
    assert json.loads(sent.stdout)["delivered"] == 60
    here, there = records_in(kafka, one), records_in(kafka, other)
    assert [content(each) for each in here] == [content(each) for each in there]
    assert [each.partition for each in here] == [each.partition for each in there]
    again = run("consume", other, "-o", "jsonl").stdout
    assert sorted(again.replace(other.encode(), one.encode()).splitlines()) == sorted(
        lines.splitlines()
    )


def test_a_document_holds_the_same_records_and_why_it_ends(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    write(kafka, odd_records(topic, 2))
    found = json.loads(run("consume", topic, "-o", "json").stdout)
    lines = map(json.loads, run("consume", topic, "-o", "jsonl").stdout.splitlines())
    place = lambda each: (each["partition"], each["offset"])  # noqa: E731
    assert sorted(found["records"], key=place) == sorted(lines, key=place)
    assert (found["scanned"], found["stopped"]) == (60, "the end of the span")


# --- beside Kafka's own ---------------------------------------------------------------------------


def test_lines_become_the_records_that_kafkas_producer_makes_of_them(
    run: Run, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    lines = b"".join(b"a:%d,b:x\tkey-%d\tvalue %d\twith a tab\n" % (n, n % 7, n) for n in range(40))
    lines += b"NIL\tk\tNIL\na:NIL\tNIL\tv\nh:1\t\t\nh:1\tk\tlast line without an end"
    one, other = make_topic(partitions=4), make_topic(partitions=4)
    run("produce", one, "--with", "headers,key", "--null", "NIL", stdin=lines)
    properties = ["parse.key=true", "parse.headers=true", "null.marker=NIL"]
    words = [word for text in properties for word in ("--reader-property", text)]
    kafka_tool("ConsoleProducer", "--topic", other, *words, stdin=lines)
    keyed = [
        [
            (each.partition, *content(each)[:3])
            for each in records_in(kafka, topic)
            if each.key is not None
        ]
        for topic in (one, other)
    ]
    assert keyed[0] == keyed[1]
    assert len(keyed[0]) == 43
    keyless = [
        [content(each)[:3] for each in records_in(kafka, topic) if each.key is None]
        for topic in (one, other)
    ]
    assert keyless[0] == keyless[1] == [(None, b"v", (("a", None),))]


def test_plain_lines_and_other_separators(
    run: Run, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    one, other, third, fourth = (make_topic() for _ in range(4))
    lines = "one\n\nthrée\n".encode()
    run("produce", one, stdin=lines)
    kafka_tool("ConsoleProducer", "--topic", other, stdin=lines)
    assert [r.value for r in records_in(kafka, one)] == [r.value for r in records_in(kafka, other)]

    lines = b"h=1;g=2|k::v::w\n"
    words = ["--with", "key", "--separator", "::"]
    run("produce", third, *words, stdin=b"k::v::w\n")
    properties = ["parse.key=true", "key.separator=::"]
    kafka_tool(
        "ConsoleProducer", "--topic", fourth, *(w for p in properties for w in ("--reader-property", p)),
        stdin=b"k::v::w\n",
    )  # fmt: skip
    assert [content(r)[:3] for r in records_in(kafka, third)] == [(b"k", b"v::w", ())]
    assert [content(r)[:3] for r in records_in(kafka, fourth)] == [(b"k", b"v::w", ())]


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
    properties, options, run: Run, kafka_tool: KafkaTool, kafka: KafkaConnection, topic: str
) -> None:  # type: ignore[no-untyped-def]
    write(kafka, odd_records(topic, 1))
    words = [word for text in properties for word in ("--formatter-property", text)]
    count = ["--max-messages", "60", "--from-beginning"]
    theirs = kafka_tool("consumer.ConsoleConsumer", "--topic", topic, *count, *words).stdout
    assert run("consume", topic, *options).stdout == theirs
    by_their_words = [word for text in properties for word in ("--property", text)]
    assert run("consume", topic, *by_their_words).stdout == theirs


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
    form, deserializer, data, run: Run, kafka_tool: KafkaTool, kafka: KafkaConnection, topic: str
) -> None:  # type: ignore[no-untyped-def]
    write(kafka, [Record(topic, 0, 0, 5, TimestampType.CREATE_TIME, b"k", data)])
    name = f"org.apache.kafka.common.serialization.{deserializer}Deserializer"
    words = ["--value-deserializer", name, "--max-messages", "1", "--from-beginning"]
    theirs = kafka_tool("consumer.ConsoleConsumer", "--topic", topic, *words).stdout
    assert run("consume", topic, "--decode", form).stdout == theirs


# --- produce --------------------------------------------------------------------------------------


def test_timestamp_and_partition_which_kafkas_tool_cannot_say(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3)
    lines = b"2021-08-04T12:30:00Z\t2\tk\tone\n1628080200005\t0\tk\ttwo\n\t\tk\tthree\n"
    run("produce", topic, "--with", "timestamp,partition,key", stdin=lines)
    said = ["--timestamp", "2021-08-04T12:30", "--timezone", "+02:00", "--partition", "1"]
    run("produce", topic, *said, "--header", "from=here", stdin=b"four\n")
    found = {r.value: r for r in records_in(kafka, topic)}
    assert (found[b"one"].timestamp_ms, found[b"one"].partition) == (1_628_080_200_000, 2)
    assert (found[b"two"].timestamp_ms, found[b"two"].partition) == (1_628_080_200_005, 0)
    assert abs(found[b"three"].timestamp_ms - time.time() * 1000) < 120_000
    four = found[b"four"]
    assert (four.timestamp_ms, four.partition) == (1_628_073_000_000, 1)
    assert four.headers == (("from", b"here"),)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_all_acks(
    acks: str, codec: str, run: Run, kafka: KafkaConnection, topic: str
) -> None:
    if acks != "all" and codec not in ("none", "zstd"):
        return
    done = run("produce", topic, "--acks", acks, "--compression", codec, stdin=b"x\n" * 50)
    assert f"acks {acks}: a record counts when".encode() in done.stderr
    assert len(records_in(kafka, topic)) == 50


def test_a_transaction_is_all_or_nothing(run: Run, kafka: KafkaConnection, topic: str) -> None:
    failed = run("produce", topic, "--transaction", "--with", "key", stdin=b"a\t1\nbad\n", code=1)
    assert b"line 2: no separator" in failed.stderr
    assert records_in(kafka, topic) == []
    done = run("produce", topic, "--transaction", "-o", "json", stdin=b"1\n2\n3\n")
    assert [json.loads(done.stdout)[k] for k in ("delivered", "transactions")] == [3, 1]
    assert len(records_in(kafka, topic)) == 3
    parted = run("produce", topic, "--transaction-records", "2", "-o", "json", stdin=b"4\n5\n6\n")
    assert [json.loads(parted.stdout)[k] for k in ("delivered", "transactions")] == [3, 2]
    words = ["--transaction-records", "2", "--with", "key", "-o", "json"]
    half = run("produce", topic, *words, stdin=b"k\t7\nk\t8\nk\t9\nbad\n", code=1)
    assert json.loads(half.stdout)["delivered"] == 2
    assert [r.value for r in records_in(kafka, topic)] == [b"%d" % n for n in range(1, 9)]


def test_a_transaction_with_a_record_that_is_refused_is_given_up(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="2000")
    lines = b"small\n" + b"x" * 5_000 + b"\n"
    failed = run("produce", topic, "--transaction", "-o", "json", stdin=lines, code=1)
    assert b"line 2: " in failed.stderr
    assert b"MSG_SIZE_TOO_LARGE" in failed.stderr
    assert json.loads(failed.stdout)["delivered"] == 0
    assert records_in(kafka, topic) == []


def test_records_that_fail_are_counted_and_the_others_arrive(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="2000")
    lines = b"a\n" + b"x" * 5_000 + b"\nb\n"
    failed = run("produce", topic, "-o", "json", stdin=lines, code=1)
    said = json.loads(failed.stdout)
    assert (said["lines"], said["delivered"], said["failed"]) == (3, 2, 1)
    assert b"line 2 was not delivered" in failed.stderr
    assert [r.value for r in records_in(kafka, topic)] == [b"a", b"b"]


def test_many_small_records_pass_where_a_set_of_them_would_be_too_large(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="3000")
    run("produce", topic, stdin=b"y" * 300 + b"\n" + (b"x" * 300 + b"\n") * 499)
    assert len(records_in(kafka, topic)) == 500


def test_lines_that_are_no_records_stop_it_or_are_skipped_and_counted(
    run: Run, kafka: KafkaConnection, topic: str
) -> None:
    lines = b"a\t1\nbad\nb\t2\n"
    stopped = run("produce", topic, "--with", "key", "-o", "json", stdin=lines, code=1)
    assert json.loads(stopped.stdout)["delivered"] == 1
    assert b"line 2: no separator" in stopped.stderr
    skipped = run(
        "produce", topic, "--with", "key", "--on-error", "skip", "-o", "json", stdin=lines, code=1
    )
    assert [json.loads(skipped.stdout)[k] for k in ("delivered", "skipped")] == [2, 1]
    assert [r.value for r in records_in(kafka, topic)] == [b"1", b"1", b"2"]


def test_dry_run_reads_everything_and_writes_nothing(
    run: Run, kafka: KafkaConnection, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\tb\nbad\n")
    done = run(
        "produce",
        topic,
        str(file),
        "--with",
        "key",
        "--dry-run",
        "--on-error",
        "skip",
        "-o",
        "json",
        code=1,
    )
    said = json.loads(done.stdout)
    assert (said["lines"], said["skipped"], said["delivered"], said["dry_run"]) == (2, 1, 0, True)
    assert records_in(kafka, topic) == []
    run("produce", topic, str(file))
    assert [r.value for r in records_in(kafka, topic)] == [b"a\tb", b"bad"]


def test_a_broker_that_goes_away_in_the_middle_is_a_failure_with_a_number(
    run: Run,
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    topic: str,
    kafka: KafkaConnection,
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "produce", topic, "--timeout", "3", "-o", "json", "-b", linked_kafka.bootstrap_servers or ""],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not records_in(kafka, topic) and time.monotonic() < deadline:
        time.sleep(0.05)
    broker_link.cut()
    out, err = process.communicate(b"two\nthree\n", timeout=60)
    assert process.returncode == 1, err
    said = json.loads(out)
    assert (said["delivered"], said["failed"]) == (1, 2)
    assert b"line 2 was not delivered" in err


def test_reading_waits_while_the_queue_is_full_and_then_all_arrives(
    linked_kafka: KafkaConnection,
    broker_link: LinkProxy,
    topic: str,
    kafka: KafkaConnection,
) -> None:
    total, queue = 130_000, 100_000
    process = subprocess.Popen(
        [*COMMAND, "produce", topic, "-o", "json", "-b", linked_kafka.bootstrap_servers or ""],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not records_in(kafka, topic) and time.monotonic() < deadline:
        time.sleep(0.05)
    broker_link.stall()
    written = 0

    def feed() -> None:
        nonlocal written
        assert process.stdin is not None
        for _ in range(total // 1_000):
            process.stdin.write(b"0123456789\n" * 1_000)
            process.stdin.flush()
            written += 1_000
        process.stdin.close()

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        before, still = -1, 0
        while (still < 5 or written < queue) and time.monotonic() < deadline + 30:
            still = still + 1 if written == before else 0
            before = written
            time.sleep(0.2)
        assert queue <= written < total, "the queue and a pipe hold so much, and the rest waits"
    finally:
        broker_link.resume()
    feeding.join(60)
    said = json.loads(process.stdout.read())
    process.stdout.close()
    assert process.wait(60) == 0
    assert (said["delivered"], said["failed"]) == (total + 1, 0)
    with Admin(kafka) as admin:
        assert admin.bounds(topic) == {0: (0, total + 1)}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 1, "there is no topic 'nowhere'"),
        (["{topic}", "--partition", "9"], 1, "partition 9, and the topic has 0 to 0"),
        (["{topic}", "--partition", "-1"], 2, "a number, or auto"),
        (["{topic}", "--acks", "2"], 2, "0, 1, all"),
        (["{topic}", "--acks", "1", "--transaction"], 2, "a transaction needs acks all"),
        (["{topic}", "--transactional-id", "x"], 2, "--transaction"),
        (["{topic}", "--compression", "rar"], 2, "zstd"),
        (["{topic}", "--with", "offset"], 2, "timestamp, partition, headers, key"),
        (["{topic}", "--separator", ""], 2, "cannot be empty"),
        (["{topic}", "--format", "jsonl", "--with", "key"], 2, "about lines"),
        (["{topic}", "--format", "jsonl"], 1, "line 1: no JSON"),
        (["{topic}", "--timestamp", "1970-01-01T00:00:00Z"], 1, "cannot send"),
        (["{topic}", "--header", "x"], 2, "NAME=VALUE"),
        (["{topic}", "/no/such/file"], 2, "No such file"),
    ],
)
def test_bad_input_of_produce(
    words, code, said, run: Run, kafka: KafkaConnection, topic: str
) -> None:  # type: ignore[no-untyped-def]
    filled = [word.format(topic=topic) for word in words]
    done = run("produce", *filled, stdin=b"x\n", code=code)
    assert said in done.stderr.decode()
    assert records_in(kafka, topic) == []


# --- consume --------------------------------------------------------------------------------------


def timed(topic: str, partition: int, *times: int) -> list[Record]:
    return [
        Record(topic, partition, n, at, TimestampType.CREATE_TIME, b"k%d" % n, b"v%d" % at)
        for n, at in enumerate(times)
    ]


def test_spans_by_time_by_offset_and_by_duration(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    write(kafka, timed(topic, 0, 1_000, 2_000, 9_000, 3_000, 5_000) + timed(topic, 1, 2_500, 4_000))

    def values(*words: str) -> set[bytes]:
        return set(run("consume", topic, *words).stdout.split())

    span = ["--from", "1970-01-01T00:00:02Z", "--to", "1970-01-01T00:00:04Z"]
    # Not 9 s, which stands between them; and 3 s, which stands after it.
    assert values(*span) == {b"v2000", b"v3000", b"v2500"}
    assert values("--from", "1970-01-01T00:00:02Z", "--for", "2s") == {b"v2000", b"v3000", b"v2500"}
    assert values("--offsets", "0:1-3,1:1-") == {b"v2000", b"v9000", b"v4000"}
    assert values("--partition", "1") == {b"v2500", b"v4000"}
    assert values("--last", "1h") == set()
    assert len(values("--from-beginning")) == 7
    told = run("consume", topic, *span).stderr.decode()
    assert "with times outside of the span left out" in told
    assert "[1970-01-01T00:00:02.000Z, 1970-01-01T00:00:04.000Z)" in told


def test_it_always_says_how_much_it_scanned_and_why_it_stopped(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
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
        return run("consume", *words).stderr.decode().splitlines()[-1]

    # 40 records, one that was aborted, and a transaction's marker.
    assert told(topic).startswith(
        "40 records shown, 42 of 42 offsets scanned; stopped: the end of the span"
    )
    assert told(topic, "--offsets", "0:0-", "--max", "7").startswith(
        "7 records shown, 7 of 30 offsets scanned; stopped: --max 7"
    )
    assert told(topic, "--grep", "^v3$").startswith(
        "2 records shown, 42 of 42 offsets scanned; 38 did not fit"
    )
    assert told(topic, "--grep-key", "^k2$", "--max", "1").startswith("1 records shown")
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
    assert "stopped: whoever read the output has closed it" in told
    assert "Traceback" not in told


def test_follow_shows_what_comes_and_ctrl_c_ends_it(
    start_playhead: Callable[..., "subprocess.Popen[str]"],
    sandbox: Endpoints,
    kafka: KafkaConnection,
    topic: str,
) -> None:
    write(kafka, timed(topic, 0, 1, 2))
    process = start_playhead("consume", topic, "--follow", "-b", sandbox.bootstrap_servers)
    assert process.stderr is not None
    assert process.stdout is not None
    assert "from now on: and what comes" in process.stderr.readline()
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reading.start()
    for at in (3, 4):
        write(kafka, timed(topic, 0, at))
        deadline = time.monotonic() + 30
        while len(lines) < at - 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    reading.join(30)
    told = process.stderr.read()
    assert process.wait(30) == 130
    process.stdout.close()
    process.stderr.close()
    assert lines == ["v3\n", "v4\n"]
    assert "2 records shown, 2 offsets scanned; stopped: interrupted" in told


def test_follow_from_the_beginning_ends_at_max(
    run: Run, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, 1, 2, 3))
    done = run("consume", topic, "--from-beginning", "--follow", "--max", "3")
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
    run: Run, kafka: KafkaConnection, topic: str
) -> None:
    producer = Producer(kafka.for_librdkafka("producer") | {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    write(kafka, timed(topic, 0, 5))
    assert run("consume", topic).stdout == b""
    producer.commit_transaction(30)
    assert run("consume", topic).stdout == b"open\nv5\n"


def test_a_pattern_of_topics_and_their_names(
    run: Run, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    one, other = make_topic(), make_topic()
    for topic in (one, other):
        write(kafka, timed(topic, 0, 1))
    stem = one.rpartition("-")[0]
    shown = run("consume", f"/^{stem}/", "--show", "topic,value").stdout.decode()
    assert sorted(shown.splitlines()) == sorted(f"{topic}\tv1" for topic in (one, other))
    both = run("consume", one, other, "-o", "jsonl").stdout.splitlines()
    assert {json.loads(line)["topic"] for line in both} == {one, other}


def test_records_that_went_meanwhile_are_an_error_and_no_shorter_answer(
    kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, 1, 2, 3))
    scan = Scan(kafka, [Stretch(topic, 0, 0, 3)], patience_s=20)
    with Admin(kafka) as admin:
        carry_out(admin, [Trim(topic, 0, 0, 2, 3)])
    with pytest.raises(LogMovedOn, match="does not hold offset 0 any more"):
        list(scan.run())
    assert scan.scanned == 0


def test_offsets_in_the_middle_of_a_partition_by_the_topics_name(
    run: Run, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, timed(topic, 0, 1, 2, 3))
    found = run("consume", topic, "--offsets", f"{topic}:0:1-3", "--show", "offset,value")
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
        (["{topic}", "--follow", "--to", "now"], 2, "--follow has no end"),
        (["{topic}", "--from-beginning", "--last", "1h"], 2, "contradict"),
        (["{topic}", "--grep", "("], 2, "a regular expression"),
        (["{topic}", "--show", "vaule"], 2, "topic, timestamp"),
        (["{topic}", "-o", "csv"], 2, "jsonl or json"),
        (["{topic}", "-o", "jsonl", "--show", "key"], 2, "about lines"),
        (["{topic}", "--property", "print.kye=true"], 2, "print.FIELD=true"),
        (["{topic}", "--decode", "avroo"], 2, "avro"),
        (["{topic}", "--decode", "avro"], 1, "SCHEMA_REGISTRY_URL"),
        (["{topic}", "--decode", "int"], 1, "offset 1: its value cannot be decoded as int"),
        (["/nothing-fits-this/"], 1, "fits the pattern"),
    ],
)
def test_bad_input_of_consume(
    words, code, said, run: Run, kafka: KafkaConnection, topic: str
) -> None:  # type: ignore[no-untyped-def]
    write(
        kafka,
        [
            Record(topic, 0, n, 5, TimestampType.CREATE_TIME, None, v)
            for n, v in enumerate((b"\0\0\0\1", b"x"))
        ],
    )
    filled = [word.format(topic=topic) for word in words]
    done = run("consume", *filled, code=code)
    assert said.format(topic=topic) in done.stderr.decode()


def test_records_before_one_that_cannot_be_decoded_are_shown(
    run: Run, kafka: KafkaConnection, topic: str
) -> None:
    values = (b"\0\0\0\1", b"\0\0\0\2", b"x", b"\0\0\0\3", None)
    write(
        kafka,
        [Record(topic, 0, n, 5, TimestampType.CREATE_TIME, None, v) for n, v in enumerate(values)],
    )
    failed = run("consume", topic, "--decode", "int", code=1)
    assert failed.stdout == b"1\n2\n"
    assert b"2 of 5 offsets scanned" in failed.stderr or b"3 of 5 offsets scanned" in failed.stderr
    assert (
        run("consume", topic, "--decode", "int", "--on-error", "skip").stdout == b"1\n2\n3\nnull\n"
    )
    assert (
        run("consume", topic, "--decode", "int", "--on-error", "raw").stdout
        == b"1\n2\nx\n3\nnull\n"
    )


def test_records_of_a_registry_are_decoded_and_searched(
    run: Run, kafka: KafkaConnection, topic: str, registry: TestRegistry
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
    lines = run("consume", topic, *words, "-o", "jsonl").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["decoded_value"] for each in found] == [case["decoded"] for case in cases]
    assert {each["decoded_key"] for each in found} == {7}
    wanted = [each for each in cases if "RACE" in json.dumps(each["decoded"])]
    assert (
        len(run("consume", topic, *words, "--grep", "RACE").stdout.splitlines()) == len(wanted) == 2
    )
    with contextlib.suppress(ValueError):
        assert all(json.loads(line) for line in run("consume", topic, *words).stdout.splitlines())
