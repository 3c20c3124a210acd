"""No replay is proved over rows that lack values without a word of it: tables, plans and proofs, on real servers."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from playhead.endpoint import Endpoint
from playhead.errors import PlayheadError, Refused
from playhead.extra_fields import ExtraFields
from playhead.record import Record, TimestampType
from playhead.replay import api
from tests.fix_replay import T0_MS, Deck, ran, small_slices, totals

COLUMNS = "seq int, car text, _partition int, _offset bigint"


def tape(deck: Deck, values: Sequence[Any], partitions: int = 1) -> str:
    """A topic of these values; what is no bytes is written as JSON."""
    topic = deck.topic("vanish", partitions)
    deck.write(
        [
            Record(
                topic, n % partitions, n // partitions, T0_MS + n, TimestampType.CREATE_TIME, b"k",
                value if isinstance(value, bytes) else json.dumps(value).encode(), (),
            )
            for n, value in enumerate(values)
        ]
    )  # fmt: skip
    return topic


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (_partition, _offset)"])
def test_fields_without_a_column_are_counted_by_proof_and_verify(
    deck: Deck, laps: str, key: str
) -> None:
    """Slice by slice; another machine, which has but the ledger, proves the same."""
    table = deck.table(COLUMNS + key)
    planned = deck.plan(f"kafka:{laps}", f"postgres:{table}", on_conflict="ignore" if key else None)
    assert any("speed in " in note.text for note in planned.plan.notes)
    with small_slices(7):
        proof = ran(planned)
    assert proof.extra_fields == {laps: ExtraFields(60, {"speed": 60})}
    assert proof.verdict().endswith("; 60 records have fields that no column takes")
    again = api.resumed(
        planned.plan.replay_id, Endpoint.parse(f"postgres:{table}"), deck.configuration()
    )
    assert ran(again).extra_fields == proof.extra_fields
    found = planned.verify()
    assert found.agrees
    assert found.extra_fields == proof.extra_fields
    assert "0 differences; 60 records have fields that no column takes" in found.verdict()


def test_rows_that_meet_others_are_counted_as_those_that_do_not(deck: Deck) -> None:
    """The stage, the direct way, and both in one slice."""
    values = [{"seq": n, "speed": 1} for n in range(20)] + [{"seq": 20, "CAR": "a", "lap": None}]
    topic = tape(deck, [*values, {"seq": 21, "car": 7, "x": {"y": 1}}])
    table = deck.table("seq int PRIMARY KEY, car text")
    wanted = {topic: ExtraFields(21, {"speed": 20, "x": 1})}
    for rule in ("ignore", "update"):
        deck.sql(f"DELETE FROM {table} WHERE seq > 3")
        asked = {"key": ("seq",), "on_conflict": rule}
        assert deck.play(f"kafka:{topic}", f"postgres:{table}", **asked).extra_fields == wanted


def test_fail_refuses_them_and_a_column_keeps_them(deck: Deck) -> None:
    topic = tape(deck, [{"seq": 0, "car": "a"}, {"seq": 1, "speed": 2, "lap": [1]}, {"seq": 2}])
    table = deck.table(f"{COLUMNS}, rest jsonb")
    source, target = f"kafka:{topic}", f"postgres:{table}"
    with pytest.raises(PlayheadError, match="no column takes 'lap', 'speed'"):
        deck.plan(source, target, extra_fields="fail").run()
    deck.sql(f"TRUNCATE {table}")
    skipping = deck.play(source, target, extra_fields="fail", on_error="skip")
    assert (totals(skipping), skipping.extra_fields) == ({"written": 2, "skipped": 1}, {})
    deck.sql(f"TRUNCATE {table}")
    planned = deck.plan(source, target, extra_fields="rest")
    assert (ran(planned).extra_fields, planned.verify().agrees) == ({}, True)
    assert deck.rows(table, "rest", "ORDER BY seq") == [
        (None,),
        ({"speed": 2, "lap": [1]},),
        (None,),
    ]


# --- a table that is made


def made(deck: Deck, source: str, name: str, **asked: Any) -> tuple[Any, set[str]]:
    """The proof of a replay into a new table, and the columns that were made for values."""
    table = f"{deck.schema}.{name}"
    proof = deck.play(f"kafka:{source}", f"postgres:{table}", create=True, **asked)
    columns = deck.sql(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
        deck.schema,
        name,
    )
    return proof, {column for (column,) in columns if not column.startswith("_")}


def test_a_field_that_only_the_middle_has_gets_its_column(deck: Deck) -> None:
    """And one that only the last partition has; behind a filter that keeps nothing of the start."""
    values = [{"seq": n} | ({"speed": n} if 2_900 < n < 3_100 else {}) for n in range(6_000)]
    values[5_990] = {"seq": 5_990, "pit": True}
    topic = tape(deck, values, 3)
    proof, columns = made(deck, topic, "all_of_it")
    assert (columns, proof.extra_fields) == ({"seq", "speed", "pit"}, {})
    proof, columns = made(deck, topic, "filtered", where="value:seq > 2950 AND value:seq < 3050")
    assert (columns, proof.extra_fields) == ({"seq", "speed"}, {})


def test_a_table_without_a_column_for_values_is_not_made(deck: Deck) -> None:
    topic = tape(deck, [{"seq": 0}, {"seq": 1}])
    source, target = f"kafka:{topic}", f"postgres:{deck.schema}.none"
    span = f"{T0_MS + 10_000}..{T0_MS + 20_000}"
    with pytest.raises(
        Refused, match="no record of .* was found from which columns could be inferred"
    ):
        deck.plan(source, target, create=True, span=span, lateness_ms=0)
    with pytest.raises(Refused, match="no record of .* was found"):
        deck.plan(source, target, create=True, where="value:seq > 5")
    texts = tape(deck, [b"lap 1", b"lap 2"])
    with pytest.raises(
        Refused, match="2 of 2 sampled values are not JSON objects; the first"
    ) as caught:
        deck.plan(f"kafka:{texts}", target, create=True)
    assert "--decode string" in (caught.value.hint or "")
    with pytest.raises(Refused, match="there is no schema nowhere"):
        deck.plan(source, "postgres:nowhere.laps", create=True)
    _, columns = made(deck, texts, "whole", decode="string")
    assert columns == {"value"}


def test_the_plan_of_a_new_table_tells_which_values_are_not_json(deck: Deck) -> None:
    mixed = tape(deck, [{"seq": 0}, b"lap 1", {"seq": 2}])
    plan = deck.plan(f"kafka:{mixed}", f"postgres:{deck.schema}.mixed", create=True).plan
    told = [note.text for note in plan.notes if note.code == "target-values-not-json"]
    assert [
        each.startswith(f"{mixed}: 1 of 3 sampled values are not JSON objects") for each in told
    ] == [True]


def test_a_table_that_takes_nothing_of_a_value_is_refused(deck: Deck) -> None:
    topic, texts = tape(deck, [{"seq": 0, "car": "a"}]), tape(deck, [b"lap 1"])
    other, bare = deck.table("speed int, _offset bigint"), deck.table("_offset bigint", "bare")
    for table, asked, reason in (
        (other, {}, "no column of .* takes a field .* Fields: seq, car; columns: speed"),
        (bare, {}, "has no column for a field of a value"),
        (bare, {"decode": "string"}, "has no column for the value"),
    ):
        with pytest.raises(Refused, match=reason):
            deck.plan(f"kafka:{topic}", f"postgres:{table}", **asked)
    with pytest.raises(Refused, match="1 of 1 sampled values are not JSON objects"):
        deck.plan(f"kafka:{texts}", f"postgres:{other}")
    skipping = deck.plan(f"kafka:{texts}", f"postgres:{other}", on_error="skip").plan
    assert "target-values-not-json" in {note.code for note in skipping.notes}
    assert deck.plan(f"kafka:{topic}", f"postgres:{bare}", decode="none").plan.samples == (
        {"_offset": 0},
    )


def test_samples_are_the_rows_that_are_written(deck: Deck) -> None:
    topic = tape(deck, [{"SEQ": 0, "car": {"n": 7}, "x": 1}, {"seq": 1, "y": None}])
    table = deck.table("seq int, car jsonb, rest jsonb, _offset bigint, _key text")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", extra_fields="rest")
    ran(planned)
    rows = deck.sql(f"SELECT to_jsonb(t) FROM {table} t ORDER BY seq")
    shown = [dict(row) for row in planned.plan.samples]
    assert [
        {name: held for name, held in row.items() if held is not None} for (row,) in rows
    ] == shown
    new = deck.plan(f"kafka:{topic}", f"postgres:{deck.schema}.new", create=True)
    assert new.plan.samples[1]["seq"] == 1
    assert set(new.plan.samples[1]) >= {"_topic", "_partition", "_offset", "_timestamp", "_key"}


# --- an empty table that an earlier replay has created


def shell(deck: Deck, name: str) -> tuple[str, str]:
    """A table of a replay that failed at its first slice, and the topic."""
    topic = tape(deck, [{"a": 1}, b"no JSON"])
    with pytest.raises(PlayheadError, match="not JSON"):
        deck.plan(f"kafka:{topic}", f"postgres:{deck.schema}.{name}", create=True).run()
    assert deck.rows(f"{deck.schema}.{name}") == []
    return topic, f"{deck.schema}.{name}"


def test_an_empty_table_of_a_failed_run_is_created_again(deck: Deck) -> None:
    topic, table = shell(deck, "shell")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", create=True, decode="string")
    dropped, created = planned.plan.target.creates
    assert (dropped.split()[:2], created.split()[:2]) == (["DROP", "TABLE"], ["CREATE", "TABLE"])
    assert totals(ran(planned)) == {"written": 2}
    assert deck.rows(table, "value", "ORDER BY _offset") == [('{"a": 1}',), ("no JSON",)]
    # It has rows now, and is nobody's shell.
    deck.sql(f"DELETE FROM {table}")
    again = deck.plan(f"kafka:{topic}", f"postgres:{table}", create=True, decode="bytes")
    assert again.plan.target.creates == ()


def test_an_empty_table_that_somebody_touched_is_left_alone(deck: Deck) -> None:
    topic, table = shell(deck, "granted")
    deck.sql(f"GRANT SELECT ON {table} TO PUBLIC")
    own = deck.table("b int", "own")
    for name in (table, own):
        with pytest.raises(Refused, match="has no column for the value"):
            deck.plan(f"kafka:{topic}", f"postgres:{name}", create=True, decode="string")
    topic, table = shell(deck, "filled")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}", create=True, decode="string")
    deck.sql(f"INSERT INTO {table} (a, _topic, _partition, _offset) VALUES (7, 't', 0, 0)")
    with pytest.raises(Refused, match="was to be created again"):
        planned.run()
    assert deck.rows(table, "a") == [(7,)]
