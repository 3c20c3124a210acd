"""From topic to topic, source and target together: all that a log can hold arrives, once."""

import random
import time
import uuid
from collections.abc import Callable

import pytest

from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import PlayheadError
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.target import KafkaTarget
from playhead.record import Headers, Record, Slice
from playhead.source import OutOfBounds
from playhead.target import InspectRequest
from playhead.task.job import Job
from playhead.task.play import play
from playhead.task.slicer import Filter, Limits
from playhead.testing.target_case import terms
from tests.fix_topics import content, records_in
from tests.sandbox.kafka_log import Log, delete_topic

Row = tuple[int, bytes | None, bytes | None, Headers]

PARTITIONS = 2


def new_id() -> str:
    return uuid.uuid4().hex[:8]


def odd_rows(seed: int) -> list[Row]:
    """Times out of order, equal, none, before 1970 and of tomorrow; nulls, empties, repeats, large ones."""
    some, now_ms = random.Random(seed), time.time_ns() // 1_000_000
    times = [1, 5, 5, 3, -1, -77, now_ms, now_ms + 1_800_000, 1_628_080_200_000]
    bodies = [None, b"", b"\x00\xff", b"k", b"v" * 1_000]
    many = tuple((f"h{n % 7}", b"%d" % n) for n in range(1_000))
    held: list[Headers] = [(), (("a", None), ("a", b""), ("", b"x")), many]
    rows = [
        (some.choice(times), some.choice(bodies), some.choice(bodies), some.choice(held))
        for _ in range(60)
    ]
    return [*rows, (7, b"large", some.randbytes(1_000_000), ())]


def job_of(source: KafkaSource, target: KafkaTarget, limits: Limits) -> Job:
    facts, bounds = source.facts(), source.bounds()
    replay_id, [topic] = new_id(), facts.topics
    target.prepare(
        replay_id, target.inspect(InspectRequest(facts, {topic: len(bounds)}, [])), terms(topic)
    )
    tasks = tuple(
        ((Slice(*place, held.earliest, held.stable_end),),)
        for place, held in sorted(bounds.items())
    )
    return Job(replay_id, source, target, tasks, Filter(), limits=limits)


@pytest.fixture
def log(kafka: KafkaConnection, make_topic: Callable[..., str]) -> Log:
    """Plain, committed and aborted records, at both ends a marker."""
    written = Log(kafka, make_topic(PARTITIONS, max_message_bytes="4000000"))
    for partition in range(PARTITIONS):
        written.commit(partition, *odd_rows(partition))
        written.write(partition, *odd_rows(partition + 10))
        written.abort(partition, *odd_rows(partition + 20))
        written.commit(partition, *odd_rows(partition + 30))
    return written


@pytest.mark.parametrize("limits", [Limits(), Limits(max_records=17), Limits(max_bytes=100_000)])
def test_all_that_a_log_can_hold_arrives_once(
    kafka: KafkaConnection, make_topic: Callable[..., str], log: Log, limits: Limits
) -> None:
    copy = make_topic(PARTITIONS, max_message_bytes="4000000")
    target = KafkaTarget(kafka, copy)
    job = job_of(KafkaSource(kafka, (log.topic,)), target, limits)
    reports = [report for index in range(len(job.tasks)) for report in play(job, index)]
    assert [report.away for report in reports] == [None] * PARTITIONS
    for partition in range(PARTITIONS):
        found = [content(each) for each in records_in(kafka, copy) if each.partition == partition]
        assert found == [content(each) for each in log.records if each.partition == partition]
    entries = target.entries(job.replay_id)
    assert sum(entry.written for entry in entries) == len(log.records)
    whole = {lane[0].partition: lane[0].to_offset for (lane,) in job.tasks}
    assert {
        n: max(e.slice.to_offset for e in entries if e.slice.partition == n) for n in whole
    } == whole


def test_an_open_transaction_ends_the_span_and_is_copied_when_it_has_ended(
    kafka: KafkaConnection, make_topic: Callable[..., str], log: Log
) -> None:
    row: Row = (5, b"late", b"in the open", ())
    pending = log.leave_open(0, row)
    source, copy = (
        KafkaSource(kafka, (log.topic,)),
        make_topic(PARTITIONS, max_message_bytes="4000000"),
    )
    job = job_of(source, KafkaTarget(kafka, copy), Limits())
    for index in range(PARTITIONS):
        play(job, index)
    assert len(records_in(kafka, copy)) == len(log.records)
    pending.commit_transaction(30)
    log._await_marker(0)
    again = make_topic(PARTITIONS, max_message_bytes="4000000")
    job = job_of(source, KafkaTarget(kafka, again), Limits())
    for index in range(PARTITIONS):
        play(job, index)
    assert len(records_in(kafka, again)) == len(log.records) + 1


def test_records_deleted_before_they_are_read_stop_it_and_leave_whole_slices(
    kafka: KafkaConnection, make_topic: Callable[..., str], log: Log
) -> None:
    target = KafkaTarget(kafka, make_topic(PARTITIONS, max_message_bytes="4000000"))
    job = job_of(KafkaSource(kafka, (log.topic,)), target, Limits(max_records=17))
    log.delete_before(0, 30)
    with pytest.raises(OutOfBounds):
        play(job, 0)
    assert target.entries(job.replay_id) == []
    assert records_in(kafka, target.topic) == []
    play(job, 1)
    found = [content(each) for each in records_in(kafka, target.topic)]
    assert found == [content(each) for each in log.records if each.partition == 1]


def test_a_source_that_is_gone_midway_leaves_whole_slices(
    kafka: KafkaConnection, make_topic: Callable[..., str], log: Log
) -> None:
    target = KafkaTarget(kafka, make_topic(PARTITIONS, max_message_bytes="4000000"))
    job = job_of(KafkaSource(kafka, (log.topic,)), target, Limits(max_records=17))
    delete_topic(kafka, log.topic)
    with pytest.raises(PlayheadError):
        play(job, 0)
    entries = target.entries(job.replay_id)
    committed: list[Record] = records_in(kafka, target.topic)
    assert sum(entry.written for entry in entries) == len(committed)
