"""Record times that Spark's own type cannot hold: carried exactly, or under the error rule, and never in the way."""

import json
from typing import Any

import pytest

from playhead.errors import PlayheadError
from playhead.record import Record, TimestampType
from playhead.source import TopicPartition
from tests.fix_live import Live, whole
from tests.fix_replay import T0_MS, Deck, contents, totals

LAST_MS = (1 << 63) - 1
ANY_TIME = {
    "message_timestamp_after_max_ms": str(LAST_MS),
    "message_timestamp_before_max_ms": str(LAST_MS),
}
# Beyond Spark and PostgreSQL; then those that both can hold, and that Spark's reader of topics would move.
FAR = (LAST_MS, 10**17, -LAST_MS - 1)
OLD = (-62_135_596_800_001, -12_219_292_800_001, -2)
TIMES = (T0_MS, *FAR[:2], *OLD, FAR[2], -1, T0_MS + 1)
WRITTEN = [at for at, ms in enumerate(TIMES) if ms not in FAR]
DEAD = [at for at, ms in enumerate(TIMES) if ms in FAR]
COLUMNS = "seq int, _offset bigint, _timestamp timestamptz"
TRANSFORM = {
    "where": "value:seq::int >= 0 AND "
    "(timestamp IS NULL OR year(timestamp + INTERVAL 250000 YEARS) < 253000)"
}


@pytest.fixture(scope="module")
def far(servers: Deck) -> str:
    topic = servers.topic("far", 1, **ANY_TIME)
    servers.write(
        [
            Record(
                topic, 0, at, ms, TimestampType.CREATE_TIME, b"k", json.dumps({"seq": at}).encode()
            )
            for at, ms in enumerate(TIMES)
        ]
    )
    return topic


def times_in(deck: Deck, table: str) -> list[tuple[int, int | None]]:
    """Of each row the number and the time in milliseconds, which Python has no type for."""
    ms = "(extract(epoch FROM _timestamp) * 1000)::bigint"
    return deck.rows(table, f"seq, {ms}", "ORDER BY seq")  # type: ignore[return-value]


EXACT = [(at, None if TIMES[at] == -1 else TIMES[at]) for at in WRITTEN]


@pytest.mark.parametrize("asked", [{}, TRANSFORM])
def test_a_pipeline_writes_them_exactly_and_those_beyond_the_table_by_the_rule(
    deck: Deck, live: Live, far: str, asked: dict[str, Any]
) -> None:
    table, dead = deck.table(COLUMNS), deck.topic("dead")
    source, target = f"kafka:{far}", f"postgres:{table}"
    it = live(source, target, trigger="available-now", on_error=f"dlq:{dead}", **asked)
    it.start().ended()
    assert times_in(deck, table) == EXACT
    assert are_dead(deck, dead)
    [entry] = it.entries()
    assert (entry.written, entry.dead) == (len(WRITTEN), len(DEAD))
    assert whole(it.entries()) == {(far, 0): (0, len(TIMES))}
    assert it.has_said("out of Spark's range")


def are_dead(deck: Deck, dead: str) -> bool:
    """Each of those that are out of reach, as it was; its time, which the topic does not take, in a header."""
    letters = [dict(each.headers) for each in deck.records(dead)]
    found = [
        (int(each["__playhead.errors.offset"] or b""), each["__playhead.errors.timestamp"])
        for each in letters
    ]
    kinds = {each["__playhead.errors.kind"] for each in letters}
    return found == [(at, str(TIMES[at]).encode()) for at in DEAD] and kinds == {b"out_of_reach"}


def test_a_pipeline_skips_them_or_fails_at_the_first(deck: Deck, live: Live, far: str) -> None:
    table, other = deck.table(COLUMNS), deck.table(COLUMNS, "other")
    it = live(f"kafka:{far}", f"postgres:{table}", trigger="available-now", on_error="skip")
    it.start().ended()
    assert times_in(deck, table) == EXACT
    strict = live(f"kafka:{far}", f"postgres:{other}", trigger="available-now")
    with pytest.raises(PlayheadError, match=f"offset {DEAD[0]}: _timestamp: {LAST_MS} ms"):
        strict.start().ended()
    assert deck.rows(other) == []


def test_a_pipeline_copies_every_time_that_the_topic_takes(
    deck: Deck, live: Live, far: str
) -> None:
    copy = deck.topic("copy", 1, **ANY_TIME)
    it = live(f"kafka:{far}", f"kafka:{copy}", trigger="available-now")
    it.start().ended()
    assert contents(deck.records(copy)) == contents(deck.records(far))
    assert it.group() == {place(far): len(TIMES)}


def place(topic: str) -> TopicPartition:
    return topic, 0


@pytest.mark.parametrize("asked", [{}, TRANSFORM])
def test_a_replay_does_the_same(deck: Deck, far: str, asked: dict[str, Any]) -> None:
    table, dead = deck.table(COLUMNS), deck.topic("dead")
    proof = deck.play(f"kafka:{far}", f"postgres:{table}", on_error=f"dlq:{dead}", **asked)
    assert totals(proof) == {"written": len(WRITTEN), "dead": len(DEAD)}
    assert times_in(deck, table) == EXACT
    assert are_dead(deck, dead)
