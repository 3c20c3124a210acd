"""What is between us and PostgreSQL changes its answers: the Arrow driver's errors for it are errors of ours."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from urllib.parse import urlsplit

import pytest

from playhead.errors import DatabaseUnavailable, PlayheadError
from playhead.postgres import bounded_connection
from playhead.postgres.answers import NoPostgres
from playhead.postgres.session import open_copy_session
from playhead.sandbox import Endpoints
from tests.lying_server import message

Change = Callable[[bytes, bytes], bytes]
_NO_ENCRYPTION = (80_877_103, 80_877_104)


def _exactly(link: socket.socket, count: int) -> bytes:
    data = link.recv(count, socket.MSG_WAITALL)
    if len(data) < count:
        raise EOFError
    return data


@contextmanager
def changed(url: str, change: Change) -> Iterator[str]:
    """Yield the address of a relay that changes the second connection's answers, which runs the statements."""
    there = urlsplit(url)
    door = socket.create_server(("127.0.0.1", 0))
    begun: list[socket.socket] = []

    def serve(client: socket.socket, number: int) -> None:
        with suppress(OSError, EOFError), client, socket.socket() as server:
            while True:
                head = _exactly(client, 4)
                first = _exactly(client, struct.unpack(">i", head)[0] - 4)
                if struct.unpack(">i", first[:4])[0] not in _NO_ENCRYPTION:
                    break
                client.sendall(b"N")
            server.connect((there.hostname or "", there.port or 0))
            server.sendall(head + first)
            Thread(target=_pass, args=(client, server), daemon=True).start()
            is_in = False
            while True:
                kind, size = struct.unpack(">ci", _exactly(server, 5))
                data = _exactly(server, size - 4)
                client.sendall(change(kind, data) if is_in and number else message(kind, data))
                is_in |= kind == b"Z"

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = door.accept()
                begun.append(client)
                Thread(target=serve, args=(client, len(begun) - 1), daemon=True).start()

    Thread(target=accept, daemon=True).start()
    try:
        yield url.replace(str(there.port), str(door.getsockname()[1]))
    finally:
        door.shutdown(socket.SHUT_RDWR)
        door.close()


def _pass(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):
        while data := client.recv(1 << 16):
            server.sendall(data)
        server.shutdown(socket.SHUT_RDWR)


def _of_type(number: int) -> Change:
    def change(kind: bytes, data: bytes) -> bytes:
        if kind != b"T":
            return message(kind, data)
        (count,), at, out = struct.unpack(">h", data[:2]), 2, data[:2]
        for _ in range(count):
            end = data.index(b"\0", at) + 1
            out += data[at : end + 6] + struct.pack(">i", number) + data[end + 10 : end + 18]
            at = end + 18
        return message(kind, out)

    return change


def _with_cells(cell: bytes | None) -> Change:
    def change(kind: bytes, data: bytes) -> bytes:
        if kind != b"D":
            return message(kind, data)
        (count,) = struct.unpack(">h", data[:2])
        one = struct.pack(">i", -1) if cell is None else struct.pack(">i", len(cell)) + cell
        return message(kind, data[:2] + one * count)

    return change


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(_of_type(oid), id=f"type {oid}") for oid in (16, 17, 20, 25, 1007, 1700)),
        *(
            pytest.param(_with_cells(cell), id=f"cells {cell!r}")
            for cell in (None, b"\xff", b"\xff\xff")
        ),
        pytest.param(lambda kind, data: b"" if kind == b"D" else message(kind, data), id="no rows"),
    ],
)
def test_answers_of_another_form_are_an_error_of_ours(sandbox: Endpoints, change: Change) -> None:
    with (
        changed(sandbox.database_url, change) as url,
        pytest.raises(PlayheadError) as caught,
        open_copy_session(url, grant=""),
    ):
        pass
    assert isinstance(caught.value, NoPostgres)


@pytest.mark.parametrize("answers", [0, 1])
def test_a_server_that_is_silent_after_the_login_is_waited_for_only_so_long(
    sandbox: Endpoints, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    said: list[bytes] = []

    def silent(kind: bytes, data: bytes) -> bytes:
        said.append(kind)
        return message(kind, data) if said.count(b"Z") <= answers and answers else b""

    monkeypatch.setattr(bounded_connection, "BEGINS_WITHIN_S", 1.0)
    with changed(sandbox.database_url, silent) as url:  # noqa: SIM117
        with pytest.raises(DatabaseUnavailable) as caught, open_copy_session(url, grant=""):
            pass
    assert "took the login and gave no whole answer within 1 s" in str(caught.value)
