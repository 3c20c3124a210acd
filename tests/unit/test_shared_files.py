"""What others may read, they cannot change, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from playhead.cli.replay.charts import save_picture
from playhead.host import shared_files


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_picture_is_changed_by_its_user_alone(tmp_path: Path) -> None:
    save_picture("<svg/>", tmp_path / "gaps.svg")
    assert mode(tmp_path / "gaps.svg") == 0o644
    assert (tmp_path / "gaps.svg").read_text() == "<svg/>"


def test_missing_folders_are_too(tmp_path: Path) -> None:
    made = shared_files.folder(tmp_path / "a" / "b")
    assert [mode(made.parent), mode(made)] == [0o755, 0o755]


def test_a_file_keeps_what_its_user_allowed(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("old")
    file.chmod(0o660)
    shared_files.write(file, "new")
    assert (mode(file), file.read_text()) == (0o660, "new")
