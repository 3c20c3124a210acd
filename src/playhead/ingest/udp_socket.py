"""A UDP socket that reads many datagrams at once and waits no longer than asked."""

import errno
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

from playhead.errors import PlayheadError
from playhead.host.networks import Networks
from playhead.ingest.udp_address import Address, shown_place

LARGEST_BYTES = 65_535
"""The largest datagram, except IPv6 jumbograms, which no sender here makes."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  what may be bound, and how it is reached from here
# Constants of Linux's <asm/socket.h> that Python lacks: the socket's figures, and root's larger
# buffer.
_SO_MEMINFO, _SO_RCVBUFFORCE, _MEMINFO = 55, 33, struct.Struct("9I")
_DROPS = 8
_COMPANY_S = 0.001
_COUNTER = 1 << 32
_MOST_ASKED = (1 << 30) - 1  # The kernel doubles the value, which must fit a C int.
_REASONS = {
    errno.EADDRINUSE: (
        "another process uses the port",
        "`ss -ulnp` shows which one; port 0 chooses a free port",
    ),
    errno.EACCES: (
        "this user must not use the port",
        "use a port from 1024 on, or 0 for a free one",
    ),
    errno.EADDRNOTAVAIL: (
        "this machine does not have the address",
        "`ip address` shows its addresses; udp://127.0.0.1:… always works",
    ),
}
_ON_LINUX = sys.platform == "linux"


class CannotListen(PlayheadError):
    """The socket cannot be bound to the address."""

    def __init__(self, address: str, *, reason: str, hint: str | None) -> None:
        self.address, self.reason = address, reason
        super().__init__(f"cannot listen at {address}: {reason}", hint=hint)


class Listener:
    """Bound from its creation; datagrams wait in the kernel's buffer until they are read."""

    def __init__(
        self,
        address: Address,
        *,
        buffer_bytes: int,
        most_bytes: int = LARGEST_BYTES,
        with_peers: bool = False,
        only: Networks | None = None,
    ) -> None:
        self._socket = _bound(address)
        self.buffer_bytes = _make_room(self._socket, buffer_bytes)
        """The buffer that the kernel granted, which may be smaller than requested."""
        self.most_bytes = most_bytes
        """Longer datagrams are cut to one byte more than this."""
        self.address = replace(address, port=self._socket.getsockname()[1])
        self._with_peers, self._only = with_peers, only
        self.strangers = 0
        """Datagrams from addresses that are not allowed; they are not returned."""
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._drops, self._drops_seen = 0, 0
        self.has_more = False
        """Whether the last read returned as many as allowed, so that more may be waiting."""

    def receive(self, most: int, wait_ms: int) -> tuple[list[bytes], Sequence[str]]:
        """Return what has arrived, at most `most`, from allowed senders; wait only if there is nothing."""
        if wait_ms and not self.has_more:
            if not self._poll.poll(wait_ms):
                return [], ()
            # Others follow the first: waking up for each would cost more than everything else.
            time.sleep(_COMPANY_S)
        before = self.strangers
        found = self._read(most)
        self.has_more = len(found[0]) + self.strangers - before == most
        return found

    def _read(self, most: int) -> tuple[list[bytes], Sequence[str]]:
        found: list[bytes] = []
        if self._with_peers or self._only is not None:
            return self._read_with_peers(found, most)
        receive, size = self._socket.recv, self.most_bytes + 1
        with suppress(BlockingIOError):
            for _ in range(most):
                found.append(receive(size))
        return found, ()

    def _read_with_peers(self, found: list[bytes], most: int) -> tuple[list[bytes], list[str]]:
        peers: list[str] = []
        with suppress(BlockingIOError):
            for _ in range(most):
                datagram, place = self._socket.recvfrom(self.most_bytes + 1)
                if self._only is not None and not self._only.admit(str(place[0])):
                    self.strangers += 1
                    continue
                found.append(datagram)
                peers.append(shown_place(place))
        return found, peers if self._with_peers else []

    def kernel_drops(self) -> int | None:
        """Return how many datagrams the kernel dropped; None if it does not report them."""
        if not _ON_LINUX:
            return None
        try:
            told = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        except OSError:
            return None
        now = _MEMINFO.unpack(told)[_DROPS]
        # The kernel's counter wraps at 2**32.
        self._drops += (now - self._drops_seen) % _COUNTER
        self._drops_seen = now
        return self._drops

    def shut(self) -> None:
        """Accept nothing more; what has arrived can still be read."""
        host = _ANY.get(self.address.host, self.address.host)
        # A connected socket accepts only from its peer, which here is itself.
        with suppress(OSError):
            self._socket.connect(replace(self.address, host=host).place)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(address: Address) -> socket.socket:
    # Without SO_REUSEADDR, which would let two processes share the port, each with a part of the
    # datagrams.
    taken = socket.socket(address.family, socket.SOCK_DGRAM)
    try:
        taken.setblocking(False)
        taken.bind(address.place)
    except OSError as exc:
        taken.close()
        reason, hint = _REASONS.get(exc.errno or 0, (exc.strerror or str(exc), None))
        raise CannotListen(str(address), reason=reason, hint=hint) from exc
    return taken


def _make_room(listening: socket.socket, wanted: int) -> int:
    """Request a buffer from the kernel; root can exceed the usual limit."""
    options = [socket.SO_RCVBUF, _SO_RCVBUFFORCE] if _ON_LINUX else [socket.SO_RCVBUF]
    for option in options:
        with suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, option, min(wanted, _MOST_ASKED))
        given = listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        # Linux reserves twice the requested size for its own overhead.
        given = given // 2 if _ON_LINUX else given
        if given >= wanted:
            break
    return given
