"""The same copy into a topic for the second time is said, asked for, and refused where nobody answers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from playhead.cli.confirm import answer
from playhead.config.guards import CopiedBefore, need_consent
from playhead.errors import PlayheadError, Refused, Unavailable
from playhead.ledger import Entry
from playhead.plan import Plan
from playhead.record import Slice
from playhead.replay.earlier_copies import (
    EarlierCopy,
    _held,
    copied_meanwhile,
    earlier_copies,
    said_of,
)
from playhead.source import SourceFacts, TopicFacts
from playhead.terms import Terms, Whereto
from playhead.testing import ListTarget
from tests.unit.replaying import TOPIC, partition_plan, plan_of, request
from tests.unit.test_consent import configuration

THERE = Whereto("topic copy", "id 7")
T = 1_600_000_000_000


class Cluster(ListTarget):
    """A target with one ledger for all."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, tuple[Terms, list[Entry]]] = {}

    def replays_of(self, _topics):
        return self.known

    def whereto(self, topics):
        return dict.fromkeys(topics, THERE)

    def begin(self, replay_id: str, plan: Plan, *edges: tuple[int, int], **others: Any) -> None:
        terms = replace(
            plan.terms(is_endless=others.pop("is_endless", False)), places={TOPIC: THERE}
        )
        is_outside = others.pop("is_outside", False)
        entries = [
            Entry(Slice(TOPIC, 0, start, end), n, 0 if is_outside else n, outside=n * is_outside)
            for start, end in edges
            for n in [end - start]
        ]
        self.known[replay_id] = (replace(terms, **others), entries)


def plan(replay_id: str = "again", **changes: Any) -> Plan:
    facts = SourceFacts("here", {TOPIC: TopicFacts("id-1")})
    return plan_of(partition_plan(0, 60), **{"replay_id": replay_id, "source": facts, **changes})


def found(target: Cluster, of: Plan | None = None) -> list[tuple[str, int]]:
    return [(each.replay_id, each.offsets) for each in earlier_copies(target, of or plan())]


def test_another_run_of_the_same_topics_is_found_with_its_offsets_and_time():
    target = Cluster()
    target.begin("first", plan("first"), (0, 20), (40, 80))
    target.begin("later", plan("later", made_at_ms=1_767_268_900_000), (59, 60))
    assert found(target) == [("later", 1), ("first", 40)]
    [_, first] = earlier_copies(target, plan())
    said = "run first copied 40 of these offsets at 2026-01-01T12:00:00.000Z"
    assert str(first) == said
    note = first.note("kafka:copy")
    assert note.code == "copied-before"
    assert (
        note.text == f"{said} into kafka:copy; this plan writes their records there a second time"
    )


@pytest.mark.parametrize(
    "others",
    [
        {"topics": {TOPIC: "id-0"}},  # the source topic was made again
        {"places": {TOPIC: Whereto("topic copy", "id 6")}},  # the target topic was
        {"places": {TOPIC: Whereto("topic other", "id 9")}},
        {"source": "another cluster"},
        {"is_outside": True},  # all were read for late records alone
    ],
)
def test_a_run_of_something_else_has_copied_nothing(others):
    target = Cluster()
    target.begin("first", plan("first"), (0, 60), **others)
    assert found(target) == []


def test_other_offsets_and_other_times_are_no_second_copy():
    target = Cluster()
    target.begin("first", plan("first", from_ms=T, to_ms=T + 10), (0, 70))
    assert found(target, plan(from_ms=T + 10, to_ms=T + 20)) == [], "read for late records alone"
    assert found(target, plan(from_ms=T - 5, to_ms=T)) == []
    assert found(target, plan(from_ms=T + 9, to_ms=T + 20)) == [("first", 60)]
    assert found(target) == [("first", 60)]
    target.begin("first", plan("first"), (60, 90))
    assert found(target) == []


def test_a_pipeline_has_copied_too_and_what_goes_on_has_not():
    target = Cluster()
    target.begin("live", plan("live"), (0, 60), is_endless=True)
    [pipeline] = earlier_copies(target, plan())
    assert str(pipeline) == "pipeline live copied 60 of these offsets"
    target.begin("again", plan("again"), (0, 10))
    assert found(target) == [("live", 50)], "of what it still lacks"


def test_what_a_plan_names_was_agreed_to_when_it_began():
    target = Cluster()
    target.begin("first", plan("first"), (0, 60))
    [first] = earlier_copies(target, plan())
    begun = plan(notes=(first.note("kafka:copy"),))
    assert found(target, begun) == [("first", 60)], "nobody has agreed yet"
    assert earlier_copies(target, begun, is_agreed=True) == []
    target.begin("again", begun, (0, 10))
    assert found(target, begun) == []
    target.begin("gap", plan("gap"), (10, 60))
    assert found(target, begun) == [("gap", 50)], "it came later"
    target.begin("again", begun, (0, 60))
    assert found(target, begun) == []


def test_an_id_that_is_a_word_of_another_note_is_not_named_by_it():
    target = Cluster()
    target.begin("first", plan("first"), (0, 60))
    [first] = earlier_copies(target, plan())
    begun = plan(notes=(first.note("kafka:copy"),))
    for each in ("run", "copied", "there"):
        target.begin(each, plan(each), (0, 60))
    assert found(target, begun) == [(each, 60) for each in ("copied", "first", "run", "there")]
    told = [note.text for note in copied_meanwhile(target, begun)]
    assert [text.split()[1] for text in told] == ["copied", "run", "there"]


def test_a_finished_run_names_who_wrote_the_same_records_meanwhile():
    target = Cluster()
    target.begin("again", plan(), (0, 60))
    assert copied_meanwhile(target, plan()) == []
    target.begin("other", plan("other"), (20, 60))
    [note] = copied_meanwhile(target, plan())
    assert "run other copied 40 of these offsets" in note.text
    assert "into kafka:copy too; their records are in kafka:copy more than once" in note.text
    named = plan(notes=(EarlierCopy("other", 40, None, False).note("kafka:copy"),))
    assert copied_meanwhile(target, named) == []
    assert copied_meanwhile(ListTarget(), plan()) == []


def test_only_topics_are_asked_for():
    target = Cluster()
    target.begin("first", plan("first"), (0, 60))
    assert found(target, plan(request=request(target="postgres:laps"))) == []
    assert earlier_copies(ListTarget(), plan()) == []


# --- who may say yes

COPIES = "run first copied 40 of these offsets"


def ask(consent: Any) -> None:
    need_consent("replay into kafka:copy", "copy", configuration(), consent, copies=lambda: COPIES)


@pytest.mark.parametrize("consent", [None, "copy"])
def test_without_somebody_to_ask_a_second_copy_is_refused(consent):
    with pytest.raises(CopiedBefore, match=COPIES) as caught:
        ask(consent)
    assert caught.value.exit_code == 6
    # It is the same of a topic and of a table.
    assert caught.value.hint == "to write them once more: --again, from Python again=True"


def test_yes_to_all_questions_is_no_yes_to_this_one(capsys):
    with pytest.raises(CopiedBefore):
        ask(answer(yes=True, has_terminal=lambda: False))
    with pytest.raises(Refused, match="the answer was not yes"):
        ask(answer(yes=True, has_terminal=lambda: True, read_answer=lambda: "\n"))
    ask(answer(yes=True, has_terminal=lambda: True, read_answer=lambda: "y\n"))
    assert f"replay into kafka:copy a second time ({COPIES})? [y/N]" in capsys.readouterr().err


def test_who_is_asked_sees_what_it_is_about():
    seen = []
    ask(lambda question: seen.append(question.copies) or True)
    assert seen == [COPIES]


def test_many_are_said_in_one_line():
    copies = [EarlierCopy(f"r{n}", 1, None, False) for n in range(5)]
    assert said_of(copies).endswith("run r2 copied 1 of these offsets; and 2 more")
    assert said_of([]) == ""


class Unread:
    """A table whose rows name their offsets, and that its user may not read."""

    def __init__(self, error: PlayheadError) -> None:
        self._error = error

    def has_offsets(self, _: object) -> bool:
        return True

    def held_offsets(self, _: object, **__: object) -> object:
        raise self._error

    columns_there = safest_conflict_rule = known_by_columns = has_offsets


def test_a_table_that_may_only_be_inserted_into_is_counted_by_its_ledger() -> None:
    plan: Any = SimpleNamespace(slices=list)
    table: Any = Unread(PlayheadError("permission denied"))
    assert _held(table, plan, lambda held: held.rows) is None
    away: Any = Unread(Unavailable("gone"))
    with pytest.raises(Unavailable):
        _held(away, plan, lambda held: held.rows)
