"""Runs one command in the warm engine, in a forked process that has its own Spark session."""

import contextlib
import io
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from playhead import references
from playhead.cli.warm import client
from playhead.cli.warm.handover import Asked
from playhead.errors import RunsAlone
from playhead.host import local_socket, paths
from playhead.host.local_socket import Gone
from playhead.replay import journal
from playhead.spark import attached

Run = Callable[[list[str]], int]
READY, TAKEN, STOP, ENDING = b"R", b"T", b"Q", b"X"
_HANDLES = 4
# If the client has ended, the command stops as at a SIGTERM, at its next slice; later the process is killed.
_STOPS_WITHIN_S, _ENDS_WITHIN_S = 25.0, 8.0
_LETS_GO_WITHIN_S = 10.0
_DIED = 1


@dataclass(frozen=True, slots=True)
class Post:
    """The process's sockets: to clients, and to the engine that forked it."""

    listener: socket.socket
    engine: socket.socket
    hello: bytes


def serve(post: Post, run: Run) -> NoReturn:
    """Wait for one command, run it, send its result, and exit."""
    post.engine.sendall(READY)
    connection = _accepted(post)
    try:
        asked, handles = _taken(connection)
        post.engine.sendall(TAKEN)
        post.listener.close()
        _enter(asked, handles)
        _Command(connection, post.engine, asked, run).do()
        # Otherwise the JVM keeps the session of each command, and what was planned in it. One that does not
        # answer must not keep this process, and with it the engine.
        threading.Timer(_LETS_GO_WITHIN_S, os._exit, (0,)).start()
        attached.let_go()
    except BaseException:  # noqa: BLE001  the connection closes, and the client runs the command itself
        import traceback

        traceback.print_exc(file=sys.__stderr__)
        os._exit(_DIED)
    os._exit(0)


def _accepted(post: Post) -> socket.socket:
    """Accept the connection of a client of this user that hands over a command."""
    while True:
        readable, _, _ = select.select([post.listener, post.engine], [], [])
        if post.engine in readable:
            os._exit(0)  # the engine needs this process no longer, or has ended
        connection, _ = post.listener.accept()
        connection.settimeout(client.ANSWERS_WITHIN_S)
        with contextlib.suppress(Exception):  # a client of another user, or one that has ended
            local_socket.need_own(connection, paths.state_dir())
            local_socket.send(connection, client.HELLO, post.hello)
            if _is_command(connection, post):
                return connection
        connection.close()


def _is_command(connection: socket.socket, post: Post) -> bool:
    """Return whether the next frame is a command, without reading it."""
    kind = connection.recv(1, socket.MSG_PEEK)
    if kind == client.STOP:
        post.engine.sendall(STOP)
    return kind == client.COMMAND


def _taken(connection: socket.socket) -> tuple[Asked, list[int]]:
    kind, content, handles = local_socket.receive_handles(connection, _HANDLES)
    connection.settimeout(None)
    if kind != client.COMMAND or len(handles) != _HANDLES:
        raise Gone("the frame is not a command")
    return Asked.of_bytes(content), handles


def _enter(asked: Asked, handles: Sequence[int]) -> None:
    """Use the client's folder, streams, umask and variables, and none of the engine's."""
    folder, *streams = handles
    os.fchdir(folder)
    os.close(folder)
    for number, handle in enumerate(streams):
        os.dup2(handle, number)
        os.close(handle)
    os.umask(asked.umask)
    kept = {name: value for name, value in os.environ.items() if name.startswith("PYSPARK_")}
    os.environ.clear()
    os.environ.update(kept | asked.variables)
    time.tzset()
    _speak(asked.encodings)


def _speak(encodings: Sequence[tuple[str, str]]) -> None:
    """Set the three streams; stdout is buffered to the command's end, so the client gets all of it or nothing."""
    (coded, errors), (_, _), (error_coded, error_errors) = encodings
    sys.stdin = open(0, encoding=coded, errors=errors, closefd=False)  # noqa: SIM115
    sys.stdout = _Kept(encoding=encodings[1][0], errors=encodings[1][1])
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False),
        encoding=error_coded,
        errors=error_errors,
        write_through=True,
    )


class _Kept(io.TextIOWrapper):
    """A stdout that is sent at the end; `isatty` and `fileno` are those of the real one."""

    def __init__(self, *, encoding: str, errors: str) -> None:
        self._content = io.BytesIO()
        super().__init__(self._content, encoding=encoding, errors=errors, write_through=True)

    def isatty(self) -> bool:
        return os.isatty(1)

    def fileno(self) -> int:
        return 1

    def content(self) -> bytes:
        self.flush()
        return self._content.getvalue()


class _Command:
    """A running command, with a thread that reads from its client and from the engine."""

    def __init__(
        self, connection: socket.socket, engine: socket.socket, asked: Asked, run: Run
    ) -> None:
        self._connection, self._engine = connection, engine
        self._asked, self._run = asked, run
        self._sending = threading.Lock()
        self._is_over = False
        """Whether the client has, or soon has, all of the result, and may close the connection."""

    def do(self) -> None:
        references.ask_elsewhere = self._run_alone
        journal.told_of_run = lambda run_id: self._send(client.RUN_ID, run_id.encode())
        threading.Thread(target=self._listen, name="client", daemon=True).start()
        try:
            code = self._run(self._asked.words)
        except RunsAlone as exc:
            self._is_over = True
            self._send(client.ALONE, exc.reason.encode())
            return
        if isinstance(sys.stdout, _Kept) and (content := sys.stdout.content()):
            self._send(client.ANSWER, content)
        self._is_over = True
        self._send(client.END, str(code).encode())

    def _run_alone(self, reason: str) -> NoReturn:
        raise RunsAlone(reason)

    def _send(self, kind: bytes, content: bytes) -> None:
        with self._sending, contextlib.suppress(OSError):
            local_socket.send(self._connection, kind, content)

    def _listen(self) -> None:
        while True:
            readable, _, _ = select.select([self._connection, self._engine], [], [])
            if self._engine in readable and not self._engine.recv(1):
                os._exit(_DIED)  # like a killed process: the client continues without it
            if self._connection not in readable:
                continue
            try:
                kind, content = local_socket.receive(self._connection)
            except OSError:
                if self._is_over:
                    return
                _end_gently()
            if kind == client.SIGNAL and int(content) in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), int(content))


def _end_gently() -> NoReturn:
    """Stop at the next slice, because the client has ended; the ledger has what is committed."""
    for seconds in (_STOPS_WITHIN_S, _ENDS_WITHIN_S):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(seconds)
    os._exit(_DIED)
