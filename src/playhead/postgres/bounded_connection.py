"""A connection of psycopg that ends when a server sends more than any of our statements has as its answer.

libpq keeps a whole answer in memory, and the settings that a server reports for as long as the connection is open.
"""

import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg import generators
from psycopg.abc import PQGen, PQGenConn
from psycopg.waiting import Ready

from playhead.errors import PlayheadError

_Result = TypeVar("_Result")
# The longest answers are of `gaps`: a million rows of five numbers, which are 67 MB.
MOST_BYTES: Final = 128 << 20
# The statements that begin a session wait for nothing in the server. A pooler without a free connection
# says so after two minutes.
BEGINS_WITHIN_S: Final = 150.0
_MOST_OF_A_LOGIN: Final = 4 << 20
# A null takes four bytes on the network, and ten times as much in memory.
_MOST_VALUES: Final = 8_000_000
_LEAST_READ: Final = 8 << 10
"""libpq makes room for this number of bytes before it reads."""
_AT: Final = 128
"""Where Linux has the number of received bytes in its description of a TCP connection."""


class AnswerTooLarge(PlayheadError):
    """A server sent more than one of our statements, or a login, can have as its answer."""

    def __init__(self, *, most: int = MOST_BYTES, what: str = "bytes for one statement") -> None:
        self.most, self.what = most, what
        super().__init__(
            f"the PostgreSQL server sent more than {most:,} {what}; the connection was closed",
            hint="check that the address leads to PostgreSQL, and what is between it and this machine",
        )


class AnswerTooLate(PlayheadError):
    """A server took longer than a limit for one answer."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(f"the PostgreSQL server gave no whole answer within {limit_s:g} s")


class BoundedConnection(psycopg.Connection[Any]):
    """Every wait for the server counts what arrives, and ends after the limit, if one is set."""

    limit_s: float | None = None

    def wait(self, gen: PQGen[_Result], *args: Any, **kwargs: Any) -> _Result:
        try:
            return super().wait(_bounded(gen, self.pgconn.socket, self.limit_s), *args, **kwargs)
        except (AnswerTooLarge, AnswerTooLate):
            self.close()
            raise

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> PQGenConn[Self]:
        return cls((yield from bounded_login(generators.connect(conninfo))))


def bounded_login(gen: PQGenConn[_Result]) -> PQGenConn[_Result]:
    """Pass on the steps of connecting; raise AnswerTooLarge for more than a login needs."""
    arrived = Arrived(_MOST_OF_A_LOGIN, "bytes for a login")
    counted: PQGenConn[_Result] = _counted(gen, lambda at, ready: arrived.refuse_more(at[0], ready))
    return counted


def refuse_values(count: int) -> None:
    """Raise AnswerTooLarge for a result whose rows would take much more memory than their bytes."""
    if count > _MOST_VALUES:
        raise AnswerTooLarge(most=_MOST_VALUES, what="values for one statement")


def _bounded(gen: PQGen[_Result], fileno: int, limit_s: float | None) -> PQGen[_Result]:
    arrived = Arrived(before=received(fileno))
    begun_s = monotonic()

    def count(_: Any, ready: int) -> None:
        arrived.refuse_more(fileno, ready)
        if limit_s is not None and monotonic() - begun_s > limit_s:
            raise AnswerTooLate(limit_s)

    counted: PQGen[_Result] = _counted(gen, count)
    return counted


def _counted(gen: Any, count: Callable[[Any, int], None]) -> Any:
    """Pass on the steps of psycopg: what each waits for, and what the socket is ready for then."""
    ready = None
    while True:
        try:
            waits_for = next(gen) if ready is None else gen.send(ready)
        except StopIteration as end:
            return end.value
        ready = yield waits_for
        count(waits_for, ready)


class Arrived:
    """How much has arrived on a connection since `before`, at least."""

    def __init__(
        self,
        most: int = MOST_BYTES,
        what: str = "bytes for one statement",
        *,
        before: int = 0,
    ) -> None:
        self._most, self._what, self._before = most, what, before
        self._read = 0

    def refuse_more(self, fileno: int, ready: int) -> None:
        """Count what libpq reads next; raise AnswerTooLarge for more than the most."""
        if not ready & Ready.R:
            return
        with suppress(OSError):
            (waiting,) = struct.unpack("=i", fcntl.ioctl(fileno, termios.FIONREAD, b"\0" * 4))
            self._read += min(waiting, _LEAST_READ)
        # For a message of a gigabyte, libpq reads more at a time.
        if max(self._read, received(fileno) - self._before) > self._most:
            raise AnswerTooLarge(most=self._most, what=self._what)


def received(fileno: int) -> int:
    """Return how many bytes a TCP connection has received; 0 where the system does not say."""
    link = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=fileno)
    try:
        said = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _AT + 8)
        (count,) = struct.unpack_from("=Q", said, _AT)
        return int(count)
    except (OSError, struct.error, AttributeError):
        return 0
    finally:
        link.detach()
