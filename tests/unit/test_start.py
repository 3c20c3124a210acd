"""Ctrl-C is answered in words from the first moment on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

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
