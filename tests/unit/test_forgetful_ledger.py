"""A ledger that has less than this machine has seen there is not believed: what it forgot would be written twice."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from playhead.errors import Unavailable
from playhead.replay import patience
from playhead.replay import runner as running
from playhead.replay.guards import LedgerForgot
from playhead.replay.journal import DONE, Journal, JournalBusy
from playhead.replay.runner import StoppedBeforeEnd
from playhead.task.job import Job
from playhead.task.slicer import Limits
from playhead.testing import Aborted, ListSource, ListTarget
from tests.unit.replaying import Small, record, runner, whole_plan

TEN = [record(offset, 100 * offset) for offset in range(10)]


@pytest.fixture(autouse=True, scope="module")
def _impatient() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "_FIRST_WAIT_S", 0.001)
        patch.setattr(patience, "_LONGEST_WAIT_S", 0.002)
        yield


class Forgetful(ListTarget):
    """A list whose ledger says nothing of the offsets from one on, as often as one wants."""

    forgets_from, looks = 10, 0

    def entries(self, replay_id: str, /):
        found = super().entries(replay_id)
        self.looks -= 1
        if self.looks < 0:
            return found
        return [each for each in found if each.slice.to_offset <= self.forgets_from]


def test_a_ledger_with_less_than_the_journal_knows_is_refused(tmp_path):
    source, target = ListSource(TEN), Forgetful()
    plan = whole_plan(source)
    assert runner(plan, source, target, tmp_path).run().adds_up
    target.forgets_from, target.looks = 4, 100
    with pytest.raises(
        LedgerForgot, match="10 committed offsets .* but the ledger of its target only 4"
    ) as e:
        runner(plan, source, target, tmp_path).run()
    assert e.value.exit_code == 6
    assert "playhead resume r1 --trust-ledger" in (e.value.hint or "")
    assert target.records == tuple(TEN), "nothing was written again"


def test_a_ledger_that_is_read_short_once_is_read_again(tmp_path):
    source, target = ListSource(TEN), Forgetful()
    plan = whole_plan(source)
    runner(plan, source, target, tmp_path).run()
    target.forgets_from, target.looks = 4, 1
    assert runner(plan, source, target, tmp_path).run().adds_up
    assert target.records == tuple(TEN)


def test_what_an_interrupted_run_has_seen_counts_too(tmp_path):
    source, target = ListSource(TEN), ListTarget()
    plan, journal = whole_plan(source), Journal(tmp_path)

    def interrupted(job: Job) -> list[Mapping[str, Any]]:
        if target.records:
            raise Aborted("hard")
        target.fail_after_commit(Unavailable("away"))
        return Small(Limits(2))(job)

    with pytest.raises(Aborted):
        runner(plan, source, target, tmp_path, run_job=interrupted).run()
    assert journal.committed("r1") == len(target.records) > 0
    other = ListTarget()
    with pytest.raises(LedgerForgot, match="the ledger of its target only 0"):
        runner(plan, source, other, tmp_path).run()
    assert other.records == ()


def test_a_restored_target_may_be_trusted_once(tmp_path):
    source = ListSource(TEN)
    plan = whole_plan(source)
    runner(plan, source, ListTarget(), tmp_path).run()
    restored = ListTarget()
    proof = runner(plan, source, restored, tmp_path, trusts_ledger=True).run()
    assert proof.adds_up
    [note] = [each.text for each in proof.notes if each.code == "ledger-trusted"]
    assert "had 0 committed offsets where this machine knows 10, and was trusted" in note
    assert restored.records == tuple(TEN)
    with pytest.raises(LedgerForgot):
        runner(plan, source, ListTarget(), tmp_path).run()


def test_the_proof_of_a_version_before_is_known(tmp_path):
    journal, source = Journal(tmp_path), ListSource(TEN)
    journal.keep(whole_plan(source), {})
    assert journal.committed("r1") == 0
    journal.note("r1", DONE, proof={"totals": {"planned": 10, "missing": 3}})
    assert journal.committed("r1") == 7
    journal.note_committed("r1", 9)
    assert journal.committed("r1") == 9
    assert journal.committed("unknown") == 0


@pytest.mark.parametrize("kept", [0, 1])
def test_a_stopped_run_knows_what_its_tasks_have_committed(tmp_path, kept):
    stop = Journal(tmp_path).stop_file("r1")
    source, plan = ListSource(TEN), whole_plan(ListSource(TEN))
    target = ListTarget(refuses=lambda each: stop.touch() if each.offset == 3 else None)
    with pytest.raises(StoppedBeforeEnd, match="stopped at 4 of 10 offsets"):
        runner(plan, source, target, tmp_path).run()
    target.forget("r1", but=kept)
    with pytest.raises(LedgerForgot, match=f"journal has 4 .* its target only {2 * kept}"):
        runner(plan, source, target, tmp_path).run()
    assert target.records == tuple(TEN[:4]), "nothing was written again"


def test_a_killed_run_knows_what_was_seen_while_its_tasks_were_at_work(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_PROGRESS_EVERY_S", 0.01)
    source, target = ListSource(TEN), ListTarget()
    plan, journal = whole_plan(source), Journal(tmp_path)

    def killed(job: Job) -> list[Mapping[str, Any]]:
        Small(Limits(2))(job)
        until = time.monotonic() + 30
        while not journal.committed("r1") and time.monotonic() < until:
            time.sleep(0.01)
        raise Aborted("hard")

    with pytest.raises(Aborted):
        runner(plan, source, target, tmp_path, run_job=killed).run()
    target.forget("r1", but=3)
    with pytest.raises(LedgerForgot, match="journal has 10 .* its target only 6"):
        runner(plan, source, target, tmp_path).run()


def test_entries_that_vanish_during_a_job_are_not_written_again(tmp_path):
    source, target = ListSource(TEN), ListTarget()

    def beside(job: Job) -> list[Mapping[str, Any]]:
        reports = Small(Limits(2))(job)
        target.forget("r1", but=2)
        return reports

    with pytest.raises(LedgerForgot, match="10 committed offsets .* its target only 4"):
        runner(whole_plan(source), source, target, tmp_path, run_job=beside).run()
    assert target.records == tuple(TEN)


def test_a_lower_number_that_is_seen_is_not_believed(tmp_path):
    journal = Journal(tmp_path)
    journal.keep(whole_plan(ListSource(TEN)), {})
    journal.note_committed("r1", 6)
    for seen, known in ((9, 9), (4, 9)):
        journal.note_seen("r1", seen)
        assert journal.committed("r1") == known
    journal.note_committed("r1", 4)  # As with --trust-ledger.
    assert journal.committed("r1") == 4


def test_a_journal_that_cannot_be_written_while_tasks_are_at_work_stops_none(tmp_path, monkeypatch):
    journal = Journal(tmp_path)

    def full() -> None:
        raise JournalBusy(tmp_path)

    monkeypatch.setattr(journal, "_opened", full)
    journal.note_seen("r1", 4)
