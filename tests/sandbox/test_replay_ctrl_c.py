"""Ctrl-C typed at a terminal: the first one always ends gently, with the line that continues, and no row is lost."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from playhead.errors import EXIT_INTERRUPTED, EXIT_STOPPED
from tests.fix_commands import COMMAND
from tests.fix_replay import LONG_TAPE, Performance

Perform = Callable[..., Performance]
CTRL_C = b"\x03"


class Terminal:
    """A command at a terminal of its own, as a person has it: Ctrl-C reaches all of its process group."""

    def __init__(self, *words: str, **environment: str) -> None:
        self._screen, theirs = pty.openpty()
        takes_it = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
        begin = f"{takes_it}; os.execv(sys.argv[1], sys.argv[1:])"
        self.process = subprocess.Popen(
            [COMMAND[0], "-c", begin, *COMMAND, *words],
            env=os.environ | environment | {"TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.text = ""

    def sees(self, pattern: str, *, seconds: float = 90.0) -> None:
        """Wait until the screen shows this."""
        until = time.monotonic() + seconds
        while re.search(pattern, self.text) is None:
            assert time.monotonic() < until, f"no {pattern!r} on the screen:\n{self.text}"
            assert self._read(0.2), f"it ended without {pattern!r}:\n{self.text}"

    def types(self, what: bytes) -> None:
        os.write(self._screen, what)

    def end(self, *, seconds: float) -> int:
        """Return the exit code."""
        until = time.monotonic() + seconds
        while self._read(0.2):
            assert time.monotonic() < until, f"no end within {seconds:g} s:\n{self.text}"
        return self.process.wait(max(1.0, until - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        """Read what there is; False when nobody can write any more."""
        if select.select([self._screen], [], [], seconds)[0]:
            try:
                self.text += os.read(self._screen, 65_536).decode(errors="replace")
            except OSError:  # Linux says so when the last writer has gone.
                return False
        return True

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self._screen)


@pytest.fixture
def at_terminal() -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def start(*words: str, **environment: str) -> Terminal:
        made.append(Terminal(*words, **environment))
        return made[-1]

    yield start
    for each in made:
        each.close()


def stopped(it: Performance, screen: Terminal, *, within_s: float) -> None:
    """It ended gently, and says how to continue."""
    assert screen.end(seconds=within_s) == EXIT_STOPPED, screen.text
    assert f"playhead resume {it.replay_id}" in screen.text
    assert "Traceback" not in screen.text
    it.are_gone()


def test_after_a_question_and_again_in_the_resume(
    perform: Perform, long_tape: str, at_terminal: Callable[..., Terminal]
) -> None:
    it = perform("postgres", long_tape, LONG_TAPE, slice_records=20)
    words = ("replay", f"kafka:{long_tape}", it.end.text, *it.end.options, "--pace", "250/s")
    screen = at_terminal(*words, "--id", it.replay_id, **it.environment())
    screen.sees(r"\[y/N\]")
    screen.types(b"y\n")
    it.comes_to(0.03)
    screen.types(CTRL_C)
    stopped(it, screen, within_s=30)
    so_far = len(it.end.numbers())
    assert 0 < so_far < LONG_TAPE

    screen = at_terminal("resume", it.replay_id, **it.environment())
    screen.sees(r"\[y/N\]")
    screen.types(b"y\n")
    it.comes_to((so_far + 20) / LONG_TAPE)
    screen.types(CTRL_C)
    stopped(it, screen, within_s=30)
    assert so_far < len(it.end.numbers()) < LONG_TAPE
    it.finish()


@pytest.mark.parametrize("pace", ["max", "250/s"])
def test_while_the_engine_starts(
    perform: Perform, long_tape: str, at_terminal: Callable[..., Terminal], pace: str
) -> None:
    """Nothing has been written, and nobody waits for the engine."""
    it = perform("postgres", long_tape, LONG_TAPE)
    words = ("replay", f"kafka:{long_tape}", it.end.text, *it.end.options, "--pace", pace)
    screen = at_terminal(*words, "--yes", "--id", it.replay_id, **it.environment())
    screen.sees("starting the engine")
    typed = time.monotonic()
    screen.types(CTRL_C)
    stopped(it, screen, within_s=15)
    assert "stopped before anything was written" in screen.text
    assert time.monotonic() - typed < 15
    assert it.end.numbers() == []
    it.finish()


def test_at_the_question(
    perform: Perform, long_tape: str, at_terminal: Callable[..., Terminal]
) -> None:
    it = perform("postgres", long_tape, LONG_TAPE)
    words = ("replay", f"kafka:{long_tape}", it.end.text, *it.end.options)
    screen = at_terminal(*words, "--id", it.replay_id, **it.environment())
    screen.sees(r"\[y/N\]")
    screen.types(CTRL_C)
    assert screen.end(seconds=10) == EXIT_INTERRUPTED
    assert "interrupted" in screen.text
    assert "Traceback" not in screen.text
    assert it.end.numbers() == []


@pytest.mark.torture
def test_of_a_saved_replay(
    perform: Perform, long_tape: str, at_terminal: Callable[..., Terminal], tmp_path: object
) -> None:
    it = perform("postgres", long_tape, LONG_TAPE, slice_records=20)
    environment = it.environment() | {"XDG_CONFIG_HOME": str(tmp_path)}
    add = ("standby", "add", it.replay_id, f"kafka:{long_tape}", it.end.text, *it.end.options)
    screen = at_terminal(*add, "--pace", "250/s", **environment)
    assert screen.end(seconds=30) == 0, screen.text
    screen = at_terminal("standby", "run", it.replay_id, "--from", "start", **environment)
    screen.sees(r"\[y/N\]")
    screen.types(b"y\n")
    it.comes_to(0.03)
    screen.types(CTRL_C)
    assert screen.end(seconds=30) == EXIT_STOPPED, screen.text
    found = re.search(r"playhead resume (\S+)", screen.text)
    assert found is not None, screen.text
    assert 0 < len(it.end.numbers()) < LONG_TAPE
    screen = at_terminal("resume", found[1], "--yes", **environment)
    assert screen.end(seconds=60) == 0, screen.text
    assert it.end.numbers() == [*range(LONG_TAPE)]
