"""What an archive promises beyond the contract: names, gaps, times, several replays in one folder."""

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.errors import BadValue
from playhead.files import file_names
from playhead.files.errors import (
    ArchiveGap,
    NotAnArchive,
    OtherRecords,
)
from playhead.files.source import FilesSource
from playhead.files.target import FilesTarget
from playhead.record import Slice
from playhead.records import Records
from playhead.source import Bounds, OutOfBounds, SourceFacts, TopicFacts
from playhead.target import InspectRequest
from playhead.terms import NotBegunThere
from playhead.testing.target_case import terms
from tests.fix_archives import archive, commit, data_files, read, record, slice_, writing

# --- descriptions and names --------------------------------------------------------------------


@pytest.mark.parametrize("root", ["", "s3://", "gs://bucket/x", "a\0b"])
def test_roots_that_mean_nothing(root: str) -> None:
    for description in (FilesTarget, FilesSource):
        with pytest.raises(BadValue, match="needed: "):
            description(root)


def test_formats_that_nobody_knows() -> None:
    with pytest.raises(BadValue, match="needed: parquet or json or csv"):
        FilesTarget("/x", "avro")
    with pytest.raises(BadValue, match="needed: parquet, for typed columns"):
        FilesTarget("/x", "csv", typed=True)


def test_a_root_means_the_same_wherever_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = pickle.loads(pickle.dumps(FilesTarget("sub/../here")))  # noqa: S301 - our own bytes
    monkeypatch.chdir("/")
    assert target.root == str(tmp_path / "here")
    assert FilesTarget(f"file://{tmp_path}/here") == target
    (tmp_path / "way").symlink_to(tmp_path / "here")
    assert FilesSource(str(tmp_path / "way")).root == target.root


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20), st.integers(0, 2**31))
def test_names_can_be_read_back_and_lead_nowhere_else(topic, replay_id, offset):
    place = Slice(topic, 3, offset, offset + 5)
    path = file_names.entry_path(replay_id, place)
    assert file_names.entry_name(path) == file_names.EntryName(replay_id, place, path)
    for each in (path, file_names.data_path(place, "csv"), file_names.about_path(replay_id)):
        assert os.path.normpath(each) == each
        assert not each.startswith(("/", ".."))
        assert each.isascii()


@pytest.mark.parametrize("topic", ["..", ".", "../../up", "a/b", "/etc", "a=b", "ü", "-", "x" * 80])
def test_topics_with_names_that_could_lead_out(tmp_path: Path, topic: str) -> None:
    root = tmp_path / "archive"
    wanted = Slice(topic, 0, 0, 1)
    with writing(FilesTarget(str(root)), "../r") as writer:
        commit(writer, wanted, [replace(record(0), topic=topic)])
    assert [each.name for each in tmp_path.iterdir()] == ["archive"]
    assert read(root, wanted) == [replace(record(0), topic=topic)]
    assert list(FilesSource(str(root)).bounds()) == [(topic, 0)]


def test_another_folder_under_the_name_gets_nothing_from_an_open_writer(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    with writing(FilesTarget(str(root))) as writer:
        commit(writer, slice_(0, 5), [record(1)])
        root.rename(tmp_path / "before")
        root.mkdir()
        with pytest.raises(NotBegunThere, match="does not know r"):
            commit(writer, slice_(5, 10), [record(6)])
    assert not list(root.rglob("*"))


def test_another_folder_under_the_name_gets_nothing_in_the_middle_of_a_run(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    target = FilesTarget(str(root))
    with writing(target) as writer:
        commit(writer, slice_(0, 5), [record(1)])
    root.rename(tmp_path / "before")
    with pytest.raises(NotAnArchive, match="is not an archive of Playhead"), target.open("r"):
        pass
    assert not root.exists()
    archive(str(root), replay_id="other")
    before = sorted(root.rglob("*"))
    with (
        target.open("r") as writer,
        pytest.raises(NotBegunThere, match="does not know r"),
    ):
        commit(writer, slice_(5, 10), [record(6)])
    assert sorted(root.rglob("*")) == before


def test_a_replay_without_terms_of_an_older_version_can_be_compared(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    with writing(target, keeps_terms=False) as writer:
        commit(writer, slice_(0, 5), [record(1)])
    (entry,) = target.entries("r")
    with target.open("r") as writer:
        found = writer.compare(entry, [Records.of([record(1)])])
    assert (found.expected, found.found, found.different) == (1, 1, 0)


# --- bounds, gaps and times --------------------------------------------------------------------


def test_a_gap_is_named_and_not_read_over(tmp_path: Path) -> None:
    with writing(FilesTarget(str(tmp_path)), "r") as writer:
        commit(writer, slice_(10, 20), [record(12)])
        commit(writer, slice_(30, 40), [])
        commit(writer, slice_(50, 60), [record(50)])
    source = FilesSource(str(tmp_path))
    assert source.bounds() == {("t", 0): Bounds(10, 60, 60)}
    assert read(tmp_path, slice_(10, 20)) == [record(12)]
    assert read(tmp_path, slice_(30, 40)) == []
    with pytest.raises(ArchiveGap, match="t:0:20-30 was not archived") as caught:
        read(tmp_path, slice_(15, 55))
    assert isinstance(caught.value, OutOfBounds)
    assert caught.value.gap == slice_(20, 30)
    (note,) = source.facts().notes
    assert note.code == "archive.gap"
    assert "t:0:20-30, t:0:40-50" in note.text


def test_a_partition_that_was_empty_is_still_one(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    topics = {"t": TopicFacts(sets_log_append_time=True, is_compacted=True)}
    target.prepare(
        "r", target.inspect(InspectRequest(SourceFacts("k", topics), {"t": 3}, [])), terms("t")
    )
    with writing(target, "r") as writer:
        commit(writer, slice_(4, 9, 1), [record(4, partition=1)])
    source = FilesSource(str(tmp_path))
    empty = Bounds(0, 0, 0)
    assert source.bounds() == {("t", 0): empty, ("t", 1): Bounds(4, 9, 9), ("t", 2): empty}
    assert source.offsets_at(0) == {("t", 0): 0, ("t", 1): 4, ("t", 2): 0}
    facts = source.facts().topics["t"]
    assert (facts.sets_log_append_time, facts.is_compacted) == (True, True)
    (file,) = data_files(tmp_path)
    assert facts.bytes_by_partition == {0: 0, 1: file.stat().st_size, 2: 0}


def test_a_reader_that_stays_open_sees_what_is_archived_later(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    with writing(target, "r") as writer:
        commit(writer, slice_(0, 5), [record(1)])
        with FilesSource(str(tmp_path)).open() as reader:
            assert [len(run) for run in reader.read(slice_(0, 5))] == [1]
            commit(writer, slice_(5, 9), [record(8)])
            assert [len(run) for run in reader.read(slice_(0, 9))] == [1, 1]


TIMES = st.lists(st.integers(-5, 30), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(TIMES, st.integers(1, 4), st.integers(-7, 32))
def test_offsets_by_time(tmp_path_factory, times, length, instant):
    root = tmp_path_factory.mktemp("times")
    records = [record(2 * n, ms=ms) for n, ms in enumerate(times)]
    with writing(FilesTarget(str(root), "json"), "r") as writer:
        for start in range(0, 2 * len(times), length):
            part = slice_(start, start + length)
            commit(writer, part, [each for each in records if each in part])
    source = FilesSource(str(root), "json")
    due = [each.offset for each in records if each.timestamp_ms >= instant]
    end = source.bounds()["t", 0].stable_end
    assert source.offsets_at(instant) == {("t", 0): due[0] if due else end}


# --- several replays in one archive ------------------------------------------------------------

CUTS = st.lists(st.integers(1, 19), max_size=4, unique=True).map(
    lambda cuts: [0, *sorted(cuts), 20]
)
LOG = [record(offset, value=b"%d" % offset) for offset in range(20) if offset % 5]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(CUTS, st.integers(1, 4)), min_size=1, max_size=3),
    st.integers(0, 19),
    st.integers(1, 20),
)
def test_each_offset_is_read_once(tmp_path_factory, replays, start, length):
    """Of overlapping replays, which all left something out, what any of them kept is read, once."""
    root = tmp_path_factory.mktemp("overlaps")
    kept_by_any = set()
    for number, (cuts, nth) in enumerate(replays):
        kept = [each for each in LOG if each.offset % nth == 0]
        with writing(FilesTarget(str(root)), f"r{number}") as writer:
            for part in map(slice_, cuts, cuts[1:]):
                here = [each for each in kept if each in part]
                filtered = len([each for each in LOG if each in part]) - len(here)
                try:
                    commit(writer, part, here, filtered=filtered)
                except OtherRecords:
                    continue
                kept_by_any |= {each.offset for each in here}
    wanted = slice_(start, min(start + length, 20))
    try:
        found = read(root, wanted)
    except OutOfBounds:
        return
    assert found == [each for each in LOG if each.offset in kept_by_any and each in wanted]


def test_a_slice_that_left_nothing_out_is_enough(tmp_path: Path) -> None:
    """So that a file which was compacted or selected from need not be read for nothing."""
    with writing(FilesTarget(str(tmp_path)), "a-selected") as writer:
        commit(writer, slice_(0, 10), [record(3, value=b"selected")], filtered=1)
    with writing(FilesTarget(str(tmp_path)), "whole") as writer:
        commit(writer, slice_(0, 20), [record(3), record(4)])
    data_files(tmp_path)[0].unlink()
    assert read(tmp_path, slice_(0, 20)) == [record(3), record(4)]


def test_other_records_under_the_same_name_are_refused(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    with writing(target, "one") as writer:
        commit(writer, slice_(0, 10), [record(1), record(2)])
    before = data_files(tmp_path)[0].read_bytes()
    with (
        writing(target, "two") as writer,
        pytest.raises(OtherRecords, match="where replay one has archived"),
    ):
        commit(writer, slice_(0, 10), [record(2)], filtered=1)
    assert data_files(tmp_path)[0].read_bytes() == before
    assert target.entries("two") == []


def test_other_bytes_of_the_same_records_are_left_as_they_are(tmp_path: Path) -> None:
    """As another version of the library writes them."""
    target = FilesTarget(str(tmp_path))
    with writing(target, "one") as writer:
        commit(writer, slice_(0, 10), [record(1), record(2)])
    (file,) = data_files(tmp_path)
    pq.write_table(pq.read_table(file), file, compression="none")
    rewrite_ledger(tmp_path, file)
    before = file.read_bytes()
    with writing(target, "two") as writer:
        commit(writer, slice_(0, 10), [record(1), record(2)])
    assert file.read_bytes() == before
    assert read(tmp_path, slice_(0, 10)) == [record(1), record(2)]
    assert [entry.details["sha256"] for entry in target.entries("two")] == [
        entry.details["sha256"] for entry in target.entries("one")
    ]


def rewrite_ledger(root: Path, file: Path) -> None:
    """As it would be had the file been written so."""
    import hashlib

    (entry,) = root.glob("_playhead/replay=*/topic=*/*/*.json")
    document = json.loads(entry.read_text())
    data = file.read_bytes()
    document["details"] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    entry.write_text(json.dumps(document))


# --- the power fails ----------------------------------------------------------------------------


def test_entries_that_are_returned_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their writer may have died before it made them so; a replay counts them, and says "proved"."""
    archive(str(tmp_path / "archive"))
    synced = set()
    monkeypatch.setattr(os, "fsync", lambda handle: synced.add(os.fstat(handle).st_ino))
    entries = FilesTarget(str(tmp_path / "archive")).entries("one")
    assert len(entries) == 3
    names = {path.parent for path in tmp_path.rglob("*") if not path.name.startswith(".")}
    unsynced = [each for each in names if each.stat().st_ino not in synced]
    assert unsynced == [], "a file in one of these folders can be gone after the power has failed"
    assert FilesTarget(str(tmp_path / "nothing" / "here")).entries("one") == []
