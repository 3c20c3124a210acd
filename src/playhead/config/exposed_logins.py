"""Warns, once per run, of a login that others on the network can read."""

import ipaddress
import os
import sys
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from playhead import secrets
from playhead.printable import indented

_CONNECT_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105  a variable that PySpark reads
_said: set[str] = set()


def _to_stderr(text: str) -> None:
    sys.stderr.write(indented(f"playhead: {secrets.redact(text)}") + "\n")


teller: Callable[[str], None] = _to_stderr
"""The function that prints a warning; an interface may set its own."""


def warn(text: str) -> None:
    """Print the warning unless this run has printed it."""
    if text not in _said:
        _said.add(text)
        teller(text)


def of_kafka(protocol: str, brokers: str, advertised: Iterable[str] = ()) -> None:
    """Warn of a login to brokers on other machines without encryption.

    A client logs in at the advertised addresses too, which behind a tunnel are others than the configured ones.
    """
    if protocol.upper() != "SASL_PLAINTEXT":
        return
    if not is_elsewhere(map(_host, brokers.split(","))):
        brokers = ",".join(each for each in advertised if is_elsewhere([_host(each)]))
    if brokers:
        warn(
            f"the login to {brokers} travels unencrypted, and so do the records "
            "(security.protocol is SASL_PLAINTEXT; SASL_SSL encrypts)"
        )


def of_http(what: str, url: str) -> None:
    """Warn of a login, or of what else is secret, for a server on another machine over plain HTTP."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme.lower() == "http" and is_elsewhere([host]):
        warn(f"{what} at {host} travels unencrypted (http; https encrypts)")


def of_postgres(hosts: Iterable[str], sslmode: str) -> None:
    """Warn of a password for a database on another machine without required encryption."""
    elsewhere = [host for host in hosts if is_elsewhere([host])]
    if elsewhere and sslmode in ("disable", "allow", "prefer"):
        warn(
            f"the password for PostgreSQL at {', '.join(elsewhere)} may travel unencrypted "
            f"(sslmode is {sslmode}; require encrypts, verify-full also knows the server)"
        )


def of_engine(where: str) -> None:
    """Warn of a job with its passwords on a cluster without authentication."""
    warn(
        f"the Spark cluster {where} has no authentication: everyone who reaches its ports can "
        "read the job, passwords included (set spark.authenticate and "
        "spark.network.crypto.enabled)"
    )


def of_connect(remote: str) -> None:
    """Warn of a job with its passwords for a Spark Connect server without encryption; hide the token for it."""
    secrets.remember(os.environ.get(_CONNECT_TOKEN, ""))
    parts = urlsplit(remote)
    if is_elsewhere([parts.hostname or ""]) and "use_ssl=true" not in parts.path.lower():
        warn(
            f"jobs, passwords included, travel unencrypted to Spark Connect at {parts.hostname} "
            "(;use_ssl=true in its address encrypts)"
        )


def is_elsewhere(hosts: Iterable[str]) -> bool:
    """Return whether one of the hosts is another machine; names count as others, except localhost."""
    return any(not _is_here(host) for host in hosts)


def _is_here(host: str) -> bool:
    if host in ("", "localhost") or host.startswith(("/", "@")):  # A Unix socket, or localhost.
        return True
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def _host(broker: str) -> str:
    return broker.strip().rpartition(":")[0]
