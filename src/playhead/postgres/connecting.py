"""Opens a connection in a thread that is left behind if it takes too long: a server can keep libpq computing.

In SCRAM the server says how often the password is hashed. libpq has no bound for it, does not look at its
timeout meanwhile, and lets no signal through.
"""

import logging
from collections.abc import Callable, Mapping
from functools import cache
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from psycopg import conninfo, errors

from playhead.host.threads import call_within
from playhead.postgres.service_file import settings_of

_Opened = TypeVar("_Opened")
_NAME: Final = "connecting to PostgreSQL"
_ADDRESSES_OF_A_NAME: Final = 3
"""How many addresses of one name get their time; libpq tries one after the other."""
_LONGER_S: Final = 2
"""Within this time libpq reports that its own is over, with a better reason."""


def opened(address: str, connect: Callable[[], _Opened]) -> _Opened:
    """Return the connection to the address that the call opens; raise psycopg's error after its `connect_timeout`."""
    _keep_off_the_terminal()
    given = conninfo.conninfo_to_dict(address)
    each_s = conninfo.timeout_from_conninfo(given)
    try:
        return call_within(connect, each_s * _attempts(given) + _LONGER_S, name=_NAME)
    except TimeoutError as exc:
        raise errors.ConnectionTimeout(str(exc)) from exc


@cache
def _keep_off_the_terminal() -> None:
    """Keep psycopg's warnings from Python's last handler, which would print a server's text as it is.

    A handler of the user's still gets them.
    """
    logging.getLogger("psycopg").addHandler(logging.NullHandler())


def _attempts(given: Mapping[str, Any]) -> int:
    """Return how many addresses may be tried, each of which has the whole time."""
    said = settings_of(given)
    hosts = (said("hostaddr", "PGHOSTADDR") or said("host", "PGHOST")).split(",")
    return sum(1 if _is_one(host) else _ADDRESSES_OF_A_NAME for host in hosts)


def _is_one(host: str) -> bool:
    if not host or host.startswith(("/", "@")):
        return True  # a socket
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
