"""Random replays into one table, one after another: an own model says what is in it, and verify what was changed.

The model folds each span record by record, and shares no code with the product.
"""

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from playhead.record import Record, TimestampType
from tests.fix_replay import T0_MS, Deck, new_name, ran, small_slices


@dataclass(frozen=True)
class State:
    """A record: what it says of a car; None is a tombstone."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    car: str
    fields: dict[str, Any] | None

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset


@dataclass
class Row:
    state: State
    """The record that it is of."""
    car: str | None
    v: int | None
    w: str | None
    run: int
    """The run that wrote it last, and which columns that run named."""
    named: set[str]

    def held(self) -> tuple[Any, ...]:
        return (self.state.car, self.car, self.v, self.w, *self.state.place[1:])


@dataclass
class Case:
    """Logs that grow, the rules of a table, and what should be in it."""

    seed: int
    chance: random.Random = field(init=False)
    log: list[State] = field(default_factory=list)
    ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    rows: list[Row] = field(default_factory=list)
    is_turned_back: bool = False
    """Whether a run has brought an earlier record of a key."""

    def __post_init__(self) -> None:
        chance = self.chance = random.Random(self.seed)
        self.is_sqlite = chance.random() < 0.4
        self.rule = chance.choice(
            [None, "update", "ignore", "update" if self.is_sqlite else "newer"]
        )
        kinds = ["skip", *(["null"] if self.rule else [])]
        # What an earlier run deleted is not the business of a later one under `newer`.
        kinds += ["delete"] if self.rule == "update" and not self.is_sqlite else []
        self.tombstones = chance.choice(kinds)
        self.is_partial = self.rule != "newer" and chance.random() < 0.5
        self.is_filtered = chance.random() < 0.3
        name = new_name("runs")
        self.topics = [f"{name}-{each}" for each in range(chance.choice([1, 1, 2]))]
        self.source = f"kafka:/{name}-./" if len(self.topics) > 1 else f"kafka:{self.topics[0]}"
        self.has_topics = chance.random() < 0.6
        self.cars = chance.randint(1, 8)

    def asked(self) -> dict[str, Any]:
        rules = {"key": ("_key",), "on_conflict": self.rule} if self.rule else {}
        where = {"where": "value:v::bigint % 3 <> 0"} if self.is_filtered else {}
        return {"tombstones": self.tombstones, **rules, **where}

    def grow(self) -> list[Record]:
        return [self._new() for _ in range(self.chance.randint(3, 40))]

    def _new(self) -> Record:
        chance, n = self.chance, len(self.log)
        car, late_ms = chance.randrange(self.cars), chance.choice([0, 0, 0, -9_000, 7_000, 20_000])
        topic, partition = self.topics[car % len(self.topics)], car // len(self.topics) % 2
        fields = None
        if self.is_filtered or chance.random() > 0.2:
            whole = {"v": chance.choice([n, n, None]), "w": f"w{chance.randrange(3)}"}
            says = {k: v for k, v in whole.items() if not self.is_partial or chance.random() < 0.65}
            fields = {"car": f"car-{car}", **says}
        offset, at_ms = self.ends[topic, partition], T0_MS + 1000 * n + late_ms
        self.ends[topic, partition] += 1
        self.log.append(State(topic, partition, offset, at_ms, f"car-{car}", fields))
        value = None if fields is None else json.dumps(fields).encode()
        kind = TimestampType.CREATE_TIME
        return Record(topic, partition, offset, at_ms, kind, b"car-%d" % car, value)

    def span(self) -> tuple[str, list[State]]:
        """Any span, and the records in it."""
        chance, how = self.chance, self.chance.random()
        if how < 0.3:
            return "start..end", [*self.log]
        one = chance.choice(self.log)
        if how < 0.6:
            topic, partition, first = one.place
            end = min(self.ends[topic, partition], first + chance.randint(1, 20))
            places = {(topic, partition, offset) for offset in range(first, end)}
            inside = [each for each in self.log if each.place in places]
            return f"{topic}:{partition}:{first}-{end}", inside
        first, last = sorted((one.at_ms, chance.choice(self.log).at_ms))
        last += chance.choice([1, 500])
        return f"{first}..{last}", [each for each in self.log if first <= each.at_ms < last]

    def play(self, run: int, inside: list[State]) -> None:
        """Do what a run with these records does."""
        for each in inside:
            is_left_out = each.fields is None and self.tombstones == "skip"
            if not is_left_out and self._passes(each):
                self._write(run, each)

    def _passes(self, state: State) -> bool:
        v = (state.fields or {}).get("v")
        return not self.is_filtered or (v is not None and v % 3 != 0)

    def _write(self, run: int, state: State) -> None:
        says = dict.fromkeys(("car", "v", "w")) if state.fields is None else state.fields
        new = Row(state, says.get("car"), says.get("v"), says.get("w"), run, {*says})
        # SQLite does not know which columns other records of a slice fill.
        new.named |= set() if self.is_sqlite else {"v", "w"}
        same = [row for row in self.rows if self.rule and row.state.car == state.car]
        if not same:
            is_deleted = state.fields is None and self.tombstones == "delete"
            self.rows += [] if is_deleted else [new]
            return
        [old] = same
        if self.rule == "ignore" or (self.rule == "newer" and _rank(old.state) > _rank(state)):
            return
        self.is_turned_back |= old.state.at_ms > state.at_ms or old.state.offset > state.offset
        if state.fields is None and self.tombstones == "delete":
            self.rows.remove(old)
            return
        for name, value in says.items():
            setattr(old, name, value)
        old.named = {*says} | (old.named if old.run == run else set())
        old.state, old.run = state, run

    def held(self) -> list[tuple[Any, ...]]:
        return sorted((row.held() for row in self.rows), key=repr)

    @property
    def has_twins(self) -> bool:
        return len(self.rows) > len({row.state.place for row in self.rows})


def _rank(state: State) -> tuple[Any, ...]:
    return (state.at_ms, *state.place)


class Table:
    """The table of a case, in either database."""

    def __init__(self, case: Case, deck: Deck, folder: Path) -> None:
        self.case, self.deck, self.file = case, deck, folder / "runs.db"
        place = "_topic text, " * case.has_topics + "_partition int, _offset bigint"
        place += ", _timestamp timestamptz" * (case.rule == "newer")
        columns = f"_key text, car text, v int, w text, {place}"
        columns += ", PRIMARY KEY (_key)" if case.rule else ""
        if case.is_sqlite:
            self.name, self.id = "runs", "rowid"
            self.sql(f"CREATE TABLE runs ({columns})")
            self.target = f"sqlite:{self.file}?table=runs"
        else:
            self.name, self.id = deck.table(columns), "ctid"
            self.target = f"postgres:{self.name}"

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        if not self.case.is_sqlite:
            return self.deck.sql(statement)
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement).fetchall()

    def rows(self) -> list[tuple[Any, ...]]:
        columns = "_key, car, v, w, _partition, _offset"
        return sorted(self.sql(f"SELECT {columns} FROM {self.name}"), key=repr)

    def change(self, row: Row) -> bool:
        """Change one row that is like this one; return whether the table is another one now."""
        chance, before = self.case.chance, self.rows()
        values = zip(("_key", "car", "v", "w", "_partition", "_offset"), row.held(), strict=True)
        same = " AND ".join(
            f"{name} IS NULL" if value is None else f"{name} = {_literal(value)}"
            for name, value in values
        )
        [(first,)] = self.sql(f"SELECT min(CAST({self.id} AS text)) FROM {self.name} WHERE {same}")
        where = f"WHERE CAST({self.id} AS text) = '{first}'"
        name = chance.choice(sorted(row.named))
        value = "coalesce(v, 0) + 100000" if name == "v" else f"coalesce({name}, '') || 'x'"
        how = [
            f"UPDATE {self.name} SET {name} = {value}",
            f"UPDATE {self.name} SET {name} = NULL",
            f"UPDATE {self.name} SET _offset = _offset + 1",
            f"DELETE FROM {self.name}",
        ]
        self.sql(f"{chance.choice(how)} {where}")
        return self.rows() != before


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"'{value}'"


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(48))
def test_several_runs_leave_what_the_log_says(deck: Deck, seed: int, tmp_path: Path) -> None:
    case = Case(seed)
    with deck.admin() as admin:
        for topic in case.topics:
            admin.create_topic(topic, partitions=2, settings={})
    table = Table(case, deck, tmp_path)
    runs: dict[int, Any] = {}
    with small_slices(case.chance.choice([3, 7, 1000])):
        for run in range(case.chance.randint(2, 4)):
            if not run or case.chance.random() < 0.5:
                deck.write(case.grow())
            span, inside = case.span()
            if inside:
                runs[run] = deck.plan(case.source, table.target, span=span, **case.asked())
                ran(runs[run])
                case.play(run, inside)
                assert table.rows() == case.held()
    found = {run: each.verify() for run, each in runs.items()}
    # Otherwise a row does not say whose it is.
    if (case.has_topics or case.is_sqlite) and not (case.is_turned_back or case.has_twins):
        assert not any(each.different for each in found.values()), found
    rows = [row for row in case.rows if row.named]
    if rows and not (case.is_sqlite and case.has_twins):
        row = case.chance.choice(rows)
        if table.change(row):
            assert not runs[row.run].verify().agrees
