"""Whole replays in this process: every pair of ends, every rule, and a proof that adds up each time."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playhead import Replay, Span, kafka, postgres
from playhead.account import RecordRefused
from playhead.checksum import Checksum, checksum_of
from playhead.config.guards import CopiedBefore
from playhead.errors import PlayheadError, Refused, Stopped, UsageError
from playhead.kafka.read.source import KafkaSource
from playhead.note import Note
from playhead.plan import Plan
from playhead.record import Record, TimestampType
from playhead.records import Records
from playhead.replay import api, partition_work
from playhead.replay.api import Planned
from playhead.replay.journal import Journal
from playhead.time_span import SpanGoesOn
from tests.fix_replay import (
    ODD_SETTINGS,
    T0_MS,
    Deck,
    contents,
    lap,
    new_name,
    ran,
    small_slices,
    totals,
    within,
)

COLUMNS = (
    "car text, seq int, speed float8, _topic text, _partition int, _offset bigint, "
    "_timestamp timestamptz, _key text, PRIMARY KEY (_topic, _partition, _offset)"
)
SECOND = 1_000
CREATE = TimestampType.CREATE_TIME


def at(second: float) -> str:
    """An instant so many seconds after the tape's begin, as a span has it."""
    return str(T0_MS + int(second * SECOND))


def span(from_s: float | None, to_s: float | None) -> str:
    start = "start" if from_s is None else at(from_s)
    return f"{start}..{'end' if to_s is None else at(to_s)}"


def plain(topic: str, offset: int, ms: int, value: bytes | None = None) -> Record:
    document = json.dumps({"n": offset}).encode() if value is None else value
    return Record(topic, 0, offset, ms, CREATE, b"k%d" % offset, document)


def timed(deck: Deck, *times_ms: int, **settings: str) -> str:
    """A topic of one partition whose records have these times."""
    topic = deck.topic("timed", 1, **settings)
    deck.write([plain(topic, offset, ms) for offset, ms in enumerate(times_ms)])
    return topic


def offsets_in(deck: Deck, topic: str) -> list[int]:
    """Which offsets of the source a copy has, by what stands in the records."""
    return [json.loads(each.value or b"")["n"] for each in deck.records(topic)]


# --- every pair of ends


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_an_archive_gives_the_topic_back_byte_for_byte(
    deck: Deck, oddities: str, tmp_path: Path, form: str
) -> None:
    archive = deck.plan(f"kafka:{oddities}", f"{form}:{tmp_path}")
    assert totals(ran(archive)) == {"written": 10}
    restored = deck.topic("restored", 2, **ODD_SETTINGS)
    back = deck.plan(f"{form}:{tmp_path}", f"kafka:{restored}")
    assert totals(ran(back)) == {"written": 10}
    assert contents(deck.records(restored)) == contents(deck.records(oddities))
    assert archive.verify().agrees
    assert back.verify().agrees


def test_a_copy_of_a_topic_is_exact(deck: Deck, oddities: str) -> None:
    copy = deck.topic("copy", 2, **ODD_SETTINGS)
    planned = deck.plan(f"kafka:{oddities}", f"kafka:{copy}")
    assert totals(ran(planned)) == {"written": 10}
    assert contents(deck.records(copy)) == contents(deck.records(oddities))
    assert planned.verify().agrees


def test_into_a_table(deck: Deck, laps: str) -> None:
    table = deck.table(COLUMNS)
    planned = deck.plan(f"kafka:{laps}", f"postgres:{table}")
    assert totals(ran(planned)) == {"written": 60}
    found = deck.rows(table, "seq, car, _topic, _partition, _offset, _key", "ORDER BY seq")
    assert found == [(n, f"car-{n % 5}", laps, n % 3, n // 3, f"car-{n % 5}") for n in range(60)]
    [(first, last)] = deck.rows(table, "min(_timestamp), max(_timestamp)")
    assert (first.timestamp(), last.timestamp()) == (T0_MS / 1000, T0_MS / 1000 + 59)
    found_again = planned.verify()
    assert found_again.agrees, found_again.as_document()


def test_into_a_table_that_has_some_of_it(deck: Deck, laps: str) -> None:
    table = deck.table("seq int PRIMARY KEY, car text")
    deck.sql(f"INSERT INTO {table} SELECT n, 'mine' FROM generate_series(0, 59, 4) n")
    proof = deck.play(f"kafka:{laps}", f"postgres:{table}", on_conflict="ignore")
    assert totals(proof) == {"written": 60}
    assert (proof.details["inserted"], proof.details["left_alone"]) == (45, 15)
    needed = [(n, "mine" if n % 4 == 0 else f"car-{n % 5}") for n in range(60)]
    assert deck.rows(table, "seq, car", "ORDER BY seq") == needed
    proof = deck.play(f"kafka:{laps}", f"postgres:{table}", on_conflict="update")
    assert (proof.details["updated"], proof.details["left_alone"]) == (15, 45)
    assert deck.rows(table, "count(*)", "WHERE car = 'mine'") == [(0,)]


def test_the_sentence_in_python(deck: Deck, laps: str) -> None:
    table = deck.table(COLUMNS)
    sentence = Replay(source=kafka(laps), span=Span.parse(span(10, 20)), target=postgres(table))
    planned = sentence.plan(deck.configuration())
    proof = ran(planned)
    assert proof.total("written") == 10
    assert deck.rows(table, "min(seq), max(seq), count(*)") == [(10, 19, 10)]


# --- spans


@pytest.mark.parametrize(
    ("from_s", "to_s", "needed"),
    [
        (None, None, range(60)),
        (10, 20, range(10, 20)),
        (10.5, 20.5, range(11, 21)),
        (None, 1, range(1)),
        (59, None, range(59, 60)),
        (60, None, range(0)),
        (-100, 0, range(0)),
        (0, 7200, range(60)),
    ],
)
def test_a_span_by_time_freezes_just_its_offsets(
    deck: Deck, laps: str, tmp_path: Path, from_s: float, to_s: float, needed: range
) -> None:
    plan = deck.plan(
        f"kafka:{laps}", f"json:{tmp_path}", span=span(from_s, to_s), lateness_ms=0
    ).plan
    found = [
        n
        for each in plan.partitions
        for n in range(3 * each.from_offset + each.partition, 3 * each.to_offset, 3)
    ]
    assert sorted(found) == [*needed]
    assert plan.planned == len(needed)


def test_late_and_unordered_records_are_found_however_late_they_are(deck: Deck) -> None:
    t = T0_MS
    times = (t, t + 5_000, t + 1_000, t + 1_000, t + 9_000, t + 10_000, t + 3_000, t + 15_000)
    topic = timed(deck, *times, t + 2_000, t + 40_000, t + 4_000)
    needed = [0, 1, 2, 3, 4, 6, 8, 10]
    copy = deck.topic("copy")
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", span=span(0, 10), lateness_ms=6_000)
    proof = ran(planned)
    assert offsets_in(deck, copy) == needed
    assert proof.total("late") == 3
    assert proof.total("outside") == planned.plan.planned - len(needed)
    # All that stands behind was looked at, so that nothing is left to warn of.
    assert [note.weight for note in proof.notes if note.code == "late"] == ["info"]
    for lateness_ms in (0, 60_000):
        plan = deck.plan(
            f"kafka:{topic}", f"kafka:{copy}", span=span(0, 10), lateness_ms=lateness_ms
        ).plan
        assert plan.partitions[0].to_offset == 11
    with pytest.raises(SpanGoesOn):
        deck.plan(f"kafka:{topic}", f"kafka:{copy}", span=span(0, 10), read_on="6s")


def test_records_of_the_future(deck: Deck) -> None:
    far = 4_102_444_800_000
    topic = timed(deck, T0_MS, T0_MS + 1, T0_MS + 2, far, **ODD_SETTINGS)
    copy = deck.topic("copy", **ODD_SETTINGS)
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", span=span(0, 1))
    ran(planned)
    assert offsets_in(deck, copy) == [0, 1, 2]
    copy = deck.topic("copy", **ODD_SETTINGS)
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", span=span(1, None))
    ran(planned)
    assert offsets_in(deck, copy) == [3]


def test_records_with_no_timestamp_at_all_are_copied_as_they_are(deck: Deck) -> None:
    from tests.sandbox.kafka_log import produce_raw

    topic, copy = deck.topic("timeless"), deck.topic("copy", **ODD_SETTINGS)
    produce_raw(deck.connection, topic, 0, [(-1, b"k", b"v", ()), (-1, None, b"w", ())])
    proof = deck.play(f"kafka:{topic}", f"kafka:{copy}")
    assert proof.total("written") == 2
    assert contents(deck.records(copy)) == contents(deck.records(topic))
    by_time = deck.plan(f"kafka:{topic}", f"kafka:{deck.topic('copy')}", span=span(0, 10))
    assert ran(by_time).total("written") == 0


def test_a_span_over_the_brokers_times_is_said_and_taken(deck: Deck) -> None:
    topic = timed(deck, 1, 2, 3, message_timestamp_type="LogAppendTime")
    times = [each.timestamp_ms for each in deck.records(topic)]
    copy = deck.topic("copy")
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", span=f"{times[0]}..{times[-1] + 1}")
    assert "log-append-time" in [note.code for note in planned.plan.notes]
    assert ran(planned).total("written") == 3
    assert [each.timestamp_ms for each in deck.records(copy)] == times


def test_spans_by_offsets(deck: Deck, laps: str) -> None:
    table = deck.table(COLUMNS)
    asked = f"{laps}:0:3-5, {laps}:2:0-1"
    assert totals(deck.play(f"kafka:{laps}", f"postgres:{table}", span=asked)) == {"written": 3}
    found = deck.rows(table, "_partition, _offset", "ORDER BY 1, 2")
    assert found == [(0, 3), (0, 4), (2, 0)]
    with pytest.raises(Refused, match=f"{laps}:0 offsets 3-99 do not exist; .* holds 0-20"):
        deck.plan(f"kafka:{laps}", f"postgres:{table}", span=f"{laps}:0:3-99")


def test_an_open_transaction_at_the_end_is_said_and_not_replayed(deck: Deck) -> None:
    from tests.sandbox.kafka_log import Log

    topic, table = deck.topic("open"), deck.table(COLUMNS)
    log = Log(deck.connection, topic)
    rows = [(T0_MS, b"k", b'{"seq": 1}', ())] * 3
    log.commit(0, *rows)
    log.abort(0, *rows)
    log.commit(0, *rows)
    holding = log.leave_open(0, *rows)
    try:
        planned = deck.plan(f"kafka:{topic}", f"postgres:{table}")
        assert [note.code for note in planned.plan.notes].count("open-transaction") == 1
        # Three records and a marker of each of the two, and four of the one that was aborted.
        assert totals(ran(planned)) == {"written": 6, "absent": 6}
        assert deck.rows(table, "_offset", "ORDER BY 1") == [(0,), (1,), (2,), (8,), (9,), (10,)]
    finally:
        holding.abort_transaction(30)


def test_a_span_with_nothing_in_it_is_done_and_proved(deck: Deck) -> None:
    from tests.sandbox.kafka_log import Log

    topic, table = deck.topic("nothing"), deck.table(COLUMNS)
    assert totals(deck.play(f"kafka:{topic}", f"postgres:{table}")) == {}
    # Records that were taken back, and a marker at each end of what is planned.
    log = Log(deck.connection, topic)
    log.abort(0, *[(T0_MS, b"k", b"v", ())] * 3)
    log.abort(0, (T0_MS, b"k", b"v", ()))
    asked = f"{topic}:0:3-6"
    assert totals(deck.play(f"kafka:{topic}", f"postgres:{table}", span=asked)) == {"absent": 3}
    assert deck.rows(table, "count(*)") == [(0,)]


# --- transforms, several topics, rules for errors


def test_where_and_select(deck: Deck, laps: str) -> None:
    copy = deck.topic("copy", 3)
    asked: dict[str, Any] = {
        "where": "value:seq >= 30 and partition < 2",
        "select": "value:seq AS n, upper(key) AS key, 'x' AS extra",
        "span": span(0, 50),
    }
    planned = deck.plan(f"kafka:{laps}", f"kafka:{copy}", **asked)
    proof = ran(planned)
    kept = [n for n in range(30, 50) if n % 3 < 2]
    assert totals(proof)["written"] == len(kept)
    assert totals(proof)["filtered"] == 50 - len(kept)
    found = deck.records(copy)
    assert sorted(json.loads(each.value or b"")["n"] for each in found) == kept
    assert all(each.key and each.key.startswith(b"CAR-") for each in found)
    assert all(each.headers[0][0] == "lap" for each in found)
    assert proof.checksum == read_checksum(deck, planned), (
        "of what was read, and not of what it became"
    )
    assert planned.verify().agrees


def read_checksum(deck: Deck, planned: Planned) -> Checksum | None:
    """Made from the source's records, one by one."""
    held = [
        Records.of(each for each in deck.records(slice_.topic) if each in slice_)
        for slice_ in planned.plan.slices()
    ]
    return checksum_of(each.checksum(0) for each in held)


def test_a_bad_expression_is_refused_before_anything_happens(deck: Deck, laps: str) -> None:
    with pytest.raises(UsageError, match="there is no function 'uper'"):
        deck.plan(f"kafka:{laps}", f"kafka:{new_name('none')}", where="uper(key) = 'X'")


def test_several_topics_into_a_table_each(deck: Deck) -> None:
    shop = new_name("shop").replace("-", "_")
    topics = [f"{shop}.orders", f"{shop}.refunds"]
    for number, topic in enumerate(topics):
        with deck.admin() as admin:
            admin.create_topic(topic, partitions=2)
        deck.write([lap(n, topic, 2) for n in range(10 * (number + 1))])
    proof = deck.play(
        f"kafka:/^{shop}\\..*/", f"postgres:{deck.schema}.{{topic}}", create=True, key=()
    )
    assert totals(proof) == {"written": 30}
    counts = [deck.rows(f'{deck.schema}."{topic}"', "count(*)") for topic in topics]
    assert counts == [[(10,)], [(20,)]]


def test_what_comes_to_match_a_pattern_later_is_no_part_of_the_plan(
    deck: Deck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that nobody planned for may be ill, or vanish between two questions."""
    shop = new_name("shop")
    topic, copy = deck.laps(20, 2, what=shop), deck.topic("copy", 2)
    planned = deck.plan(f"kafka:/^{topic}/", f"kafka:{copy}")
    with deck.admin() as admin:
        admin.create_topic(f"{topic}-test", partitions=1)
    asked: list[tuple[str, ...]] = []
    bounds = KafkaSource.bounds
    monkeypatch.setattr(KafkaSource, "bounds", lambda it: asked.append(it.topics) or bounds(it))
    assert totals(ran(planned)) == {"written": 20}
    assert set(asked) == {(topic,)}


def bad_tape(deck: Deck) -> str:
    topic = deck.topic("bad", 2)
    good = [lap(number, topic, 2) for number in range(20)]
    bad = {3: b"no json", 8: b'{"seq": "many"}', 9: b"\xff", 15: b'{"car": "a\\u0000b", "seq": 1}'}
    deck.write(
        [
            Record(topic, *at_, CREATE, each.key, bad.get(n, each.value), each.headers)
            for n, each in enumerate(good)
            for at_ in [(each.partition, each.offset, each.timestamp_ms)]
        ]
    )
    return topic


def test_a_bad_record_ends_the_replay_unless_said(deck: Deck) -> None:
    topic, table = bad_tape(deck), deck.table(COLUMNS)
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}")
    with pytest.raises(PlayheadError, match=rf"{topic}:[01] offset \d+: .*") as caught:
        planned.run()
    assert caught.value.exit_code == RecordRefused.exit_code
    assert "--on-error skip" in (caught.value.hint or "")
    assert deck.rows(table, "count(*)") in [[(0,)], [(10,)]], "whole slices or none"


def test_dead_letters_of_one_partition_have_one_who_buries_them(
    deck: Deck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the table would let several tasks share it: in a topic they would fence each other."""
    monkeypatch.setattr(partition_work, "_LEAST_SPLIT", 10)
    topic, table, dead = deck.topic("bad"), deck.table(COLUMNS), new_name("dead")
    good = [lap(number, topic, 1) for number in range(400)]
    bad = [replace(each, value=b"no json") if each.offset % 10 == 3 else each for each in good]
    deck.write(bad)
    with small_slices(20):
        proof = deck.play(f"kafka:{topic}", f"postgres:{table}", on_error=f"dlq:{dead}")
    assert totals(proof) == {"written": 360, "dead": 40}
    assert len(deck.records(dead)) == 40


def test_bad_records_are_skipped_and_counted(deck: Deck) -> None:
    topic, table = bad_tape(deck), deck.table(COLUMNS)
    with small_slices(4):
        proof = deck.play(f"kafka:{topic}", f"postgres:{table}", on_error="skip")
    assert totals(proof) == {"written": 16, "skipped": 4}
    assert {n for (n,) in deck.rows(table, "seq")} == {*range(20)} - {3, 8, 9, 15}


def test_dead_letters_keep_their_bytes_and_go_back(deck: Deck) -> None:
    topic, table, dead = bad_tape(deck), deck.table(COLUMNS), new_name("dead")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", on_error=f"dlq:{dead}")
    assert totals(ran(planned)) == {"written": 16, "dead": 4}
    letters = deck.records(dead)
    originals = {(each.partition, each.offset): each for each in deck.records(topic)}
    for letter in letters:
        told = dict(letter.headers)
        came_from = originals[
            int(told["__playhead.errors.partition"] or b""),
            int(told["__playhead.errors.offset"] or b""),
        ]
        assert (letter.key, letter.value) == (came_from.key, came_from.value)
        assert told["__playhead.errors.topic"] == topic.encode()
    assert len(letters) == 4
    assert planned.verify().agrees

    back = deck.plan(f"kafka:{dead}", "kafka:", redrive=True)
    # The letters were committed, by a transaction for each partition that they came from.
    assert totals(ran(back)) == {"written": 4, "absent": 2}
    again = [each for each in deck.records(topic) if each.offset >= 10]
    came = sorted((each.partition, each.key, each.value) for each in letters_places(letters))
    assert sorted((each.partition, each.key, each.value) for each in again) == came
    assert all(dict(each.headers)["__playhead.errors.count"] == b"1" for each in again)
    assert ran(back).total("written") == 4
    assert len(deck.records(topic)) == 24, "a second run of the same redrive brings nothing"


def letters_places(letters: list[Record]) -> list[Record]:
    from dataclasses import replace

    return [
        replace(each, partition=int(dict(each.headers)["__playhead.errors.partition"] or b""))
        for each in letters
    ]


# --- plans


def test_a_table_is_created_as_the_records_are(deck: Deck, laps: str) -> None:
    table = f"{deck.schema}.made"
    planned = deck.plan(f"kafka:{laps}", f"postgres:{table}", create=True)
    assert any("CREATE TABLE" in each for each in planned.plan.target.creates)
    assert ran(planned).total("written") == 60
    assert deck.rows(table, "count(*), min(seq), max(seq), max(car)") == [(60, 0, 59, "car-4")]


def test_planning_writes_nothing(deck: Deck, laps: str, tmp_path: Path) -> None:
    archive, table, topic = tmp_path / "archive", f"{deck.schema}.laps", new_name("none")
    for target in (f"parquet:{archive}", f"postgres:{table}", f"kafka:{topic}"):
        planned = deck.plan(f"kafka:{laps}", target, create=True, where="value:seq < 3")
        assert planned.plan.samples
        assert Journal().get(planned.plan.replay_id) is None
    assert not archive.exists()
    assert deck.sql("SELECT to_regclass(%s)", table) == [(None,)]
    with deck.admin() as admin:
        assert topic not in admin.cluster().topics


@pytest.mark.parametrize("kind", ["kafka", "postgres", "json"])
def test_a_finished_replay_again_does_nothing(
    deck: Deck, laps: str, tmp_path: Path, kind: str
) -> None:
    targets = {
        "kafka": f"kafka:{deck.topic('copy', 3)}",
        "postgres": f"postgres:{deck.table(COLUMNS)}",
        "json": f"json:{tmp_path}",
    }
    planned = deck.plan(f"kafka:{laps}", targets[kind])
    first = ran(planned)
    again = api.planned(planned.plan, deck.configuration())
    again.engine.session = no_engine  # type: ignore[method-assign]
    second = ran(again)
    assert totals(second) == totals(first) == {"written": 60}
    assert second.took is not None
    assert (second.took.records, second.took.commits) == (0, 0)


def no_engine() -> Any:
    raise AssertionError("the engine was asked for, and there is nothing to do")


def test_a_saved_plan_is_run_exactly(deck: Deck) -> None:
    topic, table = deck.laps(20, 2), deck.table(COLUMNS)
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}")
    text = planned.plan.as_json()
    deck.write([lap(number, topic, 2) for number in range(20, 40)])
    saved = Plan.from_json(text, where="here")
    assert saved == planned.plan
    assert totals(deck.play_again(saved)) == {"written": 20}
    assert deck.rows(table, "max(seq)") == [(19,)]


def test_refused_are_a_topic_into_itself_and_a_dlq_that_is_an_end(deck: Deck, laps: str) -> None:
    for target, rule in [
        (f"kafka:{laps}", "fail"),
        (f"kafka://{deck.connection.bootstrap_servers}/{laps}", "fail"),
        ("kafka:other", f"dlq:{laps}"),
        ("kafka:other", "dlq:other"),
    ]:
        with pytest.raises(Refused):
            deck.plan(f"kafka:{laps}", target, on_error=rule)


# --- verify finds what is wrong


def test_verify_finds_changed_missing_and_extra_rows(deck: Deck, laps: str) -> None:
    table = deck.table(COLUMNS)
    planned = deck.plan(f"kafka:{laps}", f"postgres:{table}")
    ran(planned)
    deck.sql(f"UPDATE {table} SET speed = 1 WHERE seq = 7")
    found = planned.verify()
    assert not found.agrees
    assert differences(found) == [("changed", 1, 2)]
    deck.sql(f"DELETE FROM {table} WHERE seq = 9")
    assert differences(planned.verify()) == [("changed", 1, 2), ("missing", 0, 3)]
    assert Journal().find(planned.plan.replay_id).verification == planned.verify().as_document()


def differences(found: Any) -> list[tuple[str, int, int | None]]:
    return sorted((each["kind"], each["partition"], each["offset"]) for each in found.differences)


def test_verify_finds_what_was_done_to_an_archive(deck: Deck, laps: str, tmp_path: Path) -> None:
    planned = deck.plan(f"kafka:{laps}", f"json:{tmp_path}")
    ran(planned)
    assert planned.verify().agrees
    file = next(each for each in sorted(tmp_path.rglob("*.jsonl")) if b"car" in each.read_bytes())
    lines = file.read_bytes().splitlines(keepends=True)
    changed = lines[0].replace(b"car-0", b"car-9")
    assert changed != lines[0]
    file.write_bytes(changed + b"".join(lines[1:-1]))
    found = planned.verify()
    assert not found.agrees
    assert {kind for kind, *_ in differences(found)} == {"changed", "missing"}


def test_verify_finds_lost_records_of_a_copy(deck: Deck, laps: str) -> None:
    copy = deck.topic("copy", 3)
    planned = deck.plan(f"kafka:{laps}", f"kafka:{copy}")
    ran(planned)
    deck.delete_before(copy, 1, 2)
    found = planned.verify()
    assert not found.agrees
    assert differences(found) == [("missing", 1, 0), ("missing", 1, 1)]


def test_verify_says_what_was_not_replayed_yet(deck: Deck, laps: str) -> None:
    table = deck.table(COLUMNS)
    planned = deck.plan(f"kafka:{laps}", f"postgres:{table}")
    planned.journal.keep(planned.plan, {})
    found = planned.verify()
    assert (found.agrees, found.uncovered) == (False, 60)


# --- pace


@pytest.mark.parametrize("pace", ["20x", "20/s"])
def test_a_paced_run_keeps_its_times(deck: Deck, pace: str) -> None:
    topic, copy = deck.laps(40, 2), deck.topic("copy", 2)
    planned = deck.plan(f"kafka:{topic}", f"kafka:{copy}", pace=pace)
    proof = ran(planned)
    assert totals(proof) == {"written": 40}
    assert contents(deck.records(copy)) == contents(deck.records(topic))
    told = proof.as_document()["pace"]
    assert told["records"] == 40
    assert told["early"] == 0
    assert 0 <= told["p50_us"] <= told["max_us"] < 2_000_000
    took = proof.took
    assert took is not None
    assert took.run_s >= 1.8, "39 records after the first, 20 a second"


def test_the_same_copy_into_a_topic_is_not_made_twice_unless_somebody_says_so(deck: Deck) -> None:
    topic, copy = deck.laps(20), deck.topic("copy")
    ends = (f"kafka:{topic}", f"kafka:{copy}")
    first = deck.plan(*ends, span="0:0-10")
    ran(first)
    again = deck.plan(*ends, span="0:5-20")
    [note] = [note for note in again.plan.notes if note.code == "copied-before"]
    assert f"run {first.plan.replay_id} copied 5 of these offsets" in note.text
    with pytest.raises(CopiedBefore, match=first.plan.replay_id):
        ran(again)
    assert len(deck.records(copy)) == 10
    ran(deck.plan(*ends, span="0:10-20"))
    ran(again, again=True)
    assert len(deck.records(copy)) == 35
    deck.play_again(again.plan)
    assert len(deck.records(copy)) == 35, "it goes on with what it has begun"


def test_of_two_plans_that_were_made_first_the_second_is_asked_for_when_it_runs(
    deck: Deck,
) -> None:
    topic, copy = deck.laps(20), deck.topic("copy")
    one, other = (deck.plan(f"kafka:{topic}", f"kafka:{copy}") for _ in range(2))
    assert not [note for note in other.plan.notes if note.code == "copied-before"]
    assert not ran(one).notes
    with pytest.raises(CopiedBefore, match=one.plan.replay_id):
        ran(other)
    assert len(deck.records(copy)) == 20
    [note] = [each for each in ran(other, again=True).notes if each.code == "copied-meanwhile"]
    assert f"run {one.plan.replay_id} copied 20 of these offsets" in note.text


@pytest.mark.parametrize("columns", ["car text", "car text, _partition int, _offset bigint"])
def test_the_plan_names_who_has_appended_the_same_records_to_a_table(
    deck: Deck, columns: str
) -> None:
    topic, table = deck.laps(20), deck.table(columns)
    ends = (f"kafka:{topic}", f"postgres:{table}")
    one, other, third = (deck.plan(*ends, span=f"0:{span}") for span in ("0-10", "5-20", "10-20"))
    assert not copies_named(one.plan.notes)
    assert not copies_named(ran(one).notes)
    again = deck.plan(*ends, span="0:5-20")
    said = f"run {one.plan.replay_id} copied 5 of these offsets"
    [named] = copies_named(again.plan.notes)
    assert said in named
    assert not copies_named(deck.plan(*ends, span="0:10-20").plan.notes)
    [named] = copies_named(ran(other).notes)
    assert said in named
    assert len(deck.rows(table)) == 25
    assert other.plan.replay_id in copies_named(ran(third).notes)[0]
    deck.sql(f"DELETE FROM {table} WHERE true RETURNING 1")
    named = copies_named(deck.plan(*ends, span="0:0-10").plan.notes)
    assert bool(named) == ("_offset" not in columns), "rows that are gone may come back"


def copies_named(notes: Sequence[Note]) -> list[str]:
    return [each.text for each in notes if each.code in ("copied-before", "copied-meanwhile")]


def test_a_table_whose_gap_was_filled_meanwhile_is_not_appended_to_unasked(deck: Deck) -> None:
    topic, table = (
        deck.laps(40),
        deck.table("car text, _topic text, _partition int, _offset bigint"),
    )
    ends = (f"kafka:{topic}", f"postgres:{table}")
    stopped = deck.plan(*ends, pace="10/s")
    replay_id = stopped.plan.replay_id
    with small_slices(5), ThreadPoolExecutor(1) as pool:
        running = pool.submit(stopped.run)
        within(lambda: len(deck.rows(table)) >= 5, seconds=40, what="the first slice")
        assert Journal().ask_to_stop(replay_id)
        with pytest.raises(Stopped):
            running.result(40)
    there = len(deck.rows(table))
    ran(deck.plan(*ends, span=f"0:{there}-40"))
    resumed = api.planned(stopped.plan, deck.configuration())
    resumed.is_resumed = True
    with pytest.raises(
        CopiedBefore,
        match=f"{40 - there} of the offsets that it lacks are in .*; playhead gaps SOURCE TARGET --replay",
    ):
        resumed.run()
    assert len(deck.rows(table)) == 40
