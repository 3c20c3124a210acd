"""The port of an engine that has ended, when a process of another user listens there."""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JNetworkError

from playhead.host import listeners as module
from playhead.host.listeners import clients, listeners
from playhead.spark import process_habits

LOOPBACK, SECRET = "127.0.0.1", "the-secret-of-the-gateway"


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server((LOOPBACK, 0)) as server:
        server.settimeout(10)
        yield server


@pytest.fixture
def port(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    if listeners(port) is None:
        pytest.skip("SECURITY TEST NOT RUN: it needs Linux's /proc")
    process_habits.refuse_strangers(port)
    return port


def heard(server: socket.socket) -> bytes:
    """What the first client sends; nothing if it hangs up, or stays silent."""
    client, _ = server.accept()
    with client:
        client.settimeout(3)
        try:
            found = client.recv(1_000)
        except TimeoutError:
            return b""
        if found:
            client.sendall(b"!x\n")
        return found


def ask(kind: str, port: int) -> None:
    if kind == "pinned":
        java = JavaParameters(port=port, auth_token=SECRET)
        ClientServer(java, PythonParameters(port=0, eager_load=False)).jvm.System.nanoTime()
    else:
        parameters = GatewayParameters(port=port, auth_token=SECRET)
        JavaGateway(gateway_parameters=parameters).jvm.System.nanoTime()


@pytest.mark.parametrize("kind", ["pinned", "plain"])
def test_a_stranger_on_the_engines_port_gets_no_secret_and_is_not_believed(
    server: socket.socket, port: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.geteuid()
    monkeypatch.setattr(process_habits.os, "geteuid", lambda: own + 1)
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(heard, server)
        with pytest.raises((ConnectionRefusedError, Py4JNetworkError)):
            ask(kind, port)
        assert said.result(20) == b""


@pytest.mark.parametrize("kind", ["pinned", "plain"])
def test_a_process_of_ones_own_is_spoken_to(server: socket.socket, port: int, kind: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        said = pool.submit(heard, server)
        with pytest.raises(Exception, match=r"."):  # it is no gateway
            ask(kind, port)
        assert SECRET.encode() in said.result(20)


def test_other_users_get_no_further_than_the_door_of_callbacks(
    server: socket.socket, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand that said nothing took all files of a pipeline, and one endless line its memory."""
    own = os.geteuid()
    monkeypatch.setattr(process_habits.os, "geteuid", lambda: own + 1)
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(process_habits._OwnClients(server).accept)
        for _ in range(20):
            with socket.create_connection((LOOPBACK, port), timeout=10) as stranger:
                assert stranger.recv(1) == b""
        assert not accepted.done()
        monkeypatch.undo()
        with socket.create_connection((LOOPBACK, port), timeout=10) as client:
            found, address = accepted.result(10)
            with found:
                assert address == client.getsockname()


def test_whose_a_client_is() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((LOOPBACK, port)) as client:
            number = client.getsockname()[1]
            assert clients(number, of=port) in (None, {os.geteuid()})
            assert clients(number, of=number) in (None, set())
        assert clients(number, of=port) in (None, set())
        with socket.create_connection((LOOPBACK, port), source_address=("127.0.0.2", 0)) as client:
            assert clients(client.getsockname()[1], of=port) in (None, set())


def test_whose_a_listener_is() -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        assert listeners(port) in (None, {os.geteuid()})
    assert listeners(port) in (None, set())


@pytest.mark.parametrize(
    ("there", "users"),
    [
        ([("0100007F", 1000)], {1000}),
        ([("00000000", 1001)], {1001}),
        ([("0100007F", 1000), ("00000000", 1001)], {1000}),
        ([("0000000000000000FFFF00000100007F", 1000), ("0" * 32, 1001)], {1000}),
        ([("0100007F", 1000), ("0" * 32, 1001)], {1000}),
        ([("0" * 32, 1001)], {1001}),
        ([("0200007F", 1001)], set()),
    ],
)
def test_who_gets_a_client_is_who_listens_at_the_most_exact_address(
    there: list[tuple[str, int]],
    users: set[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Another user at the unspecified address of the same port must not seem to have taken it."""
    tables = tmp_path / "tcp", tmp_path / "tcp6"
    for table, is_long in zip(tables, (False, True), strict=True):
        lines = [
            f"0: {address}:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user} 0 1 1"
            for address, user in there
            if (len(address) > 8) == is_long
        ]
        other = "9: 0100007F:1F90 00000000:0000 01 00000000:00000000 00:00000000 00000000 7 0 1 1"
        table.write_text("\n".join(["sl local_address", other, *lines, ""]), encoding="utf-8")
    monkeypatch.setattr(module, "_TABLES", tables)
    assert listeners(8080) == users
    assert listeners(8081) == set()
