"""Where the proxy listens and which broker it stands before, as `127.0.0.1:19092` and `broker:9092`."""

import ipaddress
import re
import socket
from typing import NamedTuple

from playhead.errors import Refused, UsageError

_FORM = re.compile(r"(\[[^\[\]]+\]|[^:/\[\]@?#\s]+):([0-9]{1,5})")
_HIGHEST_PORT = 65_535
_ANSWERS_WITHIN_S = 2.0


class BadPlace(UsageError):
    """An address that cannot be understood."""

    def __init__(self, flag: str, text: str, *, reason: str) -> None:
        self.flag, self.text, self.reason = flag, text, reason
        super().__init__(f"{flag} {text!r}: {reason}", hint="written HOST:PORT, as 127.0.0.1:19092")


class OpenToOthers(Refused):
    """Whoever reaches the proxy reaches the brokers behind it."""

    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(
            f"{place} can be reached from other machines, and whoever reaches it reaches the brokers",
            hint="--listen-anywhere --allow NETWORK takes clients that come from there",
        )


def unanswered(place: "HostPort") -> str | None:
    """Why nothing listens there now; None when something does."""
    try:
        socket.create_connection((place.host.strip("[]"), place.port), _ANSWERS_WITHIN_S).close()
    except OSError as exc:
        return exc.strerror or str(exc)
    return None


class HostPort(NamedTuple):
    """A name or an address, and a port; port 0 is one that the kernel chooses."""

    host: str
    port: int

    def __str__(self) -> str:
        return shown_place(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can come there."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_every_address(self) -> bool:
        """Whether it stands for all addresses of this machine, and so for none that can be told."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False


def parse_place(flag: str, text: str, *, least_port: int = 1) -> HostPort:
    """The two parts of an address."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise BadPlace(flag, text, reason="it is not HOST:PORT")
    port = int(found[2])
    if not least_port <= port <= _HIGHEST_PORT:
        raise BadPlace(flag, text, reason=f"port {port}, and there are 1 to {_HIGHEST_PORT}")
    return HostPort(found[1].strip("[]"), port)


def shown_place(host: str, port: int) -> str:
    """`host:port`, brackets around what has colons itself."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
