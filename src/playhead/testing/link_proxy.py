"""A TCP link between a client and a server that a test can cut, stall, slow down or break."""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Literal, Self, TypeVar

Answer = TypeVar("Answer")
Direction = Literal["up", "down"]

_HOST = "127.0.0.1"
_PIECE = 65_536
# 1 MiB per direction: a stalled link must block its sender, as a dead network does.
_PIECES_HELD = 16
_PATIENCE_S = 10.0
# SO_LINGER values: a close sends a reset, or an orderly end.
_RESET, _GOODBYE = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)

_Arrivals = asyncio.Queue[tuple[float, bytes | OSError]]


class _Dropped(ConnectionError):
    """The limit of `drop_after` is reached."""


@dataclass(slots=True)
class _Flow:
    """The state of one direction, over all connections."""

    delay_s: float = 0.0
    drop_in: int | None = None
    forwarded: int = 0

    def allowed(self, wanted: int) -> int:
        if self.drop_in == 0:
            self.drop_in = None
            raise _Dropped
        return wanted if self.drop_in is None else min(wanted, self.drop_in)

    def count(self, sent: int) -> None:
        self.forwarded += sent
        if self.drop_in is not None:
            self.drop_in -= sent


@dataclass(slots=True)
class _Dials:
    """The settings of a test; only the proxy's thread changes them, so no lock is needed."""

    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    up: _Flow = field(default_factory=_Flow)
    down: _Flow = field(default_factory=_Flow)


class _Link:
    """One connection, forwarded in both directions; it ends with a reset unless both sides have closed it."""

    def __init__(self, client: socket.socket, dials: _Dials) -> None:
        self._client, self._dials = client, dials
        self._upstream: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self.held = 0
        _prepare(client)

    async def carry(self, addresses: list[Any]) -> None:
        try:
            self._upstream = upstream = await _connect(addresses)
            async with asyncio.TaskGroup() as tasks:
                for start, end, flow in (
                    (self._client, upstream, self._dials.up),
                    (upstream, self._client, self._dials.down),
                ):
                    arrivals: _Arrivals = asyncio.Queue(_PIECES_HELD)
                    tasks.create_task(self._receive(start, arrivals, flow))
                    tasks.create_task(self._forward(arrivals, end, flow))
            for each in (self._client, upstream):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GOODBYE)
        except* OSError:
            pass  # one side failed; `close` resets the other

    def close(self) -> None:
        self._client.close()
        if self._upstream is not None:
            self._upstream.close()

    async def _receive(self, start: socket.socket, arrivals: _Arrivals, flow: _Flow) -> None:
        """Receive bytes; an end or a reset is queued after the bytes before it."""
        piece: bytes | OSError = b"?"
        while isinstance(piece, bytes) and piece:
            try:
                piece = await self._loop.sock_recv(start, _PIECE)
                self.held += len(piece)
            except OSError as error:
                piece = error
            await arrivals.put((self._loop.time() + flow.delay_s, piece))

    async def _forward(self, arrivals: _Arrivals, end: socket.socket, flow: _Flow) -> None:
        while True:
            due, piece = await arrivals.get()
            await asyncio.sleep(due - self._loop.time())
            await self._until_flowing()
            if isinstance(piece, OSError):
                raise piece
            if not piece:
                end.shutdown(socket.SHUT_WR)
                return
            await self._send(piece, end, flow)

    async def _send(self, piece: bytes, end: socket.socket, flow: _Flow) -> None:
        # Not sock_sendall, which would continue to send after a stall.
        while piece:
            await self._until_flowing()
            try:
                sent = end.send(piece[: flow.allowed(len(piece))])
            except BlockingIOError:
                await _writable(end)
                continue
            flow.count(sent)
            self.held -= sent
            piece = piece[sent:]

    async def _until_flowing(self) -> None:
        # A loop, because the link may have been stalled again since the wake-up.
        while not self._dials.flowing.is_set():
            await self._dials.flowing.wait()


class LinkProxy:
    """Listens on a free port of 127.0.0.1 and forwards every connection to one server.

    It works from its creation until `close`, or the end of a `with` block. When a method returns, its effect has
    happened. The server need not be up yet: each connection is opened separately, and is reset if the server
    refuses. A Kafka client connects to the address that the broker advertises, so let the broker advertise
    `address`.
    """

    def __init__(self, upstream_host: str, upstream_port: int) -> None:
        self._upstream = socket.getaddrinfo(upstream_host, upstream_port, type=socket.SOCK_STREAM)
        self._listener = _bind(0)
        self.host = _HOST
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self._listening = False
        self._dials = _Dials()
        self._links: dict[asyncio.Task[None], _Link] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(
            target=self._loop.run_forever, name=f"LinkProxy:{self.port}", daemon=True
        )
        self._thread.start()
        self._call(self._resume)
        self._call(self._listen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Return `host:port`, as in a list of bootstrap servers."""
        return f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """Number of open connections; `accepted` counts all connections so far."""
        return len(self._links)

    @property
    def bytes_up(self) -> int:
        """Bytes that were forwarded to the server."""
        return self._dials.up.forwarded

    @property
    def bytes_down(self) -> int:
        """Bytes that were forwarded to clients."""
        return self._dials.down.forwarded

    @property
    def bytes_held(self) -> int:
        """Bytes of open connections that were received and not forwarded, in both directions."""

        async def held() -> int:
            return sum(link.held for link in self._links.values())

        return self._call(held)

    def cut(self) -> None:
        """Reset every connection and refuse new ones, like a crashed server."""
        self._call(self._cut)

    def restore(self) -> None:
        """Accept connections again, on the same port."""
        self._call(self._listen)

    def stall(self) -> None:
        """Accept connections and bytes, and forward nothing, not even an end."""

        async def stall() -> None:
            self._dials.flowing.clear()

        self._call(stall)

    def resume(self) -> None:
        """Forward the held bytes in order, and continue."""
        self._call(self._resume)

    def delay(self, seconds: float, direction: Direction) -> None:
        """Delay every byte received from now on by `seconds`; 0 ends the delay."""
        if seconds < 0:
            raise ValueError(f"seconds: found {seconds}, needed 0 or more")

        async def delay() -> None:
            self._flow(direction).delay_s = seconds

        self._call(delay)

    def drop_after(self, n_bytes: int, direction: Direction) -> None:
        """Forward `n_bytes` more bytes in this direction; then, once, reset the connection.

        `drop_after(0, "down")` loses a response: the server has done the work, and the client does not learn it.
        """
        if n_bytes < 0:
            raise ValueError(f"n_bytes: found {n_bytes}, needed 0 or more")

        async def drop_after() -> None:
            self._flow(direction).drop_in = n_bytes

        self._call(drop_after)

    def close(self) -> None:
        """Reset every connection and release the port; a second call does nothing."""
        if self._loop.is_closed():
            return
        self._call(self._cut)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()
        self._listener.close()

    def _call(self, action: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Run the action on the proxy's thread, and return its result."""
        if self._loop.is_closed():
            raise RuntimeError(f"the LinkProxy at {self.address} is closed")
        return asyncio.run_coroutine_threadsafe(action(), self._loop).result(_PATIENCE_S)

    def _flow(self, direction: Direction) -> _Flow:
        if direction not in ("up", "down"):
            raise ValueError(f"direction: found {direction!r}, needed 'up' or 'down'")
        return self._dials.up if direction == "up" else self._dials.down

    async def _resume(self) -> None:
        self._dials.flowing.set()

    async def _listen(self) -> None:
        if not self._listening:
            self._listener.listen()
            self._loop.add_reader(self._listener, self._accept)
            self._listening = True

    def _accept(self) -> None:
        with suppress(BlockingIOError, ConnectionError):
            client, _ = self._listener.accept()
            link = _Link(client, self._dials)
            task = self._loop.create_task(link.carry(self._upstream))
            self._links[task] = link
            self.accepted += 1
            # Not at the end of `carry`: a task that is cancelled before its first step never runs.
            task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._links.pop(task).close()

    async def _cut(self) -> None:
        if self._listening:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            # Bound, but not listening: the port stays reserved, and refuses connections.
            self._listener = _bind(self.port)
            self._listening = False
        tasks = list(self._links)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _bind(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((_HOST, port))
    return listener


def _prepare(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def _connect(addresses: list[Any]) -> socket.socket:
    """Connect to the first address of the server that answers; `localhost` has two."""
    failure: OSError = ConnectionRefusedError()
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        # Before the connect, because the server can accept the connection, or a cut end it, before this returns.
        _prepare(sock)
        try:
            await asyncio.get_running_loop().sock_connect(sock, address)
            return sock
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError):
                raise
            failure = error
    raise failure


async def _writable(sock: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(sock)
