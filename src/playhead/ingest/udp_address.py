"""Where datagrams are awaited, `udp://127.0.0.1:20777`, and whether somebody outside could send there."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Any, cast

from playhead.errors import Refused, UsageError

EXAMPLES = "udp://127.0.0.1:20777, udp://[::1]:20777, or port 0 for one that is free"
_FORM = re.compile(r"udp://(\[[^\[\]]+\]|[^:/\[\]@?#]+):([0-9]{1,5})/?")
_HIGHEST_PORT = 65_535


class BadAddress(UsageError):
    """An address that cannot be understood, or that no name leads to."""

    def __init__(self, text: str, *, reason: str) -> None:
        self.text, self.reason = text, reason
        super().__init__(f"address {text!r}: {reason}", hint=f"written as {EXAMPLES}")


class NotLoopback(Refused):
    """Datagrams carry no password, so whoever reaches the port writes into the topic."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"{address} can be reached from other machines, and whoever reaches it writes to the topic",
            hint="--listen-anywhere --allow NETWORK takes what comes from there; a sender's address can be forged, "
            "so that a firewall should let only the senders through as well",
        )


@dataclass(frozen=True, slots=True)
class Address:
    """A host, as an address and not as a name, and a port; 0 is one that the kernel chooses."""

    host: str
    port: int
    family: socket.AddressFamily = socket.AF_INET
    scope: int = 0
    """Which interface an address means that is the same on each of them."""

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Understand the text, and look the host's address up."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise BadAddress(text, reason=_what_is_wrong(text))
        host, port = found[1].strip("[]"), int(found[2])
        if port > _HIGHEST_PORT:
            raise BadAddress(text, reason=f"port {port}, and there are 0 to {_HIGHEST_PORT}")
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "it is no name"
            raise BadAddress(text, reason=f"host {host}: {reason}") from exc
        # `localhost` has two, and most senders try the older one first.
        first = min(known, key=lambda each: each[0] != socket.AF_INET)
        family, place = first[0], cast("tuple[Any, ...]", first[4])
        scope = int(place[3]) if family == socket.AF_INET6 else 0
        return cls(str(place[0]).partition("%")[0], port, family, scope)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can send there."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def place(self) -> Any:
        """As the socket's calls want it."""
        plain = (self.host, self.port)
        return (*plain, 0, self.scope) if self.family == socket.AF_INET6 else plain

    def __str__(self) -> str:
        return f"udp://{shown_place(self.place)}"


def need_loopback(address: Address, *, anywhere: bool) -> None:
    """Refuse an address that others can reach, unless that is wanted."""
    if not anywhere and not address.is_loopback:
        raise NotLoopback(str(address))


def shown_place(place: Any) -> str:
    """`host:port` of what the socket's calls give."""
    host = str(place[0])
    return f"[{host}]:{place[1]}" if ":" in host else f"{host}:{place[1]}"


def _what_is_wrong(text: str) -> str:
    system, separator, rest = text.partition("://")
    if not separator or system != "udp":
        return "it does not begin with udp://"
    if not re.search(r":[0-9]+/?$", rest):
        return "it names no port"
    return "it is not udp://HOST:PORT"
