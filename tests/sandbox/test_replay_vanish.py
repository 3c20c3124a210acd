"""No replay is proved over rows that lack values without a word of it: tables, plans and proofs, on real servers."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from playhead.endpoint import Endpoint
from playhead.errors import PlayheadError
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
