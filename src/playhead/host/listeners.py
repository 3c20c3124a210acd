"""Tells whose processes listen on a TCP port of this machine's loopback address."""

import socket
import struct
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"
_STATE, _USER = 3, 7


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
    found: dict[str, set[int]] = {}
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:  # as without IPv6
            continue
        except OSError:
            return None
        for words in map(str.split, lines):
            address, _, number = words[1].partition(":")
            if words[_STATE] == _LISTENS and int(number, 16) == port:
                found.setdefault(address, set()).add(int(words[_USER]))
    if not _TABLES[0].exists():
        return None
    exact = (set().union(*(found.get(each, ()) for each in addresses)) for addresses in _REACHED)
    return next(filter(None, exact), set())
