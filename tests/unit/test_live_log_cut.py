"""A pipeline notices that a log lost records which it has read."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from playhead import source as sources
from playhead.errors import Refused, Unavailable
from playhead.live.lag_watch import Watch
from playhead.live.log_cut import ReadLog, ReadLogWasCut
from playhead.live.progress import LedgerWentBack, PipelineProgress
from playhead.live.runner import Runner
from playhead.replay.pipelines import RUNNING, Pipelines
from playhead.source import Bounds, TopicPartition
from playhead.task.same_topics import SameTopics

HERE, THERE = ("laps", 0), ("laps", 1)


@dataclass
class Elected:
    """A log with leaders' epochs, the ends of earlier epochs, and its own end."""

    epochs: dict[TopicPartition, int]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    end: int = 100
    asked: list[dict[TopicPartition, int]] = field(default_factory=list)

    def leader_epochs(self):
        return self.epochs

    def ends_of_epochs(self, epochs):
        self.asked.append(dict(epochs))
        return {place: end for place, end in self.ends.items() if place in epochs}

    def bounds(self):
        return {place: Bounds(0, self.end, self.end) for place in self.epochs}


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch):
    monkeypatch.setattr(sources, "_END_WITHIN_S", 0.3)


def read_log(log: Elected, read=None) -> ReadLog:
    return ReadLog("p", log, read or {}, lambda _: None)


def test_while_the_leaders_stay_only_the_offsets_are_noted():
    log, kept = Elected({HERE: 3}), []
    it = ReadLog("p", log, {}, kept.append)
    for at in (10, 10, 20):
        it.confirm({HERE: at})
    assert kept == [{HERE: (10, 3)}, {HERE: (20, 3)}]
    assert not log.asked


def test_an_election_that_loses_nothing_is_no_reason_to_stop():
    log = Elected({HERE: 4}, {HERE: 15})
    it = read_log(log, {HERE: (10, 3)})
    it.confirm({HERE: 20})
    assert log.asked == [{HERE: 3}]
    assert it.read == {HERE: (20, 4)}


def test_records_of_a_later_leader_at_offsets_that_were_read_are_told():
    it = read_log(Elected({HERE: 4, THERE: 1}, {HERE: 7}), {HERE: (10, 3), THERE: (5, 1)})
    with pytest.raises(ReadLogWasCut, match=r"others at their offsets: laps:0:7-10$") as caught:
        it.confirm({HERE: 10, THERE: 9})
    assert caught.value.exit_code == 6
    assert "--accept-loss" in (caught.value.hint or "")
    it.forget()
    it.confirm({HERE: 10, THERE: 9})
    assert it.read == {HERE: (10, 4), THERE: (9, 1)}


def test_after_an_election_the_log_must_have_what_was_read_since():
    """Nobody noted an offset between the last look and the election."""
    log = Elected({HERE: 4}, {HERE: 12}, end=12)
    it = read_log(log, {HERE: (10, 3)})
    with pytest.raises(ReadLogWasCut, match="laps:0:12-14"):
        it.confirm({HERE: 14})
    log.end = 14
    it.confirm({HERE: 14})


def test_a_leader_that_does_not_tell_is_asked_again_about_the_same_offset():
    log = Elected({HERE: 4})
    it = read_log(log, {HERE: (10, 3)})
    it.confirm({HERE: 20})
    assert it.read == {HERE: (10, 3)}
    log.ends = {HERE: 9}
    with pytest.raises(ReadLogWasCut, match="laps:0:9-10"):
        it.confirm({HERE: 20})
    assert log.asked == [{HERE: 3}] * 2


def test_what_a_restored_target_lost_is_read_again_and_cannot_be_lost_by_the_log():
    it = read_log(Elected({HERE: 4}, {HERE: 7}), {HERE: (10, 3)})
    it.confirm({HERE: 7})
    assert it.read == {HERE: (7, 4)}


def test_a_running_pipeline_stops_there():
    standing = PipelineProgress({HERE: 10})
    log = Elected({HERE: 4}, {HERE: 7})
    read = read_log(log, {HERE: (10, 3)})
    watch = Watch(log, standing, lambda _: None, print, SameTopics("live.p", None), read)  # type: ignore[arg-type]
    watch._look()
    assert isinstance(watch.refusal, ReadLogWasCut)
    assert watch.lag is None


def test_a_target_that_lost_commits_is_noticed_before_the_next_record():
    standing = PipelineProgress({HERE: 10}, {HERE: 10})
    log = Elected({HERE: 3}, {HERE: 10})
    read = read_log(log, {HERE: (10, 3)})
    watch = Watch(log, standing, lambda _: None, print, SameTopics("live.p", None), read)  # type: ignore[arg-type]
    ends = {HERE: 7}
    watch.ledger = lambda: ends
    watch._look()
    assert watch.objection() is None, "it has not begun to read"
    standing.state = RUNNING
    watch._look()
    assert isinstance(watch.objection(), LedgerWentBack)
    assert watch.objection() is None, "once"
    ends[HERE] = 12
    watch._look()
    assert watch.objection() is None, "another round was committed meanwhile"

    def is_away() -> None:
        raise Unavailable("no database answers")

    watch.ledger = is_away  # type: ignore[assignment]
    watch._look()
    assert watch.objection() is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"read":[[1]]}', '{"read":1}', "[" * 9_999])
def test_what_was_read_is_stored(tmp_path, text):
    pipelines = Pipelines(tmp_path)
    assert pipelines.read("p") == {}
    pipelines.note_read("p", {HERE: (10, 3), THERE: (0, 1)})
    assert pipelines.read("p") == {HERE: (10, 3), THERE: (0, 1)}
    if text is not None:
        (pipelines.folder("p") / "read.json").write_text(text)
        assert pipelines.read("p") == {}


@pytest.mark.parametrize("why", [Unavailable("no broker answers"), Refused("it may not be read")])
def test_at_the_end_of_a_run_a_source_that_does_not_tell_is_no_failure(why):
    class Silent(Elected):
        def leader_epochs(self):
            raise why

    said: list[str] = []
    runner = SimpleNamespace(_tell=said.append)
    Runner._confirm_end(runner, read_log(Silent({})), PipelineProgress({HERE: 10}))  # type: ignore[arg-type]
    assert said == [f"whether the log still holds the records that were read is unknown: {why}"]


def test_at_the_end_of_a_run_records_that_were_lost_are_told():
    read = read_log(Elected({HERE: 4}, {HERE: 7}), {HERE: (10, 3)})
    with pytest.raises(ReadLogWasCut):
        Runner._confirm_end(SimpleNamespace(), read, PipelineProgress({HERE: 10}))  # type: ignore[arg-type]
