"""Another user's server on the sandbox's port does not get the sandbox's password."""

import socket
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from playhead.errors import DatabaseUnavailable
from playhead.postgres.session import open_copy_session, open_session
from playhead.sandbox import Sandbox
from playhead.sandbox.database import _lets_in
from playhead.sandbox.folder import LOOPBACK, SandboxState

_ASKS_FOR_THE_PASSWORD = b"R\0\0\0\x08\0\0\0\x03"
_NO_TLS_CODES = (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30")


def overheard(server: socket.socket) -> bytes:
    """What a client sends to a server that asks for the password itself."""
    client, _ = server.accept()
    with client:
        client.settimeout(10)
        while client.recv(int.from_bytes(client.recv(4)) - 4)[:4] in _NO_TLS_CODES:
            client.sendall(b"N")
        client.sendall(_ASKS_FOR_THE_PASSWORD)
        return client.recv(1_000)


def test_the_password_is_not_sent_to_a_server_that_asks_for_it() -> None:
    with socket.create_server((LOOPBACK, 0)) as server, ThreadPoolExecutor(1) as pool:
        heard = pool.submit(overheard, server)
        state = SandboxState("cluster", "SECRET", 0, 0, server.getsockname()[1])
        assert _lets_in(state) is False
        assert heard.result(20) == b""


@pytest.mark.parametrize("connect", [open_session, open_copy_session])
def test_no_command_sends_the_password_to_who_took_the_port_of_a_dead_database(
    tmp_path: Path, connect: Callable[..., object]
) -> None:
    with socket.create_server((LOOPBACK, 0)) as server, ThreadPoolExecutor(1) as pool:
        heard = pool.submit(overheard, server)
        state = SandboxState("cluster", "SECRET", 0, 0, server.getsockname()[1])
        Sandbox(tmp_path)._publish(state)
        context = tomllib.loads((tmp_path / "context.toml").read_text())
        with pytest.raises(DatabaseUnavailable), connect(context["database"], grant=""):  # type: ignore[attr-defined]
            pass
        assert heard.result(20) == b""
