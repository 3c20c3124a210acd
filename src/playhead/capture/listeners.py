"""Opens one local port per broker, when a response first contains the broker's address."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from playhead.capture.address import HostPort, shown_place
from playhead.errors import Unavailable
from playhead.unpacking import Malformed

MOST_PORTS: Final = 1_000
_BACKLOG: Final = 1_024
_TRIES: Final = 500
Welcome = Callable[[HostPort], asyncio.Protocol]
"""Makes the asyncio protocol of a client that connects to the port of this broker."""


class PortTaken(Unavailable):
    """Another process listens at the address."""

    def __init__(self, place: HostPort, *, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(
            f"cannot listen at {place}: {reason}",
            hint="choose another port with --listen; port 0 takes a free one",
        )


class Listeners:
    """The local ports, by broker."""

    def __init__(
        self,
        listen: HostPort,
        upstream: HostPort,
        advertise: str | None,
        most_files: int = MOST_PORTS,
    ) -> None:
        self._listen, self._upstream = listen, upstream
        self._advertise = advertise or listen.host
        self._first = _bound(listen)
        self.port = int(self._first.getsockname()[1])
        self._ports = {upstream: self.port}
        self._most = min(most_files, MOST_PORTS)
        self._next = self.port + 1
        self._servers: list[asyncio.Server] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._welcome: Welcome | None = None

    def open(self, welcome: Welcome) -> None:
        """Accept clients; called in the proxy's thread."""
        self._welcome = welcome
        self._serve(self._first, self._upstream)

    def translate(self, host: str, port: int) -> tuple[str, int]:
        """Return the local address for a broker's address."""
        broker = HostPort(host, port)
        if host == self._advertise and port in self._ports.values():
            return host, port  # the broker advertises the proxy's address already
        if broker not in self._ports:
            self._ports[broker] = self._open_for(broker)
        return self._advertise, self._ports[broker]

    @property
    def count(self) -> int:
        return len(self._ports)

    def known(self) -> dict[str, str]:
        """Return the local address of each broker."""
        return {
            str(broker): shown_place(self._advertise, port)
            for broker, port in dict(self._ports).items()
        }

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self._first.close()

    def _open_for(self, broker: HostPort) -> int:
        if self.count >= self._most:
            why = " (ulimit -n)" if self._most < MOST_PORTS else ""
            raise Malformed(f"more than {self._most:,} brokers{why}")
        try:
            door = self._free()
        except PortTaken as exc:  # as when no more files may be opened
            raise Malformed(f"no port can be opened for {broker}: {exc.reason}") from exc
        self._serve(door, broker)
        return int(door.getsockname()[1])

    def _free(self) -> socket.socket:
        """Listen at the next free port after the previous one."""
        for _ in range(_TRIES):
            place, self._next = self._listen._replace(port=self._next), self._next + 1
            try:
                return _bound(place)
            except (PortTaken, OverflowError):
                continue
        return _bound(self._listen._replace(port=0))

    def _serve(self, door: socket.socket, broker: HostPort) -> None:
        # The socket listens already: clients wait in the kernel's queue until the server accepts them.
        task = asyncio.get_running_loop().create_task(self._serve_soon(door, broker))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _serve_soon(self, door: socket.socket, broker: HostPort) -> None:
        welcome = self._welcome
        assert welcome is not None  # noqa: S101  set by `open`
        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(lambda: welcome(broker), sock=door))


def _bound(place: HostPort) -> socket.socket:
    """Return a listening socket."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        door = socket.socket(family, kind, protocol)
    except OSError as exc:
        raise PortTaken(place, reason=exc.strerror or str(exc)) from exc
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(where)
        door.listen(_BACKLOG)
        door.setblocking(False)
    except OSError as exc:
        door.close()
        raise PortTaken(place, reason=exc.strerror or str(exc)) from exc
    return door
