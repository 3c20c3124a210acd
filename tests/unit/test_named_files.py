"""Files that a user names are read up to a limit."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from playhead import references
from playhead.config.kafka_properties import read_properties
from playhead.errors import BadValue, UsageError
from playhead.host import named_files
from playhead.kafka.groups import offsets_csv
from playhead.postgres import server
from tests.fix_strangers import NEEDS_A_STRANGER, STRANGER, as_stranger, strangers_folder

ENDLESS = Path("/dev/zero")


@pytest.fixture(autouse=True)
def few_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MOST_LETTERS", 1 << 20)


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(BadValue, match="more than 1 MiB"):
        references.resolve(f"file:{ENDLESS}", key="password", where="a test")
    with pytest.raises(UsageError, match="more than 1 MiB"):
        read_properties(ENDLESS)
    with pytest.raises(UsageError, match="more than 1 MiB"):
        offsets_csv.read_file(ENDLESS, ["group"])
    with pytest.raises(OSError, match="more than 1 MiB"):
        named_files.text_of(ENDLESS)


def test_a_file_of_the_longest_length_is_read(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("é" * (1 << 20), encoding="utf-8")
    assert named_files.text_of(file) == "é" * (1 << 20)


@NEEDS_A_STRANGER
def test_a_strangers_pipe_is_not_waited_for(servers_folder: Path, tmp_path: Path) -> None:
    pipe = strangers_folder(servers_folder / f"pipes-{tmp_path.name}") / "pipe"
    assert as_stranger("mkfifo", str(pipe)).returncode == 0
    code = "import sys, pathlib; from playhead.host import named_files; named_files.text_of(pathlib.Path(sys.argv[1]))"
    asked = [sys.executable, "-c", code, str(pipe)]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    assert "it is a pipe of" in done.stderr


@NEEDS_A_STRANGER
@pytest.mark.parametrize(
    ("variables", "url", "said"),
    [
        ({"PGPASSFILE": "{pipe}"}, "postgresql://me@localhost/db", ""),
        ({}, "postgresql://me@localhost/db?passfile={pipe}", ""),
        ({"PGSERVICEFILE": "{pipe}", "PGSERVICE": "prod"}, "postgresql:///db", "it is a pipe of"),
        ({"PGSERVICEFILE": "{pipe}", "PGSERVICE": "prod"}, "host=there", "it is a pipe of"),
    ],
)
def test_no_file_of_libpq_is_a_strangers_pipe_that_is_waited_for(
    servers_folder: Path, tmp_path: Path, variables: dict[str, str], url: str, said: str
) -> None:
    pipe = strangers_folder(servers_folder / f"pipes-{tmp_path.name}") / "pipe"
    assert as_stranger("mkfifo", str(pipe)).returncode == 0
    named = {name: value.format(pipe=pipe) for name, value in variables.items()}
    code = "import sys; from playhead.postgres import server; server.checked(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, url.format(pipe=pipe)],
        env=os.environ | named,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert said in done.stderr
    assert (done.returncode != 0) is bool(said), done.stderr


def test_a_file_of_passwords_without_an_end_fills_no_memory() -> None:
    server.checked(f"postgresql://me@localhost/db?passfile={ENDLESS}")


@NEEDS_A_STRANGER
def test_a_pipe_without_a_name_is_read_whoever_made_it() -> None:
    """Under sudo, that of a shell belongs to the caller."""
    end, start = os.pipe()
    assert STRANGER is not None
    os.chown(end, STRANGER.pw_uid, -1)
    os.write(start, b"text")
    os.close(start)
    assert named_files.text_of(Path(f"/dev/fd/{end}")) == "text"
    os.close(end)


def test_a_pipe_of_ones_own_waits_for_its_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write_late() -> None:
        time.sleep(0.3)
        pipe.write_text("text", encoding="utf-8")

    writer = threading.Thread(target=write_late)
    writer.start()
    assert named_files.text_of(pipe) == "text"
    writer.join()
