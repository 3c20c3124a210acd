"""The `playhead` command as a person runs it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from playhead.sandbox import Endpoints

RunBytes = Callable[..., "subprocess.CompletedProcess[bytes]"]
Playhead = Callable[..., "subprocess.CompletedProcess[str]"]
COMMAND = [sys.executable, "-m", "playhead.cli.start"]


@pytest.fixture(scope="session")
def playhead(own_environment: None) -> Playhead:
    """Runs the command; keywords other than `cwd` and `stdin` are environment variables."""

    def run(*words: str, cwd: Path | None = None, stdin: str = "", **more: str) -> Any:
        return subprocess.run(
            [*COMMAND, *words],
            cwd=cwd,
            input=stdin,
            env=os.environ | more,
            capture_output=True,
            text=True,
            timeout=180,
        )

    return run


@pytest.fixture
def start_playhead(own_environment: None) -> Callable[..., "subprocess.Popen[str]"]:
    """Starts the command and leaves it running, in a process group of its own as a shell would."""

    def start(*words: str, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*COMMAND, *words],
            env=os.environ | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    return start


@pytest.fixture
def on_sandbox(own_environment: None, sandbox: Endpoints) -> RunBytes:
    """A command with bytes for stdin and stdout; expects it to succeed unless told."""

    def run(*words: str, stdin: bytes = b"", code: int = 0, servers: str | None = None) -> Any:
        command = [*COMMAND, *words, "-b", servers or sandbox.bootstrap_servers]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
        assert done.returncode == code, done.stderr.decode()
        assert b"Traceback" not in done.stderr
        return done

    return run
