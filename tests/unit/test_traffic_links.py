"""Captures in folders that somebody else made: no link there is followed out of it, and no pipe keeps us waiting."""

import os
from pathlib import Path

import pytest

from playhead.traffic.formats.server_log import find_logs
from playhead.traffic.snapshot import NoSnapshot, find_snapshot, opened, plain
from tests.capturing import SNAPSHOT
from tests.fix_deep_folders import folder_of_many_levels

NAMES = ("raw.jsonl", "topic/2026-03-02.json", "topic/2026-03-02.md")


def planted(folder: Path, name: str) -> Path:
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


@pytest.mark.parametrize("name", NAMES)
def test_a_link_out_of_a_capture_is_named_and_not_read(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(SNAPSHOT.read_bytes())
    planted(tmp_path / "capture", name).symlink_to(secret)
    with pytest.raises(NoSnapshot, match="is a link out of") as caught:
        find_snapshot(str(tmp_path / "capture"))
    assert str(secret) in (caught.value.hint or "")


@pytest.mark.parametrize("target", ["y" * 300, "/tmp/" + "y" * 300])
def test_a_link_with_a_name_that_is_too_long_hides_no_other_file(
    tmp_path: Path, target: str
) -> None:
    recording = SNAPSHOT.read_bytes()
    for name in ("1.json", "2.json", "3.json"):
        planted(tmp_path, f"capture/{name}").write_bytes(recording)
    (tmp_path / "capture/notes").symlink_to(target)
    assert len(find_snapshot(str(tmp_path / "capture")).files) == 3
    (tmp_path / "capture/4.json").symlink_to(target)
    with pytest.raises(NoSnapshot, match=r"link out of|not a regular file"):
        find_snapshot(str(tmp_path / "capture"))


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_in_a_capture_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    os.mkfifo(planted(tmp_path / "capture", name))
    with pytest.raises(NoSnapshot, match="is not a regular file"):
        find_snapshot(str(tmp_path / "capture"))


def test_a_file_that_becomes_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    raw = planted(tmp_path / "capture", "raw.jsonl")
    raw.write_bytes(SNAPSHOT.read_bytes())
    (file,) = find_snapshot(str(tmp_path / "capture")).files
    for replace in (lambda: raw.symlink_to(SNAPSHOT), lambda: os.mkfifo(raw)):
        raw.unlink()
        replace()
        with pytest.raises(OSError):
            plain(file)
        with pytest.raises(OSError), opened(file):
            pass


def test_links_within_a_capture_and_to_a_named_file_are_followed(tmp_path: Path) -> None:
    raw = planted(tmp_path / "capture", "raw-1.jsonl")
    raw.write_bytes(SNAPSHOT.read_bytes())
    (tmp_path / "capture" / "raw.jsonl").symlink_to("raw-1.jsonl")
    assert find_snapshot(str(tmp_path / "capture")).files == (raw,)
    (tmp_path / "named").symlink_to(raw)
    with opened(find_snapshot(str(tmp_path / "named")).files[0]) as content:
        assert content.read() == SNAPSHOT.read_bytes()


@pytest.mark.parametrize("pattern", ["logs", "logs/*.csv", "lo*/*.csv"])
def test_a_link_out_of_a_folder_of_logs_is_named_and_not_read(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("2026-03-02 10:00:00.000 UTC,,,\n")
    outside = tmp_path / ("elsewhere/secret" if "lo*" not in pattern else "/etc/passwd")
    planted(tmp_path / "logs", "a.csv").symlink_to(outside)
    with pytest.raises(NoSnapshot, match="is a link out of"):
        find_logs("csvlog", str(tmp_path / pattern))


@pytest.mark.parametrize("name", NAMES)
def test_a_link_to_itself_in_a_capture_is_named(tmp_path: Path, name: str) -> None:
    place = planted(tmp_path / "capture", name)
    place.symlink_to(place)
    with pytest.raises(NoSnapshot, match="is not a regular file"):
        find_snapshot(str(tmp_path / "capture"))


def test_a_capture_of_thousands_of_levels_is_walked_to_its_end(tmp_path: Path) -> None:
    with folder_of_many_levels(tmp_path / "capture") as capture:
        (capture / "d" / "2026-03-02.json").write_bytes(SNAPSHOT.read_bytes())
        assert len(find_snapshot(str(capture)).files) == 1
