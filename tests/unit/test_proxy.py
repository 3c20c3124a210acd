"""The link proxy forwards every byte intact until it is told to break the link, then does so."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.host.clock import SystemClock, wait_until
from playhead.testing import LinkProxy

DEADLINE_S = 10.0
CLOCK = SystemClock()


def eventually(probe) -> bool:
    return bool(wait_until(probe, deadline_s=DEADLINE_S, clock=CLOCK, every_s=0.002))


class Server:
    """A listening socket; a test accepts its connections itself, and so is never in doubt."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._listener.settimeout(DEADLINE_S)
        self.port: int = self._listener.getsockname()[1]

    def accept(self) -> socket.socket:
        accepted, _ = self._listener.accept()
        accepted.settimeout(DEADLINE_S)
        return self._stack.enter_context(accepted)


class Setup:
    """A server, a proxy before it, and as many clients as a test wants."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.server = Server(stack)
        self.proxy = stack.enter_context(LinkProxy("127.0.0.1", self.server.port))

    def dial(self) -> socket.socket:
        client = socket.create_connection((self.proxy.host, self.proxy.port), DEADLINE_S)
        return self._stack.enter_context(client)

    def link(self) -> tuple[socket.socket, socket.socket]:
        return self.dial(), self.server.accept()


@pytest.fixture
def setup() -> Iterator[Setup]:
    with ExitStack() as stack:
        yield Setup(stack)


def read(sock: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        piece = sock.recv(length - len(found))
        assert piece, f"the stream ended after {len(found)} bytes, needed {length}"
        found += piece
    return found


def read_to_end(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65_536), b""))


def never_in_a_while(probe) -> bool:
    """Nobody tells that something will not happen: look long enough to catch what would."""
    return wait_until(probe, deadline_s=0.25, clock=CLOCK, every_s=0.01) is None


def waits_for_room(proxy: LinkProxy) -> bool:
    forwarded = proxy.bytes_up
    return proxy.bytes_held > 0 and never_in_a_while(lambda: proxy.bytes_up > forwarded)


def is_reset(sock: socket.socket) -> bool:
    with pytest.raises(ConnectionResetError):
        read_to_end(sock)
    return True


@given(st.lists(st.binary(max_size=3_000), max_size=8), st.lists(st.binary(max_size=3_000)))
def test_streams_pass_intact_both_ways(up, down):
    with ExitStack() as stack:
        setup = Setup(stack)
        client, server = setup.link()
        for sender, pieces in ((client, up), (server, down)):
            for piece in pieces:
                sender.sendall(piece)
            sender.shutdown(socket.SHUT_WR)
        assert read_to_end(server) == b"".join(up)
        assert read_to_end(client) == b"".join(down)
        assert eventually(lambda: setup.proxy.connections == 0)
        assert setup.proxy.bytes_up == len(b"".join(up))
        assert setup.proxy.bytes_down == len(b"".join(down))


def test_a_stream_larger_than_any_buffer_passes_intact(setup):
    sent = bytes(range(256)) * 32_768
    client, server = setup.link()
    sender = Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)))
    sender.start()
    assert read_to_end(server) == sent
    sender.join(DEADLINE_S)


def test_an_end_on_one_side_leaves_the_other_open(setup):
    client, server = setup.link()
    client.shutdown(socket.SHUT_WR)
    assert read_to_end(server) == b""
    server.sendall(b"the answer")
    server.close()
    assert read_to_end(client) == b"the answer"


def test_a_client_that_reads_late_still_gets_all(setup):
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.settimeout(DEADLINE_S)
        client.connect((setup.proxy.host, setup.proxy.port))
        server, sent = setup.server.accept(), b"x" * 100_000
        client.shutdown(socket.SHUT_WR)
        server.sendall(sent)
        server.shutdown(socket.SHUT_WR)
        assert eventually(lambda: setup.proxy.connections == 0)
        assert read_to_end(client) == sent


def test_a_reset_on_one_side_resets_the_other(setup):
    client, server = setup.link()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    server.close()
    assert is_reset(client)


def test_a_server_that_is_down_resets_the_client():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # taken, and not listening
        with LinkProxy("127.0.0.1", unused.getsockname()[1]) as proxy:
            # The reset may come before connect() has returned.
            with (
                pytest.raises(ConnectionResetError),
                socket.create_connection((proxy.host, proxy.port), DEADLINE_S) as client,
            ):
                read_to_end(client)
            assert eventually(lambda: proxy.connections == 0)


def test_connections_are_counted(setup):
    links = [setup.link() for _ in range(3)]
    assert (setup.proxy.connections, setup.proxy.accepted) == (3, 3)
    for end in links[0]:
        end.close()
    assert eventually(lambda: setup.proxy.connections == 2)
    assert setup.proxy.accepted == 3


def test_cut_resets_both_ends_and_refuses_until_restored(setup):
    client, server = setup.link()
    port = setup.proxy.port
    setup.proxy.cut()
    assert setup.proxy.connections == 0
    assert is_reset(client)
    assert is_reset(server)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            setup.dial()
        setup.proxy.cut()  # a second cut changes nothing
    setup.proxy.restore()
    setup.proxy.restore()
    assert setup.proxy.port == port
    client, server = setup.link()
    client.sendall(b"again")
    assert read(server, 5) == b"again"


def test_a_cut_port_is_nobody_elses(setup):
    setup.proxy.cut()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((setup.proxy.host, setup.proxy.port))


def test_a_cut_also_ends_connections_that_were_never_served(setup):
    clients = [setup.dial() for _ in range(20)]
    setup.proxy.cut()
    assert all(map(is_reset, clients))


def test_a_stalled_link_accepts_and_holds_and_forwards_nothing(setup):
    client, server = setup.link()
    setup.proxy.stall()
    client.sendall(b"held")
    client.shutdown(socket.SHUT_WR)
    late, late_server = setup.link()
    late.sendall(b"held too")
    silent, silent_server = setup.link()
    silent.shutdown(socket.SHUT_WR)
    assert eventually(lambda: setup.proxy.bytes_held == len("held" + "held too"))
    servers = [server, late_server, silent_server]
    assert never_in_a_while(lambda: select.select(servers, [], [], 0)[0])
    assert setup.proxy.bytes_up == 0
    setup.proxy.resume()
    assert read_to_end(server) == b"held"
    assert read(late_server, 8) == b"held too"
    assert read_to_end(silent_server) == b""
    assert setup.proxy.bytes_held == 0


def test_a_stall_in_the_middle_of_a_send_stops_it(setup):
    client, server = setup.link()
    sent = b"x" * 16_000_000
    sender = Thread(target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR)))
    sender.start()
    assert eventually(lambda: waits_for_room(setup.proxy))
    setup.proxy.stall()
    forwarded = setup.proxy.bytes_up
    read(server, forwarded)  # makes room
    assert never_in_a_while(lambda: setup.proxy.bytes_up > forwarded)
    assert forwarded < len(sent)
    setup.proxy.resume()
    assert len(read_to_end(server)) == len(sent) - forwarded
    sender.join(DEADLINE_S)


def test_a_stalled_link_can_be_cut(setup):
    client, _ = setup.link()
    setup.proxy.stall()
    client.sendall(b"lost")
    assert eventually(lambda: setup.proxy.bytes_held == 4)
    setup.proxy.cut()
    assert is_reset(client)
    assert setup.proxy.bytes_held == 0


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_delay_holds_one_direction_up(setup, direction):
    ends = setup.link()
    sender, receiver = ends if direction == "up" else ends[::-1]
    setup.proxy.delay(0.05, direction)
    started_ns = CLOCK.monotonic_ns()
    for piece in (b"a", b"b", b"c"):
        sender.sendall(piece)
    assert read(receiver, 3) == b"abc"
    assert CLOCK.monotonic_ns() - started_ns >= 50_000_000
    other = {"up": "down", "down": "up"}[direction]
    setup.proxy.delay(3600, direction)
    setup.proxy.delay(0, other)
    receiver.sendall(b"the other way")
    assert read(sender, 13) == b"the other way"


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("n_bytes", [0, 1, 9])
def test_a_link_drops_after_so_many_bytes_once(setup, direction, n_bytes):
    ends = setup.link()
    sender, receiver = ends if direction == "up" else ends[::-1]
    setup.proxy.drop_after(n_bytes, direction)
    receiver.sendall(b"does not count")
    assert read(sender, 14) == b"does not count"
    sender.sendall(b"ten bytes.")
    assert read(receiver, n_bytes) == b"ten bytes."[:n_bytes]
    assert is_reset(receiver)
    assert is_reset(sender)
    ends = setup.link()
    sender, receiver = ends if direction == "up" else ends[::-1]
    sender.sendall(b"passes whole")
    assert read(receiver, 12) == b"passes whole"


def test_a_drop_counts_over_connections_and_spares_the_last_byte(setup):
    setup.proxy.drop_after(6, "up")
    (one, one_server), (other, other_server) = setup.link(), setup.link()
    one.sendall(b"abc")
    assert read(one_server, 3) == b"abc"
    other.sendall(b"def")
    assert read(other_server, 3) == b"def"
    assert setup.proxy.connections == 2
    one.sendall(b"g")
    assert is_reset(one)
    assert setup.proxy.connections == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda proxy: proxy.delay(-1, "up"), "seconds: found -1, needed 0 or more"),
        (lambda proxy: proxy.drop_after(-1, "up"), "n_bytes: found -1, needed 0 or more"),
        (lambda proxy: proxy.delay(1, "left"), "direction: found 'left', needed 'up' or 'down'"),
    ],
)
def test_a_dial_that_makes_no_sense_is_refused(setup, call, text):
    with pytest.raises(ValueError, match=text):
        call(setup.proxy)


def test_close_ends_everything_and_may_be_called_twice(setup):
    client, server = setup.link()
    setup.proxy.close()
    setup.proxy.close()
    assert is_reset(client)
    assert is_reset(server)
    with pytest.raises(RuntimeError, match="is closed"):
        setup.proxy.cut()
    with closing(socket.socket()) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((setup.proxy.host, setup.proxy.port))
