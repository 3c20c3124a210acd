"""Ctrl-C is answered in words from the first moment on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WITHIN_S = 20.0
LOADS_SLOWLY = "import time\nprint('loading', flush=True)\ntime.sleep(60)\n"


def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(LOADS_SLOWLY)
    command = subprocess.Popen(
        [sys.executable, "-m", "playhead.cli.start", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "loading\n"
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=WITHIN_S)
    assert (command.returncode, err) == (130, "interrupted\n")


def test_it_runs_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "playhead.cli.start", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "playhead")


@pytest.mark.parametrize("umask", [0o777, 0o277, 0o000])
def test_no_umask_takes_our_own_files_from_us(tmp_path: Path, umask: int) -> None:
    """A file of mode 0400 could be written once, and never again by who is not root."""
    config = tmp_path / "home" / "config"
    done = subprocess.run(
        [sys.executable, "-m", "playhead.cli.start", "context", "add", "lab", "-b", "127.0.0.1:1"],
        env={**os.environ, "XDG_CONFIG_HOME": str(config)},
        capture_output=True,
        text=True,
        umask=umask,
    )
    assert done.returncode == 0, done.stderr
    made = [config / "playhead", config / "playhead" / "config.toml"]
    assert [oct(path.stat().st_mode & 0o777) for path in made] == ["0o700", "0o600"]
