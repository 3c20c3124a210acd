"""Nothing private is written into a file that another user has put in its place."""

import os
import stat
from pathlib import Path

import pytest

from playhead.host import private_files


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("mode", ["w", "a", "wb", "ab"])
def test_a_file_of_another_user_is_refused_and_stays_as_it_is(tmp_path, mode):
    file = tmp_path / "report.html"
    file.write_text("theirs")
    os.chown(file, 65_534, -1)
    with pytest.raises(PermissionError, match="the file belongs to another user"):
        private_files.opened(file, mode)
    assert file.read_text() == "theirs"


def test_a_file_of_ours_is_emptied_and_closed_to_others(tmp_path):
    file = tmp_path / "report.html"
    file.write_text("a longer text")
    file.chmod(0o666)
    private_files.write(file, "new")
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_no_file_is_written_to():
    private_files.write(Path("/dev/null"), "gone")
