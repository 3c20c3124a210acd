"""A record with a header's name that is not UTF-8: one rejected record, wherever it is read."""

from collections.abc import Mapping
from typing import Any

import pytest

from playhead.errors import PlayheadError
from playhead.gaps.search import GapFinder, GapQuery
from playhead.replay import api
from playhead.request import Request
from tests.fix_live import Live, whole
from tests.fix_replay import T0_MS, Deck, contents, ran, totals
from tests.sandbox.kafka_log import produce_raw

COUNT, BAD = 12, (0, 3, 4, 5, 9)
GOOD = [at for at in range(COUNT) if at not in BAD]
COLUMNS = "seq int, _offset bigint, _headers jsonb"
PLACED = f"{COLUMNS}, _topic text, _partition int"
LOST = {6, 7, 8}
REASON = "cannot be read whole: a header's name is not UTF-8, and none of its headers can be read"
# The character by which Java replaces what is not UTF-8 may also be in a name.
NAME = "\ufffd"
WHERE = {"where": "value:seq::int >= 0"}


def rows(numbers: range) -> list[Any]:
    names = {at: b"caf\xe9" if at in BAD else NAME.encode() for at in numbers}
    return [
        (T0_MS + at, b"k", b'{"seq": %d}' % at, ((b"fine", b"1"), (names[at], b"2")))
        for at in numbers
    ]


@pytest.fixture
def odd(deck: Deck) -> str:
    topic = deck.topic("odd")
    produce_raw(deck.connection, topic, 0, rows(range(COUNT)))
    return topic


def is_whole(deck: Deck, table: str) -> bool:
    found = deck.rows(table, "seq, _offset, _headers", "ORDER BY seq")
    return found == [(at, at, [["fine", "1"], [NAME, "2"]]) for at in GOOD]


def are_letters(deck: Deck, dead: str) -> bool:
    letters = [(each.value, dict(each.headers)) for each in deck.records(dead)]
    assert {held["__playhead.errors.reason"] for _, held in letters} == {REASON.encode()}
    assert {held["__playhead.errors.kind"] for _, held in letters} == {b"unreadable"}
    return sorted(value or b"" for value, _ in letters) == sorted(b'{"seq": %d}' % at for at in BAD)


@pytest.mark.parametrize("asked", [{}, WHERE])
def test_a_replay_rejects_it(deck: Deck, odd: str, asked: Mapping[str, Any]) -> None:
    table, dead = deck.table(COLUMNS), deck.topic("dead")
    planned = deck.plan(f"kafka:{odd}", f"postgres:{table}", on_error=f"dlq:{dead}", **asked)
    [note] = [each.text for each in planned.plan.notes if each.code == "decode-failed"]
    assert note.startswith("5 of 12 sampled records cannot be read; ")
    assert totals(ran(planned)) == {"written": len(GOOD), "dead": len(BAD)}
    assert is_whole(deck, table)
    assert are_letters(deck, dead)
    # Another one among the letters, of a stranger, does not end the comparison with them.
    produce_raw(deck.connection, dead, 0, rows(range(1)))
    assert api.planned(planned.plan, deck.configuration()).verify().agrees


@pytest.mark.parametrize("asked", [{}, pytest.param(WHERE, marks=pytest.mark.torture)])
def test_a_copy_leaves_it_out(deck: Deck, odd: str, asked: Mapping[str, Any]) -> None:
    copy = deck.topic("copy")
    planned = deck.plan(f"kafka:{odd}", f"kafka:{copy}", on_error="skip", **asked)
    assert totals(ran(planned)) == {"written": len(GOOD), "skipped": len(BAD)}
    assert len(contents(deck.records(copy))) == len(GOOD)
    assert {each.headers for each in deck.records(copy)} == {(("fine", b"1"), (NAME, b"2"))}
    again = api.planned(planned.plan, deck.configuration())
    assert again.verify().agrees
    if not asked:
        found = again.compare()
        assert (found.agrees, found.different, found.unknown) == (False, 0, len(BAD))


def test_a_replay_that_does_not_skip_names_the_first(deck: Deck, odd: str) -> None:
    with pytest.raises(PlayheadError, match=f"{odd}:0 offset 0: {REASON}"):
        deck.play(f"kafka:{odd}", f"postgres:{deck.table(COLUMNS)}")


@pytest.mark.parametrize("asked", [{}, WHERE])
def test_a_pipeline_rejects_it_and_changes_no_name(
    deck: Deck, live: Live, odd: str, asked: dict[str, Any]
) -> None:
    """Java's client replaces what is not UTF-8: the copy had other names, without a word."""
    table, dead = deck.table(COLUMNS), deck.topic("dead")
    source, target = f"kafka:{odd}", f"postgres:{table}"
    it = live(source, target, trigger="available-now", on_error=f"dlq:{dead}", **asked)
    it.start().ended()
    assert is_whole(deck, table)
    assert are_letters(deck, dead)
    assert whole(it.entries()) == {(odd, 0): (0, COUNT)}


@pytest.mark.parametrize(("key", "found"), [((), {*LOST, *BAD}), (("seq",), LOST)])
def test_gaps_are_found_beside_it(
    deck: Deck, odd: str, key: tuple[str, ...], found: set[int]
) -> None:
    """By offsets, what a run rejected has no row either; by key, it cannot be looked for."""
    table = deck.table(PLACED)
    source, target = f"kafka:{odd}", f"postgres:{table}"
    deck.play(source, target, on_error="skip", span=f"{odd}:0:0-6, {odd}:0:9-12")
    asked = Request(source=source, target=target, key=key)
    assert missing(deck, asked) == found


def missing(deck: Deck, asked: Request) -> set[int]:
    found = GapFinder(GapQuery(asked), deck.configuration()).find()
    slices = [each.slice for each in found.of("missing")]
    return {at for each in slices for at in range(each.from_offset, each.to_offset)}
