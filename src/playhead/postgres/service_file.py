"""Reads a service of PostgreSQL's service files, by the rules and from the places of libpq."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from playhead.errors import Refused, UsageError
from playhead.host import named_files, paths

_SYSTEM_FOLDER: Final = "/etc/postgresql-common"
"""Where the libpq that comes with psycopg looks without PGSYSCONFDIR."""
_SPACE: Final = " \t\n\v\f\r"


def service_name(given: Mapping[str, Any]) -> str:
    """Return the service that the options of an address name, or PGSERVICE; empty for none."""
    return str(given.get("service") or os.environ.get("PGSERVICE") or "")


def service_of(given: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return what the service says; nothing without a service, and None for one that cannot be read.

    A pipe of another user is refused, because libpq would wait for it.
    """
    name = service_name(given)
    if not name:
        return {}
    for file in _places(given):
        try:
            found = group_in(named_files.bytes_of(paths.at_home(file)), name)
        except named_files.PipeOfAnother as exc:
            raise Refused(
                f"the service file {file} is not read: {exc.strerror}",
                hint="name another file in PGSERVICEFILE, or none",
            ) from exc
        except (OSError, UsageError):
            continue
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
