"""One name, several topics: an archive never joins the records of a topic that was created again."""

import re
from pathlib import Path

import pytest

from playhead.errors import EXIT_REFUSED
from playhead.files import file_names
from playhead.files.archive import archive_of
from playhead.files.errors import AnotherTopic, SeveralTopics
from playhead.files.source import FilesSource
from playhead.files.target import FilesTarget
from playhead.files.terms import agree
from playhead.record import Record, Slice
from playhead.source import SourceFacts, TopicFacts
from playhead.target import Inspection, InspectRequest
from playhead.testing.target_case import terms
from tests.fix_archives import commit, read, record, slice_, writing


def archived(
    root: Path,
    replay_id: str,
    topic_id: str | None,
    wanted: Slice,
    records: list[Record],
    *,
    source: str = "a cluster",
) -> None:
    """Write one slice as a version did that did not compare topics; without terms if there is no id."""
    if topic_id is not None:
        its = terms(topics={"t": topic_id}, source=source)
        archive = archive_of(str(root), "parquet")
        archive.make()
        agree(archive, replay_id, its)
    with writing(FilesTarget(str(root)), replay_id, keeps_terms=topic_id is not None) as writer:
        commit(writer, wanted, records)


def two_topics(root: Path) -> None:
    archived(root, "old", "id 1", slice_(0, 10), [record(n, value=b"old") for n in range(10)])
    archived(root, "new", "id 2", slice_(0, 20), [record(n, value=b"new") for n in range(20)])


def inspected(root: Path, topic_id: str | None, topic: str = "t") -> Inspection:
    source = SourceFacts("a cluster", {topic: TopicFacts(topic_id)})
    return FilesTarget(str(root)).inspect(InspectRequest(source, {topic: 1}, []))


def test_an_archive_of_two_topics_of_one_name_is_not_read(tmp_path: Path) -> None:
    two_topics(tmp_path)
    source = FilesSource(str(tmp_path))
    text = re.escape(
        "several topics with the name t: replay old from a cluster (id id 1); replay new from"
    )
    for look in (
        source.bounds,
        source.facts,
        source.absences,
        lambda: source.offsets_at(0),
        lambda: source.open().__enter__(),
    ):
        with pytest.raises(SeveralTopics, match=text) as refused:
            look()
        assert refused.value.exit_code == EXIT_REFUSED
    ledger = tmp_path / file_names.replay_folder("old")
    assert "move the ledgers" in (refused.value.hint or "")
    ledger.rename(tmp_path.parent / "moved away")
    assert [each.value for each in read(tmp_path, slice_(0, 20))] == [b"new"] * 20


def test_two_topics_in_two_partitions_are_two_topics(tmp_path: Path) -> None:
    archived(tmp_path, "old", "id 1", slice_(0, 10), [record(1)])
    archived(tmp_path, "new", "id 2", slice_(0, 10, 1), [record(1, partition=1)])
    with pytest.raises(SeveralTopics):
        FilesSource(str(tmp_path)).bounds()


def test_the_same_topic_from_two_replays_is_read(tmp_path: Path) -> None:
    archived(tmp_path, "one", "id 1", slice_(0, 10), [record(1)])
    archived(tmp_path, "two", "id 1", slice_(5, 20), [record(15)])
    assert read(tmp_path, slice_(0, 20)) == [record(1), record(15)]
    assert not FilesSource(str(tmp_path)).facts().notes


@pytest.mark.parametrize("topic_id", [None, ""])
def test_archives_without_terms_or_ids_are_read(tmp_path: Path, topic_id: str | None) -> None:
    archived(tmp_path, "one", "id 1", slice_(0, 10), [record(1)])
    archived(tmp_path, "two", topic_id, slice_(10, 20), [record(15)], source="files")
    assert read(tmp_path, slice_(0, 20)) == [record(1), record(15)]
    notes = FilesSource(str(tmp_path)).facts().notes
    assert [note.code for note in notes] == ([] if topic_id is None else ["archive.origins"])


def test_another_topic_of_the_name_is_refused_in_the_plan(tmp_path: Path) -> None:
    archived(tmp_path, "old", "id 1", slice_(0, 10), [record(1)])
    with pytest.raises(AnotherTopic, match="by replay old from a cluster") as refused:
        inspected(tmp_path, "id 2")
    assert refused.value.exit_code == EXIT_REFUSED
    assert "a separate folder" in (refused.value.hint or "")
    for topic_id, topic in (("id 1", "t"), (None, "t"), ("id 2", "u")):
        inspected(tmp_path, topic_id, topic)


def test_another_topic_that_came_after_the_plan_is_refused_too(tmp_path: Path) -> None:
    planned = inspected(tmp_path, "id 2")
    archived(tmp_path, "old", "id 1", slice_(0, 10), [record(1)])
    target, its = FilesTarget(str(tmp_path)), terms(topics={"t": "id 2"})
    with pytest.raises(AnotherTopic):
        target.prepare("new", planned, its)
    assert target.terms("new") is None
    target.prepare("other", planned, terms(topics={"u": "id 2"}))
