"""Plans over lists: what is frozen, what is refused, what is said, and that samples are what would be played."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.errors import Refused
from playhead.kafka.read.scan import stretches
from playhead.ledger import Entry
from playhead.note import Note
from playhead.plan import Estimate, PartitionPlan, Plan
from playhead.proof import prove
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.replay import samples as sampling
from playhead.replay.assemble import Wiring
from playhead.replay.plan_notes import MixedTimes
from playhead.replay.planner import NothingThere, Planner
from playhead.shown import shown_span
from playhead.source import Bounds, SourceFacts, TimesDisagree, TopicFacts, TopicPartition
from playhead.span import Span
from playhead.target import Inspection, InspectRequest
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, record, request

NOW_NS = 1_800_000_000_000_000_000
TEN = [record(offset, 1_600_000_000_000 + 1_000 * offset) for offset in range(10)]
T = 1_600_000_000_000


class Shown(ListTarget):
    """Remembers what it was shown."""

    look: InspectRequest | None = None
    identity = "shown"

    def inspect(self, look: InspectRequest, /) -> Inspection:
        self.look = look
        return Inspection(
            self.identity, (Note("target", "a word of the target's"),), ("a table",), {"a": 1}
        )

    def preview(self, records: Records, /) -> Sequence[Mapping[str, Any]]:
        return [{"offset": offset} for offset in records.offsets]


def planned(
    source: ListSource,
    span: str = "start..end",
    *,
    target: ListTarget | None = None,
    **changes: Any,
) -> Plan:
    how = {name: changes.pop(name) for name in ("transformed", "known_rate") if name in changes}
    asked = request(span=span, **changes)
    return Planner(asked, Wiring(source, target or Shown(), None), NOW_NS, **how).plan("r1")


class Forgetful(ListSource):
    """Says of the first times it is asked for that nothing is there."""

    lies = 1

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        if self.lies:
            self.lies -= 1
            return {place: held.stable_end for place, held in self.bounds().items()}
        return super().offsets_at(instant_ms)


class Contradictory(ListSource):
    """Puts the earlier time behind the later one, however often it is asked."""

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        return {(TOPIC, 0): 10 if instant_ms == T + 2_000 else 5}


def offsets(plan: Plan) -> list[tuple[int, int, int]]:
    return [(each.from_offset, each.span_end, each.to_offset) for each in plan.partitions]


def span_ms(from_ms: int, to_ms: int) -> str:
    return f"{from_ms}..{to_ms}"


# --- freezing


def test_a_time_that_leads_behind_a_later_one_is_asked_for_again():
    forgetful = Forgetful(TEN)
    assert offsets(planned(forgetful, f"{T + 2_000}..{T + 5_000}", lateness_ms=2_000)) == [
        (2, 5, 7)
    ]
    assert forgetful.lies == 0


def test_what_is_consumed_asks_again_too():
    span = Span.parse(f"{T + 2_000}..{T + 5_000}").resolve(NOW_NS)
    found, _ = stretches(Forgetful(TEN), span, lateness_ms=2_000)
    assert [(each.start, each.end) for each in found] == [(2, 7)]


def test_times_that_never_agree_are_no_plan():
    with pytest.raises(TimesDisagree) as caught:
        planned(Contradictory(TEN), f"{T + 2_000}..{T + 5_000}")
    assert str(caught.value) == (
        f"{TOPIC}:0: the offset of 2020-09-13T12:26:42.000Z is 10, "
        "but that of the later 2020-09-13T12:26:45.000Z is 5"
    )


def test_the_whole_log_is_what_can_be_read_of_it():
    bounds = {(TOPIC, 0): Bounds(0, 10, 14), (TOPIC, 1): Bounds(3, 3, 3)}
    plan = planned(ListSource(TEN, bounds=bounds))
    assert plan.partitions == (
        PartitionPlan(TOPIC, 0, 0, 10, 10, 0, 10, 14),
        PartitionPlan(TOPIC, 1, 3, 3, 3, 3, 3, 3),
    )
    assert (plan.from_ms, plan.to_ms, plan.planned) == (None, None, 10)
    assert shown_span(plan) == "[start, end)"


def test_a_span_of_time_reads_on_for_late_records():
    plan = planned(ListSource(TEN), span_ms(T + 1_500, T + 5_000), lateness_ms=3_000)
    assert offsets(plan) == [(2, 5, 8)]
    assert (plan.from_ms, plan.to_ms) == (T + 1_500, T + 5_000)
    assert offsets(planned(ListSource(TEN), span_ms(T, T + 5_000), lateness_ms=0)) == [(0, 5, 5)]


def test_a_time_past_the_last_record_is_the_end_and_not_the_beginning():
    late = span_ms(T + 60_000, T + 90_000)
    assert offsets(planned(ListSource(TEN), late)) == [(10, 10, 10)]
    assert offsets(planned(ListSource(TEN), span_ms(T + 8_000, T + 90_000))) == [(8, 10, 10)]


@st.composite
def logs(draw: st.DrawFn) -> tuple[ListSource, list[Record]]:
    found, bounds = [], {}
    for partition in range(draw(st.integers(1, 3))):
        earliest, stable, high = sorted(draw(st.tuples(*[st.integers(0, 30)] * 3)))
        bounds[TOPIC, partition] = Bounds(earliest, stable, high)
        held = draw(st.sets(st.integers(earliest, high), max_size=12))
        found += [
            record(offset, T + draw(st.integers(0, 40)), partition=partition)
            for offset in sorted(held - {high})
        ]
    return ListSource(found, bounds=bounds), found


@given(logs(), st.integers(0, 40), st.integers(0, 40), st.integers(0, 20))
def test_no_record_of_the_span_lies_before_what_is_planned(log, start, length, lateness_ms):
    source, records = log
    low, high = T + start, T + start + length + 1
    plan = planned(source, span_ms(low, high), lateness_ms=lateness_ms)
    held = source.bounds()
    for each in plan.partitions:
        bounds = held[each.place]
        assert bounds.earliest <= each.from_offset <= each.span_end <= each.to_offset
        assert each.to_offset <= bounds.stable_end
        inside = [
            r.offset
            for r in records
            if (r.partition, low <= r.timestamp_ms < high) == (each.partition, True)
            and r.offset < bounds.stable_end
        ]
        assert all(offset >= each.from_offset for offset in inside)
        late = [offset for offset in inside if offset >= each.to_offset]
        assert not late or any(
            r.timestamp_ms >= high + lateness_ms and r.offset == each.to_offset
            for r in records
            if r.partition == each.partition
        )


class Moving(ListSource):
    """A log that grows, and loses its oldest records, between two questions."""

    def offsets_at(self, instant_ms: int, /) -> Mapping[TopicPartition, int]:
        return {(TOPIC, 0): 3 if instant_ms == T else 99, (TOPIC, 9): 5}


def test_what_was_not_there_at_the_first_question_is_not_planned():
    source = Moving(TEN[5:], bounds={(TOPIC, 0): Bounds(5, 10, 10)})
    assert offsets(planned(source, span_ms(T, T + 9_000))) == [(5, 10, 10)]


# --- by offsets


def test_offsets_are_planned_as_they_were_asked_for():
    source = ListSource([*TEN, record(0, partition=1)])
    plan = planned(source, "laps:0:2-5")
    assert [(each.place, each.planned) for each in plan.partitions] == [((TOPIC, 0), 3)]
    assert offsets(plan) == [(2, 5, 5)]
    assert offsets(planned(source, "1:-, 0:4-")) == [(4, 10, 10), (0, 1, 1)]
    assert offsets(planned(source, "0:-3")) == [(0, 3, 3)]


def test_several_runs_of_one_partition_are_planned_in_order():
    plan = planned(ListSource([*TEN, record(0, partition=1)]), "1:0-1,0:7-9,0:-2,0:4-5")
    assert [(each.place[1], each.from_offset, each.to_offset) for each in plan.partitions] == [
        (0, 0, 2),
        (0, 4, 5),
        (0, 7, 9),
        (1, 0, 1),
    ]
    assert plan.span_ends() == {(TOPIC, 0): 9, (TOPIC, 1): 1}
    assert plan.places() == {(TOPIC, 0), (TOPIC, 1)}


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        ("laps:7:0-1", "the source has no partition laps:7"),
        ("others:0:0-1", "the source has no partition others:0"),
    ],
)
def test_what_is_not_there_is_named(span, reason):
    with pytest.raises(NothingThere, match=reason):
        planned(ListSource(TEN), span)


def test_a_partition_of_several_topics_needs_its_topic():
    source = ListSource([*TEN, replace(TEN[0], topic="other")])
    with pytest.raises(NothingThere, match="without a topic, but the source has 2 topics"):
        planned(source, "0:0-1")


@pytest.mark.parametrize("span", ["0:1-9", "0:5-11", "0:1-"])
def test_offsets_that_the_log_does_not_hold_are_refused_with_those_it_does(span):
    source = ListSource(TEN[4:], bounds={(TOPIC, 0): Bounds(4, 10, 12)})
    with pytest.raises(Refused, match="the partition holds 4-10") as caught:
        planned(source, span)
    assert "--offsets laps:0:" in caught.value.hint


@pytest.mark.parametrize("span", ["0:50-", "0:-2", "0:1-3", "0:11-12"])
def test_offsets_beyond_an_end_of_the_log_are_refused(span):
    source = ListSource(TEN[4:], bounds={(TOPIC, 0): Bounds(4, 10, 10)})
    asked = span.removeprefix("0:")
    with pytest.raises(Refused, match=f"laps:0 offsets {asked} do not exist") as caught:
        planned(source, span)
    assert caught.value.hint == "use existing offsets: --offsets laps:0:4-10"


def test_offsets_of_an_empty_partition_have_no_other_to_name():
    source = ListSource([], bounds={(TOPIC, 0): Bounds(4, 4, 4)})
    with pytest.raises(Refused) as caught:
        planned(source, "0:0-9")
    assert caught.value.hint == "the partition has no records that can be read"
    assert planned(source, "0:4-").planned == planned(source, "0:-4").planned == 0


# --- what is said


def codes(plan: Plan) -> list[str]:
    return [note.code for note in plan.notes]


def test_the_targets_and_the_sources_words_are_in_the_plan():
    plan = planned(ListSource(TEN))
    assert codes(plan) == ["target"]
    assert (plan.target.creates, plan.target.needs) == (("a table",), {"a": 1})


def test_a_span_that_begins_before_the_log_says_what_may_be_gone():
    source = ListSource(TEN[4:])
    plan = planned(source, span_ms(T + 2_000, T + 9_000))
    [note] = [note for note in plan.notes if note.code == "expired"]
    assert "laps:0 from 4" in note.text
    for start in (T + 4_000, T + 5_000):
        assert "expired" not in codes(planned(source, span_ms(start, T + 9_000)))
    assert "expired" not in codes(planned(source))
    assert "expired" not in codes(planned(ListSource(TEN), span_ms(T - 5_000, T + 9_000)))


def test_open_transactions_at_the_end_are_said():
    source = ListSource(TEN, bounds={(TOPIC, 0): Bounds(0, 8, 10)})
    [note] = [note for note in planned(source).notes if note.code == "open-transaction"]
    assert "laps:0 ends at 8: a transaction is still open there, and the 2 offsets" in note.text
    span = span_ms(T, T + 3_000)
    assert "open-transaction" in codes(planned(source, span))  # which late ones may be in
    assert "open-transaction" not in codes(planned(source, span, lateness_ms=500))


def test_a_proof_of_a_span_by_time_says_what_could_not_be_read_behind_an_open_transaction():
    source = ListSource(TEN, bounds={(TOPIC, 0): Bounds(0, 8, 10)})
    plan = planned(source, span_ms(T, T + 30_000))
    [note] = [note for note in plan.notes if note.code == "open-transaction"]
    assert "records of the span may be among them: when the transaction has ended, " in note.text
    proof = prove(plan, [Entry(Slice(TOPIC, 0, 0, 8), 8, 8)])
    assert proof.adds_up
    assert proof.verdict() == (
        "proved: 8 offsets = 8 written; 0 missing, 0 duplicates; NOT the whole span: 2 offsets "
        "behind an open transaction could not be read"
    )
    assert proof.as_document()["unstable"] == 2
    assert note in proof.notes


def test_a_span_without_times_is_all_that_can_be_read():
    plan = planned(ListSource(TEN, bounds={(TOPIC, 0): Bounds(0, 8, 10)}))
    assert plan.unstable == 0
    assert planned(ListSource(TEN), span_ms(T, T + 30_000)).unstable == 0
    proof = prove(plan, [Entry(Slice(TOPIC, 0, 0, 8), 8, 8)])
    assert proof.verdict() == "proved: 8 offsets = 8 written; 0 missing, 0 duplicates"
    assert "open-transaction" in [note.code for note in proof.notes]


class Saying(ListSource):
    """A source that says of open transactions what the plan will say more exactly."""

    def facts(self) -> SourceFacts:
        told = (Note("open-transaction", "ends in a transaction"), Note("group-live", "reading"))
        return replace(super().facts(), notes=told)


def test_an_empty_span_by_time_says_where_the_records_are():
    [note] = [
        note
        for note in planned(ListSource(TEN), span_ms(T + 20_000, T + 30_000)).notes
        if note.code == "no-records"
    ]
    assert "the records of laps are from" in note.text
    assert "no-records" not in codes(planned(ListSource(TEN), "0:5-5"))
    assert "no-records" not in codes(planned(ListSource([], bounds={(TOPIC, 0): Bounds(4, 4, 4)})))


def test_a_transaction_that_has_ended_since_is_no_alarm():
    class Busy(ListSource):
        is_open = False

        def open_transactions(self, bounds):
            return set(bounds) if self.is_open else set()

    source = Busy(TEN, bounds={(TOPIC, 0): Bounds(0, 8, 10)})
    assert "open-transaction" not in codes(planned(source))
    source.is_open = True
    [note] = [note for note in planned(source).notes if note.code == "open-transaction"]
    assert "a transaction is still open there, and the 2 offsets after it" in note.text


def test_open_transactions_are_said_once():
    source = Saying(TEN, bounds={(TOPIC, 0): Bounds(0, 8, 10)})
    assert codes(planned(source)) == ["open-transaction", "group-live", "target"]
    assert codes(planned(source, "0:0-3")) == ["group-live", "target"]


FAR = 4_102_444_800_000


def with_one_of_the_future(at: int) -> ListSource:
    """Ten records, and between them one of the year 2100."""
    before, after = TEN[:at], [replace(each, offset=each.offset + 1) for each in TEN[at:]]
    return ListSource([*before, record(at, FAR), *after])


def test_records_of_the_span_behind_one_of_the_future_are_read():
    """Kafka's answer for a time is the first record at or after it."""
    plan = planned(with_one_of_the_future(3), span_ms(T, T + 8_000), lateness_ms=500)
    assert offsets(plan) == [(0, 3, 9)]
    [note] = [note for note in plan.notes if note.code == "read-on"]
    assert note.weight == "warn"
    assert note.text == (
        "laps:0 is read on from 3 to 9: offset 4 after Kafka's end is in the span "
        "(2020-09-13T12:26:43.000Z): clocks disagree"
    )


def test_what_stands_behind_the_end_is_looked_at():
    span = span_ms(T, T + 8_000)
    plan = planned(ListSource(TEN), span, lateness_ms=500)
    [note] = [note for note in plan.notes if note.code == "looked"]
    assert note.text == "looked past the end: all 1 offsets in 1 partition, nothing of the span"
    assert codes(planned(ListSource(TEN), span)) == ["target"]
    assert codes(planned(with_one_of_the_future(3))) == ["target"]


def test_a_record_of_the_future_is_said_where_times_are_played():
    [note] = [n for n in planned(with_one_of_the_future(3), pace="1x").notes if n.code == "future"]
    assert "laps:0 offset 3 has a time in the future, 2100-01-01" in note.text
    assert "future" not in codes(planned(with_one_of_the_future(3), pace="5/s"))
    assert "future" not in codes(planned(ListSource(TEN), pace="1x"))
    all_of_it = ListSource([record(offset, FAR + offset) for offset in range(3)])
    assert "future" not in codes(planned(all_of_it, pace="1x"))


@pytest.mark.slow  # makes large records
@pytest.mark.parametrize("matching", [1, 7])
def test_samples_of_large_records_are_few(matching):
    """700 of 900 kB took the engine down while it planned; here are fewer, and each has the same body."""
    body = b"x" * 900_000
    large = [replace(record(number, T + number), value=body) for number in range(140)]
    seen: list[Records] = []

    def transformed(samples: Sequence[Records]) -> Sequence[Records]:
        seen.extend(samples)
        return samples

    span = span_ms(T, T + 140 // matching)
    plan = planned(ListSource(large), span, transformed=transformed)
    assert 0 < sum(each.size_bytes() for each in seen) < 24 << 20
    assert seen[0].offsets[0] == 0
    assert seen[-1].offsets[-1] == 140 // matching - 1
    assert len(plan.as_json()) < 100_000


def test_a_sample_holds_one_record_however_large_it_is():
    huge = [replace(record(number, T + number), value=b"x" * (20 << 20)) for number in range(3)]
    shown = Shown()
    planned(ListSource(huge), target=shown)
    assert shown.look is not None
    assert [each.offsets for each in shown.look.samples] == [[0], [2]]


def by_broker(records: list[Record]) -> list[Record]:
    return [replace(each, timestamp_type=TimestampType.LOG_APPEND_TIME) for each in records]


SPAN = span_ms(T, T + 9_000)


def test_the_brokers_time_is_said_where_the_span_is_by_time():
    source = ListSource(by_broker(TEN), topics={TOPIC: TopicFacts(sets_log_append_time=True)})
    assert "log-append-time" in codes(planned(source, SPAN))
    assert "log-append-time" not in codes(planned(source))


def test_times_of_two_kinds_in_one_topic_are_refused_where_they_would_matter():
    source = ListSource([*TEN[:5], *by_broker(TEN[5:])])
    with pytest.raises(MixedTimes, match="topic laps has both producers'"):
        planned(source, SPAN)
    assert planned(source).planned == planned(source, "0:0-10").planned == 10


def test_topics_with_times_of_two_kinds_are_refused():
    others = [replace(each, topic="others") for each in by_broker(TEN)]
    with pytest.raises(MixedTimes, match="others have the broker's times, laps producers'"):
        planned(ListSource([*TEN, *others]), SPAN)


def test_how_a_topic_is_set_today_does_not_refuse_what_was_written_before():
    source = ListSource(TEN, topics={TOPIC: TopicFacts(sets_log_append_time=True)})
    assert "timestamp-type" in codes(planned(source, SPAN))


def test_an_empty_topic_has_no_times():
    empty = {("empty", 0): Bounds(0, 0, 0)}
    facts = {"empty": TopicFacts(sets_log_append_time=True)}
    assert planned(ListSource(TEN, bounds=empty, topics=facts), SPAN).planned == 10


class Cluster(Shown):
    def __init__(self, identity: str) -> None:
        super().__init__()
        self.identity = identity


def test_one_cluster_under_two_addresses_is_one():
    source = ListSource(TEN)
    same = Cluster(source.facts().identity)
    for target in ("kafka:laps", "kafka://elsewhere:9/{topic}"):
        with pytest.raises(Refused, match="laps would be replayed into itself"):
            Planner(request(target=target), Wiring(source, same, None), NOW_NS).plan()
    assert Planner(request(target="kafka:copy"), Wiring(source, same, None), NOW_NS).plan()
    assert Planner(request(target="kafka:laps"), Wiring(source, Shown(), None), NOW_NS).plan()


# --- samples and estimates


def test_samples_are_the_first_and_the_last_and_what_the_target_was_shown():
    many = [record(offset, T + offset) for offset in range(2_000)]
    target = Shown()
    plan = planned(ListSource(many), target=target)
    shown = [row["offset"] for row in plan.samples]
    assert shown == [0, 1, 2, 1_997, 1_998, 1_999]
    assert target.look.partitions == {TOPIC: 1}
    assert target.look.oldest_ms == T
    assert [len(records) for records in target.look.samples] == [500, 3]


def test_a_sample_is_no_deeper_than_a_person_reads():
    """The writer of a record decides how deep its value is; nothing of ours can follow it for ever."""
    deep = []
    for _ in range(100_000):
        deep = [deep]

    class Deep(Shown):
        def preview(self, _):
            return [{"doc": {"a": deep}}]

    [sample, *_] = planned(ListSource([record(0, T)]), target=Deep()).samples
    assert json.dumps(sample).count("[") == 19


def test_samples_pass_through_the_transform():
    target = Shown()
    plan = planned(
        ListSource(TEN),
        target=target,
        transformed=lambda samples: [each.pick([1, 4]) for each in samples],
    )
    assert [row["offset"] for row in plan.samples] == [1, 4]
    assert [list(each.offsets) for each in target.look.samples] == [[1, 4]]


def test_samples_are_of_the_span():
    plan = planned(ListSource(TEN), span_ms(T + 2_000, T + 5_000))
    assert [row["offset"] for row in plan.samples] == [2, 3, 4]


def test_samples_are_found_behind_absent_offsets():
    """As after a compaction; a table would be made without a column otherwise."""
    source = ListSource(
        [record(700), record(701), record(2_000)], bounds={(TOPIC, 0): Bounds(0, 2_500, 2_500)}
    )
    target = Shown()
    planned(source, target=target)
    assert [offset for each in target.look.samples for offset in each.offsets][:2] == [700, 701]


def test_samples_end_with_records_and_not_with_what_is_absent():
    many = [record(offset, T + offset) for offset in range(1_000)]
    source = ListSource(many, bounds={(TOPIC, 0): Bounds(0, 9_000, 9_000)})
    shown = [row["offset"] for row in planned(source).samples]
    assert shown == [0, 1, 2, 997, 998, 999]


def test_where_all_records_of_the_span_are_late_they_are_the_samples():
    source = ListSource([record(0, T + 9_000), record(1, T + 1_000)])
    plan = planned(source, span_ms(T, T + 2_000))
    assert offsets(plan) == [(0, 0, 2)]
    assert [row["offset"] for row in plan.samples] == [1]


def test_records_without_a_time_do_not_count_as_the_oldest():
    none = replace(TEN[0], timestamp_ms=-1, timestamp_type=TimestampType.NONE)
    target = Shown()
    planned(ListSource([none, *TEN[1:]]), target=target)
    assert target.look.oldest_ms == T + 1_000


def test_an_estimate_tells_what_it_rests_on():
    sizes = {TOPIC: TopicFacts(bytes_by_partition={0: 1_000})}
    source = ListSource(TEN, topics=sizes)
    plan = planned(source, "0:0-4", known_rate=2.0)
    assert (plan.estimate.records, plan.estimate.size_bytes, plan.estimate.seconds) == (4, 400, 2.0)
    assert "the work of comparable runs" in plan.estimate.based_on
    told = planned(source).estimate.based_on
    assert told.endswith(
        "an assumed rate of 100,000 records/s; no comparable run of 10,000 records here yet"
    )
    assert planned(ListSource(TEN)).estimate.size_bytes is None
    paced = planned(source, pace="2x").estimate
    assert (paced.seconds, paced.based_on) == (4.5, "pace 2x")
    assert planned(source, pace="2/s").estimate.seconds == 5.0
    assert planned(ListSource([], bounds={(TOPIC, 0): Bounds(7, 7, 7)}), pace="1x").estimate == (
        Estimate(0, None, None, "pace 1x")
    )


def test_an_empty_source_can_be_planned():
    plan = planned(ListSource([], bounds={(TOPIC, 0): Bounds(7, 7, 7)}))
    assert (plan.planned, plan.samples, plan.slices()) == (0, (), [])


def test_a_plan_is_made_when_it_was_said_to_be():
    assert planned(ListSource(TEN)).made_at_ms == NOW_NS // 1_000_000


def test_a_plan_of_a_live_source_survives_a_file():
    plan = planned(ListSource(TEN), SPAN, target=ListTarget())
    assert Plan.from_json(plan.as_json(), where="p.json") == plan
    assert plan.source == SourceFacts(plan.source.identity, {TOPIC: TopicFacts()})


# --- samples of the whole span, for who infers from them what will come


class Inferring(Shown):
    """Asks for all that can be seen."""

    def inspect(self, look: InspectRequest, /) -> Inspection:
        return super().inspect(look.wider())


def seen(source: ListSource, span: str = "start..end", **changes: Any) -> list[tuple[int, int]]:
    """Partition and offset of every record that a target which asks for more was shown."""
    target = Inferring()
    planned(source, span, target=target, **changes)
    samples = target.look.samples if target.look else []
    return [(each.partition, offset) for each in samples for offset in each.offsets]


def test_wider_samples_are_of_every_partition_and_of_all_its_parts():
    source = ListSource(
        [replace(record(offset), partition=number) for number in range(5) for offset in range(900)]
        + [replace(record(0), partition=5)]
    )
    places = seen(source)
    for number in range(5):
        offsets = {offset for partition, offset in places if partition == number}
        # Of each eighth of a partition at least one record.
        assert {offset * 8 // 900 for offset in offsets} == set(range(8))
    assert (5, 0) in places


def test_wider_samples_are_of_the_span_and_behind_the_filter():
    """However little a filter keeps: it is looked for until it was found, or all was looked at."""
    source = ListSource([record(offset, T + offset) for offset in range(6_000)])

    def transformed(samples: Sequence[Records]) -> Sequence[Records]:
        return [
            each.pick([i for i, o in enumerate(each.offsets) if o == 3_333]) for each in samples
        ]

    assert (0, 3_333) in seen(source, transformed=transformed)
    inside = span_ms(T + 1_000, T + 2_000)
    assert all(1_000 <= offset < 2_000 for _, offset in seen(source, inside))


def test_wider_samples_take_no_longer_than_they_may(monkeypatch):
    """The first samples are always there."""
    source = ListSource([record(offset) for offset in range(50_000)])
    monkeypatch.setattr(sampling, "WITHIN_S", 0.0)
    assert len(seen(source)) == 503


@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=4))
def test_pieces_of_a_span_lie_in_it_and_leave_no_wide_gap(lengths):
    """All of them together leave out nothing that is longer than a piece."""
    plans = [
        PartitionPlan(TOPIC, n, 10, 10 + length, 10 + length, 0, 9_999, 9_999)
        for n, length in enumerate(lengths)
        if length
    ]
    pieces = list(sampling._spread(plans))
    for each in plans:
        its = sorted(piece for piece in pieces if piece.partition == each.partition)
        assert (its[0].from_offset, its[-1].to_offset) == (each.from_offset, each.to_offset)
        gaps = [b.from_offset - a.to_offset for a, b in itertools.pairwise(its)]
        assert max(gaps, default=0) <= sampling._STRIDE
