"""Commands of ours as the story's processes: what they say is heard, and none of them outlives it."""

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
_LEASH = command_of("playhead.demo.tied_process")
_LOOK_EVERY_S = 0.05
_TOLD_OF_THE_END = 12
_WITHIN_S = 120.0
_SEEN_OFF_WITHIN_S = 30.0

Hear = Callable[[str], None]


class DemoFailed(PlayheadError):
    """Something in the story did not come as it has to; the story is not told on as if it had."""

    def __init__(self, what: str, *, found: str, needed: str) -> None:
        self.what, self.found, self.needed = what, found, needed
        super().__init__(
            f"{what}: found {found}, needed {needed}",
            hint="the transcript has all that was said until then",
        )


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has come to its end."""

    code: int
    out: str
    said: list[str]


class Program:
    """A command that runs; its talk is handed on line by line."""

    def __init__(
        self, title: str, words: Collection[str], environment: Mapping[str, str], hear: Hear
    ) -> None:
        self.title, self._hear = title, hear
        self.said: list[str] = []
        self._out: list[str] = []
        self._process = subprocess.Popen(
            [*_LEASH, *_PLAYHEAD, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            text=True,
            # Ctrl-C is for the one who tells the story; it ends its programs in good order.
            start_new_session=True,
        )
        self._listeners = [
            self._listening(self._process.stderr, self._note),
            self._listening(self._process.stdout, self._out.append),
        ]

    def _listening(self, stream: IO[str] | None, take: Hear) -> Thread:
        def listen() -> None:
            for line in stream or ():
                take(line)

        thread = Thread(target=listen, name=f"hear {self.title}", daemon=True)
        thread.start()
        return thread

    def _note(self, line: str) -> None:
        self.said.append(line.rstrip("\n"))
        self._hear(line.rstrip("\n"))

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def need_running(self) -> None:
        """A story in which somebody is missing is over."""
        if not self.is_running:
            last = " / ".join(self.said[-_TOLD_OF_THE_END:]) or "without a word"
            raise DemoFailed(self.title, found=f"that it had ended: {last}", needed="it running")

    def wait_for(self, text: str, *, within_s: float = _WITHIN_S) -> str:
        """The first line that has this in it."""
        deadline = time.monotonic() + within_s
        while True:
            for line in [*self.said]:
                if text in line:
                    return line
            self.need_running()
            if time.monotonic() > deadline:
                raise DemoFailed(
                    self.title, found=f"silence for {within_s:g} s", needed=f"the words {text!r}"
                )
            time.sleep(_LOOK_EVERY_S)

    def stop(self, *, within_s: float = _WITHIN_S) -> Ended:
        """Ask it to end as Ctrl-C does, and hear it out."""
        if self.is_running:
            self._process.send_signal(signal.SIGINT)
        return self.wait(within_s=within_s)

    def wait(self, *, within_s: float = _WITHIN_S) -> Ended:
        """To its own end."""
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.let_go()
            raise DemoFailed(
                self.title, found=f"it running after {within_s:g} s", needed="its end"
            ) from None
        self._hear_out()
        return Ended(code, "".join(self._out), self.said)

    def let_go(self) -> None:
        """The command is told to end, as it would be if we had died."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def see_off(self, within_s: float) -> None:
        """Wait for the end of one that was let go."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._hear_out()

    def _hear_out(self) -> None:
        for thread in self._listeners:
            thread.join(_WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


@dataclass
class Processes:
    """All programs of one story."""

    environment: Mapping[str, str]
    tell: Hear
    _programs: list[Program] = field(default_factory=list)

    def start(self, title: str, *words: str) -> Program:
        """A command that goes on until it is stopped; its words come with its title before them."""
        self.tell(f"$ playhead {shlex.join(words)}")

        def hear(line: str) -> None:
            self.tell(f"{title:>6} | {line}")

        program = Program(title, words, self.environment, hear)
        self._programs.append(program)
        return program

    def run(self, *words: str, needed: Collection[int] = (0,), shows: bool = True) -> Ended:
        """A command to its end, which must be one of these; `shows` what it puts out, too."""
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
        """Nobody stays behind, however the story ended."""
        for program in self._programs:
            program.let_go()
        for program in self._programs:
            program.see_off(_SEEN_OFF_WITHIN_S)


def need_running(programs: Sequence[Program]) -> None:
    """Raises for the first of them that has ended."""
    for each in programs:
        each.need_running()
