"""A socket that datagrams arrive at: many are read at once, none is waited for longer than asked."""

import errno
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from playhead.errors import PlayheadError
from playhead.host.networks import Networks
from playhead.ingest.udp_address import Address, shown_place

LARGEST_BYTES = 65_535
"""No datagram is larger, but for IPv6 jumbograms, which no sender here makes."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  what may be bound, and how it is reached from here
# Of Linux's <asm/socket.h>, which Python does not name: the socket's own figures, and what root may ask for.
_SO_MEMINFO, _SO_RCVBUFFORCE, _MEMINFO = 55, 33, struct.Struct("9I")
_DROPS = 8
_COMPANY_S = 0.001
_COUNTER = 1 << 32
_MOST_ASKED = (1 << 30) - 1  # what the kernel doubles has to fit an int of C
_REASONS = {
    errno.EADDRINUSE: (
        "the port is in use by somebody else",
        "`ss -ulnp` shows by whom; port 0 takes a free one",
    ),
    errno.EACCES: (
        "this user may not take the port",
        "take one from 1024 on, or 0 for a free one",
    ),
    errno.EADDRNOTAVAIL: (
        "the address is none of this machine's",
        "`ip address` shows those it has; udp://127.0.0.1:… is always there",
    ),
}
_ON_LINUX = sys.platform == "linux"


class CannotListen(PlayheadError):
    """The address cannot be had."""

    def __init__(self, address: str, *, reason: str, hint: str | None) -> None:
        self.address, self.reason = address, reason
        super().__init__(f"cannot listen at {address}: {reason}", hint=hint)


class Listener:
    """Has its address from the moment it is made; what arrives waits in the kernel's buffer until it is read."""

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
        """What the kernel gave, which may be less than was asked for."""
        self.most_bytes = most_bytes
        """What is longer arrives with one byte more than that, and no more."""
        self.address = replace(address, port=self._socket.getsockname()[1])
        self._with_peers, self._only = with_peers, only
        self.strangers = 0
        """Datagrams from elsewhere than is allowed; none of them is given."""
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._drops, self._drops_seen = 0, 0
        self.has_more = False
        """Whether as much as was asked for was there the last time, and perhaps more."""

    def receive(self, most: int, wait_ms: int) -> tuple[list[bytes], Sequence[str]]:
        """What has arrived, up to so many, and from whom if that is wanted; waits only while there is nothing."""
        if wait_ms and not self.has_more:
            if not self._poll.poll(wait_ms):
                return [], ()
            # Where one is others follow: to wake up for each of them costs more than all else.
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
        """How many datagrams found the kernel's buffer full; None where the kernel does not tell."""
        if not _ON_LINUX:
            return None
        try:
            told = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        except OSError:
            return None
        now = _MEMINFO.unpack(told)[_DROPS]
        # The kernel counts to four thousand million and begins again.
        self._drops += (now - self._drops_seen) % _COUNTER
        self._drops_seen = now
        return self._drops

    def shut(self) -> None:
        """Take nothing more; what has arrived can still be read, and there is an end to it."""
        host = _ANY.get(self.address.host, self.address.host)
        # A socket that is connected takes from its peer alone, and here that is the socket itself.
        with suppress(OSError):
            self._socket.connect(replace(self.address, host=host).place)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _bound(address: Address) -> socket.socket:
    # Without SO_REUSEADDR, by which two of us would share the port and each get a part of what arrives.
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
    """Ask the kernel for a buffer; as root also for more than it gives everybody."""
    options = [socket.SO_RCVBUF, _SO_RCVBUFFORCE] if _ON_LINUX else [socket.SO_RCVBUF]
    for option in options:
        with suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, option, min(wanted, _MOST_ASKED))
        given = listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        # Linux takes twice of what is asked, and calls the second half its own.
        given = given // 2 if _ON_LINUX else given
        if given >= wanted:
            break
    return given
