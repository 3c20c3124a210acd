"""A listener behind a hostile address: it counts who comes and what they bring, and must stay empty."""

import socket
from threading import Condition, Thread
from types import TracebackType

_WITHIN_S = 60.0


class EmptyListener:
    """A port of loopback; each connection is read to its end, or until nothing comes, and closed."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._changed = Condition()
        self._brought: list[bytes] = []
        self._own: set[tuple[str, int]] = set()
        self._thread = Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def brought(self) -> list[bytes]:
        """What each connection brought up to now, one of its own after them all to be sure of it."""
        with socket.socket() as mark:
            mark.bind(("127.0.0.1", 0))
            address = mark.getsockname()
            self._own.add(
                address
            )  # known by its port: what it sends may come late on a busy machine
            mark.connect(self._socket.getsockname())
            with self._changed:
                assert self._changed.wait_for(lambda: address not in self._own, _WITHIN_S)
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
                connection, address = self._socket.accept()
            except OSError:
                return
            is_own = address in self._own
            with connection:
                content = b"" if is_own else _read(connection)
            with self._changed:
                if is_own:
                    self._own.remove(address)
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
