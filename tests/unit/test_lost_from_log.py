"""Records that the log lost after replays had read them hide nothing: gaps say it."""

from collections.abc import Mapping

import pytest

from playhead import source as sources
from playhead.gaps import lost_from_log
from playhead.gaps.gap import Gaps
from playhead.gaps.lost_from_log import Committed
from playhead.ledger import Entry
from playhead.record import Slice
from playhead.source import Bounds, SourceFacts, TopicFacts, TopicPartition
from playhead.terms import Terms
from tests.unit.replaying import TOPIC

SPANS = [Slice(TOPIC, 0, 0, 1_000)]
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
    monkeypatch.setattr(sources, "_END_WITHIN_S", 0.01)


def _read(*edges: tuple[int, int, int], topic: str = TOPIC) -> list[Entry]:
    return [Entry(Slice(topic, *each), each[2] - each[1], each[2] - each[1]) for each in edges]


def _terms(epoch: int | None = None) -> Terms:
    epochs = {} if epoch is None else {"leader_epochs": {"0": epoch}}
    return Terms("", "cluster", {TOPIC: "id"}, "db", {}, {"source": {"topics": {TOPIC: epochs}}})


def _behind(source: Ends, facts: SourceFacts = FACTS, **committed: list[Entry]) -> tuple[int, str]:
    read = [Committed(each, _terms(), entries) for each, entries in committed.items()]
    count, notes = lost_from_log.lost_from_log(source, facts, SPANS, read)  # type: ignore[arg-type]
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
    assert text.endswith("and 5 more notes of this kind")


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


def test_a_target_of_lost_records_is_never_whole():
    span = Slice(TOPIC, 0, 0, 800)
    found = Gaps("kafka:laps", "postgres:laps", (span,), (), "offsets", lost=700)
    assert not found.is_whole
    assert found.verdict().endswith("; 700 were lost from the log after replays had read them")
    assert found.as_document()["lost"] == 700


class Epochs(Ends):
    """A source in whose partition 0 the records of each epoch end here."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        super().__init__({0: 1_000})
        self.ends = ends

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        assert {topic for topic, _ in epochs} <= {TOPIC}, "not ours to ask"
        return {place: self.ends[epoch] for place, epoch in epochs.items() if epoch in self.ends}


def _replaced(source: Ends, *read: Committed) -> tuple[int, str]:
    count, notes = lost_from_log.lost_from_log(source, FACTS, SPANS, read)  # type: ignore[arg-type]
    return count, "; ".join(note.text for note in notes)


def test_offsets_with_records_of_a_later_leader_are_counted_and_named():
    read = Committed("r1", _terms(3), _read((0, 0, 400), (0, 400, 900)))
    count, text = _replaced(Epochs({3: 600}), read)
    assert count == 300
    assert text.startswith("replay r1 read 300 offsets, from laps:0 offset 600 on, before the log")


def test_what_a_later_replay_has_written_again_is_not_lost():
    first = Committed("r1", _terms(3), _read((0, 0, 900)))
    again = Committed("r2", _terms(4), _read((0, 500, 800)))
    assert _replaced(Epochs({3: 600, 4: 1_000}), first, again)[0] == 100
    # Both were before the loss.
    assert _replaced(Epochs({3: 600, 4: 700}), first, again)[0] == 200


def test_records_whose_epoch_ends_behind_them_or_is_unknown_are_in_no_doubt():
    read = Committed("r1", _terms(3), _read((0, 0, 900)))
    assert _replaced(Epochs({3: 900}), read) == (0, "")
    assert _replaced(Epochs({}), read) == (0, "")
    assert _replaced(Epochs({3: 1}), Committed("r1", _terms(), read.entries)) == (0, "")
    outside = Committed("r1", _terms(3), _read((1, 0, 900)))
    assert _replaced(Epochs({3: 0}), outside)[0] == 900  # A partition that is gone.


def test_other_topics_of_a_replay_are_not_asked_about():
    plan = {
        "source": {
            "topics": {TOPIC: {"leader_epochs": {"0": 3}}, "gone": {"leader_epochs": {"0": 3}}}
        }
    }
    terms = Terms("", "cluster", {TOPIC: "id", "gone": "other"}, "db", {}, plan)
    read = Committed("r1", terms, [*_read((0, 0, 900)), *_read((0, 0, 900), topic="gone")])
    assert _replaced(Epochs({3: 600}), read)[0] == 300


def test_a_log_that_has_its_end_is_asked_once():
    source = Ends({0: 800}, {0: 900}, {0: 901})
    assert _behind(source, r1=_read((0, 0, 800))) == (0, "")
    assert len(source.looks) == 2
