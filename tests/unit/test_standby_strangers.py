"""A folder that is watched belongs to those who drop files: links they put there lead nowhere."""

import json
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from playhead.standby import folder_watch
from playhead.standby.folder_watch import FolderLost, Watch
from tests.fix_strangers import NEEDS_A_STRANGER, as_stranger
from tests.unit.standbys import Room, furnished, played

REQUEST = '{"offsets": "t:0:1-2"}'


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(folder_watch, "_SETTLES_WITHIN_S", 0.1)
    monkeypatch.setattr(folder_watch, "_LOOK_EVERY_S", 0.01)
    found = furnished(tmp_path, monkeypatch)
    found.standby()
    return found


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text("precious")
    return file


@pytest.mark.parametrize(
    "name",
    [
        b"a" * 240 + b".running",
        "\u00fc".encode() * 120 + b".running",
        b"laps.\xff\xfe.running",
        b"laps..running",
        b"laps.a'b;c.running",
        b"laps." + b"b" * 230 + b".running",
    ],
)
def test_a_name_that_no_watcher_gives_ends_none(room, name):
    """Its outcome had a name that was too long or no text: each watcher died of the same file."""
    os.close(os.open(os.fsencode(room.folder) + b"/" + name, os.O_CREAT, 0o600))
    room.drop("laps.json", REQUEST)
    odd, outcome = room.watch()
    assert (odd["outcome"], "matches no standby" in odd["error"]) == ("failed", True)
    assert outcome["outcome"] == "done"
    assert not room.names(".")


def test_a_folder_with_the_name_of_a_claim_ends_no_watcher(room):
    """It cannot replace the file of that name among the failed ones, and each watcher died of it."""
    room.drop("laps.x1.running", "{}")
    assert [each["outcome"] for each in room.watch()] == ["failed"]
    (room.folder / "laps.x1.running").mkdir()
    room.drop("laps.json", REQUEST)
    assert [each["outcome"] for each in room.watch()] == ["done"]
    assert (room.folder / "failed" / "laps.x1.json").is_file()


def test_no_file_takes_the_place_of_the_outcome_of_another(room):
    room.drop("laps.x1.running", "{}")
    [outcome] = room.watch()
    room.drop("laps.x1.outcome.running", "{}")
    room.watch()
    kept = json.loads((room.folder / "failed" / "laps.x1.outcome.json").read_text())
    assert kept["error"] == outcome["error"]


def test_a_folder_that_takes_the_place_of_a_file_stays_where_it_is(room, monkeypatch):
    read = folder_watch.read_words

    def read_too_late(file: Path, *named, **more) -> dict[str, str]:
        file.unlink()
        file.mkdir()
        return read(file, *named, **more)

    with monkeypatch.context() as patched:
        patched.setattr(folder_watch, "read_words", read_too_late)
        room.drop("laps.x1.running", REQUEST)
        assert [each["outcome"] for each in room.watch()] == ["failed"]
    assert (room.folder / "laps.x1.running").is_dir()
    assert room.names("failed") == ["laps.x1.outcome.json"]
    room.drop("laps.json", REQUEST)
    assert [each["outcome"] for each in room.watch()] == ["done"]


def test_a_file_that_its_author_takes_back_is_no_fault_of_playheads(room, monkeypatch):
    read = folder_watch.read_words

    def read_too_late(file: Path, *named, **more) -> dict[str, str]:
        file.unlink()
        return read(file, *named, **more)

    monkeypatch.setattr(folder_watch, "read_words", read_too_late)
    room.drop("laps.json", REQUEST)
    [outcome] = room.watch()
    assert (outcome["outcome"], outcome["error"]) == (
        "failed",
        "laps.json: No such file or directory",
    )


def test_a_link_in_the_place_of_the_lock_is_not_written_through(room, victim):
    """The lock was a file of the watched folder: whatever it led to was cut to nothing."""
    (room.folder / ".playhead.lock").symlink_to(victim)
    room.drop("laps.json", REQUEST)
    [outcome] = room.watch()
    assert outcome["outcome"] == "done"
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(("shared", "made"), [(0o755, 0o755), (0o775, 0o775), (0o777, 0o775)])
def test_a_group_writes_inside_only_where_the_folder_is_shared_with_it(room, shared, made):
    room.folder.chmod(shared)
    before = os.umask(0)
    try:
        room.watch()
    finally:
        os.umask(before)
    for place in ("done", "failed"):
        assert stat.S_IMODE((room.folder / place).stat().st_mode) == made


@pytest.mark.parametrize("place", ["done", "failed"])
def test_a_link_in_the_place_of_a_folder_ends_the_watcher(room, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (room.folder / place).symlink_to(outside)
    room.drop("laps.json", REQUEST)
    with pytest.raises(FolderLost, match=f"{place} must be a folder, not a link"):
        room.watch()
    assert list(outside.iterdir()) == []
    assert room.names() == ["laps.json"]


def test_a_link_that_comes_while_a_run_is_under_way(room, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()

    def swapped(planned):
        (room.folder / "done").rmdir()
        (room.folder / "done").symlink_to(outside)
        return played(planned)

    room.drop("laps.json", REQUEST)
    with pytest.raises(FolderLost):
        room.watch(play=swapped)
    assert list(outside.iterdir()) == []


def test_the_folder_itself_swapped_for_a_link_while_a_run_is_under_way(room, tmp_path):
    outside = tmp_path / "outside"
    (outside / "done").mkdir(parents=True)

    def swapped(planned):
        room.folder.rename(tmp_path / "parked")
        room.folder.symlink_to(outside)
        return played(planned)

    room.drop("laps.json", REQUEST)
    with pytest.raises(FolderLost, match="another folder"):
        room.watch(play=swapped)
    assert [path.name for path in outside.rglob("*")] == ["done"]


def test_a_folder_swapped_at_every_instant(room, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    for place in ("done", "failed"):
        (room.folder / place).mkdir()
    is_over = threading.Event()

    def swap() -> None:
        place, parked = room.folder / "failed", tmp_path / "parked"
        while not is_over.is_set():
            with suppress(OSError):
                place.rename(parked)
                place.symlink_to(outside)
                place.unlink()
                parked.rename(place)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(60):
            room.drop(f"nobody-{number}.json", "{}")
            with suppress(FolderLost):
                Watch(room.folder, play=played).run(once=True)
    finally:
        is_over.set()
        swapping.join(20)
    assert list(outside.iterdir()) == []


def test_a_second_name_of_somebody_elses_file_is_not_read(room, victim):
    victim.write_text('{"password-of-root": 1}')
    os.link(victim, room.folder / "laps.json")
    [outcome] = room.watch()
    assert "second name" in outcome["error"]
    assert "password-of-root" not in json.dumps(outcome)


def test_a_file_that_may_not_be_read_is_its_own_trouble(room, monkeypatch):
    def denied(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("playhead.standby.trigger_file.open_plain", denied)
    room.drop("laps.json", REQUEST)
    [outcome] = room.watch()
    assert (outcome["outcome"], outcome["error"]) == ("failed", "laps.json: Permission denied")


def test_under_umask_0_nothing_is_everybodys(room, tmp_path):
    before = os.umask(0)
    try:
        (room.folder / "laps.json").write_text(REQUEST)
        (room.folder / "laps.json").chmod(0o644)
        room.watch()
    finally:
        os.umask(before)
    made = [*room.folder.rglob("*"), *(tmp_path / "state").rglob("*"), *room.copy.rglob("*")]
    assert len(made) > 10
    assert [path for path in made if path.stat().st_mode & stat.S_IWOTH] == []


@NEEDS_A_STRANGER
def test_roots_watcher_in_a_folder_of_everybodys_harms_no_file_of_roots(
    servers_folder, monkeypatch, victim
):
    base = servers_folder / f"watched-{os.urandom(4).hex()}"
    base.mkdir()
    room = furnished(base, monkeypatch)
    room.standby()
    room.folder.chmod(0o1777)
    for name in (".playhead.lock", "laps-link.json"):
        assert as_stranger("ln", "-s", str(victim), str(room.folder / name)).returncode == 0
    script = f"printf '%s' '{REQUEST}' > laps-1.json && mkfifo laps-2.json && chmod 600 laps-1.json"
    assert as_stranger("sh", "-c", script, folder=room.folder).returncode == 0
    outcomes = {each["file"]: each["outcome"] for each in room.watch()}
    assert outcomes == {"laps-1.json": "done", "laps-2.json": "failed", "laps-link.json": "failed"}
    assert (victim.read_text(), victim.stat().st_uid) == ("precious", 0)
