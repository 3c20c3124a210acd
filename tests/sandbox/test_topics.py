"""`playhead topics` beside Kafka's own tools on the same broker: the same state, the same numbers."""

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from playhead.config.kafka_connection import KafkaConnection
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import stable_ends
from playhead.kafka.admin.topics import describe_topics
from playhead.kafka.read.source import KafkaSource
from playhead.record import Record, TimestampType
from playhead.sandbox import Endpoints
from playhead.testing import LinkProxy
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import Playhead
from tests.fix_kafka_tools import KafkaTool
from tests.fix_topics import write

Ours = Callable[..., Any]


@pytest.fixture
def ours(playhead: Playhead, sandbox: Endpoints) -> Ours:
    """Runs `playhead topics …` and gives its JSON; `code` is the exit code that is expected."""

    def run(*words: str, code: int = 0) -> Any:
        done = playhead("topics", *words, "-o", "json", "-b", sandbox.bootstrap_servers)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout) if done.stdout else done.stderr

    return run


@pytest.fixture
def fresh() -> Callable[[], str]:
    return lambda: f"t-{uuid.uuid4().hex[:8]}"


def shape(connection: KafkaConnection, topic: str) -> Any:
    """Everything about a topic but its name and its id."""
    with Admin(connection) as admin:
        (found,) = describe_topics(admin, [topic])
    return found.partitions, found.settings


def records(topic: str, times: Sequence[Sequence[int]]) -> list[Record]:
    return [
        Record(topic, partition, offset, at, TimestampType.CREATE_TIME, b"k", b"v" * 10)
        for partition, held in enumerate(times)
        for offset, at in enumerate(held)
    ]


# --- beside Kafka's own -------------------------------------------------------------------------


def test_create_makes_what_kafkas_tool_makes(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, fresh: Callable[[], str]
) -> None:
    one, other = fresh(), fresh()
    words = ["--partitions", "3", "--replication", "1", "--retain", "7d", "--retain-bytes", "10GiB"]
    made = ours("create", one, *words, "--compact", "--set", "segment.bytes=1048576")
    assert (made["state"], made["partitions"], made["replication"]) == ("created", 3, 1)
    settings = ["retention.ms=604800000", "retention.bytes=10737418240", "segment.bytes=1048576"]
    settings.append("cleanup.policy=compact,delete")
    theirs = [word for text in settings for word in ("--config", text)]
    shaped = ["--partitions", "3", "--replication-factor", "1"]
    kafka_tool("TopicCommand", "--create", "--topic", other, *shaped, *theirs)
    assert shape(kafka, one) == shape(kafka, other)


def test_create_leaves_to_the_brokers_what_is_not_said(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, fresh: Callable[[], str]
) -> None:
    one, other = fresh(), fresh()
    ours("create", one)
    kafka_tool("TopicCommand", "--create", "--topic", other)
    assert shape(kafka, one) == shape(kafka, other)


def test_list_and_describe_say_what_kafkas_tool_says(
    ours: Ours, kafka_tool: KafkaTool, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3, retention_ms="1000")
    listed = kafka_tool("TopicCommand", "--list").stdout.decode().split()
    assert [row["topic"] for row in ours("list", "--internal")["topics"]] == listed
    assert [row["topic"] for row in ours("list", f"^{topic}$")["topics"]] == [topic]

    said = kafka_tool("TopicCommand", "--describe", "--topic", topic).stdout.decode().splitlines()
    head, *rows = [
        {
            name: value.strip()
            for name, _, value in (p.strip().partition(":") for p in line.split("\t"))
        }
        for line in said
    ]
    (found,) = ours("describe", topic)["topics"]
    assert (found["topic_id"], found["replication"]) == (
        head["TopicId"],
        int(head["ReplicationFactor"]),
    )
    for row, partition in zip(rows, found["partitions"], strict=True):
        assert int(row["Partition"]) == partition["partition"]
        assert int(row["Leader"]) == partition["leader"]
        assert row["Replicas"] == ",".join(map(str, partition["replicas"]))
        assert row["Isr"] == ",".join(map(str, partition["in_sync"]))
    own = {k: v["value"] for k, v in found["settings"].items() if v["source"] == "topic"}
    assert own == {"retention.ms": "1000"}
    assert "retention.ms=1000" in head["Configs"]
    assert found["settings"]["cleanup.policy"] == {"value": "delete", "source": "default"}


def test_alter_makes_what_kafkas_tools_make(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    one, other = (make_topic(partitions=2, segment_bytes="1048576") for _ in range(2))
    words = ["--partitions", "4", "--retain", "3d", "--reset", "segment.bytes"]
    plan = ours("alter", one, *words, "--dry-run")
    assert shape(kafka, one) == shape(kafka, other)
    done = ours("alter", one, *words, "--yes")
    assert done["changes"] == plan["changes"]
    assert [row["what"] for row in plan["changes"]] == [
        "partitions",
        "retention.ms",
        "segment.bytes",
    ]
    assert [row["before"] for row in plan["changes"]] == [2, "-1", "1048576"]

    kafka_tool("TopicCommand", "--alter", "--topic", other, "--partitions", "4")
    entity = ["--alter", "--entity-type", "topics", "--entity-name", other]
    changes = ["--add-config", "retention.ms=259200000", "--delete-config", "segment.bytes"]
    kafka_tool("kafka.admin.ConfigCommand", *entity, *changes)
    assert shape(kafka, one) == shape(kafka, other)
    assert ours("alter", one, *words, "--yes")["changes"] == []


def test_offsets_are_those_of_get_offset_shell(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3)
    write(kafka, records(topic, [[1000, 2000, 3000], [2500], []]))

    def theirs(when: str) -> dict[int, int]:
        said = kafka_tool("GetOffsetShell", "--topic", topic, "--time", when).stdout.decode()
        return {int(line.split(":")[1]): int(line.split(":")[2]) for line in said.split()}

    found = {
        row["partition"]: row
        for row in ours("offsets", topic, "--at", "1970-01-01T00:00:02Z")["partitions"]
    }
    assert {n: row["latest"] for n, row in found.items()} == theirs("-1") == {0: 3, 1: 1, 2: 0}
    assert {n: row["earliest"] for n, row in found.items()} == theirs("-2")
    at = {n: row["at"] for n, row in found.items() if row["at"] is not None}
    assert at == theirs("2000") == {0: 1, 1: 0}
    late = ours("offsets", topic, "--at", "1970-01-01T00:00:09Z")["partitions"]
    assert [row["at"] for row in late] == [None, None, None]
    assert theirs("9000") == {}


def test_the_last_stable_offset_stands_where_a_transaction_is_open(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, topic: str
) -> None:
    write(kafka, records(topic, [[1000, 2000]]))
    producer = Producer(kafka.for_librdkafka("producer") | {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    (row,) = ours("offsets", topic)["partitions"]
    assert (row["earliest"], row["last_stable"], row["latest"]) == (0, 2, 3)
    shown = kafka_tool("GetOffsetShell", "--topic", topic).stdout.decode().strip()
    assert shown == f"{topic}:0:3"
    producer.abort_transaction(30)


def test_sizes_are_those_of_the_log_dirs_tool(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic, other = make_topic(partitions=2), make_topic()
    write(kafka, records(topic, [[1000] * 50, [1000]]))
    write(kafka, records(other, [[1000] * 5]))
    said = kafka_tool("LogDirsCommand", "--describe", "--topic-list", f"{topic},{other}")
    (broker,) = json.loads(said.stdout.splitlines()[-1])["brokers"]
    theirs = {
        (each["partition"], broker["broker"], held["logDir"]): each["size"]
        for held in broker["logDirs"]
        for each in held["partitions"]
    }
    found = ours("sizes", topic, other)
    mine = {
        (f"{row['topic']}-{row['partition']}", row["broker"], row["log_dir"]): row["bytes"]
        for row in found["replicas"]
    }
    assert mine == theirs
    assert len(mine) == 3
    assert all(mine.values())
    assert found["bytes"] == sum(theirs.values())
    facts = KafkaSource(kafka, (topic, other)).facts().topics
    known = {
        f"{name}-{partition}": size
        for name, fact in facts.items()
        for partition, size in fact.bytes_by_partition.items()
    }
    assert known == {name: size for (name, _, _), size in theirs.items()}
    assert sum(row["bytes"] for row in found["topics"]) == found["bytes"]
    everything = ours("sizes")
    assert {row["topic"] for row in everything["topics"]} > {topic, other}


def test_trim_leaves_what_delete_records_leaves(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic, tmp_path
) -> None:
    one, other = make_topic(partitions=2), make_topic(partitions=2)
    for topic in (one, other):
        write(kafka, records(topic, [[1000, 2000, 3000], [1000, 2000]]))
    plan = ours("trim", one, "--offsets", "0:-2", "--dry-run")
    assert [row["earliest"] for row in ours("offsets", one)["partitions"]] == [0, 0]
    assert ours("trim", one, "--offsets", "0:-2", "--yes") == plan
    assert plan["deleted"] == 2
    asked = {"version": 1, "partitions": [{"topic": other, "partition": 0, "offset": 2}]}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(asked))
    kafka_tool("DeleteRecordsCommand", "--offset-json-file", str(file))
    bounds = [
        [
            {k: v for k, v in row.items() if k != "topic"}
            for row in ours("offsets", topic)["partitions"]
        ]
        for topic in (one, other)
    ]
    assert bounds[0] == bounds[1]
    assert [row["earliest"] for row in bounds[0]] == [2, 0]

    by_time = ours("trim", one, "--to", "1970-01-01T00:00:02Z", "--yes")
    assert [row["new_earliest"] for row in by_time["partitions"]] == [2, 1]
    everything = ours("trim", one, "--to", "end", "--yes")
    assert everything["deleted"] == 2
    assert [row["kept"] for row in everything["partitions"]] == [0, 0]


def test_delete_and_its_exceptions(
    ours: Ours, kafka_tool: KafkaTool, kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    write(kafka, records(topic, [[1000], [1000, 2000]]))
    dry = ours("delete", topic, "--dry-run")
    assert dry["topics"] == [{"topic": topic, "partitions": 2, "offsets": 3}]
    assert topic in kafka_tool("TopicCommand", "--list").stdout.decode().split()
    ours("delete", topic, "--yes")
    assert topic not in kafka_tool("TopicCommand", "--list").stdout.decode().split()
    assert ours("delete", topic, "--yes", "--if-exists")["topics"] == []


# --- what is refused, and how it is said ---------------------------------------------------------


def test_if_not_exists_takes_a_topic_as_it_is_and_says_how_it_differs(
    playhead: Playhead, sandbox: Endpoints, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    words = ["topics", "create", topic, "--partitions", "5", "-b", sandbox.bootstrap_servers]
    refused = playhead(*words)
    assert refused.returncode == 1
    assert "already exists" in refused.stderr
    taken = playhead(*words, "--if-not-exists")
    assert taken.returncode == 0
    assert "its partitions is 2, not 5; it was not changed" in taken.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["create", "a b"], 2, "letters, digits"),
        (["create", ".."], 2, "letters, digits"),
        (["create", "new", "--set", "foo=1"], 1, "Unknown topic config name: foo"),
        (["create", "new", "--set", "foo"], 2, "needed: key=value"),
        (["create", "new", "--replication", "9"], 1, "INVALID_REPLICATION_FACTOR"),
        (["create", "new", "--retain", "7"], 2, "--retain"),
        (["create", "new", "--retain", "7d", "--set", "retention.ms=1"], 2, "--set sets"),
        (["create", "new", "--config", "retention.ms=1"], 2, "--set retention.ms=1"),
        (["alter", "{topic}", "--partitions", "1"], 2, "needed: 2 or more"),
        (["alter", "{topic}", "--set", "retention.mss=1", "--yes"], 2, "did you mean retention.ms"),
        (["alter", "{topic}", "--set", "retention.ms=x", "--yes"], 1, "INVALID_CONFIG"),
        (["alter", "{topic}"], 2, "nothing to alter"),
        (["alter", "{topic}", "--retain", "1d"], 6, "--yes"),
        (["delete", "{topic}"], 6, "--yes"),
        (["trim", "{topic}", "--to", "end"], 6, "--yes"),
        (["trim", "{topic}"], 2, "--to or --offsets"),
        (["trim", "{topic}", "--to", ""], 2, "needed a time"),
        (["trim", "{topic}", "--offsets", "9:-1"], 2, "a partition of the topic: 0, 1"),
        (["trim", "{topic}", "--offsets", "0:-9"], 2, "the end, which is 1"),
        (["trim", "{topic}", "--offsets", "0:1-"], 2, "a span from the log's start"),
        (["trim", "{topic}", "--offsets", "0:-1,0:-1"], 2, "overlap"),
        (["trim", "{topic}", "--to", "12345"], 2, "10 (seconds), 13 (ms)"),
        (["describe", "{topic}x"], 1, "did you mean {topic}"),
        (["offsets", "{topic}x"], 1, "did you mean {topic}"),
        (["sizes", "{topic}x"], 1, "did you mean {topic}"),
        (["list", "("], 2, "a regular expression"),
    ],
)
def test_bad_input(
    words, code, said, playhead: Playhead, sandbox: Endpoints, make_topic, kafka
) -> None:  # type: ignore[no-untyped-def]
    topic = make_topic(partitions=2)
    write(kafka, records(topic, [[1000], []]))
    filled = [word.format(topic=topic) for word in words]
    done = playhead("topics", *filled, "-b", sandbox.bootstrap_servers)
    assert done.returncode == code, done.stderr
    assert said.format(topic=topic) in done.stderr
    assert "Traceback" not in done.stderr
    with Admin(kafka) as admin:
        assert stable_ends(admin, [(topic, 0), (topic, 1)]) == {(topic, 0): 1, (topic, 1): 0}


def test_a_compacted_topic_cannot_be_trimmed_and_says_so(
    playhead: Playhead, sandbox: Endpoints, make_topic: MakeTopic, kafka: KafkaConnection
) -> None:
    topic = make_topic(cleanup_policy="compact")
    write(kafka, records(topic, [[1000]]))
    done = playhead(
        "topics", "trim", topic, "--to", "end", "--yes", "-b", sandbox.bootstrap_servers
    )
    assert done.returncode == 1
    assert "POLICY_VIOLATION" in done.stderr


def test_a_broker_that_is_away_is_an_error_after_a_while(playhead: Playhead) -> None:
    done = playhead("topics", "list", "-b", "127.0.0.1:1")
    assert done.returncode == 1
    assert "no Kafka broker answered at 127.0.0.1:1" in done.stderr


def test_a_broker_that_falls_silent_does_not_hang_sizes(
    playhead: Playhead, linked_kafka: KafkaConnection, broker_link: LinkProxy, topic: str
) -> None:
    broker_link.stall()
    try:
        servers = linked_kafka.bootstrap_servers or ""
        done = playhead("topics", "describe", topic, "--sizes", "-b", servers)
    finally:
        broker_link.resume()
    assert done.returncode == 1
    assert "no Kafka broker answered" in done.stderr


# --- consent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["create", "new"], ["alter", "{topic}", "--retain", "1d"], ["trim", "{topic}", "--to", "end"]],
)
def test_a_read_only_place_refuses_all_that_writes(
    words, playhead: Playhead, sandbox: Endpoints, make_topic, kafka: KafkaConnection
) -> None:  # type: ignore[no-untyped-def]
    topic = make_topic()
    write(kafka, records(topic, [[1000]]))
    filled = [word.format(topic=topic) for word in words]
    more = ["--yes"] if words[0] != "create" else []
    before = shape(kafka, topic)
    done = playhead(
        "topics", *filled, *more, "-b", sandbox.bootstrap_servers, PLAYHEAD_READ_ONLY="true"
    )
    assert done.returncode == 6
    assert "read-only" in done.stderr
    assert shape(kafka, topic) == before
