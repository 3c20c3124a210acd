"""Connects to a PostgreSQL server; errors name the server and never contain its password."""

import os
import re
import socket
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from threading import Timer
from typing import Any

import psycopg
from psycopg import conninfo

from playhead import secrets
from playhead.config import exposed_logins
from playhead.errors import BadValue, DatabaseUnavailable, Refused, UsageError
from playhead.host import named_files, paths
from playhead.postgres.answers import AnswerMisformed, reading
from playhead.postgres.bounded_connection import BoundedConnection
from playhead.postgres.connecting import opened
from playhead.postgres.service_file import service_name, service_of, settings_of

APPLICATION = "playhead"
# The two forms of libpq; it would take any other text for pairs, and complain of a missing "=".
_ADDRESS = re.compile(r"postgres(?:ql)?://|\s*\w+\s*=")
_CONNECTING = re.compile(
    r"(?:IO: )?(?:\[libpq\] )?(?:Failed to connect: |connection failed: )?"
    r'(?:connection to server at "(?P<host>[^"]*)"[^"]*? failed: )?'
)
_QUOTED = re.compile('".*"', re.DOTALL)
_TORN = (
    "the login in the address of PostgreSQL contains a character that ends it: libpq would "
    "take the rest of the password for a host"
)
_CONNECT_WITHIN_S = 10
_ANSWERS_WITHIN_S = 10.0
_LONGEST_REASON = 200
# The host and the password of a line in a file of passwords; a backslash keeps their colons.
_LINE = re.compile(r"(?P<host>(?:\\.|[^:\\#])+)(?::(?:\\.|[^:\\])*+){3}:(?P<password>.+)")
_KEPT = re.compile(r"\\(.)")
_PATHS = {
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "sslcrldir": "PGSSLCRLDIR",
    "sslkeylogfile": "",
    "passfile": "PGPASSFILE",
    "servicefile": "PGSERVICEFILE",
    "the folder of services": "PGSYSCONFDIR",
}
"""The options that name files to libpq, in an address and in the environment."""


@dataclass(frozen=True, slots=True)
class Server:
    """The server that answered."""

    version: str
    database: str
    user: str
    clock_ahead_ms: float
    """How far the server's clock is ahead of ours."""


def checked(url: str) -> dict[str, Any]:
    """Return the options of an address; warn of an unprotected password, refuse one that libpq splits."""
    if not _ADDRESS.match(url):
        raise BadValue(
            "the address of PostgreSQL",
            found=secrets.shown_address(url, may_be_pairs=True),
            needed="postgresql://USER@HOST:PORT/DATABASE, or pairs such as host=db dbname=app",
            hint="check DATABASE_URL, --database or the context's `database`; playhead config show "
            "--origin says which of them counts",
        )
    if secrets.is_torn(url):
        raise UsageError(
            _TORN,
            hint="in a postgresql:// address write %40 for @, %2F for /, %3A for :; "
            "between key=value pairs put the value between single quotes",
        )
    try:
        given: dict[str, Any] = conninfo.conninfo_to_dict(url)
    except psycopg.Error as exc:
        # libpq quotes parts of the address, including the login, and some are too short to be
        # redacted.
        reason = _QUOTED.sub(f'"{secrets.HIDDEN}"', str(exc).strip())
        raise DatabaseUnavailable(_unread(url), reason=reason) from None
    except UnicodeDecodeError:
        raise DatabaseUnavailable(
            _unread(url), reason="a %-escape in it is no UTF-8: write %C3%BC for ü, and not %FC"
        ) from None

    def said(key: str, variable: str) -> str:
        return str(given.get(key) or os.environ.get(variable) or "")

    for key, variable in _PATHS.items():
        _need_whole_path(key, variable, said(key, variable))
    _refuse_another_server(given)
    _refuse_servers_of_others(given)
    _heed_password(given)
    return given


def _unread(url: str) -> str:
    """Return what can be shown of an address that libpq does not read: no login ends where it seems to."""
    scheme, mark, rest = url.partition("://")
    if not mark or "=" in scheme:
        return secrets.HIDDEN
    if "@" in rest:
        return f"{scheme}://{secrets.HIDDEN}"
    return secrets.without_password(url).partition("?")[0]


def _heed_password(given: Mapping[str, Any]) -> None:
    """Hide a password, from whatever place libpq takes it, and warn if it may travel unencrypted."""
    said = settings_of(given)
    hosts = said("host", "PGHOST").split(",")
    file = said("passfile", "PGPASSFILE") or "~/.pgpass"
    addresses = said("hostaddr", "PGHOSTADDR").split(",")
    # Without a host, libpq looks for the address in the file, and a socket's is localhost there.
    is_socket = not any(addresses) and any(host == "" or host.startswith("/") for host in hosts)
    named = {"*", *hosts, *addresses, "localhost" if is_socket else "*"}
    passwords = [said("password", "PGPASSWORD"), *_passwords_for(named, file)]
    for password in passwords:
        secrets.remember(password)  # Servers and poolers quote it.
    if any(passwords):
        # libpq pairs the two lists, and an empty entry of the one means that of the other.
        reached = [address or host for address, host in zip_longest(addresses, hosts, fillvalue="")]
        exposed_logins.of_postgres(reached, said("sslmode", "PGSSLMODE") or "prefer")


def _passwords_for(hosts: Container[str], file: str) -> list[str]:
    """Return the passwords that a file of passwords has for one of the hosts."""
    with suppress(OSError, ValueError, UsageError):
        lines = named_files.text_of(paths.at_home(file)).splitlines()
        matches = [match for line in lines if (match := _LINE.match(line))]
        return [
            _KEPT.sub(r"\1", match["password"])
            for match in matches
            if _KEPT.sub(r"\1", match["host"]) in hosts
        ]
    return []


def _need_whole_path(key: str, variable: str, path: str) -> None:
    """Refuse a relative path, which would be looked up in the folder of each command, such as a clone."""
    if path and not Path(path).is_absolute() and (key, path) != ("sslrootcert", "system"):
        where = " or ".join(filter(None, ("the address of PostgreSQL", variable)))
        needed = "write a whole path: a relative one depends on the folder of each command"
        raise BadValue(key, found=path, needed=needed, where=where)


def _refuse_another_server(given: Mapping[str, Any]) -> None:
    """Refuse a server and a login from different places, which libpq would combine."""
    address = os.environ.get("PGHOSTADDR")
    if address and given.get("host") and not given.get("hostaddr"):
        raise Refused(
            f"the address of PostgreSQL names {given['host']}, but libpq would connect to {address} of PGHOSTADDR",
            hint="unset PGHOSTADDR, or write hostaddr into the address",
        )
    service = given.get("service") or os.environ.get("PGSERVICE")
    named = ", ".join(f"{key} {given[key]}" for key in ("host", "hostaddr", "port") if key in given)
    if service and named and not given.get("password"):
        is_given = "service" in given
        if is_given or _has_login_of_service():
            raise Refused(
                f"the address of PostgreSQL names {named}, and libpq would take the password of the service "
                f"{service} there",
                hint=f"leave out {'the service' if is_given else 'PGSERVICE'}, or the host "
                "and the port, which the service has too",
            )


def _refuse_servers_of_others(given: Mapping[str, Any]) -> None:
    """Refuse a login of the address, or of a service, for a server that only the environment names."""
    name, of_service = service_name(given), service_of(given)
    if of_service is None:
        _refuse_beside_unread_service(given, name)
        of_service = {}
    for key, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR")):
        found = os.environ.get(variable)
        # psycopg prefers the environment to the service, and libpq a hostaddr to any host.
        leads_away = found and not given.get(key) and found != of_service.get(key)
        if leads_away and (of_service.get("host") or of_service.get("hostaddr")):
            raise _elsewhere(f"the service {name} names a server", key, str(found), variable)
    if not given.get("password"):
        return
    named = {**of_service, **given} if "service" in given else given
    others = {} if "service" in given else of_service
    has_host = named.get("host") or named.get("hostaddr")
    for key, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR"), ("port", "PGPORT")):
        found = others.get(key) or os.environ.get(variable)
        if found and not named.get(key) and not (key == "host" and has_host):
            where = "PGSERVICE" if others.get(key) else variable
            raise _elsewhere("the address of PostgreSQL has a password", key, found, where)


def _refuse_beside_unread_service(given: Mapping[str, Any], name: str) -> None:
    """Refuse servers of the environment where it is not known which one the service names."""
    for key, variable in (("host", "PGHOST"), ("hostaddr", "PGHOSTADDR"), ("port", "PGPORT")):
        found = os.environ.get(variable)
        if found and not given.get(key):
            raise _elsewhere(f"the service {name} cannot be read", key, found, variable)


def _elsewhere(said: str, key: str, found: str, variable: str) -> Refused:
    return Refused(
        f"{said}, but libpq would connect to {key} {found} of {variable}",
        hint=f"unset {variable}, or write the {key} into the address",
    )


def _has_login_of_service() -> bool:
    """Return whether the service of PGSERVICE has a password, which overrides PGPASSWORD."""
    service_of({})  # Refuses a file that libpq would wait for.
    defaults = {each.keyword: each.val for each in psycopg.pq.Conninfo.get_defaults()}
    password = defaults.get(b"password")
    return password is not None and os.fsdecode(password) != os.environ.get("PGPASSWORD")


def why_not_connected(exc: Exception, where: str) -> str:
    """Return the reason, without what the error beside it says already."""
    # The other lines ask questions, or name other addresses.
    first = next(iter(str(exc).strip().splitlines()), "")
    found = _CONNECTING.match(first)
    if found is not None and (found["host"] or "") in where:
        first = first[found.end() :]
    return secrets.redact(first)


@contextmanager
def connect(url: str) -> "Iterator[psycopg.Connection[Any]]":
    """Yield a connection that commits when the block ends, and rolls back when it fails."""
    try:
        checked(url)
        address = conninfo.make_conninfo(
            url, connect_timeout=_CONNECT_WITHIN_S, application_name=APPLICATION
        )
        connection = opened(address, lambda: BoundedConnection.connect(address))
    except psycopg.Error as exc:
        where = secrets.without_password(url)  # First, so that the reason is redacted with it.
        raise DatabaseUnavailable(where, reason=why_not_connected(exc, where)) from exc
    with connection:
        yield connection


def ask(url: str) -> Server:
    """Return what the server reports about itself."""
    try:
        with (
            connect(url) as connection,
            _closed_after(_ANSWERS_WITHIN_S, connection),
            reading(psycopg.Error),
        ):
            return _asked(connection)
    except (psycopg.Error, AnswerMisformed) as exc:
        where = secrets.without_password(url)
        reason = f"it does not answer as PostgreSQL does: {_first_line(exc)}"
        raise DatabaseUnavailable(where, reason=reason) from exc


def _asked(connection: "psycopg.Connection[Any]") -> Server:
    answer = connection.execute(
        "SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_database(), current_user"
    ).fetchone()
    # The first statement paid for the session's start; this round trip is short.
    before = time.time()
    clock = connection.execute("SELECT extract(epoch FROM pg_catalog.clock_timestamp())").fetchone()
    between = (before + time.time()) / 2
    if answer is None or clock is None:  # A SELECT without FROM always returns one row.
        raise AnswerMisformed("it returned nothing")
    version, database, user = map(str, answer)
    [now_s] = map(float, clock)
    return Server(version, database, user, (now_s - between) * 1000)


@contextmanager
def _closed_after(seconds: float, connection: "psycopg.Connection[Any]") -> Iterator[None]:
    """End the connection, and with it what waits for the server, if the block takes longer."""
    link = socket.socket(fileno=os.dup(connection.fileno()))

    def end() -> None:
        with suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        link.close()


def _first_line(exc: Exception) -> str:
    first = next(iter(str(exc).strip().splitlines()), type(exc).__name__)
    return secrets.redacted_start(first, _LONGEST_REASON)
