"""A replay that is done is asked for again: its proof is of what was there, and says so where that changed."""

from pathlib import Path
from typing import Any

import pytest

from playhead.errors import Unavailable
from playhead.record import Record
from playhead.replay import api
from playhead.replay.guards import SourceReplaced
from playhead.source import SourceFacts, TopicFacts
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, record, runner, whole_plan
from tests.unit.standbys import NoEngine, furnished
from tests.unit.test_resume_command import WORDS, code_of

TEN: list[Record] = [record(offset) for offset in range(10)]


class Away(ListSource):
    def facts(self) -> SourceFacts:
        raise Unavailable("nobody is there")


def of_id(topic_id: str, kind: type[ListSource] = ListSource) -> ListSource:
    return kind(TEN, topics={TOPIC: TopicFacts(topic_id)})


def test_a_topic_that_was_created_again_is_named_beside_the_old_proof(tmp_path):
    target, plan = ListTarget(), whole_plan(of_id("first"))
    runner(plan, of_id("first"), target, tmp_path).run()
    said: list[str] = []
    proof = runner(plan, of_id("second"), target, tmp_path, say=said.append).run()
    [note] = [each for each in proof.notes if each.code == "source-replaced"]
    assert note.text in said
    assert note.text.startswith(
        f"replay r1 was planned with topic {TOPIC} of id first; found second"
    )
    assert len(target.records) == 10
    again = runner(plan, of_id("first"), target, tmp_path).run()
    assert all(each.code != "source-replaced" for each in again.notes)


def test_a_source_that_does_not_answer_may_be_another(tmp_path):
    target, plan = ListTarget(), whole_plan(of_id("first"))
    runner(plan, of_id("first"), target, tmp_path).run()
    proof = runner(plan, of_id("first", Away), target, tmp_path).run()
    assert [each.text for each in proof.notes if each.code == "source-replaced"] == [
        "nobody is there: whether the topics are still the planned ones is unknown"
    ]


def test_a_target_whose_ledger_was_copied_is_named_beside_the_proof(tmp_path, monkeypatch):
    target, plan = ListTarget(), whole_plan(of_id("first"))
    runner(plan, of_id("first"), target, tmp_path).run()
    monkeypatch.setattr(target, "identity", lambda: "another")
    for each in TEN:
        target.lose(each)
    proof = runner(plan, of_id("first"), target, tmp_path).run()
    [note] = [each for each in proof.notes if each.code == "target-copied"]
    assert "the target is another, and the planned one was lists" in note.text
    assert "only playhead verify r1" in note.text


def test_a_command_that_names_the_source_is_refused_and_resume_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(api, "_engine", lambda configuration, *_: NoEngine(configuration))
    furnished(tmp_path, monkeypatch)
    assert code_of(*WORDS) == 0

    def refuse(*_: Any) -> None:
        raise SourceReplaced("topic t of id", planned="first", found="second", replay_id="laps")

    monkeypatch.setattr(api, "has_topic_ids", lambda _: True)
    monkeypatch.setattr(api, "refuse_another_source", refuse)
    capsys.readouterr()
    assert code_of(*WORDS) == 6
    assert "planned with topic t of id first; found second" in capsys.readouterr().err
    assert code_of("resume", "laps") == 0
