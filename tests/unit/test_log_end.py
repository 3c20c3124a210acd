"""A log that is shorter than what replays have read of it hides nothing: gaps say it."""

from collections.abc import Mapping

import pytest

from playhead.gaps import log_end
from playhead.gaps.gap import Gaps
from playhead.gaps.log_end import behind_the_log
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.source import Bounds, SourceFacts, TopicFacts, TopicPartition
from tests.unit.replaying import TOPIC

FACTS = SourceFacts("cluster", {TOPIC: TopicFacts(topic_id="id")})


class Ends:
    """A source whose partitions end here, at each look; the last look stays."""

    def __init__(self, *looks: Mapping[int, int]) -> None:
        self.looks = [*looks]

    def bounds(self) -> dict[TopicPartition, Bounds]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return {(TOPIC, number): Bounds(0, 0, end) for number, end in look.items()}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_end, "_END_WITHIN_S", 0.01)


def _read(*edges: tuple[int, int, int], topic: str = TOPIC) -> list[Entry]:
    return [Entry(Slice(topic, *each), each[2] - each[1], each[2] - each[1]) for each in edges]


def _behind(source: Ends, facts: SourceFacts = FACTS, **committed: list[Entry]) -> tuple[int, str]:
    count, notes = behind_the_log(source, facts, committed)  # type: ignore[arg-type]
    return count, "; ".join(note.text for note in notes)


def test_offsets_that_a_replay_has_read_behind_the_end_of_the_log_are_counted_and_named():
    count, text = _behind(Ends({0: 800}), r1=_read((0, 0, 900)), r2=_read((0, 900, 1_500)))
    assert count == 700
    assert text.startswith("laps:0 ends at offset 800, but replay r2 has read offsets up to 1,500")
    assert "playhead verify r2 compares the records" in text


def test_a_partition_that_a_broker_does_not_mention_was_read_too():
    count, text = _behind(Ends({0: 800}), r1=_read((0, 0, 800), (1, 0, 40)))
    assert count == 40
    assert text.startswith("laps:1 is gone, but replay r1 has read offsets up to 40")


def test_many_partitions_are_some_notes():
    count, text = _behind(Ends({}), r1=_read(*((number, 0, 1) for number in range(9))))
    assert count == 9
    assert text.endswith("and 5 more partitions of which replays read more")


@pytest.mark.parametrize(
    "source",
    [Ends({0: 800, 1: 0}), Ends({0: 900}), Ends({0: 700}, {0: 800})],
    ids=["all", "more since", "a new leader that was late"],
)
def test_a_log_that_reaches_as_far_is_in_no_doubt(source: Ends):
    assert _behind(source, r1=_read((0, 0, 800))) == (0, "")


def test_other_topics_and_archives_without_ids_are_not_looked_at():
    assert _behind(Ends({0: 0}), r1=_read((0, 0, 800), topic="others")) == (0, "")
    archive = SourceFacts("folder", {TOPIC: TopicFacts()})
    assert _behind(Ends({0: 0}), archive, r1=_read((0, 0, 800))) == (0, "")


def test_what_was_read_behind_the_log_is_never_whole():
    span = Slice(TOPIC, 0, 0, 800)
    found = Gaps("kafka:laps", "postgres:laps", (span,), (), "offsets", behind=700)
    assert not found.is_whole
    assert found.verdict().endswith("; 700 behind the end of the log were read before")
    assert found.as_document()["behind"] == 700
