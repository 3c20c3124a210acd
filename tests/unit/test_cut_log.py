"""A log that lost planned records is not replayed as if it had them."""

from typing import Any

import pytest

from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.replay.guards import LogWasCut
from playhead.replay.journal import FAILED, Journal
from playhead.source import TopicFacts
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, partition_plan, plan_of, record, runner

TEN = [record(offset, 100 * offset) for offset in range(10)]


class CutLog(ListSource):
    """A log in which the records of the planned leader's epoch end at these offsets, one at each look."""

    looks: list[int | PlayheadError]

    def ends_of_epochs(self, epochs):
        assert epochs == {(TOPIC, 0): 3}
        look = self.looks.pop(0)
        if isinstance(look, PlayheadError):
            raise look
        return {(TOPIC, 0): look}


def cut_log(*looks: int | PlayheadError) -> tuple[Any, CutLog]:
    source = CutLog(TEN, topics={TOPIC: TopicFacts("one", leader_epochs={0: 3})})
    source.looks = [*looks]
    return plan_of(partition_plan(0, 10), source=source.facts()), source


def test_a_log_that_lost_planned_records_is_refused(tmp_path):
    plan, source = cut_log(9)
    target = ListTarget()
    with pytest.raises(LogWasCut, match="laps:0 lost its records from offset 9 on"):
        runner(plan, source, target, tmp_path).run()
    assert not target.records


def test_a_log_that_loses_records_during_the_run_is_not_proved(tmp_path):
    plan, source = cut_log(10, 4)
    with pytest.raises(LogWasCut, match="from offset 4 on"):
        runner(plan, source, ListTarget(), tmp_path).run()
    run = Journal(tmp_path).get("r1")
    assert run is not None
    assert run.state == FAILED


@pytest.mark.parametrize("why", [Unavailable("no broker answers"), Refused("it may not be read")])
def test_a_source_that_does_not_tell_at_the_end_makes_no_failed_replay(tmp_path, why):
    plan, source = cut_log(10, why)
    proof = runner(plan, source, target := ListTarget(), tmp_path).run()
    assert proof.adds_up
    assert len(target.records) == 10
    assert [note.text for note in proof.notes] == [
        f"{why}: whether the topics still hold the records that were read is unknown"
    ]


def test_a_finished_replay_of_a_log_that_lost_its_records_says_so(tmp_path):
    plan, source = cut_log(12, 10, 5)
    target = ListTarget()
    assert runner(plan, source, target, tmp_path).run().notes == ()
    [note] = runner(plan, source, target, tmp_path).run().notes
    assert note.code == "source-replaced"
    assert "lost its records from offset 5 on" in note.text
    assert "the proof is of the records of then" in note.text
