"""Where datagrams arrive: addresses, buffers, what the kernel drops, and cars that send them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from playhead.demo.cars import Cars, Race
from playhead.ingest.udp_address import Address, BadAddress, NotLoopback, need_loopback
from playhead.ingest.udp_socket import CannotListen, Listener

HERE = "udp://127.0.0.1:0"
HAS_IPV6 = os.path.exists("/proc/net/if_inet6")  # noqa: PTH110
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own counters")


@pytest.fixture
def listener() -> Iterator[Listener]:
    opened = Listener(Address.parse(HERE), buffer_bytes=1 << 20)
    yield opened
    opened.close()


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        yield sending


def all_of(listener: Listener, wait_ms: int = 0) -> list[bytes]:
    found: list[bytes] = []
    while some := listener.receive(256, wait_ms)[0]:
        found += some
    return found


# --- addresses


@pytest.mark.parametrize(
    ("text", "shown", "is_loopback"),
    [
        ("udp://127.0.0.1:20777", "udp://127.0.0.1:20777", True),
        ("udp://127.0.0.1:0/", "udp://127.0.0.1:0", True),
        ("udp://127.8.9.1:1", "udp://127.8.9.1:1", True),
        ("udp://localhost:20777", "udp://127.0.0.1:20777", True),
        ("udp://[::1]:20777", "udp://[::1]:20777", True),
        ("udp://0.0.0.0:20777", "udp://0.0.0.0:20777", False),
        ("udp://[::]:20777", "udp://[::]:20777", False),
        ("udp://192.0.2.7:20777", "udp://192.0.2.7:20777", False),
    ],
)
def test_addresses(text: str, shown: str, is_loopback: bool) -> None:
    found = Address.parse(text)
    assert (str(found), found.is_loopback) == (shown, is_loopback)
    if is_loopback:
        need_loopback(found, anywhere=False)
    else:
        with pytest.raises(NotLoopback, match="other machines"):
            need_loopback(found, anywhere=False)
    need_loopback(found, anywhere=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("127.0.0.1:20777", "does not begin with udp://"),
        ("tcp://127.0.0.1:20777", "does not begin with udp://"),
        ("udp://127.0.0.1", "has no port"),
        ("udp://127.0.0.1:65536", "is not in 0 to 65535"),
        ("udp://:20777", "not udp://HOST:PORT"),
        ("udp://::1:20777", "not udp://HOST:PORT"),
        ("udp://me@127.0.0.1:1", "not udp://HOST:PORT"),
        ("udp://127.0.0.1:1?x=1", "has no port"),
        ("udp://no-such-host.invalid:1", "host no-such-host.invalid"),
    ],
)
def test_what_is_no_address(text: str, said: str) -> None:
    with pytest.raises(BadAddress) as refused:
        Address.parse(text)
    assert said in refused.value.message
    assert "written as udp://" in (refused.value.hint or "")
    assert refused.value.exit_code == 2


# --- the listener


def test_a_port_is_chosen_and_said_and_two_cannot_have_it(listener: Listener) -> None:
    assert listener.address.port > 0
    with pytest.raises(CannotListen, match="another process uses the port") as refused:
        Listener(listener.address, buffer_bytes=1)
    assert str(listener.address.port) in refused.value.message
    port = listener.address
    listener.close()
    Listener(port, buffer_bytes=1).close()


def test_an_address_of_another_machine() -> None:
    with pytest.raises(CannotListen, match="does not have the address"):
        Listener(Address.parse("udp://192.0.2.7:0"), buffer_bytes=1)


def test_a_port_that_needs_rights() -> None:
    """Root may take it: a process that is nobody tries."""
    program = (
        "import os\n"
        "from playhead.ingest.udp_address import Address\n"
        "from playhead.ingest.udp_socket import CannotListen, Listener\n"
        "address = Address.parse('udp://127.0.0.1:77')\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: Listener(address, buffer_bytes=1)\n"
        "except CannotListen as exc: print(exc)\n"
    )
    lowest = 1024
    if sys.platform == "linux":
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as told:  # noqa: PTH123
            lowest = int(told.read())
    if lowest <= 77:
        pytest.skip("everybody may take every port here")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "must not use the port" in done.stdout, done.stderr


def test_what_arrives_is_read_at_once_in_order_and_whole(
    listener: Listener, sender: socket.socket
) -> None:
    sent = [b"", b"\x00", b"x" * 65_507, *(b"%d" % number for number in range(500))]
    for datagram in sent:
        sender.sendto(datagram, listener.address.place)
    assert listener.receive(2, 0) == (sent[:2], ())
    assert all_of(listener) == sent[2:]
    began = time.monotonic()
    assert listener.receive(2, 30) == ([], ())
    assert time.monotonic() - began >= 0.02


def test_what_is_longer_than_allowed_can_be_told(sender: socket.socket) -> None:
    with Listener(Address.parse(HERE), buffer_bytes=1 << 20, most_bytes=100) as listener:
        for size in (100, 101, 5_000):
            sender.sendto(b"x" * size, listener.address.place)
        assert [len(each) for each in all_of(listener)] == [100, 101, 101]


def test_who_sent_it(sender: socket.socket) -> None:
    with Listener(Address.parse(HERE), buffer_bytes=1 << 20, with_peers=True) as listener:
        sender.sendto(b"a", listener.address.place)
        assert listener.receive(9, 1000) == (
            [b"a"],
            [f"127.0.0.1:{sender.getsockname()[1]}"],
        )


@pytest.mark.skipif(not HAS_IPV6, reason="this machine has no IPv6")
def test_ipv6() -> None:
    with Listener(
        Address.parse("udp://[::1]:0"), buffer_bytes=1 << 20, with_peers=True
    ) as listener:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sending:
            sending.sendto(b"six", listener.address.place)
            assert listener.receive(9, 1000) == ([b"six"], [f"[::1]:{sending.getsockname()[1]}"])
            listener.shut()
            sending.sendto(b"late", listener.address.place)
        assert all_of(listener) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
def test_shut_takes_nothing_more_and_loses_nothing_that_has_arrived(
    host: str, sender: socket.socket
) -> None:
    with Listener(Address.parse(f"udp://{host}:0"), buffer_bytes=1 << 20) as listener:
        place = ("127.0.0.1", listener.address.port)
        for number in range(300):
            sender.sendto(b"%d" % number, place)
        listener.shut()
        for _ in range(300):
            sender.sendto(b"late", place)
        assert all_of(listener) == [b"%d" % number for number in range(300)]


@on_linux
def test_what_the_kernel_drops_is_counted_exactly(sender: socket.socket) -> None:
    with Listener(Address.parse(HERE), buffer_bytes=20_000) as listener:
        assert listener.kernel_drops() == 0
        for number in range(2_000):
            sender.sendto(b"%0130d" % number, listener.address.place)
        received = len(all_of(listener))
        assert 0 < received < 2_000
        assert listener.kernel_drops() == 2_000 - received
        for _ in range(500):
            sender.sendto(b"x" * 130, listener.address.place)
        received += len(all_of(listener))
        assert listener.kernel_drops() == 2_500 - received


@on_linux
def test_the_kernels_counter_begins_again_after_four_thousand_million(listener: Listener) -> None:
    listener._drops = listener._drops_seen = (1 << 32) - 5
    assert listener.kernel_drops() == 1 << 32


@on_linux
def test_the_buffer_is_as_large_as_the_kernel_says(listener: Listener) -> None:
    told = listener._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert listener.buffer_bytes == told // 2
    with Listener(Address.parse(HERE), buffer_bytes=1 << 40) as huge:
        assert 0 < huge.buffer_bytes < 1 << 40


# --- cars


def test_cars_send_what_the_race_says_and_say_how_many(listener: Listener) -> None:
    with Cars(listener.address.port, count=3, rate_per_second=2_000, seed=7) as cars:
        found = listener.receive(256, 2_000)[0]
        while len(found) < 200:
            found += listener.receive(256, 2_000)[0]
    sent = cars.stop()
    found += all_of(listener)
    assert found == [cars.race.datagram(number) for number in range(cars.total)]
    assert sent == cars.sent
    assert sum(sent.values()) == cars.total == len(found)
    assert max(sent.values()) - min(sent.values()) <= 1


def test_a_race_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    def run(seed: int) -> list[bytes]:
        race = Race(20, 1_200, seed, 1_628_080_200_000)
        return [race.datagram(number) for number in range(2_000)]

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert all(100 <= len(each) <= 160 for each in run(1))


def test_cars_end_with_whoever_started_them(listener: Listener) -> None:
    program = (
        "import os\n"
        "from playhead.demo.cars import Cars\n"
        f"cars = Cars({listener.address.port}, rate_per_second=100)\n"
        "cars.start()\n"
        "print(cars._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    pid, deadline = int(died.stdout), time.monotonic() + 20
    while time.monotonic() < deadline and not is_gone(pid):
        time.sleep(0.02)
    assert is_gone(pid)


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as told:  # noqa: PTH123
            return told.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
