"""The law of accounting: what a ledger lacks, has twice or should not have is seen; all else adds up."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.absence import NOT_RECORDED
from playhead.extra_fields import ExtraFields
from playhead.ledger import Entry
from playhead.note import Note
from playhead.proof import Took, prove
from playhead.record import Slice
from playhead.source import UNREAD, SourceFacts, TopicFacts
from playhead.time_span import LOOKED, SAMPLED
from tests.unit.replaying import TOPIC, entry, partition_plan, plan_of, request

PLAN = plan_of(partition_plan(0, 100), partition_plan(50, 80, partition=1))
_NAMES = ("written", "filtered", "outside", "dead", "skipped")


@st.composite
def entries(draw: st.DrawFn, partition: int, from_offset: int, to_offset: int) -> list[Entry]:
    """A ledger that covers just this."""
    inner = draw(st.sets(st.integers(from_offset + 1, to_offset - 1), max_size=5))
    found = []
    for start, end in pairwise([from_offset, *sorted(inner), to_offset]):
        left, counts = end - start, {}
        for name in _NAMES:
            counts[name] = draw(st.integers(0, left))
            left -= counts[name]
        slice_ = Slice(TOPIC, partition, start, end)
        late = draw(st.integers(0, counts["written"]))
        absences = {"markers": left} if left else {}
        found.append(Entry(slice_, sum(counts.values()), late=late, **counts, absences=absences))
    return found


ledgers = st.tuples(entries(0, 0, 100), entries(1, 50, 80)).map(lambda two: [*two[0], *two[1]])


@given(ledgers, st.randoms())
def test_a_ledger_that_covers_the_plan_proves_it(ledger, random):
    random.shuffle(ledger)
    proof = prove(PLAN, ledger)
    assert proof.adds_up
    assert proof.is_finished
    for name in (*_NAMES, "absent", "late"):
        assert proof.total(name) == sum(getattr(each, name) for each in ledger)
    for each in proof.partitions:
        assert each.planned == sum(getattr(each, name) for name in (*_NAMES, "absent", "missing"))
    assert proof.verdict().startswith("proved: 130 offsets = ")


APART = plan_of(partition_plan(0, 40), partition_plan(60, 100), partition_plan(200, 201))


@given(entries(0, 0, 40), entries(0, 60, 100), st.randoms())
def test_several_runs_of_a_partition_are_proved_one_by_one(first, second, random):
    ledger = [*first, *second]
    random.shuffle(ledger)
    proof = prove(APART, ledger)
    assert [each.missing for each in proof.partitions] == [0, 0, 1]
    assert [each.adds_up for each in proof.partitions] == [True, True, False]
    assert prove(APART, [*ledger, entry(200, 201)]).adds_up


def test_what_lies_between_two_runs_was_not_planned():
    ledger = [entry(0, 40), entry(60, 100), entry(200, 201)]
    assert prove(APART, ledger).adds_up
    for stranger in (entry(50, 52), entry(100, 102), entry(300, 302)):
        proof = prove(APART, [*ledger, stranger])
        assert (proof.total("foreign"), proof.adds_up) == (2, False)


@given(ledgers, st.data())
def test_an_entry_that_is_lacking_is_missing(ledger, data):
    lost = data.draw(st.sampled_from(ledger))
    proof = prove(PLAN, [each for each in ledger if each is not lost])
    assert not proof.adds_up
    assert not proof.is_finished
    assert proof.total("missing") == len(lost.slice)
    for each in proof.partitions:
        assert each.planned == sum(getattr(each, name) for name in (*_NAMES, "absent", "missing"))


@given(ledgers, st.data())
def test_an_entry_that_is_there_twice_is_a_duplicate(ledger, data):
    again = data.draw(st.sampled_from(ledger))
    proof = prove(PLAN, [*ledger, again])
    assert (proof.adds_up, proof.total("duplicate")) == (False, len(again.slice))
    assert proof.total("missing") == proof.total("foreign") == 0


@given(ledgers, st.integers(0, 99), st.integers(1, 60))
def test_an_overlap_is_a_duplicate_and_the_rest_is_foreign(ledger, start, length):
    proof = prove(PLAN, [*ledger, entry(start, start + length)])
    within = min(start + length, 100) - start
    assert not proof.adds_up
    assert (proof.total("duplicate"), proof.total("foreign")) == (within, length - within)


@pytest.mark.parametrize(
    "stranger",
    [entry(0, 50, partition=1), entry(80, 90, partition=1), entry(0, 5, partition=7)],
    ids=["before", "after", "another partition"],
)
def test_what_was_not_planned_is_foreign_and_said(stranger):
    proof = prove(PLAN, [entry(0, 100), entry(50, 80, partition=1), stranger])
    assert (proof.adds_up, proof.is_finished) == (False, True)
    assert proof.total("foreign") == len(stranger.slice)
    assert proof.verdict().startswith("NOT PROVED")
    assert f"{len(stranger.slice)} that were not planned" in proof.verdict()


def test_a_planned_partition_without_offsets_adds_up():
    assert prove(plan_of(partition_plan(9, 9)), []).adds_up


def test_the_verdict_names_what_there_is_and_no_more():
    ledger = [entry(0, 2000, read=1990, filtered=3, dead=4)]
    proof = prove(plan_of(partition_plan(0, 2000)), ledger)
    assert proof.verdict() == (
        "proved: 2,000 offsets = 1,983 written + 3 filtered out + 4 dead-lettered"
        " + 10 absent from the log; 0 missing, 0 duplicates"
    )


def test_no_verdict_is_silent_over_fields_that_no_column_takes():
    """Counted over all entries, wherever and whenever they were written; the law of accounting holds."""
    details = ExtraFields.counted([("speed",), ("speed", "lap")]).as_details()
    proof = prove(
        plan_of(partition_plan(0, 9)), [entry(0, 5, details=details), entry(5, 9, details=details)]
    )
    assert proof.adds_up
    assert proof.verdict().endswith("0 duplicates; 4 records have fields that no column takes")
    [note] = [note for note in proof.notes if note.code == "extra-fields"]
    assert note.weight == "warn"
    assert "4 records of laps have fields that no column takes: speed in 4, lap in 2" in note.text
    document = json.loads(json.dumps(proof.as_document()))
    counts = {"records": 4, "fields": {"speed": 4, "lap": 2}, "others": 0}
    assert document["extra_fields"] == {"laps": counts}


def test_the_targets_own_counts_are_summed():
    ledger = [
        entry(0, 5, details={"inserted": 3, "by": "fast", "was_slow": True, "first_ms": 12}),
        entry(5, 9, details={"inserted": 4, "first_ms": 17, "left": 1, "map": {"from": 7}}),
    ]
    assert prove(plan_of(partition_plan(0, 9)), ledger).details == {"inserted": 7, "left": 1}


def test_absent_offsets_have_a_reason():
    ledger = [
        entry(0, 4, read=2, absences={"markers": 2}),
        entry(4, 9, read=2, absences={"markers": 1, "aborted": 2}),
    ]
    proof = prove(plan_of(partition_plan(0, 9)), ledger)
    assert proof.adds_up
    assert proof.absences == {"aborted": 2, "markers": 3}
    [note] = proof.notes
    assert (note.code, note.weight) == ("absent", "info")
    assert note.text == "laps: 5 offsets hold no record: aborted: 2, markers: 3"


def test_absent_offsets_without_a_reason_do_not_add_up():
    ledger = [
        entry(0, 4, read=2, absences={"markers": 1}, unexplained_at=((3, 4),)),
        entry(4, 9, read=2, absences={}, unexplained_at=((5, 7), (8, 9))),
    ]
    proof = prove(plan_of(partition_plan(0, 9)), ledger)
    assert (proof.adds_up, proof.is_finished, proof.total("unexplained")) == (False, True, 4)
    assert proof.verdict().startswith("NOT PROVED: 9 offsets = 4 written + 1 absent from the log")
    assert "4 UNEXPLAINED" in proof.verdict()
    note = next(note for note in proof.notes if note.code == "unexplained")
    assert note.weight == "warn"
    assert note.text.endswith("unknown reason: 3-4, 5-7, 8-9")
    [row] = proof.rows()
    names = (*_NAMES, "absent", "unexplained", "missing")
    assert row["planned"] == sum(row[name] for name in names)


def test_an_entry_of_a_version_that_did_not_look_adds_up_and_says_so():
    old = json.loads(entry(0, 9, read=7).as_json()) | {"version": 1}
    for name in ("absences", "checksum", "unexplained_at"):
        del old[name]
    proof = prove(plan_of(partition_plan(0, 9)), [Entry.from_json(json.dumps(old))])
    assert proof.adds_up
    assert (proof.absences, proof.checksum) == ({NOT_RECORDED: 2}, None)


def test_what_a_source_could_not_give_is_said_again():
    notes = (Note(UNREAD, "raw.jsonl:7: no JSON"), Note("captured", "7 records", "info"))
    facts = SourceFacts("x", {TOPIC: TopicFacts()}, notes)
    absences = {"they were not captured": 2}
    ledger = [entry(0, 9, read=7, absences=absences)]
    found = prove(plan_of(partition_plan(0, 9), source=facts), ledger).notes
    assert [note.code for note in found] == ["absent", UNREAD]
    assert found[0].text.endswith("hold no record: they were not captured")
    assert found[1] == notes[0]


def test_rows_that_were_removed_meanwhile_are_mentioned():
    ledger = [entry(0, 5), entry(5, 9, details={"also_removed": 3})]
    [note] = prove(plan_of(partition_plan(0, 9)), ledger).notes
    assert (note.code, note.weight) == ("also-removed", "warn")
    assert note.text.startswith("3 rows that were there before, from earlier slices or from others")


def test_a_tail_that_was_only_sampled_is_said_in_the_proof_too():
    sampled = Note(SAMPLED, "laps: 9 of 100 offsets behind the end were looked at: in order")
    others = Note(LOOKED, "laps: all was looked at", "info"), Note("other", "of the plan alone")
    plan = plan_of(partition_plan(0, 9), notes=(*others, sampled))
    proof = prove(plan, [entry(0, 9)])
    assert proof.adds_up
    assert proof.notes == (sampled,)
    assert [each["text"] for each in proof.as_document()["notes"]] == [sampled.text]


@pytest.mark.parametrize(("codes", "weight"), [((LOOKED,), "info"), ((LOOKED, SAMPLED), "warn")])
def test_late_records_at_the_edge_warn_where_more_may_stand_behind_it(codes, weight):
    plan = plan_of(
        partition_plan(0, 9, stable_end=20),
        request=request(lateness_ms=100),
        notes=tuple(Note(code, code, "info") for code in codes),
    )
    late = prove(plan, [entry(0, 9, late=2, last_late_ms=99)]).notes[0]
    assert (late.code, late.weight) == ("late", weight)


@pytest.mark.parametrize(("last_late_ms", "weight"), [(79_999, "info"), (80_000, "warn")])
def test_late_records_near_the_edge_warn(last_late_ms, weight):
    plan = plan_of(partition_plan(0, 9, stable_end=20), request=request(lateness_ms=100_000))
    ledger = [entry(0, 5), entry(5, 9, late=2, last_late_ms=last_late_ms)]
    [note] = prove(plan, ledger).notes
    assert (note.code, note.weight) == ("late", weight)
    assert note.text.startswith("2 records of the span came late")
    assert ("--lateness" in note.text) == (weight == "warn")


def test_the_document_survives_json_and_holds_all_of_it():
    took = Took(2.0, 1.6, 0.5, 8000, 4)
    proof = prove(PLAN, [entry(0, 100)], took=took, pace={"pace": "2x"})
    document = proof.as_document()
    assert json.loads(json.dumps(document)) == document
    assert document["totals"]["missing"] == 30
    assert [each["adds_up"] for each in document["partitions"]] == [True, False]
    assert document["took"]["records_per_second"] == 5000
    assert document["pace"] == {"pace": "2x"}


def test_who_did_nothing_has_no_rate():
    assert Took(0.1, 0.0, None, 0, 0).as_document()["records_per_second"] is None
