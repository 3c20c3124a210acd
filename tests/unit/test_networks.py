"""Who may come when not only this machine can: nobody that was not named."""

import socket
import struct

import pytest

from playhead.capture.address import HostPort
from playhead.capture.proxy import Proxy, Setting
from playhead.capture.recorder import RecorderConfig
from playhead.errors import BadValue, UsageError
from playhead.host.clock import SystemClock, wait_until
from playhead.host.networks import Networks, need_allowed
from playhead.ingest.udp_address import Address
from playhead.ingest.udp_socket import Listener
from tests.scripted_broker import Client, ScriptedBroker

OTHERS = Networks.parse(["192.0.2.0/24"])
# One that no machine has: it stands in the documentation of protocols.
ANOTHER = Networks.parse(["203.0.113.9"])


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("192.0.2.7", True),
        ("::ffff:192.0.2.7", True),
        ("192.0.3.7", False),
        ("::ffff:192.0.3.7", False),
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("2001:db8::1", False),
        ("fe80::1%eth0", False),
        ("10.0.0.1", False),
    ],
)
def test_who_was_named_and_this_machine_may_come(host, admitted):
    assert OTHERS.admit(host) == admitted


def test_both_kinds_of_addresses_can_be_named():
    networks = Networks.parse(["2001:db8::/32", "10.1.2.3", "[::5]"])
    assert networks.admit("2001:db8:1::1")
    assert networks.admit("10.1.2.3")
    assert networks.admit("::5")
    assert not networks.admit("10.1.2.4")


def test_an_ipv4_network_in_the_form_of_ipv6_is_that_network():
    networks = Networks.parse(["::ffff:10.0.0.0/104"])
    assert networks.admit("10.1.2.3")
    assert networks.admit("::ffff:10.1.2.3")
    assert not networks.admit("11.1.2.3")


@pytest.mark.parametrize(
    "text", ["", "everybody", "10.0.0.1/8", "10.0.0.0/33", "10.0.0", "a.b/8", "fe80::1%lo"]
)
def test_what_is_no_network_is_refused(text):
    with pytest.raises(BadValue, match="--allow"):
        Networks.parse([text])


def test_nobody_is_let_in_by_leaving_the_list_out():
    with pytest.raises(UsageError, match="everyone"):
        need_allowed(Networks(), anywhere=True)
    with pytest.raises(UsageError, match="only this machine can"):
        need_allowed(OTHERS, anywhere=False)
    need_allowed(OTHERS, anywhere=True)
    need_allowed(Networks(), anywhere=False)


@pytest.mark.parametrize(
    "texts",
    [
        ["0.0.0.0/0"],
        ["::/0"],
        ["10.0.0.0/8", "::/0"],
        ["0.0.0.0/1", "128.0.0.0/1"],
        ["0.0.0.0/1", "128.0.0.0/2"],
        # All public addresses but those near the loopback's.
        ["0.0.0.0/2", "64.0.0.0/3", "128.0.0.0/1"],
        ["8.0.0.0/7"],
        ["8.0.0.0/8", "9.0.0.0/9"],
        ["::/1", "8000::/2", "c000::/2", "10.0.0.0/8"],
        ["2000::/3"],
        ["::ffff:0:0/96"],
        ["2001::/16", "2600::/17"],
        # Addresses that stand for IPv4 addresses.
        ["64:ff9b::/96"],
        ["64:ff9b::/95"],
        ["64:ff9b::/32"],
        ["::ffff:0:0:0/96"],
        ["::ffff:0:800:0/103"],
        ["64:ff9b::800:0/103"],
        ["2002::/16"],
        ["2002:800::/23"],
        ["2002:800::/24", "9.0.0.0/8"],
        ["64:ff9b:1::/48"],
        ["64:ff9b:1:7::800:0/103"],
        ["2001::/16"],
        ["2001::/32"],
        ["2001:0:5ef5:79fd::/64"],
    ],
)
def test_strangers_are_not_a_list_of_who_may_come(texts):
    with pytest.raises(UsageError, match="would accept strangers"):
        need_allowed(Networks.parse(texts), anywhere=True)


@pytest.mark.parametrize(
    "texts",
    [
        ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
        ["17.0.0.0/8", "100.64.0.0/10", "2600::/16", "2001:db8::/32"],
        ["64:ff9b::800:0/104", "2002:800::/24", "2002:c000:204:1::/64"],
        ["64:ff9b:1::a00:0/104"],
    ],
)
def test_private_networks_and_one_organisations_are_a_list(texts):
    need_allowed(Networks.parse(texts), anywhere=True)


@pytest.fixture
def own_address() -> str:
    """What another machine knows this one by; who comes from there to there is not on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("SECURITY TEST NOT RUN: it needs an address that is not loopback")
        return str(probe.getsockname()[0])


def test_a_datagram_from_an_address_that_was_not_named_is_left_out(own_address):
    only = Networks.parse([own_address])
    with (
        Listener(Address.parse("udp://0.0.0.0:0"), buffer_bytes=1 << 20, only=ANOTHER) as deaf,
        Listener(Address.parse("udp://0.0.0.0:0"), buffer_bytes=1 << 20, only=only) as hears,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        for listener in (deaf, hears):
            sender.sendto(b"x", (own_address, listener.address.port))
        assert deaf.receive(3, 1_000) == ([], [])
        assert deaf.strangers == 1
        assert hears.receive(3, 5_000) == ([b"x"], [])


@pytest.mark.parametrize("is_named", [False, True])
def test_a_connection_from_an_address_that_was_not_named_is_closed(tmp_path, own_address, is_named):
    broker = ScriptedBroker(lambda *_: struct.pack(">iih", 6, 7, 0))
    proxy = Proxy(
        Setting(
            HostPort("0.0.0.0", 0),  # noqa: S104
            HostPort("127.0.0.1", broker.port),
            RecorderConfig(str(tmp_path)),
            advertise=own_address,
            networks=Networks.parse([own_address]) if is_named else ANOTHER,
        )
    )
    proxy.start()
    client = Client(proxy.doors.port, own_address)
    try:
        answer = client.ask(struct.pack(">ihhihh", 12, 12, 0, 7, -1, 0))
        assert bool(answer) == is_named
        assert bool(broker.heard) == is_named
        refused = f"{own_address} is not in a network of --allow"
        assert (refused in proxy.counts().troubles) != is_named
    finally:
        client.close()
        proxy.stop()
        broker.close()


class _Nobody(Networks):
    """As if this machine were another one: all that a test can send comes from here."""

    def admit(self, host: str) -> bool:
        return False


def test_datagrams_of_strangers_are_counted_and_not_given():
    with (
        Listener(Address.parse("udp://127.0.0.1:0"), buffer_bytes=1 << 20, only=_Nobody()) as deaf,
        Listener(Address.parse("udp://127.0.0.1:0"), buffer_bytes=1 << 20, only=OTHERS) as hears,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        for _ in range(5):
            sender.sendto(b"x", deaf.address.place)
            sender.sendto(b"x", hears.address.place)
        assert deaf.receive(3, 1_000) == ([], [])
        assert deaf.has_more
        assert deaf.receive(3, 0) == ([], [])
        assert (deaf.strangers, deaf.has_more) == (5, False)
        assert hears.receive(9, 1_000) == ([b"x"] * 5, [])
        assert hears.strangers == 0


@pytest.mark.parametrize("may_come", [False, True])
def test_a_stranger_is_shown_out_before_a_broker_hears_of_it(tmp_path, may_come):
    broker = ScriptedBroker(lambda *_: struct.pack(">iih", 6, 7, 0))
    here = HostPort("127.0.0.1", 0)
    proxy = Proxy(
        Setting(
            here,
            HostPort("127.0.0.1", broker.port),
            RecorderConfig(str(tmp_path)),
            networks=OTHERS if may_come else _Nobody(),
        )
    )
    proxy.start()
    client = Client(proxy.doors.port)
    try:
        asked = client.ask(struct.pack(">ihhihh", 12, 12, 0, 7, -1, 0))
        assert bool(asked) == may_come
        assert bool(broker.heard) == may_come
        assert ("127.0.0.1 is not in a network of --allow" in proxy.counts().troubles) != may_come
    finally:
        client.close()
        proxy.stop()
        broker.close()
    clock = SystemClock()
    assert wait_until(proxy.ended.is_set, deadline_s=30, clock=clock, every_s=0.02)
    assert proxy.counts().open_connections == 0
