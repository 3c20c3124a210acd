"""Records for which an expression raises: each is one rejected record, and the others are replayed."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from playhead.errors import PlayheadError
from playhead.record import Record, TimestampType
from playhead.replay import api
from playhead.replay.engine import EngineUse
from playhead.request import Request
from playhead.task.raising_records import TooManyRaise
from tests.fix_live import Live
from tests.fix_replay import T0_MS, Deck, ran, totals

COUNT, PARTITIONS = 600, 3
BEYOND = (1 << 63) - 1
BAD = sorted(random.Random(8).sample(range(COUNT), 3))
GOOD = [at for at in range(COUNT) if at not in BAD]
COLUMNS = "seq int, at timestamptz"
SELECT = {"select": "value:seq::int AS seq, timestamp_millis(value:ms::bigint) AS at"}
WHERE = {"where": "split_part(key, '-', value:n::int) = 'k'"}
# It raises for a record without a key, too.
WITHOUT_KEY = {"where": "split_part(key, '-', if(value:n::int = 0 OR key IS NULL, 0, 1)) = 'k'"}
DEEP = {"where": "value:text RLIKE '^(a|b)*$'"}


@pytest.fixture(scope="module")
def raising(servers: Deck) -> str:
    """In some documents the number is one with which each of the three expressions raises."""
    topic = servers.topic("raising", PARTITIONS)
    kind = TimestampType.CREATE_TIME
    servers.write(
        [
            Record(
                topic,
                at % PARTITIONS,
                at // PARTITIONS,
                T0_MS + at,
                kind,
                b"k-k",
                json.dumps(document(at)).encode(),
            )
            for at in range(COUNT)
        ]
    )
    return topic


def document(at: int) -> dict[str, Any]:
    if at in BAD:
        return {"seq": at, "ms": BEYOND, "n": 0, "text": "ab" * 20_000}
    return {"seq": at, "ms": T0_MS + at, "n": 1, "text": "ab"}


def numbers(deck: Deck, table: str) -> list[int]:
    return [seq for (seq,) in deck.rows(table, "seq", "ORDER BY seq")]


def letters_of(deck: Deck, dead: str) -> Iterator[int]:
    for letter in deck.records(dead):
        headers = dict(letter.headers)
        assert b"an expression cannot be computed for it" in headers["__playhead.errors.reason"]
        yield json.loads(letter.value or b"")["seq"]


@pytest.mark.parametrize("rule", [pytest.param("skip", marks=pytest.mark.torture), "dlq"])
def test_a_replay_rejects_them(deck: Deck, raising: str, rule: str) -> None:
    table, dead = deck.table(COLUMNS), deck.topic("dead")
    on_error = rule if rule == "skip" else f"dlq:{dead}"
    planned = deck.plan(f"kafka:{raising}", f"postgres:{table}", on_error=on_error, **SELECT)
    proof = ran(planned)
    count = {"skip": "skipped", "dlq": "dead"}[rule]
    assert totals(proof) == {"written": len(GOOD), count: len(BAD)}
    assert numbers(deck, table) == GOOD
    assert rule == "skip" or sorted(letters_of(deck, dead)) == BAD
    # Another process does not know the records, and finds them again.
    told: list[str] = []
    assert api.planned(planned.plan, deck.configuration()).verify(say=told.append).agrees
    assert "an expression cannot be computed for some records: searching for them" in told


@pytest.mark.parametrize(
    "asked",
    [WITHOUT_KEY, *(pytest.param(each, marks=pytest.mark.torture) for each in (WHERE, DEEP))],
)
def test_a_condition_rejects_them(deck: Deck, raising: str, asked: dict[str, str]) -> None:
    copy = deck.topic("copy", PARTITIONS)
    proof = deck.play(f"kafka:{raising}", f"kafka:{copy}", on_error="skip", **asked)
    assert totals(proof) == {"written": len(GOOD), "skipped": len(BAD)}
    found = sorted(json.loads(each.value or b"")["seq"] for each in deck.records(copy))
    assert found == GOOD


def test_a_replay_that_does_not_skip_names_the_first(deck: Deck, raising: str) -> None:
    table = deck.table(COLUMNS)
    with pytest.raises(PlayheadError, match="an expression cannot be computed for it") as refused:
        deck.play(f"kafka:{raising}", f"postgres:{table}", **SELECT)
    named = {f"{raising}:{at % PARTITIONS} offset {at // PARTITIONS}" for at in BAD}
    assert refused.value.message.partition(": ")[0] in named
    assert not set(numbers(deck, table)) & set(BAD)


def test_an_expression_that_fits_no_record_is_refused_in_the_plan(deck: Deck, raising: str) -> None:
    select = "value:seq::int AS seq, timestamp_millis(value:ms::bigint * 9999999) AS at"
    target = f"postgres:{deck.table(COLUMNS)}"
    request = Request(source=f"kafka:{raising}", target=target, on_error="skip", select=select)
    told: list[str] = []
    with pytest.raises(TooManyRaise, match="any of the sampled records; .*overflow"):
        api.plan(request, deck.configuration(), use=EngineUse(say=told.append))
    assert told[0] == "an expression cannot be computed for some records: searching for them"


@pytest.mark.parametrize("asked", [SELECT, pytest.param(DEEP, marks=pytest.mark.torture)])
def test_a_pipeline_rejects_them(
    deck: Deck, live: Live, raising: str, asked: dict[str, str]
) -> None:
    table, dead = deck.table(COLUMNS), deck.topic("dead")
    source, target = f"kafka:{raising}", f"postgres:{table}"
    it = live(source, target, trigger="available-now", on_error=f"dlq:{dead}", **asked)
    it.start().ended()
    assert numbers(deck, table) == GOOD
    assert sorted(letters_of(deck, dead)) == BAD


@pytest.mark.torture
def test_a_pipeline_that_does_not_skip_names_the_first(
    deck: Deck, live: Live, raising: str
) -> None:
    it = live(
        f"kafka:{raising}", f"postgres:{deck.table(COLUMNS)}", trigger="available-now", **SELECT
    )
    with pytest.raises(PlayheadError, match=r"offset \d+: an expression cannot be computed for it"):
        it.start().ended()
