"""Runs the engine's main process: it starts the JVM, and forks a process for each command.

The process has no threads and no connection to the JVM, so it can fork at any time. It ends after an idle
time, on `playhead engine stop`, when its socket was replaced, and when its JVM ends.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from playhead.cli.warm.worker import ENDING, READY, STOP, TAKEN, Post, Run, serve
from playhead.host import local_socket
from playhead.spark import attached
from playhead.spark.jvm import Gateway
from playhead.version import __version__

_LOOKS_EVERY_S = 1.0
_READY_WITHIN_S = 120.0
_ENDS_WITHIN_S = 30.0
# The next process is forked when the command is over, or has run for a while: not during its planning.
_NEXT_AFTER_S = 2.0


@dataclass(slots=True)
class _Process:
    """A forked process and its control socket; it waits for a command, runs one, or ends."""

    control: socket.socket
    tag: str
    since: float
    is_for_commands: bool = True
    is_ready: bool = False
    is_taken: bool = False


@dataclass(slots=True)
class Server:
    """The engine's main process."""

    run: Run
    gateway: Gateway
    listener: socket.socket
    folder: int
    lock: int
    code: str
    surroundings: dict[str, str]
    idle_s: float
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    _processes: dict[int, _Process] = field(default_factory=dict)
    _count: int = 0
    _is_ending: bool = False
    _is_told: bool = False
    _used: float = field(default_factory=time.monotonic)
    _place: tuple[int, int] = (0, 0)

    def work(self) -> None:
        """Keep one forked process ready until the engine ends; then wait for running commands."""
        self._place = self._now_at_place()
        signal.signal(signal.SIGTERM, self._tell)
        try:
            while not self._is_ending or self._processes:
                if self._has_room():
                    self._fork(self._serve)
                self._hear()
                self._reap()
                if self.gateway.process.poll() is not None or self._hangs():
                    return
                if not self._is_ending and (self._is_told or self._is_over()):
                    self._end()
        finally:
            # Without the JVM a command only fails; when its process is gone, the client runs it again.
            self._end_all(signal.SIGKILL)

    def _tell(self, _number: int, _frame: object) -> None:
        """Handle SIGTERM: running commands stop at their next slice."""
        self._is_told = True
        self._end_all(signal.SIGTERM)
        signal.alarm(int(_ENDS_WITHIN_S))

    def _has_room(self) -> bool:
        if self._is_ending or any(not each.is_taken for each in self._for_commands()):
            return False
        return all(time.monotonic() - each.since > _NEXT_AFTER_S for each in self._for_commands())

    def _for_commands(self) -> list[_Process]:
        return [each for each in self._processes.values() if each.is_for_commands]

    def _is_over(self) -> bool:
        now = time.monotonic()
        if any(each.is_taken for each in self._for_commands()):
            self._used = now
        return now - self._used > self.idle_s or self._now_at_place() != self._place

    def _hangs(self) -> bool:
        """Return whether a forked process is overdue, because the JVM does not answer."""
        now = time.monotonic()
        waiting = [each for each in self._processes.values() if not each.is_taken]
        return any(not each.is_ready and now - each.since > _READY_WITHIN_S for each in waiting)

    def _now_at_place(self) -> tuple[int, int]:
        try:
            status = os.stat(local_socket.SOCKET, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return (0, 0)
        return status.st_dev, status.st_ino

    def _end(self) -> None:
        """Accept no more commands, and remove the socket so that the next engine can bind it."""
        self._is_ending = True
        if self._now_at_place() == self._place:
            os.unlink(local_socket.SOCKET, dir_fd=self.folder)
        os.close(self.lock)
        self.lock = -1
        self.listener.close()
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                process.control.sendall(ENDING)  # a process that runs a command ignores it

    def _end_all(self, number: int) -> None:
        for pid in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    # --- forked processes

    def _fork(self, do: Callable[[socket.socket, str], None], tag: str | None = None) -> None:
        self._count += 1
        ours, theirs = socket.socketpair()
        new_tag = f"playhead-command-{os.getpid()}-{self._count}"
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._be_a_child(ours)
                do(theirs, tag or new_tag)
                code = 0
            except BaseException:  # noqa: BLE001  what is behind it ends the other processes and the JVM
                with contextlib.suppress(OSError):
                    traceback.print_exc()
            finally:
                os._exit(code)
        theirs.close()
        self._processes[pid] = _Process(
            ours, new_tag, time.monotonic(), is_for_commands=tag is None
        )

    def _be_a_child(self, ours: socket.socket) -> None:
        """Close what belongs to the main process only, so that the JVM and the lock end with it."""
        signal.alarm(0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        ours.close()
        for process in self._processes.values():
            process.control.close()
        if self.gateway.process.stdin is not None:
            os.close(self.gateway.process.stdin.fileno())
        with contextlib.suppress(OSError):
            os.close(self.lock)
        os.close(self.folder)

    def _serve(self, control: socket.socket, tag: str) -> NoReturn:
        gateway = self.gateway
        attached.attach(gateway.port, gateway.secret, gateway.folder.path, gateway.memory, tag)
        serve(Post(self.listener, control, self._hello()), self.run)

    def _hello(self) -> bytes:
        said: dict[str, Any] = {
            "code": self.code,
            "surroundings": self.surroundings,
            "version": __version__,
            "pid": os.getppid(),
            "jvm": self.gateway.process.pid,
            "started_ms": self.started_ms,
            "idle_s": self.idle_s,
            "commands": self._count - 1,
        }
        return json.dumps(said).encode()

    def _cancel(self, _: socket.socket, tag: str) -> None:
        attached.cancel(self.gateway.port, self.gateway.secret, tag)
        attached.let_go()

    def _hear(self) -> None:
        controls = {each.control: each for each in self._processes.values()}
        readable, _, _ = select.select(list(controls), [], [], _LOOKS_EVERY_S)
        for control in readable:
            process, said = controls[control], _received(control)
            process.is_ready = process.is_ready or READY in said
            if TAKEN in said:
                process.is_taken, process.since = True, time.monotonic()
            if STOP in said:
                self._is_told = True
            if not said:
                time.sleep(0.01)  # it is ending, and is reaped soon

    def _reap(self) -> None:
        for pid, process in list(self._processes.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == 0:
                continue
            del self._processes[pid]
            process.control.close()
            if process.is_for_commands and not process.is_ready and status != 0:
                # The JVM gave it no session, and would give the next one none.
                self._is_told = True
            if process.is_taken:
                self._used = time.monotonic()
            if process.is_taken and status != 0:
                # Its tasks write until they are cancelled, and its client starts the command again.
                self._fork(self._cancel, process.tag)


def _received(control: socket.socket) -> bytes:
    """Return what a forked process says; nothing if it has ended, perhaps with unread bytes."""
    with contextlib.suppress(ConnectionResetError):
        return control.recv(64)
    return b""
