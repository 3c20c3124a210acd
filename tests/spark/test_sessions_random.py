"""Random sessions: replays, a pipeline, gaps, trims and another program at one target, in any order.

An own count says how often each record should be there. It shares no code with the product.
"""

import csv
import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from playhead.errors import PlayheadError
from playhead.gaps.gap import Gaps
from playhead.gaps.search import GapFinder, GapQuery
from playhead.record import Record, TimestampType
from playhead.replay import api
from playhead.request import Request
from tests.fix_live import Live
from tests.fix_replay import T0_MS, Deck, new_name, ran, small_slices, within

Place = tuple[int, int]
TABLES = (
    "n int, _partition int, _offset bigint",
    "n int, _topic text, _partition int, _offset bigint",
    "n int, _topic text, _partition int, _offset bigint, _timestamp timestamptz",
)


class Held(ABC):
    """A target: what is in it, by the number in each record, and how another program takes some of it."""

    name: str
    takes_pipelines = True
    has_each_once = False

    @abstractmethod
    def numbers(self) -> Iterator[int]: ...

    @abstractmethod
    def take(self, chance: random.Random) -> None: ...


class Rows(Held):
    def __init__(self, deck: Deck, chance: random.Random) -> None:
        self.deck, self.table = deck, deck.table(chance.choice(TABLES))
        self.name = f"postgres:{self.table}"

    def numbers(self) -> Iterator[int]:
        return (n for (n,) in self.deck.rows(self.table, "n"))

    def take(self, chance: random.Random) -> None:
        rows = self.deck.rows(self.table, "ctid::text")
        for (row,) in chance.sample(rows, min(len(rows), chance.randint(1, 5))):
            self.deck.sql(f"DELETE FROM {self.table} WHERE ctid = %s::tid", row)


class Copy(Held):
    def __init__(self, deck: Deck, chance: random.Random) -> None:
        self.deck, self.topic = deck, deck.topic("copy", chance.randint(1, 3))
        self.name = f"kafka:{self.topic}"

    def numbers(self) -> Iterator[int]:
        return (json.loads(each.value or b"")["n"] for each in self.deck.records(self.topic))

    def take(self, chance: random.Random) -> None:
        ends = Counter[int]()
        for each in self.deck.records(self.topic):
            ends[each.partition] = max(ends[each.partition], each.offset + 1)
        if ends:
            partition = chance.choice(sorted(ends))
            to = chance.randint(1, ends[partition])
            self.deck.delete_before(self.topic, partition, to)


class Files(Held):
    """An archive, which has the records of a slice that was written twice once."""

    takes_pipelines = False
    has_each_once = True

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.kind = chance.choice(["json", "csv", "parquet"])
        self.folder, self.name = folder, f"{self.kind}:{folder}"

    def numbers(self) -> Iterator[int]:
        return (json.loads(each)["n"] for file in self._files() for each in self._values(file))

    def take(self, chance: random.Random) -> None:
        if files := self._files():
            chance.choice(files).unlink()

    def _files(self) -> list[Path]:
        found = self.folder.glob("topic=*/partition=*/*")
        return sorted(each for each in found if not each.name.startswith("."))

    def _values(self, file: Path) -> list[Any]:
        if self.kind == "parquet":
            return list(pq.ParquetFile(file).read(["value"])["value"].to_pylist())
        lines = file.read_text().splitlines()
        rows = csv.DictReader(lines) if self.kind == "csv" else map(json.loads, lines)
        return [each["value"] for each in rows]


@dataclass
class Session:
    """A log that grows and is trimmed, and how often each of its records should be in the target."""

    deck: Deck
    live: Live
    chance: random.Random
    target: Held
    partitions: int
    topic: str
    times: dict[Place, int] = field(default_factory=dict)
    ends: list[int] = field(init=False)
    begins: list[int] = field(init=False)
    count: Counter[Place] = field(default_factory=Counter)
    pipeline: str = field(default_factory=lambda: new_name("p"))
    reached: list[int] | None = None
    runs: list[tuple[Any, set[Place]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends, self.begins = [0] * self.partitions, [0] * self.partitions
        self.places: list[Place] = []

    # --- what is there

    def held(self) -> Counter[Place]:
        return Counter(self.places[n] for n in self.target.numbers())

    def is_as_counted(self) -> bool:
        held = self.held()
        return set(held) == set(self.count) if self.target.has_each_once else held == self.count

    def left(self) -> set[Place]:
        """What the log still has."""
        return {each for each in self.times if each[1] >= self.begins[each[0]]}

    def span(self) -> tuple[str, set[Place]]:
        """Any span, and the records in it."""
        left, chance = self.left(), self.chance
        if not left or chance.random() < 0.3:
            return "start..end", left
        one, other = (chance.choice(sorted(left)) for _ in range(2))
        if chance.random() < 0.5:
            partition, start = one
            end = min(self.ends[partition], start + chance.randint(1, 20))
            inside = {each for each in left if each[0] == partition and start <= each[1] < end}
            return f"{self.topic}:{partition}:{start}-{end}", inside
        start, end = sorted((self.times[one], self.times[other]))
        end += chance.choice([0, 1, 5_000])
        return f"{start}..{end}", {each for each in left if start <= self.times[each] < end}

    def request(self, span: str) -> Request:
        return Request(source=f"kafka:{self.topic}", target=self.target.name, span=span)

    # --- what happens

    def produce(self) -> None:
        """Records whose times are out of order here and there."""
        new = []
        for _ in range(self.chance.randint(1, 40)):
            partition, n = self.chance.randrange(self.partitions), len(self.places)
            place = (partition, self.ends[partition])
            at_ms = T0_MS + 1000 * n + self.chance.choice([0, 0, 0, -30_000, 50_000])
            value = json.dumps({"n": n}).encode()
            kind = TimestampType.CREATE_TIME
            new.append(Record(self.topic, *place, at_ms, kind, b"k", value))
            self.times[place] = at_ms
            self.places.append(place)
            self.ends[partition] += 1
        self.deck.write(new)

    def replay(self) -> None:
        span, wanted = self.span()
        try:
            planned = api.plan(self.request(span), self.deck.configuration())
            ran(planned)
        except PlayheadError:
            # It has no records, would copy some a second time, or an archive has others at these offsets.
            assert set(self.count) <= set(self.held())
            self.count = self.held()
            return
        self.count.update(wanted)
        self.runs.append((planned, wanted))

    def run_pipeline(self) -> None:
        if not self.target.takes_pipelines:
            return
        start = self.reached or self.begins
        coming = {each for each in self.left() if each[1] >= start[each[0]]}
        is_cut = any(map(int.__lt__, start, self.begins))
        wanted = self.count + Counter(coming)
        it = self.live(f"kafka:{self.topic}", self.target.name, name=self.pipeline)

        def has_come() -> bool:
            if it.failure is not None:
                raise it.failure
            return self.held().total() >= wanted.total()

        try:
            it.start().reads()
            within(has_come, seconds=60, what=f"records of {it.name}: {it.said}")
            it.stop()
        except PlayheadError:
            # Others wrote some of them before, or the log lost what it had not read.
            assert is_cut or set(coming) & set(self.count)
            self.count = self.held()
            return
        self.count, self.reached = wanted, [*self.ends]

    def trim(self) -> None:
        partition = self.chance.randrange(self.partitions)
        begin, end = self.begins[partition], self.ends[partition]
        if begin < end:
            self.begins[partition] = self.chance.randint(begin + 1, min(end, begin + 6))
            self.deck.delete_before(self.topic, partition, self.begins[partition])

    def take(self) -> None:
        self.target.take(self.chance)
        self.count = self.held()

    def fill(self) -> None:
        span, inside = self.span()
        lacking = {each for each in inside if not self.count[each]}
        try:
            finder = GapFinder(GapQuery(self.request(span), settle_ms=0), self.deck.configuration())
            gaps = finder.find()
        except PlayheadError:
            # Nothing was begun in the target, or the log is empty.
            assert not inside or not self.count
            return
        assert missing_in(gaps) & self.left() & inside == lacking
        assert sum(each.records or 0 for each in gaps.of("missing")) == len(lacking)
        assert not (gaps.is_whole and lacking)
        if lacking and self.chance.random() < 0.7:
            ran(api.plan(finder.replay_of(gaps), self.deck.configuration()))
            self.count.update(lacking)
            assert self.is_as_counted()
            assert not finder.find().of("missing")

    def verify(self) -> None:
        if not self.runs:
            return
        planned, wrote = self.chance.choice(self.runs)
        if wrote <= self.left() and any(not self.count[each] for each in wrote):
            try:
                assert not planned.verify().agrees
            except PlayheadError:
                return  # Copies or files are gone.


def missing_in(gaps: Gaps) -> set[Place]:
    return {
        (each.slice.partition, offset)
        for each in gaps.of("missing")
        for offset in range(each.slice.from_offset, each.slice.to_offset)
    }


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(36))
def test_whatever_happens_gaps_and_proofs_say_what_is_there(
    deck: Deck, live: Live, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    target = (
        Files(tmp_path / "archive", chance)
        if seed % 3 == 0
        else (Rows, Copy)[seed % 2](deck, chance)
    )
    partitions = chance.randint(1, 3)
    session = Session(deck, live, chance, target, partitions, deck.topic("log", partitions))
    session.produce()
    steps = [session.produce, session.run_pipeline, session.trim, session.take, session.verify]
    steps += [session.replay, session.replay, session.fill, session.fill]
    done = []
    with small_slices(chance.choice([3, 8, 1000])):
        for step in chance.choices(steps, k=10):
            done.append(step.__name__)
            step()
            assert session.is_as_counted(), done
