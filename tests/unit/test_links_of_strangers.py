"""Nothing is written, created, closed or waited for where a link or a pipe of another user leads."""

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from playhead.capture.snapshot_writer import Rotation, Snapshot, claim
from playhead.errors import PlayheadError
from playhead.files.archive import settled
from playhead.files.stores.local import LocalStore
from playhead.host import private_files, shared_files
from playhead.host.atomic_file import write_whole
from tests.fix_strangers import NEEDS_A_STRANGER, as_stranger, strangers_folder


def captured(folder: Path) -> None:
    """A capture of two files, as after a rotation."""
    claim(folder)
    written(folder)


def written(folder: Path) -> None:
    snapshot = Snapshot(folder, Rotation(bytes=10))
    for line in (b"a secret of the traffic\n", b"another one of it\n"):
        snapshot.write(line)
        snapshot.flush()
    snapshot.close()


def archived(folder: Path) -> None:
    store = LocalStore(folder)
    with store.held("r", "topic"), store.alone("topic"):
        store.publish("topic/data", [b"x"])


def archived_as_named(folder: Path) -> None:
    """By the address that a command is given."""
    archived(Path(settled(str(folder))))


INTO_A_FOLDER: dict[str, Callable[[Path], object]] = {
    "private folder": private_files.folder,
    "folders below": lambda path: private_files.folder(path / "a" / "b"),
    "shared folders": lambda path: shared_files.folder(path / "a" / "b"),
    "plan": lambda path: write_whole(path / "kept", "new"),
    "report": lambda path: shared_files.write(path / "kept", "new"),
    "report with literals": lambda path: private_files.write(path / "kept", "new"),
    "new file": lambda path: private_files.touch(path / "new"),
    "capture": captured,
    "capture that has begun": written,
    "archive": archived,
    "archive by its address": archived_as_named,
    "archive below it by its address": lambda path: archived_as_named(path / "a" / "b"),
    "archive below": lambda path: archived(path / "a" / "b"),
    "file of an archive": lambda path: LocalStore(path).remove("topic/data"),
}


def outside(place: Path) -> Path:
    """A folder of ours, open to everybody's reading."""
    (place / "topic").mkdir(parents=True)
    for name in ("kept", "raw-000001.jsonl", "topic/data"):
        (place / name).write_text("precious")
    place.chmod(0o755)
    return place


def state(place: Path) -> dict[str, tuple[int, str]]:
    found = {str(each): each.stat().st_mode for each in (place, *place.rglob("*"))}
    return {
        name: (mode, Path(name).read_text() if stat.S_ISREG(mode) else "")
        for name, mode in found.items()
    }


@NEEDS_A_STRANGER
@pytest.mark.parametrize("write", INTO_A_FOLDER.values(), ids=INTO_A_FOLDER)
def test_nothing_goes_through_a_strangers_link(servers_folder, tmp_path, write):
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    ours = outside(tmp_path / "ours")
    assert as_stranger("ln", "-s", str(ours), str(theirs / "link")).returncode == 0
    before = state(ours)
    with pytest.raises((OSError, PlayheadError), match="a link of|EACCES|Permission"):
        write(theirs / "link")
    assert state(ours) == before


@NEEDS_A_STRANGER
def test_a_plan_says_that_an_archive_would_go_through_a_strangers_link(servers_folder, tmp_path):
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    ours = outside(tmp_path / "ours")
    (tmp_path / "link").symlink_to(ours)
    assert as_stranger("ln", "-s", str(ours), str(theirs / "link")).returncode == 0
    with pytest.raises(PlayheadError, match="a link of"):
        LocalStore(theirs / "link" / "new").look()
    assert LocalStore(tmp_path / "link" / "new").look()[0] is False


@pytest.mark.parametrize("write", INTO_A_FOLDER.values(), ids=INTO_A_FOLDER)
def test_links_of_ones_own_are_followed(tmp_path, write):
    ours = tmp_path / "ours"
    (ours / "topic").mkdir(parents=True)
    (ours / "topic" / "data").write_text("old")
    (tmp_path / "link").symlink_to("ours")
    before = state(ours)
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert state(ours) != before


@NEEDS_A_STRANGER
@pytest.mark.parametrize("write", [shared_files.write, private_files.write])
def test_a_file_is_no_link_and_no_pipe_of_a_strangers(servers_folder, tmp_path, write):
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    ours = outside(tmp_path / "ours")
    before = state(ours)
    for name in ("kept", "not there"):
        assert as_stranger("ln", "-s", str(ours / name), str(theirs / name)).returncode == 0
        with pytest.raises(OSError, match="a link of"):
            write(theirs / name, "new")
    assert as_stranger("mkfifo", str(theirs / "pipe")).returncode == 0
    with pytest.raises(OSError, match="a pipe of"):  # it would wait for a reader
        write(theirs / "pipe", "new")
    assert state(ours) == before


@NEEDS_A_STRANGER
def test_a_captures_folder_is_exchanged_before_its_first_line(servers_folder, tmp_path):
    """Hours can lie between the start of a capture and its first pair."""
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    ours = outside(tmp_path / "ours")
    before = state(ours)
    claim(theirs / "out")
    swap = f"mv {theirs}/out {theirs}/parked && ln -s {ours} {theirs}/out"
    assert as_stranger("sh", "-c", swap).returncode == 0
    with pytest.raises(PlayheadError, match="a link of"):
        written(theirs / "out")
    assert state(ours) == before


@NEEDS_A_STRANGER
@pytest.mark.slow  # races for seconds
@pytest.mark.parametrize("write", INTO_A_FOLDER.values(), ids=INTO_A_FOLDER)
def test_a_strangers_link_that_comes_and_goes(servers_folder, tmp_path, write):
    theirs = strangers_folder(servers_folder / f"theirs-{tmp_path.name}")
    ours = outside(tmp_path / "ours")
    before = state(ours)
    is_over = threading.Event()

    def swap() -> None:
        """What a stranger does in a folder of his: the link is his, and the rest is moved away."""
        number = 0
        while not is_over.is_set():
            number += 1
            with suppress(OSError):
                (theirs / "way").rename(theirs / f"parked-{number}")
            with suppress(OSError):
                (theirs / "spare").symlink_to(ours)
                os.chown(theirs / "spare", theirs.stat().st_uid, -1, follow_symlinks=False)
                (theirs / "spare").rename(theirs / "way")
                (theirs / "way").unlink()
            (theirs / "spare").unlink(missing_ok=True)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(100):
            with suppress(OSError, PlayheadError):
                write(theirs / "way" / "below")
    finally:
        is_over.set()
        swapping.join(20)
    assert state(ours) == before


@pytest.mark.parametrize("write", ["shared_files", "private_files"])
def test_standard_output_is_a_file_to_write_to(write):
    text = f"from pathlib import Path; from playhead.host import {write} as it; it.write(Path('/dev/stdout'), 'yes')"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"yes", b"")


def test_who_had_a_file_open_does_not_read_what_is_private(tmp_path):
    """As a report that others may read, and that is written again with its literals."""
    file = tmp_path / "report.html"
    shared_files.write(file, "for everybody")
    file.chmod(0o644)
    with file.open() as theirs:
        private_files.write(file, "a literal")
        assert "a literal" not in theirs.read()
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("a literal", 0o600)
