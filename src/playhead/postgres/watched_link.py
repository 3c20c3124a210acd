"""Ends connections of the Arrow driver on which a server sends more than an answer, because its libpq cannot be asked.

The kernel knows how much each connection of the process has received; where it does not say, nothing is watched.
"""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

from psycopg import conninfo

from playhead.postgres.bounded_connection import MOST_BYTES, AnswerTooLarge, received
from playhead.postgres.service_file import service_of

_EVERY_S: Final = 0.1
_FDS: Final = "/proc/self/fd"
_TCP: Final = (socket.AF_INET, socket.AF_INET6)


def ports_of(uri: str) -> frozenset[int]:
    """Return the ports to which libpq may connect for an address."""
    given = conninfo.conninfo_to_dict(uri)
    said = given.get("port") or (service_of(given) or {}).get("port") or os.environ.get("PGPORT")
    return frozenset(
        int(each) if each.strip().isdigit() else 5432 for each in str(said or "").split(",")
    )


@contextmanager
def watched(ports: frozenset[int]) -> Iterator[None]:
    """End what receives more than an answer from these ports in the block, and raise AnswerTooLarge then."""
    watch = _Watch(ports)
    try:
        yield
    except Exception as exc:
        if watch.has_ended_one:
            raise AnswerTooLarge() from exc
        raise
    finally:
        watch.is_over.set()


class _Watch:
    """Looks first when most statements have their answer; what has arrived until then does not count."""

    def __init__(self, ports: frozenset[int]) -> None:
        self._ports = ports
        self.is_over = Event()
        self.has_ended_one = False
        Thread(target=self._work, name="watching PostgreSQL", daemon=True).start()

    def _work(self) -> None:
        before: dict[int, int] | None = None
        while not self.is_over.wait(_EVERY_S):
            found: dict[int, int] = {}
            for fileno, link in _links(self._ports):
                found[fileno] = received(link.fileno())
                if before is not None and found[fileno] - before.get(fileno, 0) > MOST_BYTES:
                    self.has_ended_one = True
                    with suppress(OSError):
                        link.shutdown(socket.SHUT_RDWR)
            before = found if before is None else before


def _links(ports: frozenset[int]) -> Iterator[tuple[int, socket.socket]]:
    """Yield a second handle of each connection of this process to these ports, open until the next one."""
    filenos: list[int] = []
    with suppress(OSError, ValueError):
        filenos = [int(each.name) for each in Path(_FDS).iterdir()]
    for fileno in filenos:
        with suppress(OSError):  # another thread may close it meanwhile
            if not stat.S_ISSOCK(os.fstat(fileno).st_mode):
                continue
            copy = os.dup(fileno)
            try:
                link = socket.socket(fileno=copy)
            except OSError:
                os.close(copy)
                raise
            with link:
                if _port(link) in ports:
                    yield fileno, link


def _port(link: socket.socket) -> int | None:
    """Return the port of a TCP connection's other end."""
    with suppress(OSError):
        return int(link.getpeername()[1]) if link.family in _TCP else None
    return None
