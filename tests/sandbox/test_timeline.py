"""Timelines of real topics: the counts are those of the records, as far as offsets can tell, and nothing is read."""

import json
import time
from bisect import bisect_left
from pathlib import Path
from random import Random

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.grammar.instant import show_ms
from playhead.kafka.admin.client import Admin
from playhead.kafka.admin.offsets import NoSuchTopic, bounds_of
from playhead.kafka.read.timeline import NoTimes, instants, timeline
from playhead.record import Record, TimestampType
from playhead.span import Resolved
from playhead.testing.fixtures import MakeTopic
from playhead.timeline.timeline import Timeline
from tests.fix_commands import RunBytes
from tests.fix_replay import T0_MS, Deck
from tests.fix_topics import write
from tests.sandbox.kafka_log import Log

ALL = Resolved(None, None)
NOW = T0_MS + 10**9
PARTITIONS = 3


def asked(
    kafka: KafkaConnection, *topics: str, span: Resolved = ALL, buckets: int = 24, now_ms: int = NOW
) -> Timeline:
    return timeline(kafka, topics, span, buckets=buckets, now_ms=now_ms)


def records(topic: str, times: list[int]) -> list[Record]:
    """In turn on the partitions, in the order of their times."""
    kind = TimestampType.CREATE_TIME
    return [
        Record(topic, number % PARTITIONS, number // PARTITIONS, at, kind, None, b"v")
        for number, at in enumerate(sorted(times))
    ]


@pytest.fixture(scope="module")
def uneven(servers: Deck) -> tuple[str, list[int]]:
    """A topic whose records come in bursts, and their times."""
    random = Random(7)
    bursts = [random.randrange(7_200_000) for _ in range(6)]
    times = [
        T0_MS + min(max(int(random.gauss(random.choice(bursts), 90_000)), 0), 7_199_999)
        for _ in range(3_000)
    ]
    topic = servers.topic("uneven", PARTITIONS)
    write(servers.connection, records(topic, times))
    return topic, sorted(times)


def test_every_bucket_has_its_records(
    kafka: KafkaConnection, uneven: tuple[str, list[int]]
) -> None:
    topic, times = uneven
    found = asked(kafka, topic, buckets=120)
    edges = found.edges_ms
    assert (edges[0], edges[-1], len(edges)) == (times[0], times[-1] + 1, 121)
    for bucket in found.buckets():
        wanted = bisect_left(times, bucket.to_ms) - bisect_left(times, bucket.from_ms)
        assert bucket.offsets == wanted
    assert (found.counted, found.before, found.after) == (3_000, 0, 0)


def test_a_span_leaves_out_what_stands_beside_it(
    kafka: KafkaConnection, uneven: tuple[str, list[int]]
) -> None:
    topic, times = uneven
    from_ms, to_ms = times[700], times[2_100]
    found = asked(kafka, topic, span=Resolved(from_ms, to_ms))
    before, inside = bisect_left(times, from_ms), bisect_left(times, to_ms)
    assert (found.before, found.counted) == (before, inside - before)
    assert found.after == len(times) - inside


def test_many_instants_are_asked_in_several_turns(
    kafka: KafkaConnection, uneven: tuple[str, list[int]]
) -> None:
    topic, times = uneven
    found = asked(kafka, topic, buckets=400)
    assert [each.offsets for each in found.buckets()] == [
        bisect_left(times, each.to_ms) - bisect_left(times, each.from_ms)
        for each in found.buckets()
    ]


def test_edges_outside_of_the_log_stand_at_its_ends(
    kafka: KafkaConnection, uneven: tuple[str, list[int]]
) -> None:
    place = (uneven[0], 0)
    with Admin(kafka) as admin:
        held = bounds_of(admin, [place])
        found = instants(admin, held, [-5, 0, 1, 2**50, 2**62])
    assert found == {place: (0, 0, 0, 1_000, 1_000)}


def test_one_record_of_the_far_future_does_not_push_all_others_into_one_bucket(
    kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(message_timestamp_after_max_ms=str(2**62))
    log = Log(kafka, topic)
    log.write(0, *[(T0_MS + 1_000 * n, None, b"v", ()) for n in range(100)])
    log.write(0, (4_102_444_800_000, None, b"in the year 2100", ()))
    found = asked(kafka, topic, now_ms=T0_MS + 200_000)
    assert found.edges_ms[-1] == T0_MS + 200_000
    assert (found.counted, found.after) == (100, 1)


def test_markers_count_and_what_is_open_does_not(
    kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    log = Log(kafka, topic)
    log.commit(0, (T0_MS, None, b"a", ()), (T0_MS + 10, None, b"b", ()))
    log.abort(0, (T0_MS + 20, None, b"c", ()))
    producer = log.leave_open(0, (T0_MS + 30, None, b"d", ()))
    try:
        found = asked(kafka, topic, span=Resolved(T0_MS, int(time.time() * 1_000) + 60_000))
        assert found.counted == 2 + 1 + 1 + 1
    finally:
        producer.abort_transaction(30)


def test_a_topic_without_records_has_no_timeline(
    kafka: KafkaConnection, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    with pytest.raises(NoTimes, match="no record with a time"):
        asked(kafka, topic)
    found = asked(kafka, topic, span=Resolved(T0_MS, T0_MS + 1_000))
    assert {each.offsets for each in found.buckets()} == {0}
    with pytest.raises(NoSuchTopic):
        asked(kafka, f"{topic}-no")


def test_a_span_that_ends_before_it_begins_is_refused(
    kafka: KafkaConnection, uneven: tuple[str, list[int]]
) -> None:
    with pytest.raises(PlayheadError, match="would begin at .* and end at") as refused:
        asked(kafka, uneven[0], span=Resolved(NOW, None))
    assert "its records are from 2" in refused.value.hint


def test_beside_an_empty_span_is_said_where_the_records_are(
    on_sandbox: RunBytes, uneven: tuple[str, list[int]]
) -> None:
    topic, times = uneven
    drawn = on_sandbox("timeline", topic, "--from", "2001-01-01", "--for", "1h")
    first, last = show_ms(min(times)), show_ms(max(times))
    assert f"the records of {topic} are from {first} to {last}" in drawn.stderr.decode()
    drawn = on_sandbox("timeline", topic, "--from", str(times[0]), "--for", "1h")
    assert "the records of" not in drawn.stderr.decode()


def test_a_replay_and_a_comparison_of_an_empty_span_say_it_too(
    on_sandbox: RunBytes, make_topic: MakeTopic, uneven: tuple[str, list[int]], tmp_path: Path
) -> None:
    topic, _ = uneven
    span = ("--from", "2001-01-01", "--for", "1h")
    words = ("replay", f"kafka:{topic}", f"sqlite:{tmp_path}/new.db?table=laps", "--create")
    refused = on_sandbox(*words, "--dry-run", *span, code=6).stderr.decode()
    assert "no sampled value is a JSON object with a field" in refused
    told = f"no record of the span was found; the records of {topic} are from 20"
    assert told in refused
    compared = on_sandbox("verify", f"kafka:{topic}", f"kafka:{make_topic(1)}", *span)
    assert "verified: 0 records read back" in compared.stderr.decode()
    assert told in compared.stderr.decode()


def test_the_command_draws_and_tells(
    on_sandbox: RunBytes, uneven: tuple[str, list[int]], tmp_path: Path
) -> None:
    topic, times = uneven
    drawn = on_sandbox("timeline", topic, "--picture", str(tmp_path / "over.svg"))
    lines = drawn.stdout.decode().splitlines()
    assert len(lines) == 10
    assert any("█" in line for line in lines)
    assert f"{topic}: about 3,000 records" in drawn.stderr.decode()
    assert b"</svg>" in (tmp_path / "over.svg").read_bytes()
    told = json.loads(
        on_sandbox("timeline", f"kafka:{topic}", "--buckets", "7", "-o", "json").stdout
    )
    assert (told["is_approximate"], told["records"], len(told["buckets"])) == (True, 3_000, 7)
    rows = on_sandbox(
        "timeline", topic, "--from", str(times[0]), "--for", "1h", "--buckets", "2", "-o", "csv"
    ).stdout.decode()
    assert rows.splitlines()[0] == "from,to,records"
    assert len(rows.splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("postgres:laps",), b"only a topic can tell its times"),
        (("laps", "--buckets", "0"), b"--buckets"),
        (("laps", "--buckets", "99999"), b"needed: a whole number, 1 to 2,000"),
    ],
)
def test_what_the_command_refuses(
    on_sandbox: RunBytes, words: tuple[str, ...], said: bytes
) -> None:
    assert said in on_sandbox("timeline", *words, code=2).stderr
