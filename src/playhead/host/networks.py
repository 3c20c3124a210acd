"""Which addresses may connect or send datagrams: the allowed networks, and this machine itself."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from playhead.errors import BadValue, UsageError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MOST_PUBLIC: Final = {4: 1 << 24, 6: 1 << 112}
"""How many public addresses of a kind can be allowed: an organisation's largest network, 17.0.0.0/8 or 2600::/16."""

_MAPPED_BITS: Final = 96
"""How many bits of an IPv6 address are before the IPv4 address in it."""
_OF_IPV4: Final = (
    (ipaddress.IPv6Network("64:ff9b::/96"), 96),  # translated at the edge of a network (NAT64)
    (ipaddress.IPv6Network("64:ff9b:1::/48"), 96),  # the same, by prefixes of the network itself
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 96),  # the same, without a state (SIIT)
    (ipaddress.IPv6Network("2002::/16"), 16),  # through a tunnel (6to4)
    (ipaddress.IPv6Network("2001::/32"), 96),  # through another (Teredo)
)
"""IPv6 networks whose addresses stand for IPv4 addresses, and how many bits are before these."""


@dataclass(frozen=True, slots=True)
class Networks:
    """The allowed networks; this machine's loopback addresses are always allowed."""

    allowed: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Networks":
        """Parse texts such as `10.1.0.0/16`, `192.0.2.7`, `2001:db8::/32`."""
        found = []
        for text in texts:
            try:
                if "%" in text:
                    raise ValueError("zones are not compared: leave out what is behind %")
                found.append(_as_seen(ipaddress.ip_network(text.strip("[]"))))
            except ValueError as exc:
                needed = f"an address, or a network such as 10.1.0.0/16 ({exc})"
                raise BadValue("--allow", found=text, needed=needed, where="the options") from exc
        return cls(tuple(found))

    def admit(self, host: str) -> bool:
        """Return whether this address is allowed."""
        return _admitted(self.allowed, host)

    @property
    def is_everybody(self) -> bool:
        """Return whether strangers are allowed: more public addresses of a kind than an organisation has."""
        return any(self._public(version) > most for version, most in _MOST_PUBLIC.items())

    def _public(self, version: int) -> int:
        meant = map(_as_meant, self.allowed)
        named: list[Any] = [each for each in meant if each.version == version]
        merged = ipaddress.collapse_addresses(named)
        return sum(each.num_addresses for each in merged if each.is_global)

    def __str__(self) -> str:
        return ", ".join(map(str, self.allowed)) or "this machine alone"


def _as_seen(network: Network) -> Network:
    """Return the IPv4 network that is written as `::ffff:10.0.0.0/104`; clients are compared as IPv4."""
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < _MAPPED_BITS:
        return network
    return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


def _as_meant(network: Network) -> Network:
    """Return the IPv4 network whose hosts come with these IPv6 addresses."""
    if isinstance(network, ipaddress.IPv6Network):
        for way, before in _OF_IPV4:
            if way.subnet_of(network):
                return ipaddress.IPv4Network("0.0.0.0/0")
            if network.subnet_of(way):
                part = int(network.network_address) >> (96 - before) & 0xFFFFFFFF
                length = min(max(network.prefixlen - before, 0), 32)
                return ipaddress.IPv4Network((part if length else 0, length))
    return network


@lru_cache(maxsize=4_096)
def _admitted(allowed: tuple[Network, ...], host: str) -> bool:
    address = ipaddress.ip_address(host.partition("%")[0])
    # A socket for both kinds shows an IPv4 address in this form.
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    return address.is_loopback or any(address in network for network in allowed)


def need_allowed(networks: Networks, *, anywhere: bool) -> None:
    """Refuse to listen to everyone, and refuse networks from which no client can come."""
    if anywhere and not networks.allowed:
        raise UsageError(
            "--listen-anywhere would accept data from everyone who can reach the port",
            hint="name the clients' networks with --allow, as in --allow 10.1.0.0/16; repeatable",
        )
    if networks.allowed and not anywhere:
        raise UsageError(
            f"--allow {networks.allowed[0]} has no effect: without --listen-anywhere, only "
            "this machine can connect",
            hint="add --listen-anywhere and an address that others can reach, or leave --allow out",
        )
    if networks.is_everybody:
        raise UsageError(
            f"--allow {networks} would accept strangers: it contains a large part of all public addresses",
            hint="name only the clients' networks, as in --allow 10.1.0.0/16; repeatable",
        )
