"""A tape that grows and is forgotten: every row is in exactly one ledger entry, whatever is held back how long."""

import random
from collections import Counter
from typing import Any

import pytest

from playhead.ledger import Entry
from playhead.queries.filters import Filters
from playhead.queries.log import Log
from playhead.queries.outcome import Outcome, Played
from playhead.queries.settling import NO_RECORD, NO_STATEMENT, Settling
from playhead.queries.tape import TapeWriter
from playhead.querylog.statement import Act, Statement
from playhead.record import Slice
from playhead.source import TopicPartition

PARTS: list[TopicPartition] = [("log", 0), ("log", 1)]


class Growing:
    """A log whose rows come one by one, and whose statements come later, in any order between sessions."""

    def __init__(self, seed: int) -> None:
        self.rnd = random.Random(seed)
        no_source: Any = None
        self.log = Log(no_source, [], parts=list(PARTS))
        self.writer = TapeWriter(Filters().reason, "commit", is_growing=True)
        self.settling = Settling(self.writer.tape, self.log)
        self.ends = dict.fromkeys(PARTS, 0)
        self.written = dict.fromkeys(PARTS, 0)
        self.held: list[Statement] = []
        self.open: list[int] = []
        self.entries: list[Entry] = []
        self.rows = Counter[TopicPartition]()
        self.with_statement = Counter[TopicPartition]()
        self.most_kept = 0

    def add_row(self) -> None:
        part, place = self.rnd.choice(PARTS), len(self.log)
        offset = self.ends[part] + self.rnd.choice((0, 0, 1, 3))
        self.log.part_of.append(PARTS.index(part))
        self.log.offset_of.append(offset)
        self.ends[part] = offset + 1
        self.rows[part] += 1
        if self.rnd.random() < 0.7:
            session, sql = f"a.{self.rnd.randrange(5)}", f"SELECT {place}"
            self.held.append(Statement(session, place + 1, place, Act.QUERY, place, sql))
            self.with_statement[part] += 1

    def give(self, *, all_: bool = False) -> None:
        """Some statements are known to have ended."""
        given = [each for each in self.held if all_ or self.rnd.random() < 0.3]
        self.held = [each for each in self.held if each not in given]
        first = len(self.writer.tape)
        self.writer.add(given, read_to=len(self.log) - 1)
        self.settling.grow(min((each.place for each in self.held), default=len(self.log)))
        self.open += range(first, len(self.writer.tape))

    def settle(self, *, all_: bool = False) -> None:
        for at in [each for each in self.open if all_ or self.rnd.random() < 0.4]:
            self.open.remove(at)
            self.settling.settle(at, Played(Outcome.REPLAYED, line=self.writer.tape.lines[at]))

    def write(self) -> None:
        rest = {
            place: Slice(*place, self.written[place], end)
            for place, end in self.ends.items()
            if self.written[place] < end
        }
        for entry in self.settling.settled(rest):
            place = (entry.slice.topic, entry.slice.partition)
            assert entry.slice.from_offset == self.written[place]
            self.written[place] = entry.slice.to_offset
            self.entries.append(entry)
        self.writer.tape.numbers.seal()
        self.settling.forget()
        texts: Any = self.writer.tape.texts
        self.most_kept = max(self.most_kept, len(texts._texts))


@pytest.mark.parametrize("seed", range(40))
def test_every_row_is_in_one_entry(seed: int) -> None:
    grown = Growing(seed)
    for _ in range(300):
        grown.rnd.choice([grown.add_row] * 4 + [grown.give, grown.settle, grown.write])()
    grown.give(all_=True)
    grown.settle(all_=True)
    grown.write()
    assert grown.written == grown.ends
    for place in PARTS:
        mine = [each for each in grown.entries if (each.slice.topic, each.slice.partition) == place]
        blank = sum((Counter(each.absences) for each in mine), Counter[str]())
        assert sum(each.read for each in mine) == grown.with_statement[place]
        assert blank[NO_STATEMENT] == grown.rows[place] - grown.with_statement[place]
        assert blank[NO_RECORD] == grown.ends[place] - grown.rows[place]


def test_what_is_settled_is_forgotten() -> None:
    grown = Growing(1)
    for _ in range(3_000):
        grown.add_row()
        grown.rnd.choice([grown.give, grown.settle, grown.write])()
    assert len(grown.writer.tape) > 1_500
    assert grown.most_kept < 200


def test_nothing_is_in_an_entry_before_it_is_known() -> None:
    """A statement that is held back keeps its row and all later ones out of the ledger."""
    grown = Growing(2)
    while not grown.held:
        grown.add_row()
    first = grown.held.pop(0)
    for _ in range(200):
        grown.add_row()
    held, grown.held = grown.held, [first]
    grown.writer.add(held, read_to=len(grown.log) - 1)
    grown.settling.grow(first.place)
    grown.open += range(len(grown.writer.tape))
    grown.settle(all_=True)
    grown.write()
    assert sum(each.read for each in grown.entries) == 0
    offsets = sum(grown.written.values())
    assert offsets <= first.place * 4
    grown.give(all_=True)
    grown.settle(all_=True)
    grown.write()
    assert sum(each.read for each in grown.entries) == len(grown.writer.tape)
