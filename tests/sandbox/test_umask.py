"""With a umask of 0, too, nobody else reads what Playhead writes for itself, and can change anything."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fix_capture import Capturing
from tests.fix_commands import Playhead

YES = "--yes"


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Processes that are started in the test have it, too."""
    before = os.umask(0)
    yield
    os.umask(before)


def within_reach(root: Path) -> Iterator[tuple[Path, int]]:
    """Every file and folder that another user gets at, with its mode."""
    mode = root.lstat().st_mode
    if stat.S_ISLNK(mode):
        return
    yield root, mode
    if stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
        for path in root.iterdir():
            yield from within_reach(path)


def readable(root: Path) -> list[str]:
    """What another user can read, or list."""
    found = list(within_reach(root))
    return [f"{path} {mode & 0o777:o}" for path, mode in found if mode & stat.S_IROTH]


def writable(root: Path) -> list[str]:
    return [
        f"{path} {mode & 0o777:o}"
        for path, mode in within_reach(root)
        if mode & (stat.S_IWOTH | stat.S_IWGRP)
    ]


def test_what_commands_write_is_their_users_alone(
    playhead: Playhead, folder: Path, tmp_path: Path, no_umask: None
) -> None:
    own, temporary = tmp_path / "own", tmp_path / "tmp"
    temporary.mkdir(mode=0o1777)
    where = {
        "PLAYHEAD_SANDBOX_DIR": str(folder),
        "XDG_STATE_HOME": str(own / "state"),
        "XDG_CONFIG_HOME": str(own / "config"),
    }

    def run(*words: str, stdin: str = "", **more: str) -> str:
        done = playhead(*words, stdin=stdin, cwd=tmp_path, **where, **more)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    run("sandbox", "up")
    run("topics", "create", "laps")
    run("produce", "laps", stdin='{"n": 1}\n{"n": 2}\n')
    run("context", "add", "here", "-b", "127.0.0.1:1")
    to_table = ("kafka:laps", "postgres:laps", "--decode", "json", "--create")
    run("replay", *to_table, "--plan", "plan.json", "--dry-run")
    run("replay", *to_table, YES, TMPDIR=str(temporary))
    run("live", "kafka:laps", "postgres:lives", "--decode", "json", "--create", "--from", "earliest",
        "--trigger", "available-now", YES, TMPDIR=str(temporary))  # fmt: skip
    run("standby", "add", "again", *to_table)
    run("groups", "reset", "readers", "--topic", "laps", "--to-earliest", "--create", YES)
    shown = run("context", "show", "-o", "csv")
    servers = shown.split("kafka.bootstrap.servers,")[1].split()[0].split(",")[0]
    captured = Capturing(servers, tmp_path / "captured", ())
    try:
        run("produce", "laps", "-b", captured.place, stdin='{"n": 3}\n')
        captured.stop()
    finally:
        captured.close()
    run("extract", "captured", "--path", "command")
    for root in (own, tmp_path / "captured", tmp_path / "plan.json"):
        assert not readable(root)
    for root in (own, tmp_path / "captured", tmp_path / "plan.json", folder):
        assert not writable(root)
    kept = [path for path in (own / "state" / "playhead").iterdir() if path.is_dir()]
    entered = [path.name for path in kept if path.stat().st_mode & 0o077]
    assert len(kept) > 3
    assert not entered
    assert not list(temporary.iterdir()), "what was temporary is gone"
    assert {path.suffix for path in (own / "state").rglob("*")} >= {".log", ".sqlite", ".json"}
