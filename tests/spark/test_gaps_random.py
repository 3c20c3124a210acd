"""Random logs of states: gaps finds what a table lacks, and fills it, as an own model of the table says.

The model folds the log record by record, and shares no code with the product.
"""

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from playhead.errors import Refused
from playhead.gaps.gap import Gaps
from playhead.gaps.search import GapFinder, GapQuery
from playhead.record import Record, TimestampType
from playhead.replay import api
from playhead.request import Request
from tests.fix_replay import T0_MS, Deck, ran

COLUMNS = {
    "bare": "car text PRIMARY KEY, v int",
    "placed": "car text PRIMARY KEY, v int, _partition int, _offset bigint",
    "timed": "car text PRIMARY KEY, v int, _partition int, _offset bigint, _timestamp timestamptz",
}


@dataclass(frozen=True)
class State:
    partition: int
    offset: int
    at_ms: int
    car: str
    v: int | None


@dataclass
class Case:
    """A random log, a table's rules, and who writes the table."""

    seed: int
    chance: random.Random = field(init=False)
    log: list[State] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = self.chance = random.Random(self.seed)
        self.rule = chance.choice(["update", "newer"])
        self.tombstones = chance.choice(["delete", "skip"])
        self.kind = "timed" if self.rule == "newer" else chance.choice(list(COLUMNS))
        self.writer = chance.choice(["replay", "another program"])
        self.says = self.writer != "replay" or chance.random() < 0.5
        is_newer, cars = self.rule == "newer", chance.randint(2, 8)
        self.moves_keys = is_newer and chance.random() < 0.5
        times = [1000 * n for n in range(chance.randint(8, 60))]
        if is_newer and chance.random() < 0.6:
            chance.shuffle(times)
        ends = [0, 0]
        for n, at_ms in enumerate(times):
            car = chance.randrange(cars)
            partition = chance.randrange(2) if self.moves_keys else car % 2
            v = None if chance.random() < 0.25 else n
            self.log.append(State(partition, ends[partition], T0_MS + at_ms, f"car-{car}", v))
            ends[partition] += 1
        self.ends = ends

    def rules(self) -> dict[str, Any]:
        return {"key": ("car",), "on_conflict": self.rule, "tombstones": self.tombstones}

    def table(self) -> dict[str, State]:
        """The rows that a consumer of the whole log leaves."""
        rows, deleted = dict[str, State](), dict[str, int]()
        for each in self.log:
            old = rows.get(each.car)
            is_late = self.rule == "newer" and max(
                old.at_ms if old else 0, deleted.get(each.car, 0)
            ) > (each.at_ms)
            if each.v is not None:
                rows |= {} if is_late else {each.car: each}
            elif self.tombstones == "delete":
                deleted[each.car] = max(each.at_ms, deleted.get(each.car, 0))
                if not is_late:
                    rows.pop(each.car, None)
        return rows

    def damaged(self, rows: dict[str, State]) -> dict[str, State]:
        """Without some rows, and with an older state of others, if that can be told."""
        found = dict(rows)
        for car, last in rows.items():
            dice = self.chance.random()
            older = [each for each in self.log if each.car == car and each.v is not None]
            older = [each for each in older if self._is_before(each, last)]
            if dice < 0.35:
                del found[car]
            elif dice < 0.6 and older and self.kind != "bare":
                found[car] = self.chance.choice(older)
        return found

    def _is_before(self, one: State, other: State) -> bool:
        return one.at_ms < other.at_ms if self.rule == "newer" else one.offset < other.offset


@dataclass
class Play:
    """The case between real ends."""

    case: Case
    deck: Deck
    topic: str
    table: str

    def write_log(self) -> None:
        kind = TimestampType.CREATE_TIME
        records = []
        for each in self.case.log:
            key = json.dumps({"car": each.car}).encode()
            value = None
            if each.v is not None:
                value = json.dumps({"car": each.car, "v": each.v}).encode()
            place = (self.topic, each.partition, each.offset)
            records.append(Record(*place, each.at_ms, kind, key, value))
        self.deck.write(records)

    def set_rows(self, rows: Sequence[State]) -> None:
        self.deck.sql(f"DELETE FROM {self.table}")
        for each in rows:
            held = f"'{each.car}', {each.v}"
            held += f", {each.partition}, {each.offset}" if self.case.kind != "bare" else ""
            held += f", to_timestamp({each.at_ms} / 1000.0)" if self.case.kind == "timed" else ""
            self.deck.sql(f"INSERT INTO {self.table} VALUES ({held})")

    def rows(self) -> dict[str, int]:
        return dict(self.deck.rows(self.table, "car, v"))

    def finder(self, span: str = "start..end") -> GapFinder:
        rules = self.case.rules() if self.case.says else {"key": ("car",)}
        ends = {"source": f"kafka:{self.topic}", "target": f"postgres:{self.table}"}
        by = "key" if self.case.kind == "bare" else None
        query = GapQuery(Request(**ends, span=span, **rules), settle_ms=0, by=by)
        return GapFinder(query, self.deck.configuration())

    def fill(self, span: str = "start..end") -> Gaps:
        finder = self.finder(span)
        gaps = finder.find()
        if not gaps.missing_slices():
            return gaps
        ran(api.plan(finder.replay_of(gaps), self.deck.configuration()))
        return finder.find()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(24))
def test_gaps_of_random_logs_are_found_and_filled(deck: Deck, seed: int) -> None:
    case = Case(seed)
    play = Play(case, deck, deck.topic("states", 2), deck.table(COLUMNS[case.kind]))
    play.write_log()
    should = case.table()
    wanted = {car: each.v for car, each in should.items()}
    if case.writer == "replay":
        ran(deck.plan(f"kafka:{play.topic}", f"postgres:{play.table}", **case.rules()))
        assert play.rows() == wanted
    play.set_rows([*should.values()])
    assert play.finder().find().is_whole
    left = case.damaged(should)
    play.set_rows([*left.values()])
    assert play.finder().find().is_whole == (left == should)
    if case.kind != "bare":
        partition = case.chance.randrange(2)
        ends = sorted(case.chance.randint(0, case.ends[partition]) for _ in range(2))
        fill_part(play, f"{play.topic}:{partition}:{ends[0]}-{ends[1]}", left, wanted)
    assert play.fill().is_whole
    assert play.rows() == wanted


def fill_part(play: Play, span: str, left: dict[str, State], wanted: dict[str, Any]) -> None:
    """Fill a part of the log: no row comes back, and none becomes older."""
    if span.endswith("0-0"):
        return
    with suppress(Refused):  # Nothing may be left to replay.
        play.fill(span)
    newest = {each.v: each for each in play.case.log}
    for car, v in play.rows().items():
        assert car in wanted
        old, now = left.get(car), newest[v]
        assert old is None or old == now or play.case._is_before(old, now)
