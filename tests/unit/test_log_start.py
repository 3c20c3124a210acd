"""A log that was cut inside a span by time: what the target lacks of it has expired."""

import pytest

from playhead.gaps.gap import Gap, Gaps
from playhead.gaps.log_start import (
    LogStart,
    expired_by_ledger,
    expired_by_offsets,
    log_starts_inside,
)
from playhead.inventory import HeldOffsets
from playhead.offset_bitmap import BITS, BitmapWords
from playhead.record import Slice
from playhead.source import Bounds
from playhead.span import Resolved
from playhead.testing import ListSource
from tests.unit.replaying import TOPIC, record

T = 1_600_000_000_000
PLACE = (TOPIC, 0)


def log(start: int, *offsets: int, end: int = 100) -> ListSource:
    """A partition that begins at an offset, with records of one millisecond after the other."""
    rows = [record(offset, T + offset) for offset in offsets]
    return ListSource(rows, bounds={PLACE: Bounds(start, end, end)})


def inside(source: ListSource, from_ms: int | None, to_ms: int | None = None) -> list[LogStart]:
    return log_starts_inside(source, source.bounds(), Resolved(from_ms, to_ms))


def starts(first_ms: int | None = T + 40) -> list[LogStart]:
    """The log begins at offset 40, and the span at the time of offset 20."""
    return [LogStart(Slice(*PLACE, 0, 40), T + 20, first_ms)]


class Table:
    """Which offsets it has; the record of an offset is so many milliseconds old as its number."""

    def __init__(self, *offsets: int, has_times: bool = True) -> None:
        self._offsets, self._has_times = offsets, has_times

    def held_offsets(self, spans, /, *, until_ms=None):
        there = {
            each
            for each in self._offsets
            if any(each in span for span in spans)
            and (until_ms is None or (self._has_times and T + each < until_ms))
        }
        words = [BitmapWords(n // BITS, n // BITS + 1, 1 << n % BITS) for n in sorted(there)]
        return HeldOffsets({PLACE: words} if words else {}, len(there))


def lacked(table: Table) -> list[tuple[int | None, int, bool]]:
    found = expired_by_offsets(table, starts())  # type: ignore[arg-type]
    assert bool(found.gaps) == bool(found.notes)
    return [(each.slice.from_offset, each.slice.to_offset, each.is_open) for each in found.gaps]


def test_a_log_that_was_cut_begins_inside_a_span_from_before_its_first_record():
    [start] = inside(log(40, 41, 42), T + 20)
    assert (start.before, start.first_ms) == (Slice(*PLACE, 0, 40), T + 41)
    assert str(start) == "laps:0 at offset 40 (2020-09-13T12:26:40.041Z)"
    [start] = inside(log(40, 41, 42), T + 20, T + 30)
    assert start.first_ms == T + 41, "what the span was of is gone with all of its records"
    [start] = inside(log(40, end=40), T + 20)
    assert start.first_ms is None


@pytest.mark.parametrize(
    ("source", "from_ms"),
    [
        (log(0, 41, 42), T + 20),  # nothing was deleted: the topic simply begins later
        (log(40, 41, 42), T + 41),
        (log(40, 41, 42), T + 60),
        (log(40, 41, 42), None),  # all that the log has
        (log(40, 10_000, end=10_001), T + 10_000),  # behind many offsets without a record
    ],
)
def test_a_log_that_goes_back_as_far_as_the_span_has_lost_nothing_of_it(source, from_ms):
    assert inside(source, from_ms) == []


def test_named_offsets_are_not_looked_for_by_time():
    source = log(40, 41)
    assert log_starts_inside(source, source.bounds(), Resolved(None, None)) == []


def test_what_the_table_has_of_it_has_not_expired():
    assert lacked(Table(*range(40))) == []
    assert lacked(Table(*range(40), has_times=False)) == []
    assert lacked(Table(*range(10, 40))) == [], "what is lacking is older than the span"


def test_what_the_table_lacks_behind_its_last_older_row_has_expired():
    assert lacked(Table(*range(10, 20), *range(25, 35))) == [(20, 25, False), (35, 40, False)]
    assert lacked(Table(*range(10, 15))) == [(15, 40, False)]


def test_an_older_record_that_came_late_does_not_hide_what_is_lacking_before_it():
    class Late(Table):
        def held_offsets(self, spans, /, *, until_ms=None):
            found = super().held_offsets(spans, until_ms=until_ms)
            if until_ms is not None:
                found.words[PLACE].append(BitmapWords(0, 1, 1 << 38))
            return found

    assert lacked(Late(*range(10, 20), *range(25, 30), 38)) == [
        (20, 25, False),
        (30, 38, False),
        (39, 40, False),
    ]


def test_where_no_row_is_older_nobody_knows_how_many_have_expired():
    assert lacked(Table()) == [(0, 40, True)]
    assert lacked(Table(*range(25, 40))) == [(0, 25, True)]
    assert lacked(Table(*range(10, 40), has_times=False)) == [(0, 10, True)]


def test_a_ledger_that_lacks_some_of_it_cannot_say_how_many():
    assert expired_by_ledger(starts(), []).gaps == ()
    found = expired_by_ledger(starts(), [Slice(*PLACE, 10, 40), Slice(TOPIC, 1, 0, 9)])
    [gap] = found.gaps
    assert (gap.slice.to_offset, gap.is_open, gap.last_ms) == (40, True, T + 40)
    [note] = found.notes
    assert "the log begins later: laps:0 at offset 40" in note.text


def test_it_is_said_in_the_verdict_and_in_the_rows_and_is_never_whole():
    [gap] = expired_by_ledger(starts(), [Slice(*PLACE, 0, 40)]).gaps
    found = Gaps("kafka:laps", "postgres:laps", (), (gap,), "offsets")
    assert not found.is_whole
    assert found.verdict() == (
        "0 missing of 0 offsets in postgres:laps, by offsets; the log of 1 partition begins inside the "
        "span: older records were deleted (expired)"
    )
    document = found.as_document()
    assert document["expired"] is None
    [row] = found.rows()
    assert (row["from_offset"], row["to_offset"], row["offsets"]) == (None, 40, None)
    assert (row["state"], row["share"]) == ("expired", None)
    named = Gap(Slice(*PLACE, 0, 10), "expired")
    counted = Gaps("kafka:laps", "postgres:laps", (named.slice,), (named,), "offsets")
    assert counted.as_document()["expired"] == 10
