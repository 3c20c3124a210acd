"""The order of a log's rows, when they lie in several partitions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from playhead.queries.log import Log
from playhead.querylog.located import headers_of
from playhead.record import Slice

BEGINNING = (
    '2026-01-01 00:00:00.000 UTC,"u","d",1,"",{session}.1,{line},"",2026-01-01 00:00:00 UTC,1/0,0,'
)
ROW = (
    BEGINNING
    + 'LOG,00000,"duration: 1.000 ms  statement: SELECT {line}",,,,,,,,,"","client backend",,0'
)
UNREAD = "unread"
"""The session of a row that cannot be read."""
Rows = Sequence[tuple[str, int, int | None]]


class Source:
    """Partitions with rows: session, line, and place."""

    def __init__(self, *partitions: Rows) -> None:
        self._partitions = partitions

    @contextmanager
    def open(self) -> Iterator["Source"]:
        yield self

    def read(self, slice_: Slice) -> Iterator[Any]:
        rows = self._partitions[slice_.partition]
        yield SimpleNamespace(
            topic=slice_.topic,
            partition=slice_.partition,
            offsets=range(len(rows)),
            values=[ROW.format(session=name, line=line).encode() for name, line, _ in rows],
            headers=[() if place is None else headers_of(place) for *_, place in rows],
            undecoded={at: "no headers" for at, (name, *_) in enumerate(rows) if name == UNREAD},
        )


def read(*partitions: Rows) -> tuple[Log, list[str]]:
    source: Any = Source(*partitions)
    log = Log(source, [Slice("t", n, 0, len(rows)) for n, rows in enumerate(partitions)])
    return log, [each.sql for each in log.statements() if each.sql]


def test_places_order_the_rows_of_partitions() -> None:
    log, texts = read([("a", 1, 10), ("a", 4, 40)], [("b", 2, 20), ("b", 3, 30)])
    assert texts == ["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4"]
    assert log.has_order
    assert log.misplaced == 0


def test_a_row_that_comes_twice_is_not_out_of_order() -> None:
    log, texts = read([("a", 1, 10), ("a", 2, 20), ("a", 1, 10), ("a", 3, 30)])
    assert texts == ["SELECT 1", "SELECT 2", "SELECT 3"]
    assert log.misplaced == 0


def test_rows_behind_later_ones_are_counted() -> None:
    log, _ = read([("a", 1, 20), ("b", 1, 10), ("b", 2, 30)])
    assert log.misplaced == 1


@pytest.mark.parametrize(("partitions", "has_order"), [(1, True), (2, False)])
def test_without_places_partitions_have_no_order(partitions: int, has_order: bool) -> None:
    log, _ = read(*[[("ab"[n], 1, None)] for n in range(partitions)])
    assert log.has_order is has_order


def test_a_row_that_cannot_be_read_is_counted_and_moves_no_other() -> None:
    """Anyone who may write to the topic can write one, and its place cannot be read."""
    first = [("a", 1, 0), *[(UNREAD, 9, None)] * 4, ("a", 3, 2)]
    log, texts = read(first, [("b", 2, 1), ("b", 4, 3)])
    assert texts == ["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4"]
    assert (log.has_order, log.misplaced, len(log)) == (True, 0, 8)
    assert log.reader.counts.not_rows == {"no headers": 4}
