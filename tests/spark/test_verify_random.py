"""Random logs: a replay writes what an own model says, and verify sees each change of the table afterwards.

The model folds the log record by record, and shares no code with the product.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from playhead.record import Record, TimestampType
from playhead.replay.verify import Verification
from tests.fix_replay import T0_MS, Deck, ran, small_slices

METADATA = ", _topic text, _partition int, _offset bigint, _timestamp timestamptz"
PRIOR_PARTITION = 9
FAR_MS = 10_000_000


@dataclass(frozen=True)
class State:
    """A record: what it says of a car; None is a tombstone."""

    partition: int
    offset: int
    at_ms: int
    car: str
    fields: dict[str, Any] | None


@dataclass(frozen=True)
class Row:
    key: str
    car: str | None
    v: int | None
    w: str | None
    state: State

    def held(self, *, has_places: bool) -> tuple[Any, ...]:
        place = (self.state.partition, self.state.offset) if has_places else ()
        return (self.key, self.car, self.v, self.w, *place)


@dataclass
class Case:
    """A random log, the rules of a table, and rows that it has before."""

    seed: int
    chance: random.Random = field(init=False)
    log: list[State] = field(default_factory=list)
    prior: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = self.chance = random.Random(self.seed)
        self.rule = chance.choice([None, "update", "newer", "ignore", "update", "newer"])
        self.tombstones = chance.choice(["delete", "skip", "null"]) if self.rule else "skip"
        self.has_places = self.rule == "newer" or chance.random() < 0.6
        self.default = chance.choice([None, "default"])
        self.slice_records = chance.choice([3, 7, 1000])
        is_partial = self.rule != "newer" and chance.random() < 0.5
        moves_keys = self.rule == "newer" and chance.random() < 0.5
        self.is_part = chance.random() < 0.5
        late = (0, 0, 0, -9_000, 7_000, 20_000) if self.is_part else (0,)
        times = [T0_MS + 1000 * n + chance.choice(late) for n in range(chance.randint(4, 60))]
        if self.rule == "newer" and chance.random() < 0.6:
            chance.shuffle(times)
        cars, ends = chance.randint(1, 8), [0, 0]
        for n, at_ms in enumerate(times):
            car = chance.randrange(cars)
            partition = chance.randrange(2) if moves_keys else car % 2
            fields = None if chance.random() < 0.2 else self._fields(n, is_partial)
            self.log.append(State(partition, ends[partition], at_ms, f"car-{car}", fields))
            ends[partition] += 1
        self.begins_ms, self.ends_ms = self._span()
        self.inside = [each for each in self.log if self.begins_ms <= each.at_ms < self.ends_ms]
        if self.rule and chance.random() < 0.6:
            self._write_prior(cars)

    def _span(self) -> tuple[int, int]:
        """All of the log, or what is between the times of two of its records."""
        if not self.is_part:
            return T0_MS - FAR_MS, T0_MS + FAR_MS
        first, last = sorted(self.chance.choice(self.log).at_ms for _ in range(2))
        return first, last + self.chance.choice([1, 500])

    def _fields(self, n: int, is_partial: bool) -> dict[str, Any]:
        chance = self.chance
        whole = {"v": chance.choice([n, n, None]), "w": f"w{chance.randrange(3)}"}
        return {k: v for k, v in whole.items() if not is_partial or chance.random() < 0.65}

    def _write_prior(self, cars: int) -> None:
        for n in range(cars + 1):
            if self.chance.random() < 0.5:
                at_ms = T0_MS + self.chance.choice([-5_000, 20_500, FAR_MS])
                old = {"v": 5_000 + n, "w": "old"}
                state = State(PRIOR_PARTITION, n, at_ms, f"car-{n}", old)
                self.prior[state.car] = self.new_row(state)

    def new_row(self, state: State) -> Row:
        says = {"v": None, "w": None} if state.fields is None else state.fields
        named = {"v": None, "w": self.default} | says
        car = None if state.fields is None else state.car
        return Row(state.car, car, named["v"], named["w"], state)

    def columns(self) -> str:
        default = f" DEFAULT '{self.default}'" if self.default else ""
        held = f"car text, v int, w text{default}" + (METADATA if self.has_places else "")
        if self.by == "_key":
            return f"_key text PRIMARY KEY, {held}"
        return held + (", PRIMARY KEY (car)" if self.rule else "")

    @property
    def by(self) -> str:
        """The column that identifies a row; a null needs one that is no field of the value."""
        return "_key" if self.tombstones == "null" else "car"

    def asked(self) -> dict[str, Any]:
        rules = {"key": (self.by,), "on_conflict": self.rule} if self.rule else {}
        span = f"{self.begins_ms}..{self.ends_ms}" if self.is_part else "start..end"
        return {"tombstones": self.tombstones, "span": span, **rules}

    def rows(self) -> list[Row]:
        """What a consumer of the span leaves."""
        if not self.rule:
            return [self.new_row(each) for each in self.inside if each.fields is not None]
        rows, deleted = dict(self.prior), dict[str, State]()
        for each in self.inside:
            is_tombstone, old = each.fields is None, rows.get(each.car)
            if is_tombstone and self.tombstones == "skip":
                continue
            if self.rule == "newer" and self._is_late(each, old, deleted.get(each.car)):
                continue
            if is_tombstone and self.tombstones == "delete":
                deleted[each.car] = each
                rows.pop(each.car, None)
            elif old is None:
                rows[each.car] = self.new_row(each)
            elif self.rule != "ignore":
                named = {"v": None, "w": None} if is_tombstone else each.fields or {}
                kept = {"v": old.v, "w": old.w} | named
                car = None if is_tombstone else each.car
                rows[each.car] = Row(each.car, car, kept["v"], kept["w"], each)
        return [*rows.values()]

    def _is_late(self, state: State, old: Row | None, deleted: State | None) -> bool:
        for each in (old.state if old else None, deleted):
            if each is None:
                continue
            if each.partition == PRIOR_PARTITION:
                if each.at_ms > state.at_ms:
                    return True
            elif (each.at_ms, each.partition, each.offset) > (
                state.at_ms,
                state.partition,
                state.offset,
            ):
                return True
        return False


@dataclass
class Play:
    """The case between real ends."""

    case: Case
    deck: Deck
    topic: str
    table: str

    def write_log(self) -> None:
        records = []
        for each in self.case.log:
            key = json.dumps({"car": each.car}) if self.case.by == "car" else each.car
            value = None
            if each.fields is not None:
                value = json.dumps({"car": each.car, **each.fields}).encode()
            place = (self.topic, each.partition, each.offset)
            kind = TimestampType.CREATE_TIME
            records.append(Record(*place, each.at_ms, kind, key.encode(), value))
        self.deck.write(records)

    def insert(self, row: Row) -> None:
        state = row.state
        held: dict[str, Any] = {"car": row.car, "v": row.v, "w": row.w}
        held |= {"_key": row.key} if self.case.by == "_key" else {}
        if self.case.has_places:
            held |= {"_topic": self.topic, "_partition": state.partition, "_offset": state.offset}
        names, values = [*held], [*held.values()]
        marks = ["%s"] * len(values)
        if self.case.has_places:
            names, values = [*names, "_timestamp"], [*values, state.at_ms]
            marks.append("to_timestamp(%s / 1000.0)")
        into = f"{self.table} ({', '.join(names)})"
        self.deck.sql(f"INSERT INTO {into} VALUES ({', '.join(marks)})", *values)

    def rows(self) -> list[tuple[Any, ...]]:
        more = ", _partition, _offset" if self.case.has_places else ""
        found = self.deck.rows(self.table, f"{self.case.by}, car, v, w{more}")
        return sorted(found, key=repr)

    def wanted(self) -> list[tuple[Any, ...]]:
        held = [row.held(has_places=self.case.has_places) for row in self.case.rows()]
        return sorted(held, key=repr)

    def verified(self, planned: Any) -> Iterator[Verification]:
        """By the run, and without it."""
        yield planned.verify()
        ends = (f"kafka:{self.topic}", f"postgres:{self.table}")
        yield self.deck.plan(*ends, **self.case.asked()).compare()

    def tamper(self) -> bool:
        """Change one row of the span; return whether the table is another one now."""
        before = self.rows()
        is_of_rows = self.case.tombstones != "skip"
        cars = {each.car for each in self.case.inside if is_of_rows or each.fields is not None}
        rows = self.deck.rows(self.table, f"ctid, {self.case.by}")
        there = [(row,) for row, car in rows if car in cars]
        chance = self.case.chance
        what = chance.choice(["value", "null", "delete", "back", "older", "copy", "swap", "place"])
        gone = cars - {row[0] for row in before}
        if what == "back":
            back = [
                each for each in self.case.inside if each.car in gone and each.fields is not None
            ]
            if back:
                self.insert(self.case.new_row(chance.choice(back)))
        elif there:
            (one,), (other,) = chance.choice(there), chance.choice(there)
            self._change(what, f"WHERE ctid = '{one}'", f"WHERE ctid = '{other}'")
        return self.rows() != before

    def _change(self, what: str, one: str, other: str) -> None:
        case, table, sql = self.case, self.table, self.deck.sql
        if what == "value":
            sql(f"UPDATE {table} SET v = coalesce(v, 0) + 100000 {one}")
        elif what == "null":
            sql(f"UPDATE {table} SET {case.chance.choice(['v', 'w'])} = NULL {one}")
        elif what == "delete":
            sql(f"DELETE FROM {table} {one}")
        elif what == "copy" and not case.rule:
            sql(f"INSERT INTO {table} SELECT * FROM {table} {one}")
        elif what == "place" and case.has_places:
            sql(f"UPDATE {table} SET _offset = _offset + 1 {one}")
        elif what == "swap":
            sql(f"UPDATE {table} SET (v, w) = (SELECT v, w FROM {table} {other}) {one}")
        elif what == "older":
            [(key,)] = self.deck.rows(table, case.by, one)
            older = [each for each in case.log if each.car == key and each.fields is not None]
            if older:
                sql(f"DELETE FROM {table} {one}")
                self.insert(case.new_row(case.chance.choice(older)))


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(32))
def test_verify_sees_each_change_of_a_random_table(deck: Deck, seed: int) -> None:
    case = Case(seed)
    play = Play(case, deck, deck.topic("states", 2), deck.table(case.columns()))
    play.write_log()
    for row in case.prior.values():
        play.insert(row)
    with small_slices(case.slice_records):
        planned = deck.plan(f"kafka:{play.topic}", f"postgres:{play.table}", **case.asked())
        ran(planned)
    assert play.rows() == play.wanted()
    for found in play.verified(planned):
        assert found.different == 0, found.differences
        # Only of rows that were there before it cannot tell whose they are.
        assert found.agrees or case.prior, found.differences
    if play.tamper():
        assert not any(found.agrees for found in play.verified(planned))
