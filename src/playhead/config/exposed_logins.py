"""Warns, once in a run, of a login that travels where others can read it."""

import ipaddress
import sys
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from playhead import secrets
from playhead.printable import indented

_said: set[str] = set()


def _to_stderr(text: str) -> None:
    sys.stderr.write(indented(f"playhead: {secrets.redact(text)}") + "\n")


teller: Callable[[str], None] = _to_stderr
"""What takes a warning; a face may put its own way of speaking here."""


def warn(text: str) -> None:
    """Say it, unless this run has said it."""
    if text not in _said:
        _said.add(text)
        teller(text)


def of_kafka(protocol: str, brokers: str) -> None:
    """A login to brokers elsewhere over a connection that is not encrypted."""
    if protocol.upper() == "SASL_PLAINTEXT" and is_elsewhere(map(_host, brokers.split(","))):
        warn(
            f"the login to {brokers} travels unencrypted, and so do the records "
            "(security.protocol is SASL_PLAINTEXT; SASL_SSL encrypts)"
        )


def of_http(what: str, url: str) -> None:
    """A login to a server elsewhere over plain HTTP."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and parts.username is not None and is_elsewhere([host]):
        warn(f"the login to the {what} at {host} travels unencrypted (http; https encrypts)")


def of_postgres(hosts: Iterable[str], sslmode: str) -> None:
    """A password for a database elsewhere whose connection need not be encrypted."""
    elsewhere = [host for host in hosts if is_elsewhere([host])]
    if elsewhere and sslmode in ("disable", "allow", "prefer"):
        warn(
            f"the password for PostgreSQL at {', '.join(elsewhere)} may travel unencrypted "
            f"(sslmode is {sslmode}; require encrypts, verify-full also knows the server)"
        )


def of_engine(where: str) -> None:
    """A job with its passwords for a cluster that lets everybody in."""
    warn(
        f"the Spark cluster {where} authenticates nobody: whoever reaches its ports can read the job, "
        "passwords included (spark.authenticate and spark.network.crypto.enabled close them)"
    )


def of_connect(remote: str) -> None:
    """A job with its passwords for a Spark Connect server over a connection that is not encrypted."""
    parts = urlsplit(remote)
    if is_elsewhere([parts.hostname or ""]) and "use_ssl=true" not in parts.path.lower():
        warn(
            f"jobs, passwords included, travel unencrypted to Spark Connect at {parts.hostname} "
            "(;use_ssl=true in its address encrypts)"
        )


def is_elsewhere(hosts: Iterable[str]) -> bool:
    """Whether one of them is another machine; a name counts as one, but for localhost."""
    return any(not _is_here(host) for host in hosts)


def _is_here(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):  # a socket's file, or its name
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def _host(broker: str) -> str:
    return broker.strip().rpartition(":")[0]
