"""Spans by time where clocks are ahead or behind: whatever the times are, no record of a span is left out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead import time_span, time_span_tail
from playhead.errors import BadValue
from playhead.gaps import search
from playhead.gaps.gap import GracePeriod
from playhead.kafka.read.scan import stretches
from playhead.record import Record, Slice, TimestampType
from playhead.source import Bounds, Reader, TopicFacts
from playhead.span import Resolved
from playhead.testing import ListSource
from playhead.time_span import LOOKED, READ_ON, SAMPLED, ReadOn, SpanGoesOn, TimeSpan
from playhead.time_span_tail import Times
from tests.unit.replaying import TOPIC, record, request

T = 1_600_000_000_000
MINUTE, HOUR = 60_000, 3_600_000
FOR_MINUTES = st.integers(0, 12)


@st.composite
def logs(draw: Any) -> ListSource:
    """Partitions whose clocks are anything: in order, a little out of order, hours ahead or behind."""
    records: list[Record] = []
    pace = draw(st.sampled_from([0, 1, 3]))
    for partition in range(draw(st.integers(1, 3))):
        offset = 0
        for number in range(draw(st.integers(0, 12))):
            offset += draw(st.integers(1, 3))
            wrong = draw(st.sampled_from([0, 0, 0, 1, -2, -4, 5, 50, -90, 10**6, -(10**6)]))
            ms = max(0, T + (number * pace + wrong) * MINUTE)
            records.append(record(offset, ms, partition=partition))
    open_from = draw(st.integers(0, 2))
    bounds = {(TOPIC, 9): Bounds(0, 0, 0)} if open_from else {}
    return ListSource(records, bounds=bounds)


def of_the_span(source: ListSource, resolved: Resolved) -> set[tuple[int, int]]:
    """What anybody would say: every record whose time is in it."""
    return {
        (each.partition, each.offset)
        for place, held in source.bounds().items()
        if held.earliest < held.stable_end
        for run in source.read(Slice(*place, held.earliest, held.stable_end))
        for each in run
        if (resolved.from_ms is None or each.timestamp_ms >= resolved.from_ms)
        and (resolved.to_ms is None or each.timestamp_ms < resolved.to_ms)
    }


def is_in(found: TimeSpan, partition: int, offset: int) -> bool:
    each = found.partitions[TOPIC, partition]
    return each.from_offset <= offset < each.to_offset


def between(start: int, length: int) -> Resolved:
    return Resolved(T + start * MINUTE, T + (start + length) * MINUTE)


def at(*minutes: int, partition: int = 0, first: int = 0) -> list[Record]:
    return [
        record(first + number, T + each * MINUTE, partition=partition)
        for number, each in enumerate(minutes)
    ]


def codes(found: TimeSpan) -> list[str]:
    return [note.code for note in found.notes]


# --- laws


@given(logs(), FOR_MINUTES, FOR_MINUTES, st.integers(0, 20), st.booleans())
def test_every_record_of_a_span_is_in_it_whatever_the_clocks_say(
    log, start, length, late, is_least
):
    resolved = between(start, length)
    found = time_span.time_span(
        log, log.bounds(), resolved, lateness_ms=late * MINUTE, read_on=ReadOn(is_least=is_least)
    )
    assert all(is_in(found, *each) for each in of_the_span(log, resolved))
    for place, each in found.partitions.items():
        held = log.bounds()[place]
        assert held.earliest <= each.from_offset <= each.span_end <= each.to_offset
        assert each.to_offset <= held.stable_end


@given(logs(), FOR_MINUTES, FOR_MINUTES, st.integers(0, 20))
def test_who_says_how_long_gets_every_record_or_a_refusal(log, start, length, minutes):
    resolved = between(start, length)
    asked = ReadOn(fixed_ms=minutes * MINUTE)
    by_index = time_span.time_span(log, log.bounds(), replace(resolved, to_ms=None)).partitions
    late = log.offsets_at((resolved.to_ms or 0) + minutes * MINUTE)
    beyond = {
        each
        for each in of_the_span(log, resolved)
        if each[1] >= max(late[TOPIC, each[0]], by_index[TOPIC, each[0]].from_offset)
    }
    if beyond:
        with pytest.raises(SpanGoesOn) as caught:
            time_span.time_span(log, log.bounds(), resolved, read_on=asked)
        assert (caught.value.place[1], caught.value.stray.offset) in beyond
        assert "--read-on end" in str(caught.value.hint)
    else:
        found = time_span.time_span(log, log.bounds(), resolved, read_on=asked)
        assert all(is_in(found, *each) for each in of_the_span(log, resolved))


@given(logs(), FOR_MINUTES, FOR_MINUTES, st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_samples_are_all_in_it_or_the_rest_is_said_to_be_unseen(
    log, start, length, near, strides, is_least
):
    resolved = between(start, length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_span_tail, "WHOLE_OFFSETS", 0)
        patch.setattr(time_span_tail, "_NEAR", near)
        patch.setattr(time_span_tail, "_STRIDE", 1)
        patch.setattr(time_span_tail, "_LAST", 1)
        patch.setattr(time_span_tail, "_STRIDES", strides)
        patch.setattr(time_span_tail, "_FEW", 1)
        found = time_span.time_span(log, log.bounds(), resolved, read_on=ReadOn(is_least=is_least))
    is_whole = all(is_in(found, *each) for each in of_the_span(log, resolved))
    assert is_whole or SAMPLED in codes(found)


@given(logs(), FOR_MINUTES, FOR_MINUTES, st.integers(0, 20))
def test_what_is_consumed_holds_every_record_of_the_span(log, start, length, lateness):
    resolved = between(start, length)
    found, _ = stretches(log, resolved, lateness_ms=lateness * MINUTE)
    held = {each.place: (each.start, each.end) for each in found}
    for partition, offset in of_the_span(log, resolved):
        first, end = held[TOPIC, partition]
        assert first <= offset < end


@given(logs(), FOR_MINUTES, FOR_MINUTES, st.data())
def test_every_missing_record_of_a_span_is_a_gap_and_no_other_is(log, start, length, data):
    resolved = between(start, length)
    wanted = of_the_span(log, resolved)
    there = data.draw(st.sets(st.sampled_from(sorted(wanted)))) if wanted else set()
    frozen = time_span.time_span(log, log.bounds(), resolved).partitions
    missing = [
        Slice(*place, offset, offset + 1)
        for place, each in frozen.items()
        for offset in range(each.from_offset, each.to_offset)
        if (place[1], offset) not in there
    ]
    joined = _joined(missing)
    seen = search.seen(
        log, joined, GracePeriod(T, 0), search.Filter(resolved.from_ms, resolved.to_ms)
    )
    told = {
        (each.slice.partition, offset)
        for each in seen.gaps
        for offset in range(each.slice.from_offset, each.slice.to_offset)
    }
    lost = wanted - there
    assert lost <= told
    assert sum(each.records or 0 for each in seen.gaps) == len(lost)
    everything = of_the_span(log, Resolved(None, None))
    assert told & everything == lost


def _joined(slices: Sequence[Slice]) -> list[Slice]:
    found: list[Slice] = []
    for each in sorted(slices):
        last = found[-1] if found else None
        if last and (last.partition, last.to_offset) == (each.partition, each.from_offset):
            found[-1] = replace(last, to_offset=each.to_offset)
        else:
            found.append(each)
    return found


# --- what is seen, and what comes of it


def test_the_least_there_is_ends_with_the_span_where_all_can_be_seen():
    log = ListSource(at(*range(30)))
    plain = time_span.time_span(log, log.bounds(), between(0, 10))
    assert plain.partitions[TOPIC, 0].to_offset == 20
    least = time_span.time_span(log, log.bounds(), between(0, 10), read_on=ReadOn(is_least=True))
    assert least.partitions[TOPIC, 0].to_offset == 10
    assert codes(least) == [LOOKED]
    log = ListSource([*at(*range(30)), record(30, T + 4 * MINUTE)])
    late = time_span.time_span(log, log.bounds(), between(0, 10), read_on=ReadOn(is_least=True))
    assert late.partitions[TOPIC, 0].to_offset == 31


def test_the_least_there_is_has_records_that_are_late_by_less_than_the_lateness():
    log = ListSource(at(0, 1, 11, 8, 9, 12))
    least = time_span.time_span(log, log.bounds(), between(0, 10), read_on=ReadOn(is_least=True))
    assert least.partitions[TOPIC, 0].to_offset == 5
    assert codes(least) == [LOOKED, READ_ON]


def test_one_record_that_is_ahead_does_not_end_the_span():
    """Fifty minutes ahead: Kafka's answer for the end is offset 2, and the lateness does not reach further."""
    log = ListSource(at(0, 1, 52, 3, 4, 5, 6, 20, 30))
    found = time_span.time_span(log, log.bounds(), between(0, 6))
    each = found.partitions[TOPIC, 0]
    assert (each.from_offset, each.span_end, each.to_offset) == (0, 2, 6)
    assert codes(found) == [LOOKED, READ_ON]
    assert "offset 3 after Kafka's end is in the span" in found.notes[1].text


def test_a_record_that_is_hours_behind_at_the_far_end_is_read():
    log = ListSource([*at(*range(0, 300, 10)), record(30, T + 5 * MINUTE)])
    found = time_span.time_span(log, log.bounds(), between(0, 10))
    assert found.partitions[TOPIC, 0].to_offset == 31


def sampled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(time_span_tail, "WHOLE_OFFSETS", 0)
    patch.setattr(time_span, "WHOLE_OFFSETS", 10**9)
    for name, offsets in (("_NEAR", 100), ("_STRIDE", 10), ("_LAST", 20)):
        patch.setattr(time_span_tail, name, offsets)


def test_where_samples_are_out_of_order_all_partitions_are_read_to_the_end(monkeypatch):
    sampled(monkeypatch)
    late = [*range(2_000), 700]
    log = ListSource([*at(*late), *at(*range(2_001), partition=1)])
    found = time_span.time_span(log, log.bounds(), between(0, 10))
    assert {each.to_offset for each in found.partitions.values()} == {2_001}
    assert codes(found) == [READ_ON, READ_ON]
    assert "offset 2000 is from" in found.notes[0].text
    assert "but not those of other partitions of the topic" in found.notes[1].text
    assert "--read-on DURATION reads less" in found.notes[0].text


def test_where_samples_are_in_order_it_is_said_how_many_there_were(monkeypatch):
    sampled(monkeypatch)
    log = ListSource(at(*range(2_000)))
    found = time_span.time_span(log, log.bounds(), between(0, 10))
    assert found.partitions[TOPIC, 0].to_offset == 20
    [note] = found.notes
    assert (note.code, note.weight) == (SAMPLED, "info")
    assert "of 1,980 offsets in 1 partition, nothing of the span" in note.text
    looked = int(note.text.split()[4].replace(",", ""))
    assert 100 < looked < 1_000
    whole = time_span.time_span(log, log.bounds(), between(0, 10), read_on=ReadOn(is_to_end=True))
    assert (whole.partitions[TOPIC, 0].to_offset, whole.notes) == (2_000, ())


def test_the_brokers_times_need_hardly_a_look(monkeypatch):
    sampled(monkeypatch)
    by_broker = [
        replace(each, timestamp_type=TimestampType.LOG_APPEND_TIME) for each in at(*range(1_500))
    ]
    facts = {TOPIC: TopicFacts(sets_log_append_time=True)}
    log = Watched(by_broker)
    found = time_span.time_span(log, log.bounds(), between(0, 10), topics=facts)
    assert found.partitions[TOPIC, 0].to_offset == 20
    assert codes(found) == [LOOKED]
    assert "the broker has set their times" in found.notes[0].text
    assert log.probes <= 4
    # A topic may have been made so only lately: then what stands behind has its producers' times.
    log = Watched([*at(*range(1_400)), *by_broker[1_400:]])
    found = time_span.time_span(log, log.bounds(), between(0, 10), topics=facts)
    assert codes(found) == [SAMPLED]
    assert log.probes > 20


def test_settings_that_bound_the_times_say_how_long_is_read_on():
    settings = {"message.timestamp.before.max.ms": str(30 * MINUTE)}
    facts = {TOPIC: TopicFacts(settings=settings)}
    log = ListSource(at(*range(300)))
    found = time_span.time_span(log, log.bounds(), between(0, 10), topics=facts)
    assert found.partitions[TOPIC, 0].to_offset == 10 + 30 + 60


def test_a_rest_that_is_short_beside_the_span_is_read(monkeypatch):
    sampled(monkeypatch)
    monkeypatch.setattr(time_span, "WHOLE_OFFSETS", 10)
    log = ListSource(at(*range(200)))
    found = time_span.time_span(log, log.bounds(), between(0, 150))
    assert found.partitions[TOPIC, 0].to_offset == 200
    assert [(note.code, note.weight) for note in found.notes] == [(READ_ON, "info")]


class Watched(ListSource):
    """Counts the probes it is asked for."""

    probes = 0
    opened = 0

    def open(self) -> AbstractContextManager[Reader]:
        self.opened += 1
        return super().open()

    def glance(
        self, probes: Sequence[Slice], /, *, within_s: float, most_bytes: int
    ) -> Iterator[tuple[Slice, Times]]:
        del within_s, most_bytes
        for each in probes:
            self.probes += 1
            found = [record for run in self.read(each) for record in run]
            yield (
                each,
                Times(
                    [r.offset for r in found],
                    [r.timestamp_ms for r in found],
                    [r.timestamp_type.value for r in found],
                ),
            )


def test_a_tail_with_large_records_is_not_read_wholly(monkeypatch):
    monkeypatch.setattr(time_span_tail, "WHOLE_BYTES", 10_000)
    large = [record(number, T + number * MINUTE, size=1_000) for number in range(19_000)]
    log = ListSource(large)
    found = time_span.time_span(log, log.bounds(), between(0, 10))
    assert codes(found) == [SAMPLED]
    sizes = {TOPIC: TopicFacts(bytes_by_partition={0: 19_000_000})}
    watched = Watched(large)
    told = time_span.time_span(watched, watched.bounds(), between(0, 10), topics=sizes)
    assert codes(told) == [SAMPLED]
    assert watched.probes > 3


def test_many_short_tails_are_seen_at_once_and_doubted_where_an_offset_is_absent():
    records = [each for partition in range(8) for each in at(*range(100), partition=partition)]
    lost = [each for each in records if (each.partition, each.offset) != (3, 60)]
    late = record(100, T + 5 * MINUTE, partition=3)
    log = Watched([*lost, late])
    found = time_span.time_span(log, log.bounds(), between(0, 10))
    assert (log.probes, log.opened) == (8, 1)
    assert codes(found) == [LOOKED, READ_ON]
    assert found.partitions[TOPIC, 3].to_offset == 101


# --- probes


@given(st.integers(1, 10**7), st.integers(1, 40))
def test_probes_lie_in_the_tail_and_hold_both_of_its_ends(length, strides):
    found = time_span_tail.probes(Slice(TOPIC, 0, 100, 100 + length), strides)
    assert found[0].from_offset == 100
    assert any(each.to_offset == 100 + length for each in found)
    assert all(100 <= each.from_offset < each.to_offset <= 100 + length for each in found)
    assert len(found) <= strides + 1


# --- what is said by hand


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("auto", ReadOn()),
        ("end", ReadOn(is_to_end=True)),
        ("1h30m", ReadOn(fixed_ms=90 * MINUTE)),
        ("0s", ReadOn(fixed_ms=0)),
        ("PT2H", ReadOn(fixed_ms=2 * HOUR)),
    ],
)
def test_what_can_be_said_by_hand(text, meant):
    assert ReadOn.parse(text) == meant


def test_what_is_no_way_to_read_on_is_refused():
    with pytest.raises(BadValue, match="needed: auto, end, or a duration such as 30m"):
        ReadOn.parse("start")


def test_a_plan_keeps_what_was_said():
    asked = request(read_on="end")
    assert type(asked).from_document(asked.as_document()) == asked
    before: Mapping[str, Any] = {k: v for k, v in asked.as_document().items() if k != "read_on"}
    assert type(asked).from_document(before).read_on == "auto"
