"""Gaps that are found by rows or by a ledger, and gaps that a replay closes: these offsets, and no row else."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from playhead.cli.app import app
from playhead.errors import PlayheadError, Refused
from playhead.gaps.gap import Gaps
from playhead.gaps.row_lookup import NothingLookedFor
from playhead.gaps.search import GapFinder, GapQuery
from playhead.kafka.read.source import KafkaSource
from playhead.record import Record, Slice, TimestampType
from playhead.request import Request
from tests.fix_replay import T0_MS, Deck, ran, small_slices

ROWS = "car text, seq int, speed float8"
PLACED = f"{ROWS}, _topic text, _partition int, _offset bigint"
KEYED = f"{PLACED}, PRIMARY KEY (seq)"
# Laps 12 to 17 of 60 on 3 partitions, which are offsets 4 and 5 of each, and lap 30.
LOST = "seq BETWEEN 12 AND 17 OR seq = 30"
LOST_PLACES = [(0, 4, 6), (0, 10, 11), (1, 4, 6), (2, 4, 6)]


def look(deck: Deck, source: str, target: str, **more: Any) -> Gaps:
    how = {name: more.pop(name) for name in ("by", "time_column", "ledgers") if name in more}
    asked = Request(source=source, target=target, **more)
    return GapFinder(GapQuery(asked, **how), deck.configuration()).find()


def places(found: Gaps) -> list[tuple[int, int, int]]:
    at = [each.slice for each in found.of("missing")]
    return [(each.partition, each.from_offset, each.to_offset) for each in at]


class Command:
    """The command in this process, with the run's one engine."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck

    def __call__(self, *words: str, code: int = 0) -> Any:
        done = CliRunner().invoke(app, words, env=self._deck.environment())
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        return done


@pytest.fixture
def command(deck: Deck) -> Command:
    return Command(deck)


def versions(deck: Deck, table: str) -> dict[int, str]:
    """Who wrote each row: the number of the transaction."""
    return dict(deck.rows(table, "seq, xmin::text"))


# --- closing them


@pytest.mark.parametrize("columns", [PLACED, KEYED], ids=["no key", "key"])
def test_a_replay_closes_the_gaps_and_touches_no_other_row(
    deck: Deck, laps: str, command: Command, columns: str
) -> None:
    table = deck.table(columns)
    ran(deck.plan(f"kafka:{laps}", f"postgres:{table}"))
    deck.sql(f"DELETE FROM {table} WHERE {LOST}")
    before = versions(deck, table)
    words = ("gaps", f"kafka:{laps}", f"postgres:{table}")
    assert places(look(deck, *(word for word in words[1:]))) == LOST_PLACES
    dry = command(*words, "--replay", "--dry-run", "-o", "json", code=4)
    assert [
        (each["partition"], each["from_offset"], each["to_offset"])
        for each in json.loads(dry.stdout)["partitions"]
    ] == LOST_PLACES
    assert versions(deck, table) == before

    done = command(*words, "--replay", "--yes", "-o", "json")
    told = json.loads(done.stdout)
    assert [note["code"] for note in told["before"]["notes"]] == ["committed"]
    assert told["before"]["missing"] == told["replay"]["totals"]["written"] == 7
    assert told["replay"]["adds_up"]
    assert told["after"]["is_whole"]
    assert "0 missing, 0 duplicates of 60 offsets" in done.stderr
    after = versions(deck, table)
    assert sorted(after) == [*range(60)]
    assert {seq: after[seq] for seq in before} == before
    again = command(*words, "--replay", "--yes")
    assert "0 missing" in again.stderr
    assert versions(deck, table) == after


def test_nothing_outside_of_the_gaps_is_read_on_for(
    deck: Deck, laps: str, command: Command
) -> None:
    """A span by time reads on for late records; what closes a gap must not."""
    table = deck.table(PLACED)
    span = ("--from", str(T0_MS + 12_000), "--for", "6s")
    words = ("gaps", f"kafka:{laps}", f"postgres:{table}", *span)
    with small_slices(1):
        command(*words, "--replay", "--yes")
    assert sorted(versions(deck, table)) == [*range(12, 18)]


def test_a_yes_is_needed_to_replay(deck: Deck, laps: str, command: Command) -> None:
    table = deck.table(PLACED)
    with pytest.raises(Refused, match="needs a confirmation"):
        command("gaps", f"kafka:{laps}", f"postgres:{table}", "--replay")
    assert deck.rows(table) == []


def test_a_later_row_of_the_same_key_stays_and_is_said(deck: Deck, command: Command) -> None:
    """The record of offset 0 comes late: the row that a later record wrote is not replaced."""
    topic = deck.topic("states")
    kind = TimestampType.CREATE_TIME
    rows = [("a", 1), ("b", 2), ("a", 3)]
    deck.write(
        [
            Record(topic, 0, n, T0_MS + n, kind, None, json.dumps({"car": car, "v": v}).encode())
            for n, (car, v) in enumerate(rows)
        ]
    )
    table = deck.table(
        "car text PRIMARY KEY, v int, _timestamp timestamptz, _partition int, _offset bigint"
    )
    ran(deck.plan(f"kafka:{topic}", f"postgres:{table}", on_conflict="newer"))
    deck.sql(f"DELETE FROM {table} WHERE car = 'b'")
    words = ("gaps", f"kafka:{topic}", f"postgres:{table}")
    done = command(*words, "--replay", "--yes", "-o", "json", code=4)
    assert "--on-conflict newer, as replay" in done.stderr
    assert "rows of the same key hide them" in done.stderr
    assert deck.rows(table, "car, v", "ORDER BY 1") == [("a", 3), ("b", 2)]
    told = json.loads(done.stdout)
    assert (told["before"]["missing"], told["after"]["missing"]) == (2, 1)
    assert command(*words, "--key", "car").exit_code == 0


# --- by rows


@pytest.fixture
def unplaced(deck: Deck, laps: str) -> str:
    """A table that does not say where its rows come from, and lacks some."""
    table = deck.table(ROWS, "unplaced")
    ran(deck.plan(f"kafka:{laps}", f"postgres:{table}"))
    deck.sql(f"DELETE FROM {table} WHERE {LOST}")
    return table


def test_without_offsets_gaps_are_found_by_key(deck: Deck, laps: str, unplaced: str) -> None:
    found = look(deck, f"kafka:{laps}", f"postgres:{unplaced}", key=("seq",))
    assert (places(found), found.by) == (LOST_PLACES, "rows by seq")
    assert sum(each.count for each in found.found) == 7
    deck.sql(f"INSERT INTO {unplaced} (seq) VALUES (12), (13), (14), (15), (16), (17), (30)")
    assert look(deck, f"kafka:{laps}", f"postgres:{unplaced}", key=("seq",)).is_whole
    both = look(deck, f"kafka:{laps}", f"postgres:{unplaced}", key=("seq", "car"))
    assert places(both) == LOST_PLACES


def test_what_is_not_in_the_log_any_more_is_not_said_to_be_there_by_its_key(deck: Deck) -> None:
    topic, table = deck.laps(30), deck.table(ROWS)
    deck.sql(f"INSERT INTO {table} (seq) SELECT * FROM generate_series(10, 29)")
    deck.delete_before(topic, 0, 10)
    found = look(deck, f"kafka:{topic}", f"postgres:{table}", key=("seq",), span="0:0-30")
    assert [each.slice for each in found.of("expired")] == [Slice(topic, 0, 0, 10)]
    assert not found.of("missing")
    assert not found.is_whole
    [note] = [note for note in found.notes if note.code != "unkeyed"]
    assert note.text.startswith("10 of the offsets are no longer in the log")


def test_a_time_belongs_to_the_key_where_it_is_named(deck: Deck) -> None:
    topic = deck.topic("timed")
    kind = TimestampType.CREATE_TIME
    values = [{"car": "a", "ts": f"2021-08-04T12:30:0{n}Z"} for n in range(4)]
    deck.write(
        [
            Record(topic, 0, n, T0_MS + n, kind, None, json.dumps(value).encode())
            for n, value in enumerate(values)
        ]
    )
    table = deck.table("car text, ts timestamptz")
    deck.sql(f"INSERT INTO {table} VALUES ('a', '2021-08-04T14:30:01+02:00'), ('a', NULL)")
    by_car = look(deck, f"kafka:{topic}", f"postgres:{table}", by="key", key=("car",))
    assert by_car.is_whole
    ends = (f"kafka:{topic}", f"postgres:{table}")
    timed = look(deck, *ends, by="key", key=("car",), time_column="ts")
    assert places(timed) == [(0, 0, 1), (0, 2, 4)]


def states(deck: Deck, *values: dict[str, Any], partition: int = 0, topic: str = "") -> str:
    """A topic of states, of the same second unless they say another."""
    topic = topic or deck.topic("states", 2)
    deck.write(
        [
            Record(
                topic,
                partition,
                n,
                T0_MS + 1_000 * value.pop("at", 0),
                TimestampType.CREATE_TIME,
                None,
                json.dumps(value).encode(),
            )
            for n, value in enumerate(values)
        ]
    )
    return topic


STATES = (
    "id int PRIMARY KEY, v int, _topic text, _partition int, _offset bigint, _timestamp timestamptz"
)


@pytest.mark.parametrize("by", ["offsets", "key"])
def test_an_older_row_of_the_key_does_not_hide_a_later_record(deck: Deck, by: str) -> None:
    topic = states(deck, {"id": 1, "v": 1}, {"id": 1, "v": 2, "at": -5}, {"id": 2, "v": 3})
    table = deck.table(STATES)
    place = f"'{topic}', 0, {{}}, to_timestamp({T0_MS // 1000})"
    deck.sql(f"INSERT INTO {table} VALUES (1, 1, {place.format(0)}), (2, 3, {place.format(2)})")
    ends = (f"kafka:{topic}", f"postgres:{table}")
    found = look(deck, *ends, by=by, key=("id",))
    assert places(found) == [(0, 1, 2)]
    assert not found.is_whole
    # A rule by which the older row stays is said.
    for rule in ("ignore", "newer"):
        assert look(deck, *ends, by=by, key=("id",), on_conflict=rule).is_whole
    deck.sql(f"UPDATE {table} SET _timestamp = '2001-01-01' WHERE id = 1")
    assert not look(deck, *ends, by=by, key=("id",), on_conflict="newer").is_whole
    deck.sql(f"UPDATE {table} SET _offset = 7 WHERE id = 1")
    assert look(deck, *ends, by=by, key=("id",)).is_whole


def test_a_key_that_is_not_unique_in_the_table_is_noted(deck: Deck) -> None:
    topic = states(deck, {"id": 1, "v": 1}, {"id": 1, "v": 2}, {"id": 2, "v": 3})
    table = deck.table("id int, v int")
    deck.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 3)")
    ends = (f"kafka:{topic}", f"postgres:{table}")
    found = look(deck, *ends, by="key", key=("id",))
    assert found.is_whole
    [note] = [note for note in found.notes if note.code == "unkeyed"]
    assert "has no unique index over id: several records may have the same values" in note.text
    deck.sql(f"CREATE UNIQUE INDEX ON {table} (id)")
    for key in (("id",), ("v", "id")):
        codes = [note.code for note in look(deck, *ends, by="key", key=key).notes]
        assert "unkeyed" not in codes


def test_a_row_of_the_key_from_another_partition_is_accepted_and_noted(deck: Deck) -> None:
    topic = states(deck, {"id": 1, "v": 1}, {"id": 2, "v": 2})
    table = deck.table(STATES)
    deck.sql(f"INSERT INTO {table} VALUES (1, 1, '{topic}', 1, 0), (2, 2, NULL, NULL, NULL)")
    found = look(deck, f"kafka:{topic}", f"postgres:{table}", key=("id",))
    assert found.is_whole
    [note] = [note for note in found.notes if note.code == "elsewhere"]
    assert note.text.startswith("2 records have no row in ")


@pytest.mark.parametrize("columns", ["id int, v int", f"{STATES.replace(' PRIMARY KEY', '')}"])
def test_records_without_a_key_are_never_filled_twice(
    deck: Deck, command: Command, columns: str
) -> None:
    topic = states(deck, {"id": 0, "v": 0}, {"id": None, "v": 1}, {"v": 2}, {"id": 3, "v": 3})
    table = deck.table(columns)
    ends = (f"kafka:{topic}", f"postgres:{table}")
    ran(deck.plan(*ends))
    words = ("gaps", *ends, "--by", "key", "--key", "id", "--replay", "--yes")
    for _ in range(2):
        done = command(*words)
        assert "0 missing" in done.stderr
        is_looked_for = "_offset" in columns
        assert ("2 records of the span cannot be looked for" in done.stderr) != is_looked_for
        assert deck.rows(table, "v", "ORDER BY 1") == [(0,), (1,), (2,), (3,)]
    if is_looked_for:
        deck.sql(f"DELETE FROM {table} WHERE v = 2")
        assert places(look(deck, *ends, by="key", key=("id",))) == [(0, 2, 3)]
        assert places(look(deck, *ends, key=("id",))) == [(0, 2, 3)]


def test_gaps_that_were_found_by_key_are_closed(
    deck: Deck, laps: str, unplaced: str, command: Command
) -> None:
    words = ("gaps", f"kafka:{laps}", f"postgres:{unplaced}", "--key", "seq", "--by", "key")
    command(*words, "--replay", "--yes")
    assert sorted(deck.rows(unplaced, "seq")) == [(n,) for n in range(60)]


def test_tombstones_and_unreadable_records_are_no_rows_and_no_gaps(deck: Deck) -> None:
    topic = deck.topic("odd")
    kind = TimestampType.CREATE_TIME
    values = [b'{"seq": 1}', None, b"no JSON", b'{"seq": "no number"}', b'{"seq": 5}']
    deck.write([Record(topic, 0, n, T0_MS, kind, b"k", each) for n, each in enumerate(values)])
    table = deck.table("seq int")
    found = look(deck, f"kafka:{topic}", f"postgres:{table}", key=("seq",))
    assert places(found) == [(0, 0, 1), (0, 4, 5)]
    [note] = [note for note in found.notes if note.code != "unkeyed"]
    assert note.text.startswith("3 records of the span cannot be looked for")


def test_a_table_is_not_called_whole_if_no_record_could_be_looked_for(deck: Deck) -> None:
    topic = states(deck, {"orderId": 1, "v; x": 1}, {"orderId": 2})
    table = deck.table("id int, v int")
    ends = (f"kafka:{topic}", f"postgres:{table}")
    with pytest.raises(NothingLookedFor, match=r"none of the 2 records .* by id: ") as caught:
        look(deck, *ends, by="key", key=("id",))
    hint = "fields of the first records: orderId; --select gives fields the names of columns: "
    assert caught.value.hint == f"{hint}--select 'value:orderId AS id'"
    with pytest.raises(NothingLookedFor) as caught:
        look(deck, *ends, by="key", key=("id",), select="value:orderid AS id")
    assert "--select makes" in (caught.value.hint or "")
    found = look(deck, *ends, by="key", key=("id",), select="value:orderId AS id")
    assert places(found) == [(0, 0, 2)]


def test_tombstones_alone_leave_a_table_whole(deck: Deck) -> None:
    topic = deck.topic("gone")
    kind = TimestampType.CREATE_TIME
    deck.write([Record(topic, 0, n, T0_MS, kind, b"k", None) for n in range(2)])
    found = look(deck, f"kafka:{topic}", f"postgres:{deck.table('id int')}", by="key", key=("id",))
    assert found.is_whole
    assert [note.code for note in found.notes] == ["unkeyed", "unlike"]


def test_tombstones_that_a_table_skips_are_no_gaps_by_offsets(deck: Deck) -> None:
    topic, kind = deck.topic("skipped"), TimestampType.CREATE_TIME
    values = [b'{"seq": 0}', None, b'{"seq": 2}', None, None, b"no JSON", b'{"seq": 6}']
    deck.write([Record(topic, 0, n, T0_MS, kind, b"k", each) for n, each in enumerate(values)])
    table = deck.table(PLACED)
    ends = (f"kafka:{topic}", f"postgres:{table}")
    ran(deck.plan(*ends, span=f"{topic}:0:0-5", tombstones="skip"))
    # Of what is missing, only the records that a row stands for are gaps; one that cannot be read stays one.
    found = look(deck, *ends, tombstones="skip")
    assert places(found) == [(0, 5, 7)]
    assert [note.text for note in found.notes if note.code == "tombstones"] == [
        "3 missing records are tombstones, which have no row by --tombstones skip: no gaps"
    ]
    for rule in (None, "null"):
        again = look(deck, *ends, tombstones=rule)
        assert places(again) == [(0, 1, 2), (0, 3, 7)]
        [committed] = [note.text for note in again.notes if note.code == "committed"]
        assert "3 records of their slices are tombstones, which it skipped" in committed


def test_columns_that_are_not_there_are_refused(deck: Deck, laps: str, unplaced: str) -> None:
    with pytest.raises(PlayheadError, match="lap cannot identify rows"):
        look(deck, f"kafka:{laps}", f"postgres:{unplaced}", key=("lap",))


def test_what_a_transform_leaves_out_is_no_gap(deck: Deck, laps: str) -> None:
    table = deck.table(PLACED)
    ends = (f"kafka:{laps}", f"postgres:{table}")
    where = "value:seq::int >= 30"
    ran(deck.plan(*ends, where=where))
    assert len(places(look(deck, *ends))) == 3
    assert look(deck, *ends, where=where).is_whole
    deck.sql(f"DELETE FROM {table} WHERE seq IN (33, 36)")
    found = look(deck, *ends, where=where)
    assert (places(found), [each.records for each in found.found]) == ([(0, 11, 13)], [2])


# --- by a ledger


def test_a_copy_of_a_span_by_time_lacks_what_was_read_beside_it(
    deck: Deck, laps: str, command: Command
) -> None:
    """Ten laps were copied, and up to the end of the log read: all others counted as copied."""
    ends = (f"kafka:{laps}", f"kafka:{deck.topic('copy', 3)}")
    with small_slices(7):
        ran(deck.plan(*ends, span=f"{T0_MS + 20_000}..{T0_MS + 30_000}"))
    assert sum(each.count for each in look(deck, *ends).of("missing")) == 50
    command("gaps", *ends, "--replay", "--yes", "-o", "json")
    assert look(deck, *ends).is_whole
    copied = [json.loads(each.value or b"")["seq"] for each in deck.records(ends[1][6:])]
    assert sorted(copied) == [*range(60)]


def test_what_another_filter_left_out_of_a_copy_is_undecided(deck: Deck, laps: str) -> None:
    ends, where = (f"kafka:{laps}", f"kafka:{deck.topic('copy', 3)}"), "value:car = 'car-1'"
    ran(deck.plan(*ends, where=where))
    found = look(deck, *ends)
    assert (found.undecided, found.is_whole) == (48, False)
    assert found.verdict().endswith("; 48 may be missing (undecided)")
    assert look(deck, *ends, where=where).is_whole


def test_a_copy_of_a_topic_is_known_by_the_ledger_of_its_runs(deck: Deck, laps: str) -> None:
    copy = deck.topic("copy", 3)
    ends = (f"kafka:{laps}", f"kafka:{copy}")
    with pytest.raises(
        Refused, match="no replay or pipeline of .* is in the ledger of its cluster"
    ):
        look(deck, *ends)
    planned = deck.plan(*ends, span="0:0-20,1:0-7,1:9-20")
    ran(planned)
    found = look(deck, *ends)
    assert (places(found), found.by) == (
        [(1, 7, 9), (2, 0, 20)],
        f"the ledger of {planned.plan.replay_id}",
    )
    assert found.notes[0].code == "only-ledger"
    named = look(deck, *ends, by="ledger", ledgers=(planned.plan.replay_id,))
    assert places(named) == places(found)
    ran(deck.plan(*ends, span="1:7-9,2:0-20"))
    assert look(deck, *ends).is_whole


def test_an_archive_knows_what_it_has(
    deck: Deck, laps: str, command: Command, tmp_path: Path
) -> None:
    ends = (f"kafka:{laps}", f"parquet:{tmp_path}/archive")
    ran(deck.plan(*ends, span="0:0-20,1:0-7,1:9-20"))
    assert places(look(deck, *ends)) == [(1, 7, 9), (2, 0, 20)]
    command("gaps", *ends, "--replay", "--yes")
    assert look(deck, *ends).is_whole
    assert deck.plan(*ends).compare().agrees


def test_a_span_by_time_that_an_open_transaction_cuts_is_never_called_whole(
    deck: Deck, command: Command
) -> None:
    from tests.sandbox.kafka_log import Log

    topic, table = deck.topic("cut"), deck.table(PLACED)
    log = Log(deck.connection, topic)
    rows = [(T0_MS + 1_000 * n, b"k", b'{"car": "a", "seq": %d}' % n, ()) for n in range(30)]
    log.commit(0, *rows[:10])
    holding = log.leave_open(0, rows[10])
    deck.write(
        Record(topic, 0, 0, time_ms, TimestampType.CREATE_TIME, key, value)
        for time_ms, key, value, _ in rows[11:]
    )
    end = f"postgres:{table}"
    span = ("--from", str(T0_MS), "--for", "30s")
    try:
        done = command("replay", f"kafka:{topic}", end, *span, "--yes")
        assert "proved: 11 offsets = 10 written + 1 absent" in done.stderr
        assert "NOT the whole span: 20 offsets behind an open transaction" in done.stderr
        found = json.loads(
            command("gaps", f"kafka:{topic}", end, *span, "-o", "json", code=4).stdout
        )
        assert (found["is_whole"], found["missing"], found["unstable"]) == (False, 0, 20)
        assert [(each["from_offset"], each["to_offset"]) for each in found["gaps"]] == [(11, 31)]
        compared = command("verify", f"kafka:{topic}", end, *span, code=4)
        assert "CANNOT BE TOLD: 10 records read back, 0 differences" in compared.stderr
    finally:
        holding.abort_transaction(30)
    found = json.loads(command("gaps", f"kafka:{topic}", end, *span, "-o", "json", code=4).stdout)
    assert (found["missing"], found["unstable"]) == (19, 0)


def test_a_topic_that_was_deleted_and_created_again_is_not_the_one_in_the_table(
    deck: Deck, command: Command
) -> None:
    values = [{"id": n, "v": n} for n in range(10)]
    topic = states(deck, *values, topic=deck.topic("again"))
    table = deck.table(f"{STATES.replace(' PRIMARY KEY', '')}, PRIMARY KEY (_partition, _offset)")
    ends = (f"kafka:{topic}", f"postgres:{table}")
    ran(deck.plan(*ends, on_conflict="ignore"))
    assert look(deck, *ends).is_whole
    command("topics", "delete", topic, "--yes")
    command("topics", "create", topic, "--partitions", "1")
    states(deck, *({"id": 100 + n, "v": n} for n in range(10)), topic=topic)
    done = command("gaps", *ends, "-o", "json", code=4)
    found = json.loads(done.stdout)
    assert (found["missing"], found["doubtful"], found["is_whole"]) == (0, 10, False)
    assert [note["code"] for note in found["notes"]] == ["other-topic"]
    # Its records are left alone, because the place of each is taken.
    ran(deck.plan(*ends, on_conflict="ignore"))
    assert look(deck, *ends).doubtful == 10
    assert len(places(look(deck, *ends, by="key", key=("id",)))) == 1
    by_key = look(deck, *ends, by="key", key=("v",))
    assert (places(by_key), by_key.doubtful, by_key.is_whole) == ([], 10, False)
    deck.sql(f"TRUNCATE {table}")
    ran(deck.plan(*ends, on_conflict="ignore"))
    assert look(deck, *ends).is_whole


def test_rows_of_another_topic_in_a_table_without_a_column_for_it_are_not_those_of_this_one(
    deck: Deck,
) -> None:
    values = [{"id": n, "v": n} for n in range(10)]
    theirs, ours = (states(deck, *values, topic=deck.topic(name)) for name in ("theirs", "ours"))
    table = deck.table("id int, v int, _partition int, _offset bigint")
    ran(deck.plan(f"kafka:{theirs}", f"postgres:{table}"))
    found = look(deck, f"kafka:{ours}", f"postgres:{table}")
    assert (places(found), found.doubtful, found.is_whole) == ([], 10, False)
    assert [note.code for note in found.notes] == ["other-topic", "untold"]
    assert look(deck, f"kafka:{theirs}", f"postgres:{table}").is_whole


def test_records_that_the_log_has_replaced_are_not_in_the_target(
    deck: Deck, laps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = deck.table(PLACED)
    ends = (f"kafka:{laps}", f"postgres:{table}")
    planned = deck.plan(*ends)
    ran(planned)
    ledger: dict[str, Any] = {"by": "ledger", "ledgers": (planned.plan.replay_id,)}
    for way in ({}, ledger):
        assert look(deck, *ends, **way).is_whole
    # As after an unclean election of the leader of partition 1, and 12 of its 20 records are others.
    monkeypatch.setattr(KafkaSource, "ends_of_epochs", lambda *_: {(laps, 1): 8})
    for way in ({}, ledger):
        found = look(deck, *ends, **way)
        assert (places(found), found.lost, found.is_whole) == ([], 12, False)
