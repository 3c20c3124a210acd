"""Connects to a PostgreSQL server, in errors that name it and never show its password."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import conninfo

from playhead import secrets
from playhead.config import exposed_logins
from playhead.errors import DatabaseUnavailable, UsageError

APPLICATION = "playhead"
_QUOTED = re.compile('".*"', re.DOTALL)
_TORN = (
    "the address of PostgreSQL has a sign in its login that ends it: libpq would take the rest of "
    "the password for a host"
)
_CONNECT_WITHIN_S = 10


@dataclass(frozen=True, slots=True)
class Server:
    """Who answered."""

    version: str
    database: str
    user: str
    clock_ahead_ms: float
    """How far the server's clock is ahead of ours."""


def checked(url: str) -> dict[str, Any]:
    """What an address says; warns of a password that others can read, refuses one that libpq cuts."""
    if secrets.is_torn(url):
        raise UsageError(
            _TORN,
            hint="in a postgresql:// address write %40 for @, %2F for /, %3A for :; "
            "between key=value pairs put the value between single quotes",
        )
    try:
        given: dict[str, Any] = conninfo.conninfo_to_dict(url)
    except psycopg.Error as exc:
        # It quotes pieces of the address, of a login as well, and some are too short to be known.
        reason = _QUOTED.sub(f'"{secrets.HIDDEN}"', str(exc).strip())
        raise DatabaseUnavailable(secrets.without_password(url), reason=reason) from None

    def said(key: str, variable: str) -> str:
        return str(given.get(key) or os.environ.get(variable) or "")

    if said("password", "PGPASSWORD"):
        hosts = said("hostaddr", "PGHOSTADDR") or said("host", "PGHOST")
        exposed_logins.of_postgres(hosts.split(","), said("sslmode", "PGSSLMODE") or "prefer")
    return given


@contextmanager
def connect(url: str) -> "Iterator[psycopg.Connection[Any]]":
    """A connection that commits when its block ends well, and rolls back when it does not."""
    try:
        checked(url)
        connection = psycopg.connect(
            url, connect_timeout=_CONNECT_WITHIN_S, application_name=APPLICATION
        )
    except psycopg.Error as exc:
        where = secrets.without_password(url)  # first, so that the reason is redacted with it
        # The lines after the first ask questions, or tell of other addresses.
        reason = next(iter(str(exc).strip().splitlines()), "").removeprefix("connection failed: ")
        raise DatabaseUnavailable(where, reason=secrets.redact(reason)) from exc
    with connection:
        yield connection


def ask(url: str) -> Server:
    """What the server says of itself."""
    with connect(url) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version'), current_database(), current_user"
        ).fetchone()
        # The first statement paid for the session's start; this one's round trip is short.
        before = time.time()
        clock = connection.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
        between = (before + time.time()) / 2
    if row is None or clock is None:  # a SELECT without FROM has one row, from any real server
        raise DatabaseUnavailable(secrets.without_password(url), reason="it answered with nothing")
    version, database, user = row
    return Server(version, database, user, (float(clock[0]) - between) * 1000)
