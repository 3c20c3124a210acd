"""Rows of a topic that was deleted and created again hide nothing of the present one."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from playhead.errors import Refused
from playhead.gaps.gap import Gap, Gaps
from playhead.gaps.table_doubts import (
    not_reached,
    of_other_topics,
    of_present_topics,
    policed,
    refuse_hidden_rows,
    unkeyed,
)
from playhead.inventory import TableFacts
from playhead.ledger import Entry, remaining
from playhead.note import Note
from playhead.record import Slice
from playhead.source import SourceFacts, TopicFacts
from playhead.terms import Terms, Whereto
from tests.unit.replaying import TOPIC

NOW = SourceFacts("cluster", {TOPIC: TopicFacts(topic_id="new")})
SPAN = Slice(TOPIC, 0, 0, 100)
LAPS = Whereto("table public.laps", "oid 1")


class Ledger:
    """Replays into one table, each of the topic with this id."""

    def __init__(self) -> None:
        self.begun: dict[str, Terms] = {}
        self.held: dict[str, list[Entry]] = {}

    def replay(
        self, replay_id: str, topic_id: str, *edges: tuple[int, int], **more: object
    ) -> "Ledger":
        source, topic = str(more.pop("source", "cluster")), str(more.pop("topic", TOPIC))
        is_filtered = more.pop("is_filtered", False)
        places = {topic: LAPS}
        digest, rules = "" if replay_id.startswith("live.") else "digest", more.pop("rules", {})
        self.begun[replay_id] = Terms(
            digest, source, {topic: topic_id}, "postgres", rules, places=places
        )
        self.held[replay_id] = []
        for start, end in edges:
            counts = (0, end - start) if is_filtered else (end - start, 0)
            entry = Entry(Slice(topic, 0, start, end), end - start, *counts, details=more)
            self.held[replay_id].append(entry)
        return self

    def table_facts(self, topics: Collection[str]) -> TableFacts:
        raise AssertionError(topics)

    def entries_of(self, replay_ids: Collection[str]) -> dict[str, list[Entry]]:
        return {each: self.held[each] for each in replay_ids}

    def doubts(
        self, *lacking: Slice, by_key: bool = False, is_untold: bool = False
    ) -> tuple[int, list[Note]]:
        facts = TableFacts((), self.begun, untold={TOPIC: LAPS} if is_untold else {})
        committed = of_present_topics(self, facts, NOW)  # type: ignore[arg-type]
        there = remaining([SPAN], lacking)
        return of_other_topics(self, facts, NOW, there, committed, by_key=by_key)  # type: ignore[arg-type]


def test_rows_that_a_replay_of_the_deleted_topic_wrote_are_in_doubt():
    count, notes = Ledger().replay("r1", "old", (0, 40)).doubts()
    assert count == 40
    [note] = notes
    assert (note.code, note.weight) == ("other-topic", "warn")
    assert (
        "replay r1 wrote 40 of the offsets that the table has from another topic laps" in note.text
    )
    assert "that had the ID old and was deleted; the ID is new now" in note.text
    assert "playhead verify SOURCE TARGET compares the records themselves" in note.text


def test_by_key_any_row_of_the_deleted_topic_may_be_the_one_that_was_found():
    ledger = Ledger().replay("r1", "old", (100, 140))
    count, [note] = ledger.doubts(by_key=True)
    assert (count, note.code) == (40, "other-topic")
    assert "replay r1 wrote 40 rows into the table from another topic laps" in note.text
    assert ledger.doubts(Slice(TOPIC, 0, 10, 100), by_key=True)[0] == 10
    assert ledger.replay("r2", "new", (0, 70)).doubts(by_key=True)[0] == 30
    assert ledger.replay("r3", "new", (70, 100)).doubts(by_key=True) == (0, [])


def test_another_cluster_is_another_topic():
    count, [note] = Ledger().replay("r1", "new", (0, 40), source="another").doubts()
    assert count == 40
    assert "of the cluster another; the source is cluster" in note.text


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger().replay("r1", "new", (0, 40)),
        Ledger().replay("r1", "old", (0, 40), topic="others"),
        Ledger().replay("r1", "old", (0, 40), is_filtered=True),
        Ledger().replay("r1", "old", (100, 140)),
        Ledger().replay("r1", "old"),
        Ledger().replay("r1", "", (0, 40), source="an archive of it"),
        Ledger().replay("r1", "old", (0, 40)).replay("r2", "new", (0, 60)),
        Ledger(),
    ],
    ids=["present", "other name", "nothing", "elsewhere", "begun", "archive", "again", "unknown"],
)
def test_what_is_of_the_present_topic_or_nowhere_near_is_not(ledger):
    assert ledger.doubts() == (0, [])


@pytest.mark.parametrize(
    "without_row",
    [{"left_alone": 40}, {"is_filtered": True}, {"tombstones": 1}, {"tombstones_skipped": 1}],
    ids=str,
)
def test_a_replay_of_the_present_topic_that_wrote_no_row_for_a_record_proves_nothing(without_row):
    ledger = Ledger().replay("r1", "old", (0, 40))
    assert ledger.replay("r2", "new", (0, 60), **without_row).doubts()[0] == 40


def test_without_a_column_for_the_topic_rows_of_any_topic_are_in_doubt():
    ledger = Ledger().replay("r1", "other", (0, 40), topic="others")
    count, [note] = ledger.doubts(is_untold=True)
    assert (count, note.code) == (40, "other-topic")
    assert "from another topic others, and the table has no column _topic: whether" in note.text
    assert ledger.doubts(is_untold=True, by_key=True) == (0, [])
    assert ledger.replay("r2", "new", (0, 30)).doubts(is_untold=True)[0] == 10
    assert ledger.replay("r3", "new", (30, 50)).doubts(is_untold=True) == (0, [])
    ledger = Ledger().replay("r1", "other", (0, 40), topic="others")
    ledger.begun["r1"] = replace(ledger.begun["r1"], places={"others": Whereto("table b", "oid 2")})
    assert ledger.doubts(is_untold=True) == (0, [])


def test_offsets_that_are_missing_anyway_are_not_counted_twice():
    assert Ledger().replay("r1", "old", (0, 40)).doubts(Slice(TOPIC, 0, 30, 100))[0] == 30


def test_a_ledger_that_cannot_be_read_is_mentioned():
    count, [note] = of_other_topics(Ledger(), TableFacts((), None), NOW, [SPAN], [])  # type: ignore[arg-type]
    assert (count, note.code, note.weight) == (0, "unread-ledger", "info")


def test_doubt_is_never_whole():
    found = Gaps("kafka:laps", "postgres:laps", (SPAN,), (), "offsets", doubtful=40)
    assert not found.is_whole
    assert found.verdict().endswith("; 40 are there, but perhaps of another topic")
    assert found.as_document()["doubtful"] == 40


def test_gaps_that_a_policy_may_explain_are_not_filled():
    notes = tuple(policed(TableFacts(("public.laps",))))
    found = Gaps("kafka:laps", "postgres:laps", (SPAN,), (Gap(SPAN),), "offsets", notes=notes)
    with pytest.raises(Refused, match="public.laps has row security for this user"):
        refuse_hidden_rows(found)
    refuse_hidden_rows(Gaps("kafka:laps", "postgres:laps", (SPAN,), (Gap(SPAN),), "offsets"))


def test_a_key_that_no_unique_index_covers_is_mentioned():
    facts = TableFacts(keys={"public.laps": [("id",), ("a", "b")], "public.others": []})
    assert [note.text.split()[0] for note in unkeyed(facts, ("id",))] == ["public.others"]
    assert len(unkeyed(facts, ("a",))) == 2
    assert len(unkeyed(facts, ("b", "a", "c"))) == 1


def _not_reached(ledger: Ledger, *missing: Slice) -> list[str]:
    committed = of_present_topics(ledger, TableFacts((), ledger.begun), NOW)  # type: ignore[arg-type]
    return [note.text for note in not_reached(committed, missing)]


def test_what_a_pipeline_has_not_reached_is_named_before_a_replay_fills_it():
    ledger = Ledger().replay("live.cars", "new", (0, 40), (40, 60)).replay("r1", "new", (0, 10))
    [text] = _not_reached(ledger, Slice(TOPIC, 0, 50, 80), Slice(TOPIC, 0, 90, 100))
    assert "pipeline cars has not reached 30 of these offsets" in text
    assert "gets these records twice" in text


@pytest.mark.parametrize(
    ("ledger", "missing"),
    [
        (Ledger().replay("live.cars", "new", (0, 60)), Slice(TOPIC, 0, 20, 60)),
        (Ledger().replay("live.cars", "new", (0, 60)), Slice(TOPIC, 1, 20, 80)),
        (Ledger().replay("live.cars", "old", (0, 60)), Slice(TOPIC, 0, 20, 80)),
        (Ledger().replay("r1", "new", (0, 60)), Slice(TOPIC, 0, 20, 80)),
        (
            Ledger().replay("live.cars", "new", (0, 60), rules={"on_conflict": "newer"}),
            Slice(TOPIC, 0, 20, 80),
        ),
    ],
)
def test_a_pipeline_that_has_passed_or_has_a_rule_for_conflicts_writes_nothing_twice(
    ledger, missing
):
    assert _not_reached(ledger, missing) == []
