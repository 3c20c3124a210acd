"""A listener behind a hostile address: it counts who comes and what they bring, and must stay empty."""

import socket
from threading import Condition, Thread
from types import TracebackType

_MARK = b"\0the test itself\0"
_WITHIN_S = 60.0


class EmptyListener:
    """A port of loopback; each connection is read to its end, or until nothing comes, and closed."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._changed = Condition()
        self._brought: list[bytes] = []
        self._marks = 0
        self._thread = Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def brought(self) -> list[bytes]:
        """What each connection brought up to now, one of its own after them all to be sure of it."""
        wanted = self._marks + 1
        with socket.create_connection(self._socket.getsockname()) as mark:
            mark.sendall(_MARK)
        with self._changed:
            assert self._changed.wait_for(lambda: self._marks >= wanted, _WITHIN_S)
            return list(self._brought)

    def __enter__(self) -> "EmptyListener":
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
        self._thread.join(_WITHIN_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                content = _read(connection)
            with self._changed:
                if content == _MARK:
                    self._marks += 1
                else:
                    self._brought.append(content)
                self._changed.notify_all()


def _read(connection: socket.socket) -> bytes:
    connection.settimeout(0.1)
    content = b""
    try:
        while part := connection.recv(65_536):
            content += part
    except OSError:
        pass
    return content
