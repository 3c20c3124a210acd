"""A task's part in a round: what is due is written once, what is absent is accounted for, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.account import ErrorRule, RecordRefused, WriteDeadLetters
from playhead.decoding import Kinds
from playhead.errors import Unavailable
from playhead.ledger import remaining
from playhead.record import Record, Slice
from playhead.records import Records
from playhead.target import Fenced
from playhead.task import round as rounds
from playhead.task.round import Outcome, Round, write
from playhead.task.slicer import FILTERED, KEPT, Limits, ReadRun
from playhead.testing import Aborted, ListTarget
from tests.unit.replaying import TOPIC, record


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    rounds.let_go()
    yield
    rounds.let_go()


def round_of(target: ListTarget, *slices: Slice, **changes: object) -> Round:
    return Round("live.laps", "run", target, slices, **changes)  # type: ignore[arg-type]


def drawn(*records: Record, size: int = 2) -> Iterator[ReadRun]:
    for start in range(0, len(records), size):
        yield Records.of(records[start : start + size]), None


def laps(start: int, end: int, *, step: int = 1) -> list[Record]:
    return [record(offset, 100 * offset) for offset in range(start, end, step)]


def slice_(start: int, end: int) -> Slice:
    return Slice(TOPIC, 0, start, end)


def ledger(target: ListTarget) -> list[tuple[int, int, int, int]]:
    return [
        (each.slice.from_offset, each.slice.to_offset, each.read, each.written)
        for each in target.entries("live.laps")
    ]


def test_rounds_follow_each_other_and_the_ledger_stays_one_entry():
    target = ListTarget()
    for start in range(0, 30, 5):
        outcome = write(round_of(target, slice_(start, start + 5)), drawn(*laps(start, start + 5)))
        assert (outcome.away, outcome.is_new, outcome.is_whole) == (None, start == 0, True)
        [written] = outcome.written
        assert (written.from_offset, written.to_offset, written.written) == (start, start + 5, 5)
    assert target.records == tuple(laps(0, 30))
    assert ledger(target) == [(0, 30, 30, 30)]


def test_what_the_ledger_has_already_is_left_out():
    target = ListTarget()
    write(round_of(target, slice_(0, 7)), drawn(*laps(0, 7)))
    # Spark gives the whole of a round again, of which a part was committed before a crash.
    write(round_of(target, slice_(7, 12)), drawn(*laps(0, 12), size=5))
    assert target.records == tuple(laps(0, 12))
    assert ledger(target) == [(0, 12, 12, 12)]


@dataclass
class Picky:
    """Decodes offsets that are even; with a registry that is away, none."""

    is_away: bool = False

    def open(self) -> "Picky":
        return self

    def decoded_first(self, records: Records) -> Records:
        if self.is_away:
            raise Unavailable("the registry is away")
        odd = {offset: "no such schema" for offset in records.offsets if offset % 2}
        return replace(records, decoded=records.values, undecoded=odd)

    def kinds(self, runs: object) -> Kinds:
        raise AssertionError("only a plan asks")


def test_what_cannot_be_decoded_is_refused_by_the_rule():
    target = ListTarget()
    skip = round_of(target, slice_(0, 6), decoding=Picky(), rule=ErrorRule("skip"))
    write(skip, drawn(*laps(0, 6)))
    assert [each.offset for each in target.records] == [0, 2, 4]
    [entry] = target.entries("live.laps")
    assert (entry.read, entry.written, entry.skipped) == (6, 3, 3)


def test_a_registry_that_is_away_is_waited_for():
    target = ListTarget()
    away = write(round_of(target, slice_(0, 6), decoding=Picky(is_away=True)), drawn(*laps(0, 6)))
    assert "the registry is away" in str(away.away)
    assert target.records == ()


def test_absent_offsets_are_accounted_for_also_at_the_end_and_where_nothing_came():
    target = ListTarget()
    other = Slice(TOPIC, 1, 0, 4)
    outcome = write(round_of(target, slice_(0, 20), other), drawn(*laps(3, 11, step=2)))
    assert sum(each.read for each in outcome.written) == 4
    assert ledger(target) == [(0, 20, 4, 4), (0, 4, 0, 0)]


def test_one_of_several_tasks_claims_nothing_of_what_it_did_not_see():
    target = ListTarget()
    due = slice_(0, 4), Slice(TOPIC, 1, 0, 4)
    write(round_of(target, *due, is_alone=False), drawn(*laps(0, 4)))
    assert [each.slice for each in target.entries("live.laps")] == [due[0]]


def test_a_partition_that_comes_twice_is_a_fault_and_never_a_gap():
    target = ListTarget()
    due = slice_(0, 8), Slice(TOPIC, 1, 0, 1)
    other = [(Records.of([replace(record(0, 0), partition=1)]), None)]
    with pytest.raises(ValueError, match="twice"):
        write(round_of(target, *due), [*drawn(*laps(0, 4)), *other, *drawn(*laps(4, 8))])


def test_a_round_that_is_cut_into_portions_is_one_entry_all_the_same():
    target = ListTarget()
    outcome = write(round_of(target, slice_(0, 9), limits=Limits(2)), drawn(*laps(0, 9), size=4))
    assert [each.read for each in outcome.written] == [2, 2, 2, 2, 1]
    assert ledger(target) == [(0, 9, 9, 9)]


def test_verdicts_of_the_transform_count():
    target = ListTarget()
    given_ = [(Records.of(laps(0, 4)), [KEPT, FILTERED, FILTERED, KEPT])]
    outcome = write(round_of(target, slice_(0, 4)), given_)
    assert [(each.read, each.written) for each in outcome.written] == [(4, 2)]
    assert ledger(target) == [(0, 4, 4, 2)]


def test_a_record_that_is_rejected_is_not_written():
    target = ListTarget(refuses=lambda each: "no" if each.offset % 2 else None)
    outcome = write(round_of(target, slice_(0, 4), rule=ErrorRule("skip")), drawn(*laps(0, 4)))
    assert [(each.written, each.rejected) for each in outcome.written] == [(2, 2)]


def test_an_error_through_an_old_connection_is_tried_once_more_through_a_new_one():
    target = ListTarget()
    write(round_of(target, slice_(0, 2)), drawn(*laps(0, 2)))
    target.fail_before_commit(Unavailable("the server was restarted"))
    outcome = write(round_of(target, slice_(2, 4)), drawn(*laps(2, 4)))
    assert (outcome.away, outcome.is_new) == (None, True)
    assert target.records == tuple(laps(0, 4))


def test_a_server_that_is_away_is_told_and_what_was_committed_before_stays():
    target = ListTarget()
    target.fail_before_commit(Unavailable("away"))
    outcome = write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    assert (outcome.away, outcome.written) == ("away", [])
    assert ledger(target) == []
    outcome = write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    assert (outcome.away, outcome.is_new) == (None, True)
    assert ledger(target) == [(0, 4, 4, 4)]


def test_an_answer_that_was_lost_is_not_written_twice():
    target = ListTarget()
    target.fail_after_commit(Unavailable("the answer was lost"))
    outcome = write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    assert outcome.away == "the answer was lost"
    outcome = write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    assert "already committed" in (outcome.away or "")
    assert target.records == tuple(laps(0, 4))


def test_a_bad_record_stops_it_by_the_rule():
    target = ListTarget(refuses=lambda each: "bad" if each.offset == 3 else None)
    with pytest.raises(RecordRefused):
        write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    assert ledger(target) == []


def test_a_fault_of_ours_is_raised_and_nothing_stays_open():
    target = ListTarget()
    target.fail_before_commit(Aborted("told to"))
    with pytest.raises(Aborted):
        write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    assert write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4))).is_new


def test_a_target_in_order_is_opened_anew_when_another_one_wrote_last():
    target = ListTarget(is_ordered=True)
    first = write(round_of(target, slice_(0, 2)), drawn(*laps(0, 2)))
    same = write(round_of(target, slice_(2, 4), writer_id=first.writer_id), drawn(*laps(2, 4)))
    assert (same.writer_id, same.is_new) == (first.writer_id, False)
    other = write(round_of(target, slice_(4, 6), writer_id="elsewhere"), drawn(*laps(4, 6)))
    assert (other.writer_id != first.writer_id, other.is_new) == (True, True)


class Yard:
    """Dead letters that are never written."""

    @contextmanager
    def open(self, _replay_id: str) -> Iterator[WriteDeadLetters]:
        yield lambda _slice, _letters: None


def test_one_with_dead_letters_is_opened_anew_too():
    """They lie in a topic, where who wrote last has fenced the others."""
    target, yard = ListTarget(), Yard()
    first = write(round_of(target, slice_(0, 2), dead_letters=yard), drawn(*laps(0, 2)))
    same = round_of(target, slice_(2, 4), writer_id=first.writer_id, dead_letters=yard)
    assert not write(same, drawn(*laps(2, 4))).is_new
    other = round_of(target, slice_(4, 6), writer_id="elsewhere", dead_letters=yard)
    assert write(other, drawn(*laps(4, 6))).is_new


def test_one_that_was_fenced_lets_its_connection_go_and_says_so():
    target = ListTarget(is_ordered=True)
    first = write(round_of(target, slice_(0, 2)), drawn(*laps(0, 2)))
    target.fail_before_commit(Fenced("live.laps"))
    due = round_of(target, slice_(2, 4), writer_id=first.writer_id)
    fenced = write(due, drawn(*laps(2, 4)))
    assert (fenced.is_fenced, fenced.is_whole, fenced.written) == (True, False, [])
    assert "fenced" in str(fenced.away)
    assert Outcome.from_document(fenced.as_document()) == fenced
    again = write(due, drawn(*laps(2, 4)))
    assert (again.is_new, again.is_fenced, again.is_whole) == (True, False, True)
    assert target.records == tuple(laps(0, 4))


def test_asked_to_stop_it_ends_between_two_commits(tmp_path):
    target, stop = ListTarget(), tmp_path / "stop"

    def coming() -> Iterator[ReadRun]:
        for each in drawn(*laps(0, 8)):
            if each[0].offsets[0] == 4:
                stop.touch()
            yield each

    due = round_of(target, slice_(0, 8), limits=Limits(2), stop_file=stop)
    outcome = write(due, coming())
    assert (outcome.away, outcome.is_whole) == (None, False)
    done = [each.slice for each in target.entries("live.laps")]
    [left] = remaining([slice_(0, 8)], done)
    assert left.from_offset in (2, 4), "it stopped after a whole portion"
    assert target.records == tuple(laps(0, left.from_offset))


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_whatever_is_lost_on_the_way_every_record_is_there_once(lengths, data):
    """Rounds are begun again after each fault from what the ledger says, with all of their records."""
    rounds.let_go()
    target = ListTarget()
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    for start, end in zip([0, *ends], ends, strict=False):
        while (at := max((e[1] for e in ledger(target)), default=0)) < end:
            fault = data.draw(st.sampled_from(["none", "before", "after", "cut"]))
            if fault == "before":
                target.fail_before_commit(Unavailable("away"))
            elif fault == "after":
                target.fail_after_commit(Unavailable("away"))
            elif fault == "cut":
                rounds.let_go()
            limits = Limits(data.draw(st.integers(1, 4)))
            write(round_of(target, slice_(at, end), limits=limits), drawn(*laps(start, end)))
    assert target.records == tuple(laps(0, ends[-1]))
    assert ledger(target) == [(0, ends[-1], ends[-1], ends[-1])]


def test_an_outcome_survives_its_way_through_the_engine():
    target = ListTarget()
    outcome = write(round_of(target, slice_(0, 2)), drawn(*laps(0, 2)))
    assert Outcome.from_document(outcome.as_document()) == outcome


def test_a_ledger_that_was_restored_gets_nothing_beyond_its_end():
    target, place = ListTarget(), (TOPIC, 0)
    write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    target.forget("live.laps", but=0)
    late = round_of(target, slice_(4, 9), committed={place: 4}, limits=Limits(2))
    outcome = write(late, drawn(*laps(4, 9)))
    assert (outcome.written, outcome.is_whole) == ([], False)
    assert "up to 4, are not committed" in (outcome.away or "")
    assert ledger(target) == []
    # Records that were dropped while the target was away are no part of the ledger.
    write(round_of(target, slice_(0, 4)), drawn(*laps(0, 4)))
    after = round_of(target, slice_(6, 9), committed={place: 4}, limits=Limits(2))
    assert write(after, drawn(*laps(6, 9))).is_whole
    assert ledger(target) == [(0, 4, 4, 4), (6, 9, 3, 3)]
