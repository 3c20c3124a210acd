"""`playhead produce` beside Kafka's console producer: the same records of the same lines."""

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import stable_ends
from playhead.testing import LinkProxy
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import COMMAND, RunBytes
from tests.fix_kafka_tools import KafkaTool
from tests.fix_topics import content, records_in

# --- beside Kafka's own ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_spelled_as_theirs", [False, True])
def test_lines_become_the_records_that_kafkas_producer_makes_of_them(
    is_spelled_as_theirs: bool,
    on_sandbox: RunBytes,
    kafka_tool: KafkaTool,
    kafka: KafkaConnection,
    make_topic: MakeTopic,
) -> None:
    lines = b"".join(b"a:%d,b:x\tkey-%d\tvalue %d\twith a tab\n" % (n, n % 7, n) for n in range(40))
    lines += b"NIL\tk\tNIL\na:NIL\tNIL\tv\nh:1\t\t\nh:1\tk\tlast line without an end"
    one, other = make_topic(partitions=4), make_topic(partitions=4)
    properties = ["parse.key=true", "parse.headers=true", "null.marker=NIL"]
    words = [word for text in properties for word in ("--reader-property", text)]
    ours = [one, "--with", "headers,key", "--null", "NIL"]
    on_sandbox(
        "produce", *(["--topic", one, *words] if is_spelled_as_theirs else ours), stdin=lines
    )
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
    on_sandbox: RunBytes, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    one, other, third, fourth = (make_topic() for _ in range(4))
    lines = "one\n\nthrée\n".encode()
    on_sandbox("produce", one, stdin=lines)
    kafka_tool("ConsoleProducer", "--topic", other, stdin=lines)
    assert [r.value for r in records_in(kafka, one)] == [r.value for r in records_in(kafka, other)]

    lines = b"h=1;g=2|k::v::w\n"
    words = ["--with", "key", "--separator", "::"]
    on_sandbox("produce", third, *words, stdin=b"k::v::w\n")
    properties = ["parse.key=true", "key.separator=::"]
    kafka_tool(
        "ConsoleProducer", "--topic", fourth, *(w for p in properties for w in ("--reader-property", p)),
        stdin=b"k::v::w\n",
    )  # fmt: skip
    assert [content(r)[:3] for r in records_in(kafka, third)] == [(b"k", b"v::w", ())]
    assert [content(r)[:3] for r in records_in(kafka, fourth)] == [(b"k", b"v::w", ())]


# --- produce --------------------------------------------------------------------------------------


def test_timestamp_and_partition_which_kafkas_tool_cannot_say(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3)
    lines = b"2021-08-04T12:30:00Z\t2\tk\tone\n1628080200005\t0\tk\ttwo\n\t\tk\tthree\n"
    on_sandbox("produce", topic, "--with", "timestamp,partition,key", stdin=lines)
    said = ["--timestamp", "2021-08-04T12:30", "--timezone", "+02:00", "--partition", "1"]
    on_sandbox("produce", topic, *said, "--header", "from=here", stdin=b"four\n")
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
    acks: str, codec: str, on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    if acks != "all" and codec not in ("none", "zstd"):
        return
    done = on_sandbox("produce", topic, "--acks", acks, "--compression", codec, stdin=b"x\n" * 50)
    assert f"acks {acks}: a record counts as delivered when".encode() in done.stderr
    assert len(records_in(kafka, topic)) == 50


def test_a_transaction_is_all_or_nothing(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    failed = on_sandbox(
        "produce", topic, "--transaction", "--with", "key", stdin=b"a\t1\nbad\n", code=1
    )
    assert b"line 2: no separator" in failed.stderr
    assert records_in(kafka, topic) == []
    done = on_sandbox("produce", topic, "--transaction", "-o", "json", stdin=b"1\n2\n3\n")
    assert [json.loads(done.stdout)[k] for k in ("delivered", "transactions")] == [3, 1]
    assert len(records_in(kafka, topic)) == 3
    parted = on_sandbox(
        "produce", topic, "--transaction-records", "2", "-o", "json", stdin=b"4\n5\n6\n"
    )
    assert [json.loads(parted.stdout)[k] for k in ("delivered", "transactions")] == [3, 2]
    words = ["--transaction-records", "2", "--with", "key", "-o", "json"]
    half = on_sandbox("produce", topic, *words, stdin=b"k\t7\nk\t8\nk\t9\nbad\n", code=1)
    assert json.loads(half.stdout)["delivered"] == 2
    assert [r.value for r in records_in(kafka, topic)] == [b"%d" % n for n in range(1, 9)]


def test_a_transaction_with_a_record_that_is_refused_is_given_up(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="2000")
    lines = b"small\n" + b"x" * 5_000 + b"\n"
    failed = on_sandbox("produce", topic, "--transaction", "-o", "json", stdin=lines, code=1)
    assert b"line 2: " in failed.stderr
    assert b"MSG_SIZE_TOO_LARGE" in failed.stderr
    assert json.loads(failed.stdout)["delivered"] == 0
    assert records_in(kafka, topic) == []


def test_records_that_fail_are_counted_and_the_others_arrive(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="2000")
    lines = b"a\n" + b"x" * 5_000 + b"\nb\n"
    failed = on_sandbox("produce", topic, "-o", "json", stdin=lines, code=1)
    said = json.loads(failed.stdout)
    assert (said["lines"], said["delivered"], said["failed"]) == (3, 2, 1)
    assert b"line 2 was not delivered" in failed.stderr
    assert [r.value for r in records_in(kafka, topic)] == [b"a", b"b"]


def test_many_small_records_pass_where_a_set_of_them_would_be_too_large(
    on_sandbox: RunBytes, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="3000")
    on_sandbox("produce", topic, stdin=b"y" * 300 + b"\n" + (b"x" * 300 + b"\n") * 499)
    assert len(records_in(kafka, topic)) == 500


def test_lines_that_are_no_records_stop_it_or_are_skipped_and_counted(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:
    lines = b"a\t1\nbad\nb\t2\n"
    stopped = on_sandbox("produce", topic, "--with", "key", "-o", "json", stdin=lines, code=1)
    assert json.loads(stopped.stdout)["delivered"] == 1
    assert b"line 2: no separator" in stopped.stderr
    skipped = on_sandbox(
        "produce", topic, "--with", "key", "--on-error", "skip", "-o", "json", stdin=lines, code=1
    )
    assert [json.loads(skipped.stdout)[k] for k in ("delivered", "skipped")] == [2, 1]
    assert [r.value for r in records_in(kafka, topic)] == [b"1", b"1", b"2"]


def test_dry_run_reads_everything_and_writes_nothing(
    on_sandbox: RunBytes, kafka: KafkaConnection, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\tb\nbad\n")
    done = on_sandbox(
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
    on_sandbox("produce", topic, str(file))
    assert [r.value for r in records_in(kafka, topic)] == [b"a\tb", b"bad"]


def test_a_broker_that_goes_away_in_the_middle_is_a_failure_with_a_number(
    on_sandbox: RunBytes,
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
        assert stable_ends(admin, [(topic, 0)]) == {(topic, 0): total + 1}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 1, "there is no topic 'nowhere'"),
        (["{topic}", "--partition", "9"], 1, "partition 9 is outside the topic's 0 to 0"),
        (["{topic}", "--partition", "-1"], 2, "a number, or auto"),
        (["{topic}", "--acks", "2"], 2, "0, 1, all or -1"),
        (["{topic}", "--acks", "1", "--transaction"], 2, "a transaction needs acks all"),
        (["{topic}", "--transactional-id", "x"], 2, "--transaction"),
        (["{topic}", "--compression", "rar"], 2, "zstd"),
        (["{topic}", "--with", "offset"], 2, "timestamp, partition, headers, key"),
        (["{topic}", "--separator", ""], 2, "cannot be empty"),
        (["{topic}", "--format", "jsonl", "--with", "key"], 2, "applies to lines"),
        (["{topic}", "--format", "jsonl"], 1, "line 1: not JSON"),
        (["{topic}", "--timestamp", "1970-01-01T00:00:00Z"], 1, "cannot send"),
        (["{topic}", "--header", "x"], 2, "NAME=VALUE"),
        (["{topic}", "/no/such/file"], 2, "No such file"),
    ],
)
def test_bad_input_of_produce(
    words, code, said, on_sandbox: RunBytes, kafka: KafkaConnection, topic: str
) -> None:  # type: ignore[no-untyped-def]
    filled = [word.format(topic=topic) for word in words]
    done = on_sandbox("produce", *filled, stdin=b"x\n", code=code)
    assert said in done.stderr.decode()
    assert records_in(kafka, topic) == []
