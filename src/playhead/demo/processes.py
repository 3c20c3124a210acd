"""Runs Playhead's own commands as child processes of the demo, prints their output, and ends them all."""

import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import IO

from playhead.errors import PlayheadError
from playhead.host.runtimes import command_of

_PLAYHEAD = command_of("playhead.cli.app")
_TIED_PROCESS = command_of("playhead.demo.tied_process")
_POLL_EVERY_S = 0.05
_LAST_LINES = 12
_WITHIN_S = 120.0
_KILLED_AFTER_S = 30.0

OnLine = Callable[[str], None]


class DemoFailed(PlayheadError):
    """A step of the demo did not give the result that the next step needs."""

    def __init__(self, what: str, *, found: str, needed: str) -> None:
        self.what, self.found, self.needed = what, found, needed
        super().__init__(
            f"{what}: found {found}, needed {needed}",
            hint="read the transcript above for the last lines of each program",
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code and the output of a command that has ended."""

    code: int
    out: str
    lines: list[str]


class Program:
    """A running command; each line of its stderr is passed on."""

    def __init__(
        self, title: str, words: Collection[str], environment: Mapping[str, str], on_line: OnLine
    ) -> None:
        self.title, self._on_line = title, on_line
        self.lines: list[str] = []
        self._out: list[str] = []
        self._process = subprocess.Popen(
            [*_TIED_PROCESS, *_PLAYHEAD, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            text=True,
            # Ctrl-C goes to the demo, which then ends its programs in order.
            start_new_session=True,
        )
        self._listeners = [
            self._read_stream(self._process.stderr, self._add_line),
            self._read_stream(self._process.stdout, self._out.append),
        ]

    def _read_stream(self, stream: IO[str] | None, take: OnLine) -> Thread:
        def listen() -> None:
            for line in stream or ():
                take(line)

        thread = Thread(target=listen, name=f"read {self.title}", daemon=True)
        thread.start()
        return thread

    def _add_line(self, line: str) -> None:
        self.lines.append(line.rstrip("\n"))
        self._on_line(line.rstrip("\n"))

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def need_running(self) -> None:
        """Raise if the command has ended."""
        if not self.is_running:
            last = " / ".join(self.lines[-_LAST_LINES:]) or "no output"
            raise DemoFailed(
                self.title, found=f"an ended process: {last}", needed="a running process"
            )

    def wait_for(self, text: str, *, within_s: float = _WITHIN_S) -> str:
        """Wait for the first line with this text."""
        deadline = time.monotonic() + within_s
        while True:
            for line in [*self.lines]:
                if text in line:
                    return line
            self.need_running()
            if time.monotonic() > deadline:
                raise DemoFailed(
                    self.title,
                    found=f"no such line within {within_s:g} s",
                    needed=f"{text!r} in its output",
                )
            time.sleep(_POLL_EVERY_S)

    def stop(self, *, within_s: float = _WITHIN_S) -> Ended:
        """Interrupt the command as Ctrl-C does, and read its output to the end."""
        if self.is_running:
            self._process.send_signal(signal.SIGINT)
        return self.wait(within_s=within_s)

    def wait(self, *, within_s: float = _WITHIN_S) -> Ended:
        """Wait until the command ends by itself."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.release()
            raise DemoFailed(
                self.title,
                found=f"a running process after {within_s:g} s",
                needed="an ended process",
            ) from None
        self._finish_output()
        return Ended(code, "".join(self._out), self.lines)

    def release(self) -> None:
        """Ask the command to end, as it would if this process had died."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait_released(self, within_s: float) -> None:
        """Wait for a released command to end; kill it after `within_s`."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._finish_output()

    def _finish_output(self) -> None:
        for thread in self._listeners:
            thread.join(_WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@dataclass
class Processes:
    """All child processes of one demo."""

    environment: Mapping[str, str]
    tell: OnLine
    _programs: list[Program] = field(default_factory=list)

    def start(self, title: str, *words: str) -> Program:
        """Start a command that runs until it is stopped; its lines are printed after its title."""
        self.tell(f"$ playhead {shlex.join(words)}")

        def print_line(line: str) -> None:
            self.tell(f"{title:>6} | {line}")

        program = Program(title, words, self.environment, print_line)
        self._programs.append(program)
        return program

    def run(self, *words: str, needed: Collection[int] = (0,), shows: bool = True) -> Ended:
        """Run a command to its end and check its exit code; with `shows`, print its stdout too."""
        self.tell(f"$ playhead {shlex.join(words)}")
        program = Program(words[0], words, self.environment, self.tell)
        self._programs.append(program)
        done = program.wait(within_s=600)
        for line in done.out.splitlines() if shows else ():
            self.tell(line)
        if done.code not in needed:
            codes = " or ".join(map(str, sorted(needed)))
            raise DemoFailed(
                f"playhead {words[0]}", found=f"exit code {done.code}", needed=f"exit code {codes}"
            )
        return done

    def end(self) -> None:
        """End all commands."""
        for program in self._programs:
            program.release()
        for program in self._programs:
            program.wait_released(_KILLED_AFTER_S)


def need_running(programs: Sequence[Program]) -> None:
    """Raise for the first program that has ended."""
    for program in programs:
        program.need_running()
