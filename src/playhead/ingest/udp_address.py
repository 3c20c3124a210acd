"""The address for datagrams, such as `udp://127.0.0.1:20777`, and whether others can send to it."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Any, cast

from playhead import secrets
from playhead.errors import Refused, UsageError

EXAMPLES = "udp://127.0.0.1:20777, udp://[::1]:20777, or port 0 for one that is free"
_FORM = re.compile(r"udp://(\[[^\[\]]+\]|[^:/\[\]@?#]+):([0-9]{1,5})/?")
_HIGHEST_PORT = 65_535


class BadAddress(UsageError):
    """An address that is invalid, or whose host name is unknown."""

    def __init__(self, text: str, *, reason: str) -> None:
        # A password does not belong there, but may have been pasted with the address.
        secrets.remember_logins(text)
        text = secrets.redact(text)
        self.text, self.reason = text, reason
        super().__init__(f"address {text!r}: {reason}", hint=f"written as {EXAMPLES}")


class NotLoopback(Refused):
    """Refuse an address that other machines can reach, because datagrams carry no password."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"other machines can reach {address} and would write to the topic",
            hint="allow known networks with --listen-anywhere --allow NETWORK; sender "
            "addresses can be forged, so restrict the senders in a firewall too",
        )


@dataclass(frozen=True, slots=True)
class Address:
    """A host, as an address and not a name, and a port; the kernel chooses the port for 0."""

    host: str
    port: int
    family: socket.AddressFamily = socket.AF_INET
    scope: int = 0
    """The interface of a link-local address."""

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse the text, and resolve the host's name."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise BadAddress(text, reason=_what_is_wrong(text))
        host, port = found[1].strip("[]"), int(found[2])
        if port > _HIGHEST_PORT:
            raise BadAddress(text, reason=f"port {port} is not in 0 to {_HIGHEST_PORT}")
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else "it is not a host name"
            raise BadAddress(text, reason=f"host {host}: {reason}") from exc
        # `localhost` has two addresses, and most senders try the IPv4 one first.
        first = min(known, key=lambda each: each[0] != socket.AF_INET)
        family, place = first[0], cast("tuple[Any, ...]", first[4])
        scope = int(place[3]) if family == socket.AF_INET6 else 0
        return cls(str(place[0]).partition("%")[0], port, family, scope)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can send to it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def place(self) -> Any:
        """The address in the form of the socket's calls."""
        plain = (self.host, self.port)
        return (*plain, 0, self.scope) if self.family == socket.AF_INET6 else plain

    def __str__(self) -> str:
        return f"udp://{shown_place(self.place)}"


def need_loopback(address: Address, *, anywhere: bool) -> None:
    """Refuse an address that others can reach, unless `anywhere`."""
    if not anywhere and not address.is_loopback:
        raise NotLoopback(str(address))


def shown_place(place: Any) -> str:
    """Format the socket's address as `host:port`."""
    host = str(place[0])
    return f"[{host}]:{place[1]}" if ":" in host else f"{host}:{place[1]}"


def _what_is_wrong(text: str) -> str:
    system, separator, rest = text.partition("://")
    if not separator or system != "udp":
        return "it does not begin with udp://"
    if not re.search(r":[0-9]+/?$", rest):
        return "it has no port"
    return "it is not udp://HOST:PORT"
