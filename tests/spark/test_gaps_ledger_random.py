"""Random replays of parts of a log into a copy or an archive: gaps finds the rest by their ledgers, and fills it."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from playhead.errors import PlayheadError
from playhead.gaps.search import GapFinder, GapQuery
from playhead.record import Record, TimestampType
from playhead.replay import api
from playhead.request import Request
from tests.fix_archives import everything
from tests.fix_replay import T0_MS, Deck, ran, small_slices

WHERE = "offset % 4 <> 1"


def a_log(chance: random.Random, topic: str, partitions: int) -> list[Record]:
    """Records whose times are out of order here and there."""
    records, ends = [], [0] * partitions
    for n in range(chance.randint(5, 80)):
        at_ms = T0_MS + 1000 * n + chance.choice([0, 0, 0, -30_000, 50_000])
        partition = chance.randrange(partitions)
        held = (b"k%d" % (n % 5), json.dumps({"n": n}).encode())
        place = (topic, partition, ends[partition])
        records.append(Record(*place, at_ms, TimestampType.CREATE_TIME, *held))
        ends[partition] += 1
    return records


def a_part(chance: random.Random, records: list[Record]) -> str:
    """A span by offsets or by time."""
    one, other = chance.choice(records), chance.choice(records)
    if chance.random() < 0.5:
        return f"{one.topic}:{one.partition}:{one.offset}-{one.offset + chance.randint(1, 20)}"
    first, last = sorted((one.timestamp_ms, other.timestamp_ms))
    return f"{first}..{last + chance.choice([0, 1])}"


def held(deck: Deck, target: str) -> Counter[Any]:
    kind, _, name = target.partition(":")
    found = deck.records(name) if kind == "kafka" else everything(name, kind)
    return Counter((each.key, each.value, each.timestamp_ms) for each in found)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(24))
def test_what_random_replays_left_is_found_and_filled(
    deck: Deck, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    partitions = chance.randint(1, 3)
    topic = deck.topic("log", partitions)
    records = a_log(chance, topic, partitions)
    deck.write(records)
    kind = chance.choice(["kafka", "kafka", "json", "parquet", "csv"])
    copy = deck.topic("copy", chance.choice([partitions, 2])) if kind == "kafka" else tmp_path / "a"
    ends = {"source": f"kafka:{topic}", "target": f"{kind}:{copy}"}
    where = chance.choice([None, None, WHERE])
    kept = [each for each in records if where is None or each.offset % 4 != 1]
    wanted = Counter((each.key, each.value, each.timestamp_ms) for each in kept)
    with small_slices(chance.choice([3, 8, 1000])):
        for _ in range(chance.randint(1, 3)):
            request = Request(**ends, span=a_part(chance, records), where=where)
            try:
                ran(api.plan(request, deck.configuration()))
            except PlayheadError:
                # It has no records, would copy some a second time, or an archive has others of these offsets.
                continue
        there = held(deck, ends["target"])
        assert not there - wanted
        finder = GapFinder(
            GapQuery(Request(**ends, where=where), settle_ms=0), deck.configuration()
        )
        if kind == "kafka" and not there:
            return  # Nothing may have been begun, which is refused.
        gaps = finder.find()
        assert gaps.is_whole == (there == wanted)
        if not gaps.is_whole:
            ran(api.plan(finder.replay_of(gaps), deck.configuration()))
        assert finder.find().is_whole
    assert held(deck, ends["target"]) == wanted
