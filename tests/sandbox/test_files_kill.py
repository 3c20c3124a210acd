"""Killed at any step, or out of room, an archive holds whole slices, and the resume makes it complete."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import playhead
from playhead.account import Account
from playhead.files.errors import NoRoom
from playhead.files.source import FilesSource
from playhead.files.target import FilesTarget
from playhead.host.faults import abort_points
from playhead.ledger import remaining
from playhead.record import Record, Slice, TimestampType
from playhead.records import Records
from playhead.target import InUse
from playhead.testing import Aborted, armed
from playhead.testing.target_case import look, terms
from tests.fix_archives import everything, writing

FOLDER = Path(playhead.__file__).parent
POINTS = sorted(name for name in abort_points(FOLDER) if name.startswith("files."))
PASSED_ONCE = {
    *("files.before_archive", "files.archive_made"),
    *("files.before_about", "files.about_written"),
    *("files.before_stray", "files.stray_removed"),
    *("files.before_terms", "files.terms_aside", "files.terms_written", "files.terms_agreed"),
}
SLICES = [Slice("t", 0, 0, 100), Slice("t", 1, 50, 60), Slice("t", 0, 100, 130)]
ROOT = Path(__file__).parents[2]

RUN = textwrap.dedent(
    """
    import sys
    from tests.sandbox.test_files_kill import run
    run(sys.argv[1], sys.argv[2])
    """
)


def records_of(slice_: Slice) -> list[Record]:
    """Every second offset has a record."""
    return [
        Record("t", slice_.partition, n, 7 * n, TimestampType.CREATE_TIME, None, b"%d" % n * 50)
        for n in range(slice_.from_offset, slice_.to_offset, 2)
    ]


def run(root: str, format_: str) -> None:
    """The replay, from the start or on from where it died."""
    target = FilesTarget(root, format_)
    target.prepare("r", target.inspect(look()), terms())
    with target.hold("r"), writing(target, "r") as writer:
        for slice_ in remaining(SLICES, [entry.slice for entry in target.entries("r")]):
            commit(writer, slice_)


def commit(writer, slice_: Slice) -> None:
    account, records = Account(slice_), records_of(slice_)
    account.read = len(records)
    writer.commit(account, [Records.of(records)])


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in root.rglob("*")
        if file.is_file() and file.name not in (".lock", ".hold")
    }


def test_there_are_points_to_die_at() -> None:
    assert len(POINTS) >= 6


@pytest.mark.torture(one_of=3)
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(tmp_path: Path, point: str) -> None:
    is_killed_and_goes_on(tmp_path, point, "parquet")


@pytest.mark.torture
@pytest.mark.parametrize("passing", [2, 3])
@pytest.mark.parametrize("point", [each for each in POINTS if each not in PASSED_ONCE])
def test_killed_later_at(tmp_path: Path, point: str, passing: int) -> None:
    is_killed_and_goes_on(tmp_path, f"{point}#{passing}", "csv" if passing == 2 else "json")


def is_killed_and_goes_on(tmp_path: Path, point: str, format_: str) -> None:
    root = tmp_path / "archive"
    if "stray" in point:
        leave_a_stray(root, format_)
    dead = started(root, format_, point)
    assert dead.returncode == -signal.SIGKILL, f"it died at {point}: {dead.stderr}"
    whole_slices_only(root, format_)
    run(str(root), format_)
    undisturbed = tmp_path / "undisturbed"
    run(str(undisturbed), format_)
    assert files_of(root) == files_of(undisturbed), "as if it had never died"


def leave_a_stray(root: Path, format_: str) -> None:
    """A data file without a ledger entry, of a slice that is cut in another way later."""
    with (
        writing(FilesTarget(str(root), format_), "r") as writer,
        armed("files.data_published=raise"),
        pytest.raises(Aborted),
    ):
        commit(writer, Slice("t", 0, 90, 110))


def whole_slices_only(root: Path, format_: str) -> None:
    target = FilesTarget(str(root), format_)
    committed = [entry.slice for entry in target.entries("r")]
    needed = sorted(
        (record for slice_ in committed for record in records_of(slice_)),
        key=lambda record: (record.partition, record.offset),
    )
    assert everything(str(root), format_) == needed


def started(root: Path, format_: str, point: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": f"{FOLDER.parent}:{ROOT}"}
    if point:
        environment["PLAYHEAD_ABORT_AT"] = point
    return subprocess.run(
        [sys.executable, "-c", RUN, str(root), format_],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


def test_a_second_run_is_kept_out_while_the_first_lives(tmp_path: Path) -> None:
    root = str(tmp_path)
    target = FilesTarget(root)
    with target.hold("r"):
        second = started(tmp_path, "parquet")
        assert second.returncode == 1
        assert "replay r is running already" in second.stderr
        with pytest.raises(InUse, match="replay r is running already"), target.hold("r"):
            pytest.fail("held twice")
    assert started(tmp_path, "parquet").returncode == 0


def test_a_file_that_may_not_grow_so_far(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    target = FilesTarget(str(tmp_path), "json")
    with writing(target, "r") as writer:
        commit(writer, SLICES[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
        try:
            with pytest.raises(NoRoom, match=r"no room for \d+ bytes at .*\.jsonl") as caught:
                commit(writer, SLICES[0])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EFBIG
    assert [entry.slice for entry in target.entries("r")] == [SLICES[1]]
    left = [each for each in tmp_path.rglob("*") if each.is_file() and ".aside" in each.name]
    assert left == []
    run(str(tmp_path), "json")
    assert len(everything(str(tmp_path), "json")) == sum(len(records_of(each)) for each in SLICES)


def test_a_full_disk(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        target = FilesTarget(str(tmp_path / "archive"), "csv")
        big = Slice("t", 2, 0, 4_000)
        with writing(target, "r") as writer:
            commit(writer, SLICES[0])
            with pytest.raises(NoRoom, match="No space left on device"):
                commit(writer, big)
        whole_slices_only(tmp_path / "archive", "csv")
        with FilesSource(str(tmp_path / "archive"), "csv").open() as reader:
            assert len(list(reader.read(SLICES[0]))) == 1
        assert not list(tmp_path.rglob("*.aside"))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
