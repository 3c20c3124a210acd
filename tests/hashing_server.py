"""A hostile PostgreSQL server: its SCRAM has the client hash the password for hours."""

import base64
import socket
import struct
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType

_NO_ENCRYPTION = (80_877_103, 80_877_104)


class HashingServer:
    """A port of loopback; each connection is asked to hash two thousand million times."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.has_asked = Event()
        """Whether a client hashes now."""
        self._thread = Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        port = self._socket.getsockname()[1]
        return f"postgresql://user:password@127.0.0.1:{port}/db?connect_timeout=2"

    def __enter__(self) -> "HashingServer":
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
            Thread(target=self._ask, args=(connection,), daemon=True).start()

    def _ask(self, connection: socket.socket) -> None:
        with connection:
            while struct.unpack(">i", _packet(connection)[:4])[0] in _NO_ENCRYPTION:
                connection.sendall(b"N")
            connection.sendall(_request(10, b"SCRAM-SHA-256\0\0"))
            connection.recv(1)
            first = _packet(connection)
            nonce = first[first.index(b"r=") + 2 :]
            salt = base64.b64encode(b"salt")
            connection.sendall(_request(11, b"r=" + nonce + b"X,s=" + salt + b",i=2000000000"))
            self.has_asked.set()
            with suppress(OSError):  # the client is gone
                connection.recv(1)


def _packet(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size - 4, socket.MSG_WAITALL)


def _request(kind: int, data: bytes) -> bytes:
    return b"R" + struct.pack(">ii", len(data) + 8, kind) + data
