"""Parses the addresses of --listen and --upstream, such as `127.0.0.1:19092` and `broker:9092`."""

import ipaddress
import re
import socket
from contextlib import suppress
from typing import NamedTuple

from playhead import secrets
from playhead.errors import Refused, UsageError

_FORM = re.compile(r"(\[[^\[\]]+\]|[^:/\[\]@?#\s]+):([0-9]{1,5})")
# A name as DNS and the files of hosts have it.
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_.])?")
_FORM_OF_A_PLACE = "write HOST:PORT, such as 127.0.0.1:19092"
_HIGHEST_PORT = 65_535
_ANSWERS_WITHIN_S = 2.0


class BadPlace(UsageError):
    """An address that cannot be parsed."""

    def __init__(self, flag: str, text: str, *, reason: str, hint: str = _FORM_OF_A_PLACE) -> None:
        # A password does not belong there, but may have been pasted with the address.
        secrets.remember_logins(text)
        text = secrets.redact(text)
        self.flag, self.text, self.reason = flag, text, reason
        super().__init__(f"{flag} {text!r}: {reason}", hint=hint)


class OpenToOthers(Refused):
    """The proxy would listen at an address that other machines can reach."""

    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(
            f"other machines can reach {place}, and through it the brokers",
            hint="add --listen-anywhere --allow NETWORK to accept clients of that network",
        )


def unanswered(place: "HostPort") -> str | None:
    """Return why a connection to the address fails; None if it succeeds."""
    try:
        socket.create_connection((place.host.strip("[]"), place.port), _ANSWERS_WITHIN_S).close()
    except OSError as exc:
        return exc.strerror or str(exc)
    return None


class HostPort(NamedTuple):
    """A host name or address, and a port; for port 0 the kernel chooses one."""

    host: str
    port: int

    def __str__(self) -> str:
        return shown_place(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_every_address(self) -> bool:
        """Whether it means all addresses of this machine, such as 0.0.0.0, so that clients cannot connect to it."""
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_unspecified
        with suppress(OSError, ValueError):  # The system reads 0 and 0x0 as addresses, too.
            return not any(socket.inet_aton(self.host))
        return False


def parse_place(flag: str, text: str, *, least_port: int = 1) -> HostPort:
    """Parse `HOST:PORT`; `flag` is the option that errors name."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise BadPlace(flag, text, reason="expected HOST:PORT")
    port = int(found[2])
    if not least_port <= port <= _HIGHEST_PORT:
        raise BadPlace(flag, text, reason=f"port {port} is not in {least_port} to {_HIGHEST_PORT}")
    return HostPort(found[1].strip("[]"), port)


def parse_host(flag: str, text: str) -> str:
    """Parse the name or address of a host, without a port, that clients are to connect to."""
    hint = "write a host name or an address, such as kafka.example or 192.0.2.7"
    plain = text.removeprefix("[").removesuffix("]")
    if HostPort(plain, 0).is_every_address:
        raise BadPlace(flag, text, reason="clients cannot connect to every address", hint=hint)
    # Python takes any text for the interface behind a `%`, and clients have other interfaces.
    if "%" not in plain:
        with suppress(ValueError):
            return str(ipaddress.ip_address(plain))
    if _HOST_NAME.fullmatch(text) is None:
        raise BadPlace(flag, text, reason="expected HOST, without a port", hint=hint)
    return text


def shown_place(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
