"""Offsets behind an open transaction may be of the span: a comparison that cannot read them is not whole."""

import pytest

from playhead.gaps.gap import Gaps, GracePeriod
from playhead.gaps.unstable import unstable_gaps, unstable_of
from playhead.record import Slice
from playhead.replay.planner import freeze
from playhead.source import Bounds
from playhead.span import Span
from playhead.testing import ListSource
from tests.unit.replaying import TOPIC, record, request

T = 1_600_000_000_000
NOW = T + 10_000_000
OLD, SETTLE_MS = GracePeriod(NOW, 0), 30_000


def log(*times_ms: int, high: int) -> ListSource:
    """A partition whose stable offsets have these times, and others behind an open transaction."""
    rows = [record(offset, time_ms) for offset, time_ms in enumerate(times_ms)]
    return ListSource(rows, bounds={(TOPIC, 0): Bounds(0, len(times_ms), high)})


def ms(from_ms: int, to_ms: int) -> str:
    return f"{from_ms}..{to_ms}"


def unstable(source: ListSource, span: str, settling: GracePeriod = OLD) -> Gaps:
    asked, resolved = request(span=span), Span.parse(span).resolve(NOW * 1_000_000)
    frozen = freeze(source, source.bounds(), resolved, asked, {}, is_least=True)
    found = unstable_of(source, source.bounds(), resolved, frozen)
    gaps, notes = unstable_gaps(source, found, settling)
    spans = tuple(filter(None, (each.slice() for each in frozen.partitions)))
    return Gaps("kafka:laps", "postgres:laps", spans, tuple(gaps), "offsets", notes=tuple(notes))


TEN = [T + 1_000 * number for number in range(10)]


def test_a_span_that_an_open_transaction_cuts_is_not_whole():
    found = unstable(log(*TEN, high=30), ms(T, T + 30_000))
    assert [(each.slice, each.kind) for each in found.found] == [
        (Slice(TOPIC, 0, 10, 30), "unstable")
    ]
    assert not found.is_whole
    assert found.missing_slices() == []
    assert found.verdict() == (
        "0 missing of 10 offsets in postgres:laps, by offsets; 20 behind open transactions were NOT "
        "compared (unstable)"
    )
    document = found.as_document()
    assert (document["unstable"], document["missing"], document["is_whole"]) == (20, 0, False)
    [row] = document["gaps"]
    assert (row["state"], row["offsets"], row["records"], row["share"]) == (
        "unstable",
        20,
        None,
        None,
    )
    [note] = found.notes
    assert (note.code, note.weight) == ("open-transaction", "warn")
    assert "laps:0 offsets 10-30 are behind an open transaction" in note.text
    assert "run the command again when the transaction has ended" in note.text


def test_a_stable_record_that_is_later_than_the_span_hides_nothing_within_the_lateness():
    """The offsets after Kafka's answer are looked at and left out; those behind them may still be of it."""
    found = unstable(log(*TEN, T + 40_000, high=30), ms(T, T + 30_000))
    assert [each.slice for each in found.found] == [Slice(TOPIC, 0, 11, 30)]
    past_the_lateness = log(*TEN, T + 40_000, T + 900_000, high=30)
    assert unstable(past_the_lateness, ms(T, T + 30_000)).found == ()


@pytest.mark.parametrize(
    ("span", "is_whole"),
    [("start..end", False), ("0:0-", False), ("0:2-8", True), ("0:0-10", True)],
)
def test_named_offsets_are_all_that_was_asked_for(span, is_whole):
    assert unstable(log(*TEN, high=30), span).is_whole == is_whole


def test_without_an_open_transaction_nothing_is_unstable():
    assert unstable(log(*TEN, high=10), ms(T, T + 30_000)).found == ()


def test_what_follows_a_young_record_is_young_and_no_alarm_on_a_busy_topic():
    source = log(*TEN, NOW - 5_000, high=30)
    assert unstable(source, "start..end", GracePeriod(NOW, SETTLE_MS)).found == ()
    assert not unstable(source, "start..end", GracePeriod(NOW, 1_000)).is_whole
    ahead = log(*TEN, NOW + 90_000, high=30)
    assert not unstable(ahead, "start..end", GracePeriod(NOW, SETTLE_MS)).is_whole
