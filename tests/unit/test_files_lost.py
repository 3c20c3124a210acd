"""Data files that are missing or cut short are named by a listing, before anything is proved with them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from playhead.errors import EXIT_REFUSED
from playhead.files.errors import Damaged
from playhead.files.target import FilesTarget
from playhead.gaps.by_ledger import by_ledger
from playhead.record import Slice
from playhead.replay.guards import LostFiles
from playhead.source import SourceFacts, TopicFacts
from playhead.target import Inspection, KeepsFiles
from playhead.testing.memory import ListSource
from tests.fix_archives import commit, data_files, read, record, slice_, writing
from tests.unit import replaying
from tests.unit.replaying import TOPIC, runner, whole_plan


def three_files(root: Path) -> FilesTarget:
    target = FilesTarget(str(root), "json")
    source = ListSource([replaying.record(n, n) for n in range(6)])
    run(root, target, source)
    assert len(data_files(root)) == 3
    return target


def run(root: Path, target: FilesTarget, source: ListSource) -> None:
    plan = whole_plan(source, target=Inspection(target.identity()))
    assert runner(plan, source, target, root.parent / "journal").run().adds_up


def run_again(root: Path) -> None:
    source = ListSource([replaying.record(n, n) for n in range(6)])
    run(root, FilesTarget(str(root), "json"), source)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


DAMAGES = [
    (Path.unlink, "the file is gone"),
    (cut_short, r"it has \d+ bytes, but was written with \d+"),
]


@pytest.mark.parametrize(("spoil", "reason"), DAMAGES)
def test_a_finished_archive_without_a_file_is_not_proved_again(
    tmp_path: Path, spoil, reason: str
) -> None:
    three_files(tmp_path / "a")
    run_again(tmp_path / "a")
    file = data_files(tmp_path / "a")[1]
    spoil(file)
    with pytest.raises(
        LostFiles, match=f"1 files of its ledger .*{file.name}: {reason}"
    ) as refused:
        run_again(tmp_path / "a")
    assert refused.value.exit_code == EXIT_REFUSED


@pytest.mark.parametrize(("spoil", "reason"), DAMAGES)
def test_offsets_of_a_lost_file_are_missing(tmp_path: Path, spoil, reason: str) -> None:
    target = three_files(tmp_path / "a")
    assert isinstance(target, KeepsFiles)
    source = ListSource([replaying.record(n, n) for n in range(6)])
    ends, wanted = SimpleNamespace(target=target), [Slice(TOPIC, 0, 0, 6)]
    facts = SourceFacts(source.facts().identity, {TOPIC: TopicFacts()})
    asked = replaying.request(target=f"json:{tmp_path}/a")
    whole = by_ledger(asked, ends, facts, wanted, ())  # type: ignore[arg-type]
    assert not whole.slices
    assert "lost-files" not in [note.code for note in whole.notes]
    file = data_files(tmp_path / "a")[1]
    spoil(file)
    found = by_ledger(asked, ends, facts, wanted, ())  # type: ignore[arg-type]
    assert found.slices == [Slice(TOPIC, 0, 2, 4)]
    [note] = [note for note in found.notes if note.code == "lost-files"]
    assert file.name in note.text


def test_a_slice_without_records_needs_no_file(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path), "json")
    with writing(target, "r") as writer:
        commit(writer, slice_(0, 10), [])
    assert not target.lost_files(target.entries("r"))


def test_another_file_with_the_same_offsets_is_read(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    for replay_id, ends in (("a", (5, 10)), ("b", (10,))):
        with writing(target, replay_id) as writer:
            start = 0
            for end in ends:
                commit(writer, slice_(start, end), [record(n) for n in range(start, end)])
                start = end
    files = data_files(tmp_path)
    files[0].unlink()
    assert read(tmp_path, slice_(0, 10)) == [record(n) for n in range(10)]
    files[1].unlink()
    assert read(tmp_path, slice_(5, 10)) == [record(n) for n in range(5, 10)]
    with pytest.raises(Damaged, match="the file is gone"):
        read(tmp_path, slice_(0, 10))


def test_what_a_selection_left_out_is_not_read_in_place_of_a_lost_file(tmp_path: Path) -> None:
    target = FilesTarget(str(tmp_path))
    with writing(target, "selected") as writer:
        commit(writer, slice_(0, 5), [record(1)], filtered=1)
    with writing(target, "whole") as writer:
        commit(writer, slice_(0, 10), [record(1), record(2)])
    data_files(tmp_path)[1].unlink()
    with pytest.raises(Damaged, match="the file is gone"):
        read(tmp_path, slice_(0, 5))
