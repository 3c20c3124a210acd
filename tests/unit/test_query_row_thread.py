"""Rows of a topic that grows are passed on once and in their order, however late a partition shows them."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from playhead.errors import Unavailable
from playhead.queries import row_thread
from playhead.queries.row_thread import Arrived, LogGotShorter, RowThread
from playhead.querylog.located import headers_of
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Bounds, TopicPartition

PLACES = [("log", number) for number in range(3)]


class Shipped:
    """A topic into which one shipper has written: its transactions become visible one after the other.

    The last visible one may be visible in some partitions only.
    """

    def __init__(self, seed: int) -> None:
        self.rnd = random.Random(seed)
        self.rows: dict[TopicPartition, dict[int, int]] = {place: {} for place in PLACES}
        self.ends: list[dict[TopicPartition, int]] = [dict.fromkeys(PLACES, 0)]
        self.looks = 0
        self.fails = self.rnd.random() < 0.5
        at = 0
        for _ in range(30):
            end = dict(self.ends[-1])
            for _ in range(self.rnd.randrange(1, 6)):
                place = self.rnd.choice(PLACES)
                at += self.rnd.randrange(1, 9)
                self.rows[place][end[place]] = at
                end[place] += 1
            for place in PLACES:
                end[place] += end[place] > self.ends[-1][place]  # The marker of its commit.
            self.ends.append(end)

    @property
    def all_rows(self) -> list[int]:
        return sorted(at for rows in self.rows.values() for at in rows.values())

    @contextmanager
    def watched(self) -> Iterator[Callable[[], Mapping[TopicPartition, Bounds]]]:
        yield self._look

    def _look(self) -> dict[TopicPartition, Bounds]:
        self.looks += 1
        if self.fails and self.looks % 7 == 0:
            raise Unavailable("no broker")
        last = min(self.looks // 2, len(self.ends) - 1)
        found = {}
        for place in PLACES:
            whole = self.looks % 2 or self.rnd.random() < 0.5 or last == 0
            end = self.ends[last if whole else last - 1][place]
            found[place] = Bounds(0, end, end)
        for place, end in self.ends[max(0, last - 1)].items():
            assert found[place].stable_end >= end
        return self._ascending(found)

    _before: Mapping[TopicPartition, Bounds] | None = None

    def _ascending(self, found: dict[TopicPartition, Bounds]) -> dict[TopicPartition, Bounds]:
        if self._before is not None:
            for place, bounds in self._before.items():
                if found[place].stable_end < bounds.stable_end:
                    found[place] = bounds
        self._before = found
        return found

    @contextmanager
    def open(self) -> Iterator["Shipped"]:
        yield self

    def read(self, slice_: Slice) -> Iterator[Records]:
        rows = self.rows[slice_.topic, slice_.partition]
        offsets = [each for each in rows if slice_.from_offset <= each < slice_.to_offset]
        for start in range(0, len(offsets), 2):
            if self.fails and self.rnd.random() < 0.05:
                raise Unavailable("the broker has gone")
            some = offsets[start : start + 2]
            yield Records(
                slice_.topic,
                slice_.partition,
                offsets=some,
                values=[b"%d" % rows[each] for each in some],
                headers=[headers_of(rows[each]) for each in some],
            )


def taken(source: Any, starts: dict[TopicPartition, int], *, rows: int) -> list[Arrived]:
    found: list[Arrived] = []
    until = time.monotonic() + 20
    with RowThread(source, starts) as thread:
        while sum(len(each.rows) for each in found) < rows:
            each = thread.take()
            if each is not None:
                found.append(each)
            assert time.monotonic() < until
    return found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_thread, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(row_thread, "_RETRY_S", 0.0)


@pytest.mark.parametrize("seed", range(60))
def test_every_row_once_and_in_order(seed: int) -> None:
    source = Shipped(seed)
    expected = source.all_rows[:-6]  # The last ones become sure with a transaction behind them.
    found = taken(source, dict.fromkeys(PLACES, 0), rows=len(expected))
    rows = [row for each in found for row in each.rows]
    assert [row.at for row in rows] == source.all_rows[: len(rows)]
    for each in found:
        seen = [row for other in found[: found.index(each) + 1] for row in other.rows]
        for place, position in each.positions.items():
            mine = [row.offset for row in seen if row.partition == place]
            assert position > max(mine, default=-1)
            assert not [at for at in source.rows[place] if max(mine, default=-1) < at < position]


def test_it_begins_where_it_is_told_to() -> None:
    source = Shipped(3)
    source.fails = False
    starts = {place: source.ends[10][place] for place in PLACES}
    expected = sorted(
        at
        for place in PLACES
        for offset, at in source.rows[place].items()
        if offset >= starts[place]
    )
    source.looks = 20
    found = taken(source, starts, rows=len(expected) - 6)
    rows = [row.at for each in found for row in each.rows]
    assert rows == expected[: len(rows)]


def test_a_topic_that_got_shorter_ends_it() -> None:
    source = Shipped(4)
    with pytest.raises(LogGotShorter, match="was read up to offset 1,000, and ends at"):
        taken(source, dict.fromkeys(PLACES, 1_000), rows=1)


def test_why_it_cannot_be_read_is_told() -> None:
    source = Shipped(5)
    source.fails = True
    found = taken(source, dict.fromkeys(PLACES, 0), rows=len(source.all_rows) - 6)
    assert {"", "no broker"} <= {each.away for each in found}
