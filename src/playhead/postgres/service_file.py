"""Reads a service of PostgreSQL's service files, by the rules and from the places of libpq."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from playhead.errors import UsageError
from playhead.host import paths

_SYSTEM_FOLDER: Final = "/etc/postgresql-common"
"""Where the libpq that comes with psycopg looks without PGSYSCONFDIR."""
_SPACE: Final = " \t\n\v\f\r"


def service_name(given: Mapping[str, Any]) -> str:
    """Return the service that the options of an address name, or PGSERVICE; empty for none."""
    return str(given.get("service") or os.environ.get("PGSERVICE") or "")


def service_of(given: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return what the service says; nothing without a service, and None for one that cannot be read."""
    name = service_name(given)
    if not name:
        return {}
    for file in _places(given):
        with suppress(OSError, UsageError):
            found = group_in(paths.at_home(file).read_bytes(), name)
            if found is not None:
                return found
    return None


def settings_of(given: Mapping[str, Any]) -> Callable[[str, str], str]:
    """Return what finds a setting as libpq does: in the address, the service, or a variable."""
    of_service = service_of(given) or {}
    return lambda key, variable: str(
        given.get(key) or of_service.get(key) or os.environ.get(variable) or ""
    )


def _places(given: Mapping[str, Any]) -> list[str]:
    """Return the files in libpq's order; a file that lacks the service leads to the next."""
    own = given.get("servicefile") or os.environ.get("PGSERVICEFILE") or "~/.pg_service.conf"
    folder = os.environ.get("PGSYSCONFDIR", _SYSTEM_FOLDER)
    return [str(own), f"{folder}/pg_service.conf"]


def group_in(data: bytes, name: str) -> dict[str, str] | None:
    """Return one group of a service file; None if it is not there or has a line that is no pair.

    libpq reads up to the end of the group, whatever follows, and keeps the first value of a key.
    """
    found: dict[str, str] | None = None
    for each in data.split(b"\n"):
        line = each.partition(b"\0")[0].decode("utf-8", "surrogateescape").strip(_SPACE)
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            if found is not None:
                return found
            if line.startswith(f"[{name}]"):
                found = {}
        elif found is not None:
            key, is_pair, value = line.partition("=")
            if not is_pair:
                return None
            found.setdefault(key, value)
    return found
