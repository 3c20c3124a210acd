"""Spans by time of real topics whose clocks lie: nothing of a span is left out, in whatever is done with it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from playhead import time_span, time_span_tail
from playhead.config.kafka_connection import KafkaConnection
from playhead.gaps.search import GapFinder, GapQuery
from playhead.grammar.instant import show_ms
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.read.timeline import timeline
from playhead.record import Record, Slice, TimestampType
from playhead.request import Request
from playhead.source import Source
from playhead.span import Resolved
from playhead.testing.fixtures import MakeTopic
from playhead.time_span import READ_ON, SAMPLED, TimeSpan
from tests.fix_commands import Playhead, RunBytes
from tests.fix_replay import T0_MS, Deck
from tests.fix_topics import write
from tests.sandbox.kafka_log import produce_raw

MINUTE, HOUR = 60_000, 3_600_000
SECONDS, PARTITIONS = 9_000, 3
FIRST, END = T0_MS + 30 * MINUTE, T0_MS + 60 * MINUTE
SPAN = Resolved(FIRST, END)
IN_TEXT = f"{show_ms(FIRST)}..{show_ms(END)}"
WORDS = ("--from", show_ms(FIRST), "--to", show_ms(END))


def second(topic: str, number: int, shift_ms: int = 0, partition: int = 0) -> Record:
    value = b'{"seq": %d}' % number
    at = T0_MS + number * 1_000 + shift_ms
    return Record(topic, partition, number, at, TimestampType.CREATE_TIME, b"k", value)


def written(kafka: KafkaConnection, topic: str, shifts: dict[tuple[int, int], int]) -> list[Record]:
    """A record a second in each partition for two and a half hours; some have clocks that are wrong."""
    records = [
        second(topic, number, shifts.get((partition, number), 0), partition)
        for number in range(SECONDS)
        for partition in range(PARTITIONS)
    ]
    write(kafka, records)
    return records


@pytest.fixture(scope="module")
def ahead(servers: Deck) -> tuple[str, list[Record]]:
    """One record of one partition, five minutes into the span, is 50 minutes ahead."""
    topic = servers.topic("ahead", PARTITIONS)
    return topic, written(servers.connection, topic, {(1, 2_100): 50 * MINUTE})


@pytest.fixture(scope="module")
def behind(servers: Deck) -> tuple[str, list[Record]]:
    """The last record of the last partition is an hour and three quarters behind."""
    topic = servers.topic("behind", PARTITIONS)
    shifts = {(PARTITIONS - 1, SECONDS - 1): -105 * MINUTE}
    return topic, written(servers.connection, topic, shifts)


def of_the_span(records: list[Record]) -> set[tuple[int, int]]:
    return {(r.partition, r.offset) for r in records if FIRST <= r.timestamp_ms < END}


def asked(kafka: KafkaConnection, topic: str) -> TimeSpan:
    source: Source = KafkaSource(kafka, (topic,))
    return time_span.time_span(source, source.bounds(), SPAN)


def left_out(found: TimeSpan, records: list[Record]) -> set[tuple[int, int]]:
    topic = records[0].topic
    return {
        (partition, offset)
        for partition, offset in of_the_span(records)
        if not found.partitions[topic, partition].from_offset
        <= offset
        < found.partitions[topic, partition].to_offset
    }


@pytest.mark.parametrize("case", ["ahead", "behind"])
def test_nothing_of_the_span_is_left_out(
    case: str, kafka: KafkaConnection, request: pytest.FixtureRequest
) -> None:
    topic, records = request.getfixturevalue(case)
    found = asked(kafka, topic)
    assert left_out(found, records) == set()
    ends = {place[1]: each.to_offset for place, each in found.partitions.items()}
    # Where nothing is wrong, nothing but the lateness is read.
    usual = 3_600 + 600
    assert ends == {0: usual, **({1: 3_600, 2: usual} if case == "ahead" else {1: usual, 2: 9_000})}


@pytest.mark.parametrize("case", ["ahead", "behind"])
def test_nothing_is_left_out_where_there_are_samples_only(
    case: str,
    kafka: KafkaConnection,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time_span_tail, "WHOLE_OFFSETS", 0)
    monkeypatch.setattr(time_span, "WHOLE_OFFSETS", 10**9)
    for name, offsets in (("_NEAR", 100), ("_STRIDE", 10), ("_LAST", 20)):
        monkeypatch.setattr(time_span_tail, name, offsets)
    topic, records = request.getfixturevalue(case)
    found = asked(kafka, topic)
    assert left_out(found, records) == set()
    assert {each.to_offset for each in found.partitions.values()} == {SECONDS}
    assert {note.code for note in found.notes} == {READ_ON}


def test_a_record_that_cannot_be_read_has_a_time(servers: Deck, kafka: KafkaConnection) -> None:
    """Behind the span too, where its times are looked at: no span by time could be planned."""
    topic = servers.topic("unreadable")
    rows = [(T0_MS + at * 1_000, b"k", b"v", ((b"caf\xe9", b"1"),)) for at in range(9)]
    produce_raw(kafka, topic, 0, rows)
    source = KafkaSource(kafka, (topic,))
    span = Resolved(T0_MS + 2_000, T0_MS + 5_000)
    found = time_span.time_span(source, source.bounds(), span, lateness_ms=0)
    [held] = found.partitions.values()
    assert (held.from_offset, held.to_offset) == (2, 5)


def test_a_glance_shows_the_records_that_are_there(
    kafka: KafkaConnection, ahead: tuple[str, list[Record]]
) -> None:
    topic, records = ahead
    times = {(r.partition, r.offset): r.timestamp_ms for r in records}
    probes = [
        each
        for partition in range(PARTITIONS)
        for each in time_span_tail.probes(Slice(topic, partition, 10, SECONDS), 40)
    ]
    seen = list(KafkaSource(kafka, (topic,)).glance(probes, within_s=30, most_bytes=1 << 20))
    assert sorted(part for part, _ in seen) == sorted(probes)
    for part, found in seen:
        assert found.offsets == [*range(part.from_offset, part.to_offset)]
        assert found.timestamps_ms == [times[part.partition, o] for o in found.offsets]
        assert set(found.timestamp_types) == {TimestampType.CREATE_TIME.value}


# --- in what is done with it


def test_what_is_consumed_is_all_of_the_span(
    on_sandbox: RunBytes, ahead: tuple[str, list[Record]]
) -> None:
    topic, records = ahead
    done = on_sandbox("consume", topic, *WORDS, "-o", "jsonl")
    lines = map(json.loads, done.stdout.splitlines())
    assert {(each["partition"], each["offset"]) for each in lines} == of_the_span(records)
    assert b"of the span" in done.stderr
    assert b"clocks disagree" in done.stderr


def test_the_plan_says_what_was_looked_at(
    playhead: Playhead, servers: Deck, ahead: tuple[str, list[Record]], tmp_path: Path
) -> None:
    topic, _ = ahead
    words = ("replay", f"kafka:{topic}", f"json:{tmp_path}/copy", *WORDS)
    plan = playhead(*words, "--dry-run", **servers.environment())
    assert plan.returncode == 0, plan.stderr
    assert f"{topic}:1 is read on from 2100 to " in plan.stdout + plan.stderr
    assert "looked past the end: all " in plan.stdout + plan.stderr
    refused = playhead(*words, "--read-on", "1m", "--dry-run", **servers.environment())
    assert refused.returncode == 6
    assert f"{topic}:1 is read up to offset 2100, but offset 2101" in refused.stderr
    assert "--read-on end" in refused.stderr
    whole = playhead(*words, "--read-on", "end", "--dry-run", "-o", "json", **servers.environment())
    ends = {each["to_offset"] for each in json.loads(whole.stdout)["partitions"]}
    assert ends == {SECONDS}


def test_gaps_are_found_behind_a_record_that_is_ahead(
    servers: Deck, schema: str, ahead: tuple[str, list[Record]]
) -> None:
    topic, records = ahead
    deck = replace(servers, schema=schema)
    table = deck.table("_topic text, _partition int, _offset bigint")
    there = sorted(of_the_span(records) - {(1, 3_000), (1, 3_001), (2, 2_000)})
    deck.sql(
        f"INSERT INTO {table} SELECT %s, p, o FROM unnest(%s::int[], %s::bigint[]) u(p, o)",
        topic,
        [partition for partition, _ in there],
        [offset for _, offset in there],
    )
    wanted = Request(source=f"kafka:{topic}", target=f"postgres:{table}", span=IN_TEXT)
    found = GapFinder(GapQuery(wanted), deck.configuration()).find()
    missing = [(each.slice.partition, each.slice.from_offset) for each in found.of("missing")]
    assert missing == [(1, 3_000), (2, 2_000)]
    assert sum(each.records or 0 for each in found.found) == 3


def test_a_timeline_says_that_clocks_disagree(
    kafka: KafkaConnection, ahead: tuple[str, list[Record]], make_topic: MakeTopic
) -> None:
    topic, _ = ahead
    found = timeline(kafka, [topic], Resolved(None, None), buckets=30, now_ms=T0_MS + 10**9)
    assert found.disorder is not None
    assert "clocks disagree" in (found.disorder.text() or "")
    plain = make_topic()
    write(kafka, [second(plain, number) for number in range(3_000)])
    found = timeline(kafka, [plain], Resolved(None, None), buckets=30, now_ms=T0_MS + 10**9)
    assert found.disorder is not None
    assert (found.disorder.text(), found.as_document()["clocks"]) == (None, None)


def test_a_reset_to_an_instant_keeps_kafkas_meaning_and_warns(
    playhead: Playhead, servers: Deck, ahead: tuple[str, list[Record]]
) -> None:
    topic, _ = ahead
    words = ("groups", "reset", f"early-{topic}", "--topic", topic, "--create", "--dry-run")
    to = ("--to-datetime", show_ms(END), "-o", "json")
    done = playhead(*words, *to, **servers.environment())
    assert done.returncode == 0, done.stderr
    rows = {row["partition"]: row for row in json.loads(done.stdout)["groups"][0]["partitions"]}
    assert {number: row["after"] for number, row in rows.items()} == {0: 3_600, 1: 2_100, 2: 3_600}
    assert "early, because clocks disagree: offset 2101 after it is from" in rows[1]["note"]
    assert rows[0]["note"] is None


def test_a_long_rest_is_sampled_and_the_plan_says_so(
    kafka: KafkaConnection, behind: tuple[str, list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, _ = behind
    monkeypatch.setattr(time_span_tail, "WHOLE_OFFSETS", 0)
    monkeypatch.setattr(time_span_tail, "_MOST_PROBES", 15)
    for name, offsets in (("_NEAR", 50), ("_STRIDE", 10), ("_LAST", 0)):
        monkeypatch.setattr(time_span_tail, name, offsets)
    found = asked(kafka, topic)
    [note] = [each for each in found.notes if each.code == SAMPLED]
    assert "of 14,400 offsets in 3 partitions, nothing of the span, and times in order" in note.text
    assert "--read-on end reads all of them" in note.text
