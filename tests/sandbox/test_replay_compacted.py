"""A whole replay of a topic of which compaction has left only some offsets."""

import time
from dataclasses import replace

import pytest

from tests.fix_replay import Deck, lap, ran, totals
from tests.sandbox.kafka_log import SOON_COMPACTED

COUNT = 2_000


@pytest.mark.torture
def test_what_is_left_is_written_and_the_rest_is_accounted_for(deck: Deck) -> None:
    topic = deck.topic("compacted", **SOON_COMPACTED)
    deck.write([lap(number, topic, 1) for number in range(COUNT)])
    wait_until_compacted(deck, topic)
    table = deck.table("seq int, _offset bigint")
    planned = deck.plan(f"kafka:{topic}", f"postgres:{table}")
    assert "compacted" in [note.code for note in planned.plan.notes]
    left = [record.offset for record in deck.records(topic)]
    proof = ran(planned)
    assert [offset for (offset,) in deck.rows(table, "_offset", "ORDER BY 1")] == left
    assert totals(proof) == {"written": len(left), "absent": planned.plan.planned - len(left)}
    assert planned.verify().agrees


def wait_until_compacted(deck: Deck, topic: str) -> None:
    """A segment's age is told by its records, and the one that is written to is never compacted."""
    deadline = time.monotonic() + 120
    written = COUNT
    while len(deck.records(topic)) > 100:
        assert time.monotonic() < deadline, "not compacted"
        now_ms = round(time.time() * 1_000)
        deck.write([replace(lap(written, topic, 1), timestamp_ms=now_ms, key=b"roll")])
        written += 1
        time.sleep(0.5)
