"""Whose connections and datagrams are taken: addresses and networks, and this machine itself."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from playhead.errors import BadValue, UsageError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Networks:
    """Those that were allowed; an address of this machine's own loopback always is."""

    allowed: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Networks":
        """Of `10.1.0.0/16`, `192.0.2.7`, `2001:db8::/32`."""
        found = []
        for text in texts:
            try:
                found.append(ipaddress.ip_network(text.strip("[]")))
            except ValueError as exc:
                needed = f"an address, or a network such as 10.1.0.0/16 ({exc})"
                raise BadValue("--allow", found=text, needed=needed, where="the options") from exc
        return cls(tuple(found))

    def admit(self, host: str) -> bool:
        """Whether something from this address is taken."""
        return _admitted(self.allowed, host)

    @property
    def is_everybody(self) -> bool:
        """Whether all addresses of a kind were named, in one network or in several."""
        older = (each for each in self.allowed if isinstance(each, ipaddress.IPv4Network))
        newer = (each for each in self.allowed if isinstance(each, ipaddress.IPv6Network))
        merged: tuple[Network, ...] = (
            *ipaddress.collapse_addresses(older),
            *ipaddress.collapse_addresses(newer),
        )
        return any(network.prefixlen == 0 for network in merged)

    def __str__(self) -> str:
        return ", ".join(map(str, self.allowed)) or "this machine alone"


@lru_cache(maxsize=4_096)
def _admitted(allowed: tuple[Network, ...], host: str) -> bool:
    address = ipaddress.ip_address(host.partition("%")[0])
    # How a socket for both kinds shows an address of the older one.
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    return address.is_loopback or any(address in network for network in allowed)


def need_allowed(networks: Networks, *, anywhere: bool) -> None:
    """Refuse to listen to everybody, and to name networks that nobody can come from."""
    if anywhere and not networks.allowed:
        raise UsageError(
            "--listen-anywhere would take what everybody sends who reaches the port",
            hint="--allow NETWORK says who may, as in --allow 10.1.0.0/16; repeatable",
        )
    if networks.allowed and not anywhere:
        raise UsageError(
            f"--allow {networks.allowed[0]} names who may come from elsewhere, and nobody can",
            hint="--listen-anywhere with an address that others can reach, or leave it out",
        )
    if networks.is_everybody:
        raise UsageError(
            f"--allow {networks} lets everybody in who reaches the port",
            hint="name the networks that the clients are in, as in --allow 10.1.0.0/16; repeatable",
        )
