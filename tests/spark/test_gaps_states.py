"""Gaps of tables whose rows are states: the last record of a key, or no row after its tombstone."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from playhead.cli.app import app
from playhead.errors import PlayheadError, Refused
from playhead.gaps.gap import Gaps
from playhead.gaps.search import GapFinder, GapQuery
from playhead.gaps.written_by import OtherRule
from playhead.record import Record, TimestampType
from playhead.request import Request
from tests.fix_replay import T0_MS, Deck, ran

PLACED = "car text PRIMARY KEY, v int, _partition int, _offset bigint"
TIMED = f"{PLACED}, _timestamp timestamptz"
BARE = "car text PRIMARY KEY, v int"
# Of a the last one, of b none, and c again after its tombstone.
STATES = [("a", 0), ("b", 1), ("a", 2), ("b", None), ("c", 4), ("c", None), ("c", 6), ("a", 7)]
KEPT = [("a", 7), ("c", 6)]
DELETED = "1 records without a row were deleted by a later tombstone of their key: no gaps"


def wrote(
    deck: Deck,
    topic: str,
    states: Sequence[tuple[object, int | None]],
    places: Sequence[tuple[int, int]] = (),
) -> None:
    """Write states in order; `places` are the partition and the milliseconds of each."""
    kind, ends = TimestampType.CREATE_TIME, dict[int, int]()
    records = []
    for n, (car, v) in enumerate(states):
        partition, at_ms = places[n] if places else (0, n)
        offset = ends[partition] = ends.get(partition, -1) + 1
        key = json.dumps({"car": car}).encode()
        value = None if v is None else json.dumps({"car": car, "v": v}).encode()
        records.append(Record(topic, partition, offset, T0_MS + at_ms, kind, key, value))
    deck.write(records)


def look(deck: Deck, topic: str, table: str, *, by: str | None = None, **more: object) -> Gaps:
    asked = Request(source=f"kafka:{topic}", target=f"postgres:{table}", **more)  # type: ignore[arg-type]
    return GapFinder(GapQuery(asked, by=by), deck.configuration()).find()


def fill(deck: Deck, topic: str, table: str, *words: str, code: int = 0) -> str:
    ends = (f"kafka:{topic}", f"postgres:{table}", "--replay", "--yes", *words)
    done = CliRunner().invoke(app, ["gaps", *ends], env=deck.environment())
    if isinstance(done.exception, PlayheadError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stderr


def offsets(found: Gaps) -> list[int]:
    return [n for each in found.missing_slices() for n in range(each.from_offset, each.to_offset)]


@pytest.mark.parametrize(
    ("columns", "rule", "by"),
    [
        (TIMED, "newer", None),
        (TIMED, "update", None),
        (PLACED, "update", None),
        (BARE, "update", "key"),
    ],
)
def test_deleted_rows_are_no_gaps_and_do_not_come_back(
    deck: Deck, columns: str, rule: str, by: str | None
) -> None:
    topic, table = deck.topic("states"), deck.table(columns)
    wrote(deck, topic, STATES)
    ran(
        deck.plan(
            f"kafka:{topic}",
            f"postgres:{table}",
            key=("car",),
            on_conflict=rule,
            tombstones="delete",
        )
    )
    assert sorted(deck.rows(table, "car, v")) == KEPT
    for said in ({}, {"on_conflict": rule, "tombstones": "delete"}):
        found = look(deck, topic, table, by=by, key=("car",), **said)
        assert found.is_whole, found.verdict()
        assert [each.text for each in found.notes if each.code == "deleted-later"] == [DELETED]
    deck.sql(f"DELETE FROM {table} WHERE car = 'a'")
    assert offsets(look(deck, topic, table, by=by, key=("car",))) == [0, 2, 7]
    fill(deck, topic, table, "--key", "car", *(("--by", by) if by else ()))
    assert sorted(deck.rows(table, "car, v")) == KEPT


@pytest.mark.parametrize(
    ("kind", "written", "deleted"),
    [
        ("numeric", 1.5, "1.500"),
        ("char(5)", "a", "a  "),
        ("float8", 0, "-0"),
        ("bit(3)", "101", "101"),
        ("int[]", "{1,2}", "{1, 2}"),
        ('text COLLATE "C"', "a", "a"),
    ],
)
def test_a_tombstone_has_the_key_of_a_record_that_looks_different(
    deck: Deck, kind: str, written: object, deleted: object
) -> None:
    topic, table = deck.topic("states"), deck.table(TIMED.replace("car text", f"car {kind}"))
    wrote(deck, topic, [(written, 0), (deleted, None)])
    rules = {"key": ("car",), "on_conflict": "newer", "tombstones": "delete"}
    ran(deck.plan(f"kafka:{topic}", f"postgres:{table}", **rules))
    assert not deck.rows(table, "v")
    assert look(deck, topic, table, **rules).is_whole


def test_without_the_key_deleted_rows_are_still_no_gaps(deck: Deck) -> None:
    topic, table = deck.topic("states"), deck.table(TIMED)
    wrote(deck, topic, STATES)
    ends = (f"kafka:{topic}", f"postgres:{table}")
    ran(deck.plan(*ends, key=("car",), on_conflict="newer", tombstones="delete"))
    assert look(deck, topic, table).is_whole


def test_the_last_of_several_missing_records_of_a_key_is_written_and_not_the_first(
    deck: Deck,
) -> None:
    """Of a table that another program writes, nothing says which record of a key stays."""
    topic, table = deck.topic("states"), deck.table(BARE)
    wrote(deck, topic, [("a", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 4)])
    deck.sql(f"INSERT INTO {table} VALUES ('b', 3)")
    told = fill(deck, topic, table, "--key", "car", "--by", "key")
    assert "of the records with the same key, only the last one is replayed: 1 offsets" in told
    assert sorted(deck.rows(table, "car, v")) == [("a", 4), ("b", 3)]


def test_under_update_an_old_row_is_replaced_and_a_later_one_is_not(deck: Deck) -> None:
    topic, table = deck.topic("states"), deck.table(PLACED)
    wrote(deck, topic, [("a", 0), ("b", 1), ("a", 2), ("b", 3), ("c", 4), ("c", 5)])
    ran(deck.plan(f"kafka:{topic}", f"postgres:{table}", key=("car",), on_conflict="update"))
    deck.sql(f"UPDATE {table} SET v = 0, _offset = 0 WHERE car = 'a'")
    deck.sql(f"UPDATE {table} SET v = 99, _offset = 99 WHERE car = 'b'")
    deck.sql(f"DELETE FROM {table} WHERE car = 'c'")
    told = fill(deck, topic, table, "--key", "car")
    assert "--on-conflict newer --version-column _offset, so that no later row is replaced" in told
    assert sorted(deck.rows(table, "car, v")) == [("a", 2), ("b", 99), ("c", 5)]


def test_a_tombstone_after_the_span_counts_once_it_was_committed(deck: Deck) -> None:
    """Before that, the row should be there by the ledger; but another program may have deleted it."""
    topic, table = deck.topic("states"), deck.table(TIMED)
    wrote(deck, topic, [("a", 0), ("b", 1), ("a", None)])
    ends, rules = (
        (f"kafka:{topic}", f"postgres:{table}"),
        {"key": ("car",), "on_conflict": "newer", "tombstones": "delete"},
    )
    ran(deck.plan(*ends, span=f"{T0_MS}..{T0_MS + 2}", lateness_ms=0, **rules))
    assert sorted(deck.rows(table, "car, v")) == [("a", 0), ("b", 1)]
    deck.sql(f"DELETE FROM {table}")
    found = look(deck, topic, table, span=f"{topic}:0:0-2", **rules)
    assert offsets(found) == [0, 1]
    assert [each.code for each in found.notes if "deleted" in each.code] == ["maybe-deleted"]
    fill(deck, topic, table, "--offsets", f"{topic}:0:0-2", "--key", "car", code=4)
    assert sorted(deck.rows(table, "car, v")) == [("b", 1)]
    with pytest.raises(Refused, match="nothing is left to replay"):
        fill(deck, topic, table, "--offsets", f"{topic}:0:0-2", "--key", "car")
    ran(deck.plan(*ends, **rules))
    assert look(deck, topic, table, span=f"{topic}:0:0-2", **rules).is_whole


def test_rows_that_another_program_deleted_stay_away_also_after_a_fill(deck: Deck) -> None:
    """The ledger then knows the replay that filled, which is not what writes the table."""
    topic, table = deck.topic("states"), deck.table(TIMED)
    wrote(deck, topic, [("a", 0), ("b", 1), ("c", 2), ("a", None)])
    words = ("--offsets", f"{topic}:0:0-3", "--key", "car", "--tombstones", "delete")
    for _ in range(2):
        fill(deck, topic, table, *words)
        assert sorted(deck.rows(table, "car, v")) == [("b", 1), ("c", 2)]
        deck.sql(f"DELETE FROM {table} WHERE car = 'b'")


def test_another_rule_than_that_of_the_table_is_refused(deck: Deck) -> None:
    topic, table = deck.topic("states"), deck.table(TIMED)
    wrote(deck, topic, STATES)
    ends = (f"kafka:{topic}", f"postgres:{table}")
    ran(deck.plan(*ends, key=("car",), on_conflict="newer", tombstones="delete"))
    deck.sql(f"DELETE FROM {table}")
    words = ["gaps", *ends, "--key", "car", "--replay", "--yes", "--on-conflict", "ignore"]
    done = CliRunner().invoke(app, words, env=deck.environment())
    assert isinstance(done.exception, OtherRule)
    assert "wrote most rows of this table with --on-conflict newer" in str(done.exception)
    assert not deck.rows(table, "car")


NEWER: dict[str, Any] = {"key": ("car",), "on_conflict": "newer"}


@pytest.mark.parametrize("columns", [TIMED, f"{BARE}, _timestamp timestamptz"])
def test_where_the_time_decides_rows_of_another_partition_are_compared_too(
    deck: Deck, columns: str
) -> None:
    """More partitions move keys: an earlier row of another partition is no sign of a later record."""
    topic, table = deck.topic("states", 2), deck.table(columns)
    states, places = [("a", 0), ("a", 1), ("b", 2), ("b", 3)], [(0, 0), (1, 10), (0, 20), (1, 5)]
    wrote(deck, topic, states, places)
    ends, by = (f"kafka:{topic}", f"postgres:{table}"), None if columns == TIMED else "key"
    ran(deck.plan(*ends, tombstones="skip", **NEWER))
    assert sorted(deck.rows(table, "car, v")) == KEPT_APART
    assert look(deck, topic, table, by=by, key=("car",)).is_whole
    deck.sql(f"DELETE FROM {table} WHERE car = 'a'")
    ran(deck.plan(*ends, span=f"{topic}:0:0-1", tombstones="skip", **NEWER))
    found = look(deck, topic, table, by=by, key=("car",))
    assert [(each.partition, each.from_offset) for each in found.missing_slices()] == [(1, 0)]
    assert not [each for each in found.notes if each.code == "elsewhere"]
    fill(deck, topic, table, "--key", "car", *(("--by", by) if by else ()))
    assert sorted(deck.rows(table, "car, v")) == KEPT_APART


KEPT_APART = [("a", 1), ("b", 2)]


def test_where_no_rule_is_known_the_time_decides_for_rows_of_another_partition(deck: Deck) -> None:
    """Of one partition, the later record stays, whatever its time is."""
    topic, table = deck.topic("states", 2), deck.table(TIMED)
    states = [("a", 0), ("a", 1), ("b", 2), ("b", 3), ("c", 4), ("c", 5)]
    wrote(deck, topic, states, [(0, 0), (1, 10), (0, 20), (1, 5), (0, 9), (0, 8)])
    deck.sql(
        f"INSERT INTO {table} SELECT car, v, 0, o, to_timestamp(({T0_MS} + at) / 1000.0) FROM "
        "(VALUES ('a', 0, 0, 0), ('b', 2, 1, 20), ('c', 5, 3, 8)) x (car, v, o, at)"
    )
    fill(deck, topic, table, "--key", "car")
    assert sorted(deck.rows(table, "car, v")) == [*KEPT_APART, ("c", 5)]


def test_a_row_without_a_time_does_not_tell_whether_it_is_older(deck: Deck) -> None:
    topic, table = deck.topic("states"), deck.table(TIMED)
    wrote(deck, topic, [("a", 0), ("b", 1)])
    deck.sql(f"INSERT INTO {table} VALUES ('a', 5)")
    found = look(deck, topic, table, tombstones="skip", **NEWER)
    assert offsets(found) == [1]
    assert [each.code for each in found.notes if each.code == "elsewhere"] == ["elsewhere"]


def test_where_the_time_decides_a_tombstone_counts_wherever_it_is_in_the_log(deck: Deck) -> None:
    """Clocks that disagree: the tombstone is before the record, or in another partition, but later by its time."""
    topic, table = deck.topic("states", 2), deck.table(TIMED)
    states = [("a", None), ("a", 1), ("b", 2), ("b", None), ("c", None), ("c", 5)]
    wrote(deck, topic, states, [(0, 50), (0, 10), (0, 20), (1, 30), (0, 1), (0, 40)])
    rules = {"tombstones": "delete", **NEWER}
    ends = (f"kafka:{topic}", f"postgres:{table}")
    ran(deck.plan(*ends, **rules))
    assert sorted(deck.rows(table, "car, v")) == [("c", 5)]
    for first, last in ((1, 2), (2, 3)):
        assert look(deck, topic, table, span=f"{topic}:0:{first}-{last}", **rules).is_whole
    deck.sql(f"DELETE FROM {table}")
    fill(deck, topic, table, "--key", "car", "--offsets", f"{topic}:0:1-5")
    assert sorted(deck.rows(table, "car, v")) == [("c", 5)]


def test_a_tombstone_of_another_table_excuses_no_record(deck: Deck) -> None:
    topics = [deck.topic("states"), deck.topic("states")]
    for topic in topics:
        deck.table(TIMED, topic)
    wrote(deck, topics[0], [("a", 0)])
    wrote(deck, topics[1], [("a", 5), ("a", None)], [(0, 5), (0, 6)])
    source, target = f"kafka:/{'|'.join(topics)}/", f"postgres:{deck.schema}.{{topic}}"
    ran(deck.plan(source, target, tombstones="delete", **NEWER))
    deck.sql(f'DELETE FROM {deck.schema}."{topics[0]}"')
    asked = Request(source=source, target=target, tombstones="delete", **NEWER)
    found = GapFinder(GapQuery(asked), deck.configuration()).find()
    assert [each.topic for each in found.missing_slices()] == [topics[0]]


@pytest.mark.parametrize("rule", [None, "newer"])
def test_while_nothing_says_whether_tombstones_delete_their_records_are_not_written(
    deck: Deck, rule: str | None
) -> None:
    """Another program, or replays of named offsets, wrote the table."""
    topic, table = deck.topic("states"), deck.table(TIMED)
    wrote(deck, topic, STATES)
    deck.sql(f"INSERT INTO {table} VALUES ('c', 6, 0, 6, to_timestamp({T0_MS + 6} / 1000.0))")
    words = ("--key", "car", *(("--on-conflict", rule) if rule else ()))
    told = fill(deck, topic, table, *words, code=4)
    assert "nothing says whether it deleted their rows: --replay leaves them out" in told
    assert sorted(deck.rows(table, "car, v")) == KEPT
    with pytest.raises(Refused, match="nothing is left to replay") as refused:
        fill(deck, topic, table, *words)
    assert "--tombstones" in str(refused.value.hint)
    fill(deck, topic, table, *words, "--tombstones", "delete")
    assert sorted(deck.rows(table, "car, v")) == KEPT
    fill(deck, topic, table, *words, "--tombstones", "skip")
    assert sorted(deck.rows(table, "car, v")) == [("a", 7), ("b", 1), ("c", 6)]


def test_of_two_topics_in_one_table_the_later_topic_decides_at_one_time(deck: Deck) -> None:
    """As merges decide it: by time, then by topic, partition and offset."""
    columns = f"{PLACED}, _topic text, _timestamp timestamptz"
    topics, table = sorted([deck.topic("states"), deck.topic("states")]), deck.table(columns)
    wrote(deck, topics[0], [("x", 0), ("a", 1)], [(0, 0), (0, 50)])
    wrote(deck, topics[1], [("a", 2)], [(0, 50)])
    source, target = f"kafka:/{'|'.join(topics)}/", f"postgres:{table}"
    rules = {"tombstones": "skip", **NEWER}
    ran(deck.plan(source, target, **rules))
    assert sorted(deck.rows(table, "car, v")) == [("a", 2), ("x", 0)]
    asked = Request(source=source, target=target, **rules)
    search = GapFinder(GapQuery(asked), deck.configuration())
    assert search.find().is_whole
    deck.sql(f"UPDATE {table} SET v = 1, _topic = '{topics[0]}', _offset = 1 WHERE car = 'a'")
    assert [each.topic for each in search.find().missing_slices()] == [topics[1]]


def test_where_a_replay_let_the_first_row_stay_a_row_of_another_partition_counts(
    deck: Deck,
) -> None:
    """A producer's retry in another partition: it would not be written."""
    topic, table = deck.topic("states", 2), deck.table(TIMED)
    wrote(deck, topic, [("a", 0), ("a", 0)], [(0, 0), (1, 10)])
    rules = {"key": ("car",), "tombstones": "skip"}
    ran(deck.plan(f"kafka:{topic}", f"postgres:{table}", on_conflict="ignore", **rules))
    if deck.rows(table, "_partition") != [(0,)]:
        deck.sql(f"UPDATE {table} SET _partition = 0, _timestamp = to_timestamp({T0_MS} / 1000.0)")
    found = look(deck, topic, table, **rules)
    assert found.is_whole
    assert [each.code for each in found.notes if each.code == "elsewhere"] == ["elsewhere"]


def test_where_no_rule_is_known_a_tombstone_of_another_partition_keeps_its_record_back(
    deck: Deck,
) -> None:
    topic, table = deck.topic("states", 2), deck.table(TIMED)
    wrote(deck, topic, [("b", 1), ("b", None), ("c", 2)], [(0, 10), (1, 30), (0, 40)])
    deck.sql(f"INSERT INTO {table} VALUES ('c', 2, 0, 1, to_timestamp(({T0_MS} + 40) / 1000.0))")
    with pytest.raises(Refused, match="nothing is left to replay"):
        fill(deck, topic, table, "--key", "car")
    assert sorted(deck.rows(table, "car, v")) == [("c", 2)]
