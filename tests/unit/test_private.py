"""What Playhead keeps for itself is its user's alone, with any umask and whatever was there before."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from playhead.host import private_files


@pytest.fixture(autouse=True, params=[0, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture(params=["root", "user"])
def passed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The mode of a folder that root's servers come through, and an ordinary user's do not need to."""
    if request.param == "user" and os.geteuid() == 0:
        monkeypatch.setattr(private_files, "_PASSED_FOLDER", 0o700)
    elif request.param == "root" and os.geteuid() != 0:
        pytest.skip("only root's servers run as another user")
    return 0o711 if request.param == "root" else 0o700


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_and_those_above_it(tmp_path: Path, passed: int) -> None:
    private_files.folder(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [passed, passed, 0o700]
    private_files.folder(tmp_path / "d", is_passed=True)
    assert mode(tmp_path / "d") == passed


def test_a_folder_that_was_open_is_closed_and_none_is_opened(tmp_path: Path, passed: int) -> None:
    for was in (0o777, 0o755, 0o700, 0o500):
        tmp_path.chmod(was)
        private_files.folder(tmp_path)
        assert mode(tmp_path) == was & 0o700
        tmp_path.chmod(was)
        private_files.folder(tmp_path, is_passed=True)
        assert mode(tmp_path) == was & passed
    tmp_path.chmod(0o700)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    private_files.touch(file)
    with pytest.raises(OSError, match="Not a directory"):
        private_files.folder(file)


@pytest.mark.parametrize("how", ["w", "a", "wb", "ab", "a+"])
def test_a_file_is_its_owners_new_or_not(tmp_path: Path, how: str) -> None:
    file = tmp_path / "file"
    private_files.opened(file, how).close()
    assert mode(file) & ~0o600 == 0
    file.chmod(0o666)
    private_files.opened(file, how).close()
    assert mode(file) == 0o600


def test_what_is_no_file_stays_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    private_files.write(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert mode(pipe) == 0o666
