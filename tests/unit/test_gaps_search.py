"""What the log says of missing offsets, what has expired, and how a comparison is chosen: over lists."""

import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.absence import Explained
from playhead.errors import BadValue, Refused, UsageError
from playhead.gaps import by_ledger as ledgers
from playhead.gaps import log_scan
from playhead.gaps import missing as lacking
from playhead.gaps import search as gaps
from playhead.gaps.gap import Gap, Gaps, GracePeriod
from playhead.gaps.log_start import split_gone
from playhead.gaps.lost_from_log import Committed
from playhead.gaps.search import GapFinder, GapQuery
from playhead.gaps.written_by import UNKNOWN
from playhead.ledger import Entry, remaining
from playhead.record import Slice
from playhead.replay.begun_replays import NotBegun
from playhead.source import Bounds, SourceFacts, TopicFacts
from playhead.span import OffsetSpan, Resolved, Span
from playhead.task.slicer import Filter
from playhead.terms import NO_TERMS, OtherTerms, Terms, Whereto, agreed
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, partition_plan, plan_of, record, request

T = 1_600_000_000_000
NOW = T + 10_000_000
LATER = GracePeriod(NOW, 30_000)
NEVER = GracePeriod(NOW, 0)


def log(*offsets: int, end: int = 100, **times: int) -> ListSource:
    """A partition of 100 offsets, of which these hold a record; `o7=…` says the time of one."""
    rows = [record(offset, times.get(f"o{offset}", T + offset)) for offset in sorted(offsets)]
    return ListSource(rows, bounds={(TOPIC, 0): Bounds(0, end, end)})


def runs(*edges: tuple[int, int]) -> list[Slice]:
    return [Slice(TOPIC, 0, start, end) for start, end in edges]


def told(found: list[Gap]) -> list[tuple[int, int, str, int | None]]:
    return [
        (each.slice.from_offset, each.slice.to_offset, each.kind, each.records) for each in found
    ]


# --- what stood there


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99)), st.integers(0, 40))
def test_every_missing_record_is_in_one_gap_and_nothing_else_is(there, lost, read_over):
    """With whatever is read over to get from one missing run to the next."""
    missing = runs(*((each, each + 1) for each in sorted(lost)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_scan, "_READ_OVER", read_over)
        found = log_scan.seen(log(*there), missing, NEVER)
    assert [each.slice.from_offset for each in found.gaps] == sorted(there & lost)
    assert sum(each.records or 0 for each in found.gaps) == len(there & lost)
    assert found.absent.get(TOPIC, 0) == len(lost - there)


def test_offsets_that_hold_no_record_are_counted_and_are_no_gap():
    found = log_scan.seen(log(1, 2, 3, 9), runs((0, 3), (4, 8), (9, 12)), NEVER)
    assert told(found.gaps) == [(1, 3, "missing", 2), (9, 10, "missing", 1)]
    assert found.absent == {TOPIC: 1 + 4 + 2}


def test_tombstones_are_no_gaps_if_they_are_skipped_and_count_once():
    rows = [replace(record(n, T + n), value=None if n % 2 else b"v") for n in range(8)]
    source = ListSource(rows, bounds={(TOPIC, 0): Bounds(0, 8, 8)})
    in_time = Filter(rows[2].timestamp_ms, None)
    found = log_scan.seen(source, runs((0, 4), (6, 8)), NEVER, in_time, skips_tombstones=True)
    assert told(found.gaps) == [(2, 3, "missing", 1), (6, 7, "missing", 1)]
    # The tombstone at 1 is before the span, and the one at 5 is not missing.
    [note] = [each.text for each in found.notes if each.code == "tombstones"]
    assert note.startswith("2 missing records are tombstones")
    assert not log_scan.seen(source, runs((0, 4)), NEVER, in_time).notes


def test_many_tombstones_of_many_gaps_are_counted_without_a_look_at_each_pair():
    count = 20_000
    rows = [replace(record(n, T + n), value=None) for n in range(count)]
    source = ListSource(rows, bounds={(TOPIC, 0): Bounds(0, count, count)})
    missing = runs(*((n, n + 1) for n in range(0, count, 2)))
    began = time.process_time()
    found = log_scan.seen(source, missing, NEVER, skips_tombstones=True)
    assert time.process_time() - began < 2  # It took 5 s.
    assert (found.gaps, found.notes[0].text[:6]) == ([], "10,000")


def test_nothing_is_read_when_nothing_is_missing():
    class Closed(ListSource):
        def open(self):
            raise AssertionError("it was opened")

    assert log_scan.seen(Closed([record(0)]), [], LATER).gaps == []


# --- late or missing


def test_what_is_younger_than_the_settling_time_is_no_gap_yet():
    source = log(*range(20), o10=NOW - 29_000, o11=T, o15=NOW)
    found = log_scan.seen(source, runs((3, 6), (8, 14), (18, 20)), LATER)
    # Offset 11 has an old time and came after 10 all the same.
    assert told(found.gaps) == [
        (3, 6, "missing", 3),
        (8, 10, "missing", 2),
        (10, 14, "settling", 4),
        (18, 20, "settling", 2),
    ]
    assert found.notes == []


def test_a_time_of_the_future_does_not_hide_gaps_behind_it():
    source = log(*range(20), o5=NOW + 10**10)
    found = log_scan.seen(source, runs((3, 4), (8, 14)), LATER)
    assert told(found.gaps) == [(3, 4, "missing", 1), (8, 14, "missing", 6)]
    [note] = found.notes
    assert "offset 5 has a time in the future" in note.text


def test_a_clock_that_is_behind_does_not_make_the_missing_settling_without_a_word():
    """By our clock the log goes on into the future; by theirs, all of this is old."""
    source = log(*range(10), o5=NOW - 10_000, o6=NOW + 5_000, o7=NOW + 50_000, o8=NOW + 90_000)
    found = log_scan.seen(source, runs((6, 9)), LATER)
    assert {each.kind for each in found.gaps} == {"settling"}
    [note] = found.notes
    assert note.code == "clock"
    assert "offset 7 counts as settling, but has a time in the future" in note.text
    assert log_scan.seen(source, runs((5, 7)), LATER).notes == [], "as far as clocks may differ"


def test_behind_a_time_of_the_future_the_young_ones_are_still_found():
    source = log(*range(20), o5=NOW + 10**10, o12=NOW - 1_000)
    found = log_scan.seen(source, runs((8, 14), (16, 17)), LATER)
    assert told(found.gaps) == [
        (8, 12, "missing", 4),
        (12, 14, "settling", 2),
        (16, 17, "settling", 1),
    ]


def test_with_a_settling_time_of_zero_nothing_settles():
    found = log_scan.seen(log(*range(5), o4=NOW), runs((3, 5)), NEVER)
    assert told(found.gaps) == [(3, 5, "missing", 2)]


# --- what has expired


def test_named_offsets_before_the_log_have_expired():
    bounds = {(TOPIC, 0): Bounds(50, 90, 90), (TOPIC, 1): Bounds(0, 5, 5)}
    spans = Span.parse("0:10-60,0:70-80,1:0-5").offsets
    gone, held = split_gone(Resolved(None, None, spans), bounds)
    assert gone == (Slice(TOPIC, 0, 10, 50),)
    assert held is not None
    assert held.offsets == (
        OffsetSpan(None, 0, 50, 60),
        OffsetSpan(None, 0, 70, 80),
        OffsetSpan(None, 1, 0, 5),
    )


def test_where_all_has_expired_nothing_is_left():
    spans = Span.parse("laps:0:10-50").offsets
    gone, held = split_gone(Resolved(None, None, spans), {(TOPIC, 0): Bounds(50, 90, 90)})
    assert (gone, held) == ((Slice(TOPIC, 0, 10, 50),), None)


def test_a_span_by_time_names_no_offsets_that_expired():
    asked = Resolved(T, None)
    assert split_gone(asked, {(TOPIC, 0): Bounds(50, 90, 90)}) == ((), asked)


# --- how to compare


@pytest.mark.parametrize(
    ("target", "asked", "key", "has_offsets", "way"),
    [
        ("postgres:t", None, (), True, "offsets"),
        ("postgres:t", None, ("seq",), True, "offsets"),
        ("postgres:t", None, ("seq",), False, "key"),
        ("postgres:t", None, (), False, "offsets"),  # which says what is lacking
        ("postgres:t", "key", ("seq",), True, "key"),
        ("postgres:t", "ledger", (), True, "ledger"),
        ("kafka:copy", None, (), True, "ledger"),
        ("parquet:there", None, (), True, "ledger"),
    ],
)
def test_the_way_is_chosen_where_nobody_chose(target, asked, key, has_offsets, way):
    wanted = request(target=target, key=key)
    assert lacking.way_of(wanted, asked, lambda: has_offsets) == way


def test_a_way_that_is_none_is_refused():
    with pytest.raises(BadValue, match="--by is 'eye'; needed: offsets or key or ledger"):
        lacking.way_of(request(target="postgres:t"), "eye", lambda: True)
    with pytest.raises(Refused, match="is not a table") as caught:
        lacking.way_of(request(), "offsets", lambda: True)
    assert "--by ledger" in (caught.value.hint or "")


def test_rows_are_known_by_columns_that_somebody_names():
    with pytest.raises(UsageError, match="needs the columns that identify"):
        lacking.columns_of(request(), "ts")
    assert lacking.columns_of(request(key=("car",)), "ts") == ("car", "ts")
    assert lacking.columns_of(request(key=("car", "seq")), None) == ("car", "seq")


# --- what a ledger is of


class Placed(ListTarget):
    """It says where records go."""

    def whereto(self, topics):
        return {topic: Whereto("list", self.made) for topic in topics}

    def replays(self) -> list[str]:
        return ["r1", "r2"]

    def begin(self, replay_id: str, *edges: tuple[int, int], **others: Any) -> None:
        topics = others.pop("topics", {TOPIC: "id-1"})
        places = self.whereto(topics)
        kept = Terms("digest", "lists", topics, "lists", {}, places=places)
        self._terms[replay_id] = replace(kept, **others)
        self._ledger[replay_id] = [Entry(each, len(each), len(each)) for each in runs(*edges)]


FACTS = SourceFacts("lists", {TOPIC: TopicFacts("id-1")})


def by_ledger(target: Placed, *ids: str, to: str = "postgres:t") -> lacking.MissingOffsets:
    ends = SimpleNamespace(target=target)
    return ledgers.by_ledger(request(target=to), ends, FACTS, runs((0, 100)), ids)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"topics": {TOPIC: "id-0"}}, "topic laps has the id id-1; the ledger says id-0"),
        ({"topics": {"other": "id-1"}}, "it is of other, not of laps"),
        ({"source": "another cluster"}, "the ledger says another cluster"),
        ({"places": {TOPIC: Whereto("list", "made before")}}, "it was dropped and created again"),
        (
            {"places": {TOPIC: Whereto("other", "made once")}},
            "target is list; the ledger says other",
        ),
    ],
)
def test_a_ledger_of_other_ends_tells_nothing(others, said):
    target = Placed()
    target.begin("r1", (0, 100), **others)
    target.begin("r2", (0, 60))
    with pytest.raises(ledgers.OtherLedger, match=said):
        by_ledger(target, "r1")
    with pytest.raises(ledgers.OtherLedger, match=said):
        by_ledger(target, "r2", "r1")
    assert by_ledger(target, "r2").slices == runs((60, 100))
    told = by_ledger(target, to="parquet:there")
    assert told.slices == runs((60, 100))
    notes = [each.text for each in told.notes if each.code == "other-ledger"]
    # An archive has ledgers of many topics.
    assert [said in text for text in notes] == ([] if ", not of" in said else [True])


def test_a_common_ledger_names_the_replays_and_pipelines_of_all_machines(monkeypatch):
    class Common(Placed):
        def replays_of(self, topics):
            return {each: (self._terms[each], self._ledger[each]) for each in self._terms}

    monkeypatch.setattr(ledgers, "Journal", lambda: SimpleNamespace(runs=lambda **_: []))
    target = Common()
    with pytest.raises(Refused, match="no replay or pipeline of kafka:laps into kafka:t is in the"):
        by_ledger(target, to="kafka:t")
    target.begin("r1", (0, 40))
    target.begin("live.cars", (30, 60), digest="")
    target.begin("elsewhere", (60, 100), places={TOPIC: Whereto("other", "made once")})
    target.begin("before", (60, 100), topics={TOPIC: "id-0"})
    target.begin("of-others", (60, 100), topics={"others": "id-1"})
    # A redrive goes to the topics that the dead letters name, and its terms name none.
    target.begin("redrive", (60, 100), places={})
    told = by_ledger(target, to="kafka:t")
    assert (told.slices, told.by) == (runs((60, 100)), "the ledger of r1, live.cars")
    assert [note.code for note in told.notes] == ["only-ledger"]


def entry(start: int, end: int, written: int, **counts: Any) -> Entry:
    read = written + sum(counts.get(each, 0) for each in ("filtered", "outside", "skipped"))
    return Entry(Slice(TOPIC, 0, start, end), read, written, **counts)


def test_records_outside_of_a_replays_span_are_missing():
    target = Placed()
    target.begin("r1")
    target._ledger["r1"] = [entry(0, 100, 60, outside=40, outside_at=((0, 20), (70, 90)))]
    told = by_ledger(target, "r1")
    assert (told.slices, told.undecided) == (runs((0, 20), (70, 90)), 0)
    assert [note.code for note in told.notes] == ["only-ledger"]
    target.begin("r2", (0, 20), (80, 100))
    assert by_ledger(target, "r1", "r2").slices == runs((70, 80))


def test_where_a_ledger_does_not_list_what_was_outside_nothing_is_whole():
    target = Placed()
    target.begin("r1", (50, 100))
    target._ledger["r1"].append(entry(0, 50, 20, outside=30, outside_at=None))
    told = by_ledger(target, "r1")
    assert (told.slices, told.undecided) == ([], 30)
    [note] = [each.text for each in told.notes if each.code == "outside-unlisted"]
    assert "r1 does not list which 30 records" in note
    # Of what another replay has written, nothing is in doubt.
    target.begin("r2", (0, 40))
    assert by_ledger(target, "r1", "r2").undecided == 10
    target.begin("r2", (0, 50))
    assert by_ledger(target, "r1", "r2").undecided == 0


def test_no_offset_is_undecided_twice():
    """Replays of neighbouring spans read the same offsets, each with the other's records outside of its span."""
    target = Placed()
    for replay_id in ("r1", "r2", "r3"):
        target.begin(replay_id)
        target._ledger[replay_id] = [entry(0, 50, 20, outside=30, outside_at=None)]
    told = by_ledger(target, "r1", "r2", "r3")
    assert (told.slices, told.undecided) == (runs((50, 100)), 50)


def test_many_undecided_entries_are_no_square_of_their_number(monkeypatch):
    looked_at = 0

    def counted(planned, committed):
        nonlocal looked_at
        planned, committed = list(planned), list(committed)
        looked_at += len(planned) + len(committed)
        return remaining(planned, committed)

    monkeypatch.setattr(ledgers, "remaining", counted)
    target = Placed()
    target.begin("r1")
    target._ledger["r1"] = [
        entry(n, n + 1, n % 2, outside=1 - n % 2, outside_at=None) for n in range(100)
    ]
    assert by_ledger(target, "r1").undecided == 50
    assert looked_at < 1000


def test_what_another_filter_left_out_may_be_missing():
    target = Placed()
    target.begin("r1", rules={"where": "value:a = 1"})
    held = [entry(0, 60, 20, filtered=40, details={"not_kept": 5}), entry(60, 100, 40)]
    target._ledger["r1"] = held
    told = by_ledger(target, "r1")
    assert (told.slices, told.undecided) == ([], 35)
    codes = {each.code: each.text for each in told.notes}
    assert "r1 has, or had, another --where, and left out 35 records" in codes["other-transform"]
    assert codes["left-out"] == "replays left out 5 records: filtered or refused"
    same = SimpleNamespace(target=target)
    asked = replace(request(target="postgres:t"), where="value:a = 1")
    told = ledgers.by_ledger(asked, same, FACTS, runs((0, 100)), ["r1"])  # type: ignore[arg-type]
    assert (told.slices, told.undecided) == ([], 0)
    assert Gaps("s", "t", (), (), "l", undecided=1).is_whole is False


def test_each_start_of_a_pipeline_may_filter_other_records():
    """Its ledger kept the --where of the first start, as if all that later starts filtered were no gaps."""
    first = Terms("", "lists", {TOPIC: "id-1"}, "lists", {})
    later = replace(first, rules={"where": "value:a = 1"})
    whole = agreed("live.r1", agreed("live.r1", first, later), first)
    target = Placed()
    target.begin("r1", rules=whole.rules)
    target._ledger["r1"] = [entry(0, 100, 60, filtered=40)]
    assert by_ledger(target, "r1").undecided == 40
    target.begin("r1", rules=agreed("live.r1", first, first).rules)
    target._ledger["r1"] = [entry(0, 100, 60, filtered=40)]
    assert by_ledger(target, "r1").undecided == 0


def test_terms_that_cannot_be_read_hide_no_other_ledger():
    class Several(Placed):
        def terms(self, replay_id):
            if replay_id == "r1":
                raise OtherTerms(replay_id, differences=["it has several"])
            return super().terms(replay_id)

    target = Several()
    target.begin("r2", (0, 60))
    told = by_ledger(target, to="parquet:there")
    assert told.slices == runs((60, 100))
    assert [note.text for note in told.notes if "it has several" in note.text]
    with pytest.raises(ledgers.OtherLedger, match="it has several"):
        by_ledger(target, "r1")


def test_a_ledger_that_nobody_knows_is_not_empty():
    target = Placed()
    with pytest.raises(NotBegun, match="has no replay 'r9'"):
        by_ledger(target, "r9")
    target.begin("r1")
    assert by_ledger(target, "r1").slices == runs((0, 100)), "it has begun, and committed nothing"
    target.begin("r1", (0, 30))
    del target._terms["r1"]
    found = by_ledger(target, "r1")
    assert found.slices == runs((30, 100)), "a version before wrote no terms"
    assert NO_TERMS in [note.code for note in found.notes]


# --- closing them


def search(**changes: object) -> GapFinder:
    """One that was never connected: only what it asks for is of interest."""
    made = object.__new__(GapFinder)
    made.question = GapQuery(request(**changes))
    made._way, made._written, made._maybe_deleted = "ledger", UNKNOWN, ()
    return made


def found(*edges: tuple[int, int], kind: str = "missing") -> Gaps:
    held = tuple(Gap(each, kind, len(each)) for each in runs(*edges))  # type: ignore[arg-type]
    return Gaps("kafka:laps", "kafka:copy", tuple(runs((0, 100))), held, "offsets")


def test_a_replay_of_gaps_is_of_these_offsets_and_reads_on_for_nothing():
    asked = search(span="last 2h", where="offset > 2").replay_of(found((3, 4), (7, 9)))
    assert asked == replace(
        request(where="offset > 2"), span="laps:0:3-4,laps:0:7-9", lateness_ms=0
    )
    assert Span.parse(asked.span).offsets == (
        OffsetSpan(TOPIC, 0, 3, 4),
        OffsetSpan(TOPIC, 0, 7, 9),
    )


def test_what_settles_or_has_expired_is_not_replayed():
    both = replace(
        found((3, 4)), found=(*found((3, 4)).found, *found((50, 60), kind="settling").found)
    )
    assert search().replay_of(both).span == "laps:0:3-4"


def test_counts_of_a_transform_count_where_a_gap_is_whole():
    whole = Gap(Slice(TOPIC, 0, 3, 9), records=6)
    cut = Gap(Slice(TOPIC, 0, 20, 25), records=5)
    records = {Slice(TOPIC, 0, 3, 9): 2, Slice(TOPIC, 0, 20, 30): 4}
    assert [each.records for each in gaps._recounted([whole, cut], records)] == [2, 5]


def test_notes_of_absent_offsets_say_why():
    found = log_scan.seen(log(1, 2, 5, end=9), runs((0, 9)), NEVER)
    assert found.absences == {TOPIC: {"not in the list": 6}}
    [note] = found.absent_notes()
    assert (note.code, note.weight) == ("absent", "info")
    assert note.text == "laps: 6 offsets hold no record: not in the list"


def test_offsets_for_which_there_is_no_reason_are_named():
    class Silent(ListSource):
        def absences(self):
            return nullcontext(self)

        def explain(self, _place, blanks):
            return Explained({}, tuple(blanks))

    silent = Silent([record(5)], bounds={(TOPIC, 0): Bounds(0, 9, 9)})
    scan = log_scan.seen(silent, runs((2, 4), (5, 7)), NEVER)
    assert scan.unexplained_count() == 3
    [note] = scan.absent_notes()
    assert (note.code, note.weight) == ("unexplained", "warn")
    assert note.text.endswith("3 offsets gave no record for an unknown reason: 2-4, 6-7")


def test_a_target_that_lacks_offsets_for_which_there_is_no_reason_is_not_whole():
    """Records may have been lost there."""
    compared = replace(found(), unexplained=3)
    assert not compared.is_whole
    assert compared.verdict().endswith("3 gave no record for an unknown reason (unexplained)")
    assert compared.as_document()["unexplained"] == 3
    assert found().is_whole


# --- who has committed them all the same


def blamed(monkeypatch: pytest.MonkeyPatch, entry: Entry, **span: int | None) -> list[str]:
    """What is said of a gap of three records at 10, 11 and 12 s, when a run of some span has this entry."""
    plan = plan_of(partition_plan(0, 60), request=request(target="postgres:t"), **span)
    run = SimpleNamespace(replay_id="r1", plan=plan)
    target = SimpleNamespace(entries=lambda _: [entry])
    monkeypatch.setattr(lacking, "Journal", lambda: SimpleNamespace(runs=lambda: [run]))
    monkeypatch.setattr(lacking, "is_theirs", lambda *_: True)
    gap = Gap(Slice(TOPIC, 0, 10, 13), "missing", 3, T + 10_000, T + 12_000)
    notes = lacking.committed_before(
        plan.request,
        SimpleNamespace(target=target),  # type: ignore[arg-type]
        FACTS,
        [gap],
        [],
    )
    return [note.text for note in notes]


def test_a_run_is_not_blamed_for_what_was_behind_its_own_span(monkeypatch):
    whole = Entry(Slice(TOPIC, 0, 0, 60), 60, 60)
    assert len(blamed(monkeypatch, whole)) == 1
    assert len(blamed(monkeypatch, whole, from_ms=T, to_ms=T + 10_001)) == 1
    assert blamed(monkeypatch, whole, from_ms=T, to_ms=T + 10_000) == []
    assert blamed(monkeypatch, whole, from_ms=T + 12_001, to_ms=None) == []


def test_records_outside_of_its_span_are_not_what_a_run_left_unwritten(monkeypatch):
    outside = Entry(Slice(TOPIC, 0, 0, 60), 60, 20, outside=40)
    [text] = blamed(monkeypatch, outside, from_ms=T, to_ms=T + 11_000)
    assert "replay r1 committed 3 of these offsets: their rows are missing now" in text
    listed = replace(outside, outside_at=((10, 60),))
    assert blamed(monkeypatch, listed, from_ms=T, to_ms=T + 11_000) == []
    filtered = Entry(Slice(TOPIC, 0, 0, 60), 60, 20, filtered=40)
    [text] = blamed(monkeypatch, filtered)
    assert "left 3 records of their slices unwritten" in text, "no more than the gap has"
    assert text.endswith("unwritten: filtered out")


def test_a_pipeline_is_named_that_left_records_out(monkeypatch):
    """Its run is in no journal; and of gaps there may be as many as of records."""
    monkeypatch.setattr(lacking, "Journal", lambda: SimpleNamespace(runs=list))
    gaps = [Gap(Slice(TOPIC, 0, at, at + 1), "missing", 1) for at in range(0, 4_000, 2)]
    entries = [
        Entry(Slice(TOPIC, 0, 0, 2_000), 2_000, 1_000, dead=1_000),
        Entry(Slice(TOPIC, 0, 2_000, 2_100), 100, 100),
        Entry(Slice(TOPIC, 0, 5_000, 6_000), 1_000, 0, filtered=1_000),
        Entry(Slice(TOPIC, 1, 0, 4_000), 4_000, 0, skipped=4_000),
    ]

    def said(terms: object) -> list[str]:
        begun = [Committed("live.cars", terms, entries)]  # type: ignore[arg-type]
        ends = SimpleNamespace(target=None)
        notes = lacking.committed_before(request(target="postgres:t"), ends, FACTS, gaps, begun)  # type: ignore[arg-type]
        return [note.text for note in notes]

    assert said(SimpleNamespace(is_endless=True)) == [
        "pipeline cars committed 1,050 of these offsets, but left 1,000 records of their slices unwritten: refused"
    ]
    assert said(SimpleNamespace(is_endless=False)) == []
