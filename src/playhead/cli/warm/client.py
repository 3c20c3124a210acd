"""Runs a command in the warm engine; raises `RunHere` if the command must run in this process."""

import fcntl
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from playhead.cli.output import ReaderGone, tell, write_answer
from playhead.cli.warm import handover, priority
from playhead.cli.warm.handover import Asked, KeepsToItself
from playhead.config.context import configure
from playhead.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, PlayheadError
from playhead.grammar.duration import parse_duration_ms, show_duration_ms
from playhead.host import local_socket, private_files
from playhead.host.detached import Detached
from playhead.host.local_socket import Gone
from playhead.host.runtimes import command_of

HELLO, COMMAND, RUN_ID, ANSWER, END, ALONE = b"H", b"C", b"I", b"A", b"E", b"O"
SIGNAL, STOP = b"S", b"Q"
ANSWERS_WITHIN_S = 3.0
NUMBERS = {
    "pid": 1 << 31,
    "jvm": 1 << 31,
    "started_ms": 1 << 47,
    "idle_s": 1 << 47,
    "commands": 1 << 47,
}
"""What an engine says of itself in numbers, and below which limits."""
_CODES: dict[int, int] = {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_TERMINATED}
# The engine forks, so no library may start threads when it is loaded.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
_QUIET = ("-q", "--quiet")
# A pipe in the place of the lock must not keep a command waiting.
_LOCK_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RunHere(Exception):
    """The command must run in this process, with these words; `leave_engine`: start an engine for the next ones."""

    def __init__(self, words: Sequence[str], *, leave_engine: bool) -> None:
        super().__init__(*words)
        self.words, self.leave_engine = list(words), leave_engine


def run(words: Sequence[str]) -> int:
    """Return the exit code of the command in the engine; raises `RunHere` if it did not run there to its end."""
    if not handover.is_wanted(words):
        raise RunHere(words, leave_engine=False)
    try:
        asked = handover.asked(words)
        connection = _connection()
    except KeepsToItself as exc:
        _say(words, exc.reason)
        raise RunHere(words, leave_engine=False) from None
    if connection is None:
        raise RunHere(words, leave_engine=True)
    with connection:
        return _Conversation(connection, asked).hold()


def _connection() -> socket.socket | None:
    """Connect to an engine with the same code as this command; ask an engine with other code to end."""
    try:
        found = greeted()
    except (PlayheadError, OSError) as exc:
        tell(f"warning: {exc}")
        return None
    if found is None:
        return None
    connection, hello = found
    if hello.get("code") != handover.code():
        with connection, suppress(OSError):
            local_socket.send(connection, STOP)
        return None
    try:
        handover.refuse_other_surroundings(hello.get("surroundings"))
    except KeepsToItself:
        connection.close()
        raise
    return connection


def greeted() -> tuple[socket.socket, dict[str, Any]] | None:
    """Return a connection to the engine, and its status; None if no engine runs."""
    path = handover.folder()
    try:
        with local_socket.private_folder(path, make=False) as folder:
            connection = local_socket.connected(folder, path, within_s=ANSWERS_WITHIN_S)
    except FileNotFoundError:
        return None
    if connection is None:
        return None
    try:
        kind, content = local_socket.receive(connection)
        if kind != HELLO:
            raise Gone("the engine did not send its status first")
        connection.settimeout(None)
        return connection, _greeting(json.loads(content))
    except (OSError, ValueError, RecursionError):  # it is ending, has too much to do, or is none
        connection.close()
        return None


def _greeting(said: object) -> dict[str, Any]:
    """Return what an engine of any version may say of itself."""
    if isinstance(said, dict) and all(
        type(said.get(name, 0)) in (int, float) and 0 <= said.get(name, 0) < most
        for name, most in NUMBERS.items()
    ):
        return said
    raise Gone("it greets as no engine does")


def starting() -> int | None:
    """Return the process number of an engine that is starting, 0 if one runs already; None without an engine."""
    try:
        with local_socket.private_folder(handover.folder(), make=False) as folder:
            lock = os.open(handover.LOCK, _LOCK_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        written = os.read(lock, 32)
        return int(written) if written.isdigit() else 0
    finally:
        os.close(lock)


def leave_engine(words: Sequence[str]) -> None:
    """Start an engine for later commands if this command has started its own JVM, and say so."""
    session = sys.modules.get("playhead.spark.session")
    # The thread that starts an engine may be half through this import when the command ends early.
    jvm_pid = getattr(session, "jvm_pid", None)
    if jvm_pid is None or jvm_pid() is None:
        return
    with suppress(PlayheadError, OSError):
        if start_engine(at_once=False).process is not None:
            idle = show_duration_ms(idle_ms())
            _note(
                words, f"an engine starts for your next commands, and ends after {idle} without one"
            )


def start_engine(*, at_once: bool) -> "Started":
    """Start an engine unless one has started; `at_once` gives it normal priority."""
    path = handover.folder()
    process = None
    with local_socket.private_folder(path, make=True):
        idle = str(idle_ms())
        if starting() is None:
            more = ["--at-once"] if at_once else []
            with private_files.opened(path / "log", "wb") as log:
                process = Detached(
                    [*command_of("playhead.cli.warm_engine"), idle, *more],
                    directory=Path("/"),
                    environment=handover.engine_environment() | _ONE_THREAD,
                    output=log,
                )
    return Started(path / "log", process)


def hurry() -> None:
    """Give an engine that is starting in the background normal priority."""
    if process := starting():
        priority.raise_again(process)


@dataclass(frozen=True, slots=True)
class Started:
    """The engine that `start_engine` has found or started; `process` is None if another command started it."""

    log: Path
    process: Detached | None

    def has_ended(self) -> bool:
        if self.process is not None and self.process.poll() is None:
            return False
        return starting() is None


def idle_ms() -> int:
    """Return the setting `engine_idle`."""
    return parse_duration_ms(configure({}).get("engine_idle") or "", where="engine_idle")


class _Conversation:
    """The exchange with the engine, from the command to its exit code."""

    def __init__(self, connection: socket.socket, asked: Asked) -> None:
        self._connection, self._asked = connection, asked
        self._run_id: str | None = None
        self._answer: bytes | None = None
        self._heard: int | None = None
        self._is_handed_over = False
        self._early: list[int] = []
        """Signals received before the command was sent to the engine."""

    def hold(self) -> int:
        with _forwarded(self._forward):
            try:
                self._hand_over()
                return self._listen()
            except OSError:
                if self._heard is not None:
                    tell("interrupted" if self._heard == signal.SIGINT else "terminated")
                    return _CODES[self._heard]
                tell("warning: the warm engine has ended; the command continues without it")
                words = [*self._asked.words, *self._same_run()]
                raise RunHere(words, leave_engine=True) from None

    def _same_run(self) -> list[str]:
        """Return the options that make the same command continue the run that it began in the engine."""
        if self._run_id is None or self._asked.words[0] != "replay":
            return []
        return ["--yes", "--id", self._run_id]

    def _hand_over(self) -> None:
        with _handles() as handles:
            local_socket.send(self._connection, COMMAND, self._asked.as_bytes(), handles)
        self._is_handed_over = True
        for number in self._early:
            self._forward(number)

    def _listen(self) -> int:
        while True:
            kind, content = local_socket.receive(self._connection)
            if kind == RUN_ID:
                self._run_id = content.decode()
            elif kind == ANSWER:
                self._answer = content
            elif kind == ALONE:
                _say(self._asked.words, content.decode())
                raise RunHere([*self._asked.words, *self._same_run()], leave_engine=False)
            elif kind == END:
                if self._answer is not None:
                    with suppress(ReaderGone):
                        write_answer(self._answer)
                return int(content)

    def _forward(self, number: int) -> None:
        self._heard = number
        if not self._is_handed_over:  # perhaps in the middle of a frame
            self._early.append(number)
            return
        with suppress(OSError):
            local_socket.send(self._connection, SIGNAL, str(number).encode())


def _say(words: Sequence[str], reason: str | None) -> None:
    if reason:
        _note(words, f"this command runs without the warm engine: {reason}")


def _note(words: Sequence[str], text: str) -> None:
    if not any(word in _QUIET for word in words):
        tell(f"note: {text}")


@contextmanager
def _handles() -> Iterator[list[int]]:
    """Open handles of the working folder and the three streams; the null device replaces a closed stream."""
    opened = [os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        handles = [*opened]
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            try:
                handles.append(stream.fileno())
            except (OSError, ValueError):
                opened.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
                handles.append(opened[-1])
        yield handles
    finally:
        for handle in opened:
            os.close(handle)


@contextmanager
def _forwarded(forward: Callable[[int], None]) -> Iterator[None]:
    """In this block, forward Ctrl-C and SIGTERM to the run; a signal that is ignored here stays ignored."""

    def hear(number: int, _: FrameType | None) -> None:
        forward(number)

    before = {kind: signal.getsignal(kind) for kind in _CODES}
    heard = {kind: was for kind, was in before.items() if was != signal.SIG_IGN}
    for kind in heard:
        signal.signal(kind, hear)
    try:
        yield
    finally:
        for kind, was in heard.items():
            signal.signal(kind, was)
