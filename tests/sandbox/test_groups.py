"""Changes of consumer groups' offsets as a person makes them: safe, exact, taken back."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

import playhead
from playhead.config.kafka_connection import KafkaConnection
from playhead.host.faults import abort_points
from playhead.kafka.admin.client import Admin
from playhead.kafka.groups.commit import JoinedMeanwhile, commit
from playhead.kafka.groups.describe import committed, remove_groups
from playhead.kafka.groups.plan import CommittedOffset
from playhead.record import Record, TimestampType
from playhead.sandbox import Endpoints
from playhead.source import TopicPartition
from playhead.testing import LinkProxy
from playhead.testing.fixtures import MakeTopic
from tests.fix_commands import Playhead
from tests.fix_groups import T0_MS, Readers, write_csv
from tests.fix_topics import records_in, write
from tests.sandbox.test_commands import address_of
from tests.sandbox.test_kafka_target import made_anew

WITHIN_S = 30.0
_READ_FOREVER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
    "session.timeout.ms": 6000, "client.id": "doomed"})
consumer.subscribe([sys.argv[3]])
while True:
    consumer.poll(0.1)
    if consumer.assignment():
        print("reads", flush=True)
"""

Groups = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def groups(playhead: Playhead, sandbox: Endpoints) -> Groups:
    """`playhead groups …` on the run's broker."""
    return lambda *words, **more: playhead("groups", *words, **(address_of(sandbox) | more))


def everything(kafka: KafkaConnection, group: str) -> dict[TopicPartition, CommittedOffset]:
    with Admin(kafka) as admin:
        return committed(admin, group)


def set_up(
    kafka: KafkaConnection, group: str, offsets: dict[TopicPartition, CommittedOffset]
) -> None:
    with Admin(kafka) as admin:
        commit(admin, group, offsets)


# --- the plan, and who has to say yes


def test_the_plan_has_before_after_and_the_blast_radius(
    tape: str, readers: Readers, groups: Groups
) -> None:
    group = readers.group({(tape, 0): 50, (tape, 1): 20, (tape, 3): 20})
    words = ["--topic", tape, "--to", "2021-08-04T12:30:40", "--dry-run", "-o", "json"]
    done = groups("reset", group, *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["done"] is False
    (plan,) = document["groups"]
    rows = {row["partition"]: row for row in plan["partitions"]}
    assert [(rows[p]["before"], rows[p]["after"]) for p in range(4)] == [
        (50, 40),
        (20, 40),
        (None, 0),
        (20, 0),  # its very first record is a late one
    ]
    assert [(rows[p]["again"], rows[p]["skipped"]) for p in range(4)] == [
        (10, 0),
        (0, 10),  # of the 20 the first 10 are gone from the log, and cannot be skipped any more
        (None, None),
        (20, 0),
    ]
    assert rows[0]["from"] == "2021-08-04T12:30:40.000Z"
    assert rows[0]["to"] == "2021-08-04T12:30:49.000Z"
    assert rows[2]["note"] == "empty: the end"
    assert plan["again"] == 30
    assert plan["skipped"] == 10
    assert "30 records will be delivered again, 10 records will be skipped" in done.stderr
    assert readers.offsets(group) == {(tape, 0): 50, (tape, 1): 20, (tape, 3): 20}


def test_nothing_is_written_without_a_yes(tape: str, readers: Readers, groups: Groups) -> None:
    group = readers.group({(tape, 0): 50})
    refused = groups("reset", group, "--topic", tape, "--to-earliest")
    assert refused.returncode == 6
    assert "--yes" in refused.stderr
    read_only = groups(
        "reset", group, "--topic", tape, "--to-earliest", "--yes", PLAYHEAD_READ_ONLY="true"
    )
    assert read_only.returncode == 6
    assert "read-only" in read_only.stderr
    only_shown = groups("reset", group, "--topic", tape, "--to-earliest", "--export")
    assert only_shown.returncode == 0
    assert readers.offsets(group) == {(tape, 0): 50}


def test_in_production_the_groups_name_is_typed(
    tape: str, readers: Readers, playhead: Playhead, sandbox: Endpoints, tmp_path: Path
) -> None:
    group = readers.group({(tape, 0): 50})
    (tmp_path / "playhead").mkdir()
    text = (
        f'[contexts.live]\nbootstrap_servers = "{sandbox.bootstrap_servers}"\nproduction = true\n'
    )
    (tmp_path / "playhead" / "config.toml").write_text(text)
    words = ["groups", "reset", group, "--topic", tape, "--to-earliest", "--yes", "-c", "live"]
    refused = playhead(*words, XDG_CONFIG_HOME=str(tmp_path))
    assert refused.returncode == 6
    assert "marked production" in refused.stderr
    assert readers.offsets(group) == {(tape, 0): 50}


# --- undo


def test_undo_restores_everything_exactly(
    tape: str, kafka: KafkaConnection, readers: Readers, groups: Groups
) -> None:
    group = readers.name()
    stood = {
        (tape, 0): CommittedOffset(50, "noted", 0),
        (tape, 1): CommittedOffset(0),
        (tape, 3): CommittedOffset(20, None, 0),
    }
    set_up(kafka, group, stood)
    assert everything(kafka, group) == stood
    done = groups("reset", group, "--topic", tape, "--to-latest", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"playhead groups undo {group}" in done.stderr
    assert {place: at.offset for place, at in everything(kafka, group).items()} == {
        (tape, 0): 100,
        (tape, 1): 100,
        (tape, 2): 0,
        (tape, 3): 50,
    }
    undone = groups("undo", group, "--yes", "-o", "json")
    assert undone.returncode == 0, undone.stderr
    assert everything(kafka, group) == stood, (
        "partition 2 has none again; notes and epochs are back"
    )
    again = groups("undo", group, "--yes")
    assert again.returncode == 2
    assert "no change that could be taken back" in again.stderr
    listed = json.loads(groups("undo", group, "--list", "-o", "json").stdout)["snapshots"]
    assert [bool(each["undone"]) for each in listed] == [False, True]
    named = groups("undo", group, "--snapshot", listed[0]["snapshot"], "--yes")
    assert named.returncode == 0, named.stderr
    assert readers.offsets(group)[tape, 3] == 50, "an undo can be undone by its name"


def test_undo_says_what_has_moved_since(tape: str, readers: Readers, groups: Groups) -> None:
    group = readers.group({(tape, 0): 50})
    groups("reset", group, "--topic", f"{tape}:0", "--to-earliest", "--yes")
    readers.group({(tape, 0): 9}, group)
    (plan,) = json.loads(groups("undo", group, "--dry-run", "-o", "json").stdout)["groups"]
    assert plan["partitions"][0]["note"] == "has moved since the change"
    assert (plan["partitions"][0]["before"], plan["partitions"][0]["after"]) == (9, 50)
    assert groups("undo", group, "--yes").returncode == 0
    assert readers.offsets(group) == {(tape, 0): 50}


def test_undo_puts_no_offset_into_a_topic_that_was_made_anew(
    make_topic: MakeTopic, kafka: KafkaConnection, readers: Readers, groups: Groups
) -> None:
    topic, other = make_topic(), make_topic()
    for name in (topic, other):
        write(kafka, [_record(name, n) for n in range(9)])
    group = readers.group({(topic, 0): 7, (other, 0): 8})
    assert groups("reset", group, "--all-topics", "--to-earliest", "--yes").returncode == 0
    made_anew(kafka, topic)
    # So that the offset is not beyond the end, and nothing but the id tells the topics apart.
    write(kafka, [_record(topic, n) for n in range(9)])
    undone = groups("undo", group, "--yes")
    assert undone.returncode == 0, undone.stderr
    assert f"skipping {topic}:0: the topic was created again since" in undone.stderr
    assert "again in 1 of 2 partitions, as read back" in undone.stderr
    assert readers.offsets(group).get((topic, 0)) is None
    assert readers.offsets(group)[other, 0] == 8


def test_undo_is_refused_if_no_topic_is_the_one_of_then(
    make_topic: MakeTopic, kafka: KafkaConnection, readers: Readers, groups: Groups
) -> None:
    topic = make_topic()
    write(kafka, [_record(topic, n) for n in range(9)])
    group = readers.group({(topic, 0): 7})
    assert groups("reset", group, "--all-topics", "--to-earliest", "--yes").returncode == 0
    made_anew(kafka, topic)
    undone = groups("undo", group, "--yes")
    assert undone.returncode == 6
    assert "its topics are gone, or were created again" in undone.stderr
    assert readers.offsets(group).get((topic, 0)) is None


def test_a_group_that_a_reset_made_is_gone_after_undo(
    tape: str, readers: Readers, groups: Groups
) -> None:
    group = readers.name()
    missing = groups("reset", group, "--topic", tape, "--to-earliest", "--yes")
    assert missing.returncode == 2
    assert "--create" in missing.stderr
    made = groups("reset", group, "--topic", tape, "--to-earliest", "--create", "--yes")
    assert made.returncode == 0, made.stderr
    assert readers.offsets(group) == {(tape, 0): 0, (tape, 1): 30, (tape, 2): 0, (tape, 3): 0}
    assert groups("undo", group, "--yes").returncode == 0
    listed = json.loads(groups("list", "-o", "json").stdout)["groups"]
    assert group not in [row["group"] for row in listed]


def test_the_groups_of_replays_are_removed_and_no_others(
    tape: str, kafka: KafkaConnection, groups: Groups
) -> None:
    names = [f"playhead.{tape}-{which}" for which in ("done", "goes-on")]
    for name in names:
        made = groups("reset", name, "--topic", tape, "--to-earliest", "--create", "--yes")
        assert made.returncode == 0, made.stderr
    assert remove_groups(kafka, [f"{tape}-done", "never-there"]) == names[:1]
    listed = json.loads(groups("list", "-o", "json").stdout)["groups"]
    assert {row["group"] for row in listed} & set(names) == {names[1]}


@pytest.mark.parametrize(
    "point", sorted(p for p in abort_points(Path(playhead.__file__).parent) if "groups." in p)
)
def test_killed_in_the_middle_there_is_a_way_back(
    point: str, tape: str, readers: Readers, groups: Groups
) -> None:
    stood = {(tape, 0): 50, (tape, 3): 20}
    group = readers.group(stood)
    words = ["reset", group, "--topic", tape, "--to-latest", "--yes"]
    if point == "groups.put_back":
        assert groups(*words).returncode == 0
        words = ["undo", group, "--yes"]
    assert groups(*words, PLAYHEAD_ABORT_AT=point).returncode == -9
    undone = groups("undo", group, "--yes")
    assert undone.returncode == 0, undone.stderr
    assert readers.offsets(group) == stood


# --- active groups


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_active_group_is_left_alone_and_its_members_are_named(
    protocol: str, tape: str, readers: Readers, groups: Groups
) -> None:
    group = readers.group({(tape, 0): 50})
    reader = readers.reader(group, tape, group_protocol=protocol)
    refused = groups("reset", group, "--topic", tape, "--to-earliest", "--yes")
    assert refused.returncode == 6
    assert f"group {group} is stable with 1 members" in refused.stderr
    assert f"onlooker on 127.0.0.1 reads {tape}:0,1,2,3, session 45s" in refused.stderr
    assert "--wait 45s waits for that" in refused.stderr
    assert readers.offsets(group) == {(tape, 0): 50}

    shown = groups("reset", group, "--topic", tape, "--to-earliest", "--dry-run")
    assert shown.returncode == 0
    assert "a reset would fail" in shown.stderr

    readers.leave(reader)
    done = groups("reset", group, "--topic", f"{tape}:0", "--to-earliest", "--yes", "--wait", "20s")
    assert done.returncode == 0, done.stderr
    assert readers.offsets(group) == {(tape, 0): 0}
    assert groups("undo", group, "--yes").returncode == 0
    assert readers.offsets(group) == {(tape, 0): 50}


def test_a_killed_reader_is_waited_for_until_its_session_ends(
    tape: str, readers: Readers, groups: Groups, sandbox: Endpoints
) -> None:
    group = readers.group({(tape, 0): 50})
    doomed = subprocess.Popen(
        [sys.executable, "-c", _READ_FOREVER, sandbox.bootstrap_servers, group, tape],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert doomed.stdout is not None
    assert doomed.stdout.readline() == "reads\n"
    doomed.kill()
    doomed.communicate()
    began = time.monotonic()
    words = ["--topic", f"{tape}:0", "--to-earliest", "--yes"]
    done = groups("reset", group, *words, "--wait", "40s")
    assert done.returncode == 0, done.stderr
    assert "doomed on 127.0.0.1" in done.stderr
    assert "session 6s" in done.stderr
    assert time.monotonic() - began < 40
    assert readers.offsets(group) == {(tape, 0): 0}


def test_who_joins_after_the_look_is_not_overwritten(
    tape: str, kafka: KafkaConnection, readers: Readers
) -> None:
    group = readers.group({(tape, 0): 50})
    readers.reader(group, tape)
    with Admin(kafka) as admin, pytest.raises(JoinedMeanwhile, match="has members now"):
        commit(admin, group, {(tape, 0): CommittedOffset(1)})
    assert readers.offsets(group) == {(tape, 0): 50}


def test_offsets_of_a_topic_that_is_read_now_are_not_deleted(
    tape: str, readers: Readers, groups: Groups
) -> None:
    group = readers.group({(tape, 0): 50})
    readers.reader(group, tape)
    refused = groups("delete", group, "--topic", tape, "--yes")
    assert refused.returncode == 1
    assert "has members now" in refused.stderr
    assert groups("delete", group, "--yes").returncode == 6
    assert readers.offsets(group) == {(tape, 0): 50}
    assert json.loads(groups("undo", group, "--list", "-o", "json").stdout)["snapshots"] == []


# --- times


def test_lag_is_in_records_and_in_time_and_null_where_nothing_is_committed(
    tape: str, readers: Readers, groups: Groups
) -> None:
    group = readers.group({(tape, 0): 40, (tape, 1): 10, (tape, 2): 0})
    began_ms = time.time_ns() // 1_000_000
    (found,) = json.loads(groups("describe", group, "-o", "json").stdout)["groups"]
    assert found["state"] == "empty"
    assert found["lag"] == 150
    first, second, third = found["partitions"]
    assert (first["committed"], first["end"], first["lag"]) == (40, 100, 60)
    assert first["next_record"] == "2021-08-04T12:30:40.000Z"
    assert abs(first["lag_ms"] - (began_ms - T0_MS - 40_000)) < 60_000
    assert first["last_commit"] > "2026"
    assert (second["lag"], second["expired"]) == (90, 20)
    assert second["next_record"] == "2021-08-04T12:30:30.000Z", "the first that is still there"
    assert (third["lag"], third["lag_ms"], third["next_record"]) == (0, 0, None)


def test_an_offset_of_a_topic_that_was_made_anew_has_no_lag(
    make_topic: MakeTopic, kafka: KafkaConnection, readers: Readers, groups: Groups
) -> None:
    topic = make_topic()
    write(kafka, [_record(topic, 0)])
    group = readers.group({(topic, 0): 7})
    said = groups("describe", group, "-o", "jsonl")
    row = json.loads(said.stdout)
    assert (row["committed"], row["end"], row["lag"], row["lag_ms"]) == (7, 1, None, None)
    assert "beyond the end; the topic may have been created again" in said.stderr
    assert groups("reset", group, "--topic", topic, "--to-latest", "--yes").returncode == 0
    assert readers.offsets(group) == {(topic, 0): 1}


def test_a_restored_topic_is_looked_up_by_its_records_not_by_markers_of_transactions(
    make_topic: MakeTopic, kafka: KafkaConnection, readers: Readers, groups: Groups
) -> None:
    topic = make_topic()
    for first in (0, 10):
        producer = _transactional(kafka, topic)
        for number in range(first, first + 10):
            producer.produce(topic, b"v", timestamp=T0_MS + 1000 * number)
        producer.commit_transaction(WITHIN_S)
    group = readers.group({(topic, 0): 0})
    done = groups("reset", group, "--topic", topic, "--to", "2021-08-04T12:30:15", "--yes")
    assert done.returncode == 0, done.stderr
    (there,) = readers.offsets(group).values()
    (wanted,) = [r for r in records_in(kafka, topic) if r.timestamp_ms == T0_MS + 15_000]
    assert there == wanted.offset == 16, (
        "one place further than its number: there is a marker before"
    )


def test_an_open_transaction_is_not_skipped_by_a_time_and_said_at_the_end(
    make_topic: MakeTopic, kafka: KafkaConnection, readers: Readers, groups: Groups
) -> None:
    topic = make_topic()
    write(kafka, [_record(topic, number) for number in range(5)])
    producer = _transactional(kafka, topic)
    producer.produce(topic, b"v", timestamp=T0_MS + 60_000)
    producer.flush(WITHIN_S)
    group = readers.group({(topic, 0): 0})
    try:
        by_time = groups("reset", group, "--topic", topic, "--to", "2021-08-04T12:30:30", "--yes")
        assert by_time.returncode == 0, by_time.stderr
        assert readers.offsets(group) == {(topic, 0): 5}
        at_end = groups("reset", group, "--topic", topic, "--to", "end", "--yes", "-o", "json")
        (row,) = json.loads(at_end.stdout)["groups"][0]["partitions"]
        assert row["after"] == 6
        assert row["note"] == "skips 1 offsets of transactions that are still open"
    finally:
        producer.abort_transaction(WITHIN_S)


# --- other groups


def test_a_clone_has_the_same_offsets(
    tape: str, kafka: KafkaConnection, readers: Readers, groups: Groups
) -> None:
    group, other = readers.name(), readers.name()
    set_up(kafka, group, {(tape, 0): CommittedOffset(50, "noted"), (tape, 3): CommittedOffset(20)})
    done = groups("clone", group, other, "--yes")
    assert done.returncode == 0, done.stderr
    assert everything(kafka, other) == everything(kafka, group)
    assert groups("undo", other, "--yes").returncode == 0
    assert readers.offsets(other) == {}
    part = groups("clone", group, other, "--topic", f"{tape}:3", "--yes")
    assert part.returncode == 0, part.stderr
    assert readers.offsets(other) == {(tape, 3): 20}
    assert groups("clone", readers.name(), other, "--yes").returncode == 2


def test_a_reset_may_be_written_to_another_group(
    tape: str, readers: Readers, groups: Groups
) -> None:
    group, other = readers.group({(tape, 0): 50}), readers.name()
    words = ["--topic", f"{tape}:0", "--shift-by", "-5", "--yes", "--to-group", other]
    assert groups("reset", group, *words).returncode == 2
    done = groups("reset", group, *words, "--create")
    assert done.returncode == 0, done.stderr
    assert readers.offsets(other) == {(tape, 0): 45}
    assert readers.offsets(group) == {(tape, 0): 50}


def test_a_group_goes_through_a_replay_onto_its_copy(
    make_topic: MakeTopic,
    kafka: KafkaConnection,
    readers: Readers,
    playhead: Playhead,
    sandbox: Endpoints,
) -> None:
    where = address_of(sandbox)
    topic, copy = make_topic(2), make_topic(2)
    write(kafka, [_record(copy, 0), _record(topic, 0), _record(topic, 1)])
    write(kafka, [_record(topic, number, number % 2) for number in range(2, 40)])
    replay_id = f"copy-{copy}"[:60]
    words = [f"kafka:{topic}", f"kafka:{copy}", "--id", replay_id, "--partition", "keep"]
    assert playhead("replay", *words, "--yes", **where).returncode == 0
    group, other = readers.group({(topic, 0): 7, (topic, 1): 19}), readers.name()
    done = playhead("groups", "clone", group, other, "--through", replay_id, "--yes", **where)
    assert done.returncode == 0, done.stderr
    stands = readers.offsets(other)
    left = {r.value for r in records_in(kafka, topic) if r.offset >= {0: 7, 1: 19}[r.partition]}
    copied = [r for r in records_in(kafka, copy) if r.headers != (("first", b""),)]
    there = {r.value for r in copied if r.offset >= stands[copy, r.partition]}
    assert there == left
    assert len(left) == 40 - 7 - 19
    through = ("groups", "clone", group, readers.name(), "--through", replay_id, "--yes")
    made_anew(kafka, copy)
    refused = playhead(*through, **where)
    assert refused.returncode == 6
    assert f"topic {copy} is not the one that this replay began to write to" in refused.stderr
    made_anew(kafka, topic)
    refused = playhead(*through, **where)
    assert refused.returncode == 6
    assert f"was planned with topic {topic} of id" in refused.stderr
    assert readers.offsets(through[3]) == {}


# --- what cannot be done


def test_what_is_wrong_is_named(
    tape: str, readers: Readers, groups: Groups, tmp_path: Path
) -> None:
    group = readers.group({(tape, 0): 50})
    bad = write_csv(tmp_path, f"{tape},0,1\n{tape},0,2\n")
    for words, complaint in (
        (["--topic", f"{tape}x", "--to-earliest"], f"did you mean {tape}"),
        (["--topic", f"{tape}:9", "--to-earliest"], f"no partition {tape}:9"),
        (["--to-earliest"], "--all-topics"),
        (["--topic", tape], "no new position"),
        (["--topic", tape, "--to-earliest", "--to-latest"], "contradict"),
        (["--topic", tape, "--to", "2021-13-01"], "month 13"),
        (["--topic", tape, "--shift-by", "1"], f"no committed offset for {tape}:1"),
        (["--from-file", bad], "line 2"),
        (["--from-file", str(tmp_path / "none.csv")], "No such file"),
        (["--topic", tape, "--to-earliest", "--dry-run", "--execute"], "contradict"),
        (["--topic", tape, "--to-earliest", "--wait", "45"], "needed a unit"),
    ):
        refused = groups("reset", group, *words, *([] if "--dry-run" in words else ["--yes"]))
        assert refused.returncode in (1, 2), (words, refused.stderr)
        assert complaint in refused.stderr, words
        assert "Traceback" not in refused.stderr
    assert readers.offsets(group) == {(tape, 0): 50}
    near = groups("describe", group[:-1])
    assert near.returncode == 2
    assert f"did you mean {group}" in near.stderr


def test_an_offset_beyond_the_end_goes_to_the_end_and_says_so(
    tape: str, readers: Readers, groups: Groups
) -> None:
    group = readers.group({(tape, 0): 50})
    words = ["--topic", f"{tape}:0", "--to-offset", "1628080200000", "--yes", "-o", "json"]
    (plan,) = json.loads(groups("reset", group, *words).stdout)["groups"]
    (row,) = plan["partitions"]
    assert row["after"] == 100
    assert "beyond the end; as milliseconds it would be 2021-08-04T12:30:00.000Z" in row["note"]


def test_a_broker_that_is_away_is_an_error_after_a_bounded_wait(
    playhead: Playhead, linked_kafka: KafkaConnection, broker_link: LinkProxy, readers: Readers
) -> None:
    where = {"KAFKA_BOOTSTRAP_SERVERS": str(linked_kafka.bootstrap_servers)}
    nowhere = playhead("groups", "list", "-b", "127.0.0.1:1")
    assert nowhere.returncode == 1
    assert "127.0.0.1:1" in nowhere.stderr
    broker_link.stall()
    try:
        began = time.monotonic()
        refused = playhead(
            "groups", "reset", readers.name(), "--topic", "t", "--to-earliest", "--yes", **where
        )
        took = time.monotonic() - began
    finally:
        broker_link.resume()
    assert refused.returncode == 1
    assert "no Kafka broker answered" in refused.stderr
    assert took < WITHIN_S


# ---


def _record(topic: str, number: int, partition: int = 0) -> Record:
    headers = (("first", b""),) if number == 0 else ()
    value = b"%d" % number
    return Record(
        topic, partition, 0, T0_MS + 1000 * number, TimestampType.CREATE_TIME, b"k", value, headers
    )


def _transactional(kafka: KafkaConnection, topic: str) -> Producer:
    settings = {"transactional.id": f"groups-{topic}", "log_level": 0}
    producer = Producer(kafka.for_librdkafka("producer") | settings)
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    return producer
