"""Tells whose processes listen on a TCP port of this machine's loopback address, and whose have connected to it."""

import socket
import struct
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_IS_CONNECTED, _LISTENS = "01", "0A"
_HERE, _THERE, _STATE, _USER = 1, 2, 3, 7


def _as_written(kind: int, address: str) -> str:
    """Return an address as the kernel writes it: words of 32 bits, in the machine's order of bytes."""
    packed = socket.inet_pton(kind, address)
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))


# Where a client of 127.0.0.1 can arrive, in the order in which the kernel looks for a listener: another user may
# listen at a less exact address of the same port, and gets nothing.
_REACHED: Final = (
    {_as_written(socket.AF_INET, "127.0.0.1"), _as_written(socket.AF_INET6, "::ffff:127.0.0.1")},
    {_as_written(socket.AF_INET, "0.0.0.0")},  # noqa: S104 - not to listen there
    {_as_written(socket.AF_INET6, "::")},
)


def listeners(port: int) -> set[int] | None:
    """Return the users whose processes get a client of this port; None where the system does not say."""
    rows = _rows()
    if rows is None:
        return None
    found: dict[str, set[int]] = {}
    for words in rows:
        address, _, number = words[_HERE].partition(":")
        if words[_STATE] == _LISTENS and int(number, 16) == port:
            found.setdefault(address, set()).add(int(words[_USER]))
    exact = (set().union(*(found.get(each, ()) for each in addresses)) for addresses in _REACHED)
    return next(filter(None, exact), set())


def clients(port: int, *, of: int) -> set[int] | None:
    """Return the users whose processes are connected from one port to that `of` a listener; None as above.

    No user, if the client is elsewhere, or has hung up.
    """
    rows = _rows()
    if rows is None:
        return None
    here, there = ({f"{each}:{number:04X}" for each in _REACHED[0]} for number in (port, of))
    return {
        int(words[_USER])
        for words in rows
        if words[_STATE] == _IS_CONNECTED and words[_HERE] in here and words[_THERE] in there
    }


def _rows() -> list[list[str]] | None:
    found: list[list[str]] = []
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # as without IPv6
            continue
        except OSError:
            return None
        found += map(str.split, lines)
    return found if _TABLES[0].exists() else None
