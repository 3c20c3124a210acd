"""Forwards frames between a client and a broker.

A frame is forwarded unchanged, except a response that contains API versions or broker addresses. If such a
response cannot be rewritten, the connection is closed, so that no broker address reaches the client.
"""

import asyncio
import struct
import time
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from playhead.capture.address_rewrite import TooManyEntries, Translate, has_addresses, rewritten
from playhead.capture.api_versions import refusal, restricted
from playhead.capture.frame_memory import Halves
from playhead.capture.frames import MOST_BYTES, SIZE_BYTES, Framer, NotKafka, TooLarge
from playhead.capture.pair_document import Connection
from playhead.capture.protocol import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    SASL_HANDSHAKE,
    acks_of,
    is_known,
    name_of,
)
from playhead.capture.recorder_queue import Exchange, RecorderQueue
from playhead.unpacking import Malformed

_HEAD: Final = struct.Struct(">ihhih")
_CORRELATION: Final = struct.Struct(">i")
_ROOM_BYTES: Final = 1 << 20
# Larger responses with addresses, or with more entries, are parsed in a separate thread: 5 MB take 0.15 s, twice
# that in this thread, and more if each entry has an address. A Fetch response is often large, but has few entries.
_ASIDE_BYTES: Final = 64 << 10
_FETCH_ASIDE_BYTES: Final = 8 << 20
_MOST_ENTRIES_HERE: Final = 20_000
_ASIDE: Final = "a large response is being parsed"
_UNANSWERED: Final = "too many requests are unanswered"
_SLOW: Final = "the recorder is too slow"


class RelayHost(Protocol):
    """The owner of relays: translates broker addresses, has the recorder queue, and counts."""

    tap: RecorderQueue
    halves: Halves
    is_holding: bool
    is_holding_responses: bool
    most_request_bytes: int
    parsing: asyncio.Semaphore
    """Taken by who parses a large response; the others' wait, and are counted by `halves`."""

    def admits(self, host: str) -> bool: ...
    def translate(self, host: str, port: int) -> tuple[str, int]: ...
    def came(self, relay: "Relay") -> int: ...
    def moved(self, relay: "Relay") -> None: ...
    def left(self, relay: "Relay") -> None: ...
    def trouble(self, what: str) -> None: ...
    def passed(self, to_broker: int, to_client: int) -> None: ...


class _End(asyncio.Protocol):
    """The asyncio protocol of one of the two sides."""

    def __init__(self, relay: "Relay", name: str, most_bytes: int) -> None:
        self._relay, self.name = relay, name
        self.framer = Framer(most_bytes)
        self.transport: asyncio.Transport | None = None
        self.held_back: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self.transport = transport
        transport.set_write_buffer_limits(high=_ROOM_BYTES)
        self._relay.made(self)

    def data_received(self, data: bytes) -> None:
        self._relay.received(self, data)

    def eof_received(self) -> bool:
        self._relay.finished(self)
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._relay.close()
        self._relay.lost(self)

    def pause_writing(self) -> None:
        self._relay.other(self).hold_back("the other side is full")

    def resume_writing(self) -> None:
        self._relay.other(self).let_go("the other side is full")
        self._relay.weigh(self)

    @property
    def held_bytes(self) -> int:
        """Buffered bytes of the incomplete frame, and of frames that the side does not read."""
        unsent = self.transport.get_write_buffer_size() if self.transport is not None else 0
        return self.framer.held_bytes + unsent + self._relay.behind_bytes(self)

    def give_up(self, why: str) -> None:
        """Close the connection, and discard what is buffered."""
        self._relay.give_up(why)

    def hold_back(self, why: str) -> None:
        """Stop reading for this reason; there can be several reasons at once."""
        if self.transport is not None and not self.held_back and not self.transport.is_closing():
            self.transport.pause_reading()
        self.held_back.add(why)

    def let_go(self, why: str) -> None:
        self.held_back.discard(why)
        if self.transport is not None and not self.held_back and not self.transport.is_closing():
            self.transport.resume_reading()

    def write(self, frame: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame)
            if self.transport.get_write_buffer_size():
                self._relay.weigh(self, self._relay.other(self))

    def end(self) -> None:
        """Close the connection after sending what is buffered."""
        if self.transport is not None:
            self.transport.close()


class Relay:
    """The connections of one client and of the proxy to one broker."""

    def __init__(self, place: RelayHost, broker: tuple[str, int], shown: str) -> None:
        self._place, self._address, self.broker_name = place, broker, shown
        self.client = _End(self, "client", place.most_request_bytes)
        self.broker = _End(self, "broker", MOST_BYTES)
        self._in_flight: deque[Exchange] = deque()
        self._number = self._begun_ns = 0
        self.is_closed = False
        self._aside: asyncio.Task[None] | None = None
        self._large = b""
        """A frame of the broker that is parsed aside, or waits for it; empty if the relay is closed."""
        self._behind: deque[bytes] = deque()
        """Frames of the broker that are queued behind a large one."""
        self._connecting: asyncio.Task[None] | None = None
        self._open: set[_End] = set()  # the sides that have a socket, also to send what is buffered

    def other(self, end: _End) -> _End:
        return self.broker if end is self.client else self.client

    # --- connecting and closing -------------------------------------------------------------

    def made(self, end: _End) -> None:
        self._open.add(end)
        if end is self.client:
            host = str(((end.transport and end.transport.get_extra_info("peername")) or ("",))[0])
            if not self._place.admits(host):
                self._end_with(f"{host} is not in a network of --allow")
                return
            self._begun_ns = time.time_ns()
            self._number = self._place.came(self)
            loop = asyncio.get_running_loop()
            # Not at once: asyncio in Python 3.11.2 starts reading after this call, even if it was paused here.
            loop.call_soon(end.hold_back, "no broker yet")
            self._connecting = loop.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.broker, *self._address)
        except (OSError, ValueError, OverflowError) as exc:  # the host or port may be invalid
            reason = getattr(exc, "strerror", None) or str(exc)
            self._end_with(f"broker {self.broker_name} cannot be reached: {reason}")
            return
        client, broker = (
            end.transport.get_extra_info("peername") or ("", 0)
            for end in (self.client, self.broker)
            if end.transport is not None
        )
        here = (str(client[0]), int(client[1]), str(broker[0]), int(broker[1]))
        self._place.tap.connected(
            Connection(self._number, self.broker_name, self._begun_ns, time.time_ns(), *here)
        )
        self.heed_recorder()
        self.client.let_go("no broker yet")

    def finished(self, end: _End) -> None:
        """Close the other side after it got what this side has sent."""
        other = self.other(end).transport
        if other is None or end is self.broker:
            self.close()
        elif other.can_write_eof() and not other.is_closing():
            other.write_eof()

    def close(self) -> None:
        """Close both sides after sending what is buffered."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()  # otherwise it waits for an absent host for two minutes
        self._behind.clear()
        self._large = b""
        for end in (self.client, self.broker):
            end.framer = Framer()
            end.end()
            self._place.halves.changed(end)
        now_ns = time.time_ns()
        for exchange in self._in_flight:
            self._place.tap.end(exchange, b"", now_ns)
        self._in_flight.clear()
        self._place.tap.gone(self._number)

    def lost(self, end: _End) -> None:
        """Free the buffers of a closed side at once, even if this relay is still referenced."""
        end.framer = Framer()
        self._place.halves.gone(end)
        self._open.discard(end)
        if not self._open:  # a client that reads nothing keeps its socket for ever
            self._place.left(self)

    def weigh(self, end: _End, source: _End | None = None) -> None:
        if not self.is_closed:
            self._place.halves.changed(end, source)

    def give_up(self, why: str) -> None:
        self._place.trouble(f"a connection to {self.broker_name} was closed: {why}")
        self.close()
        for each in (self.client, self.broker):
            if each.transport is not None:
                each.transport.abort()
            self._place.halves.gone(each)
        self._place.left(self)

    @property
    def unanswered_bytes(self) -> int:
        """Memory of the copies of unanswered requests."""
        return sum(each.held_bytes for each in self._in_flight)

    @property
    def is_awaiting(self) -> bool:
        """Return whether a request has no answer yet."""
        return bool(self._in_flight)

    def heed_recorder(self) -> None:
        """Stop reading what the recorder has no memory for, and read the rest."""
        held = {self.client: self._place.is_holding, self.broker: self._place.is_holding_responses}
        for end, is_held in held.items():
            if end.transport is not None:
                (end.hold_back if is_held else end.let_go)(_SLOW)

    def behind_bytes(self, end: _End) -> int:
        """Return the bytes of this side in a large frame that is parsed aside, and queued behind it."""
        return len(self._large) + sum(map(len, self._behind)) if end is self.broker else 0

    # --- frames -----------------------------------------------------------------------------

    def received(self, end: _End, data: bytes) -> None:
        if self.is_closed:
            return
        self._place.moved(self)
        self._pass_all(end, end.framer.take(data))

    def _pass_all(self, end: _End, frames: Iterable[bytes]) -> None:
        try:
            for frame in frames:
                self._pass(end, frame)
                if end is self.client and len(self._in_flight) >= self._place.tap.most_unanswered:
                    end.hold_back(_UNANSWERED)
                    break  # further requests stay in the framer until there are answers
            self.weigh(end)
        except TooLarge as exc:
            self._end_with(f"a client began {exc}")
        except NotKafka as exc:
            speaks = f"speaks {exc.speaks}" if exc.speaks else f"does not speak Kafka ({exc})"
            who = "a client" if end is self.client else f"broker {self.broker_name}"
            self._end_with(f"{who} {speaks}; the proxy supports Kafka without TLS only")
        except (Malformed, struct.error, IndexError) as exc:
            why = exc if isinstance(exc, Malformed) else "it ends too early"
            what = f"a frame from the {end.name} of {self.broker_name} cannot be decoded"
            self._end_with(f"{what}: {why}")

    def _pass(self, end: _End, frame: bytes) -> None:
        if self.is_closed:
            return  # an earlier frame has closed the connection
        if end is self.client:
            self._request(frame)
        elif self._aside is not None:
            self._behind.append(frame)
        else:
            self._response(frame)

    def _request(self, frame: bytes) -> None:
        _, api, version, correlation, _ = _HEAD.unpack_from(frame)
        if not is_known(api, version):
            self._refuse(api, version, correlation)
            return
        if api == SASL_HANDSHAKE and version == 0:
            self._end_with(
                "a client uses SaslHandshake version 0 (before Kafka 1.0), whose frames have no header"
            )
            return
        exchange = Exchange(
            api, version, correlation, self._number, time.time_ns(), len(frame), frame
        )
        exchange.was_awaited = api != PRODUCE or acks_of(version, frame) != 0
        self.broker.write(frame)
        self._place.passed(len(frame), 0)
        self._place.tap.begin(exchange)
        if exchange.was_awaited:
            self._in_flight.append(exchange)
        else:
            self._place.tap.end(exchange, b"", exchange.at_ns)

    def _refuse(self, api: int, version: int, correlation: int) -> None:
        """Refuse an unknown API version, because its response could contain a broker address."""
        if api == API_VERSIONS and not self._in_flight:
            self.client.write(refusal(correlation))
            return
        self._end_with(
            f"{name_of(api)} version {version} is unknown to the proxy, and was not forwarded"
        )

    def _response(self, frame: bytes) -> None:
        (correlation,) = _CORRELATION.unpack_from(frame, SIZE_BYTES)
        if not self._in_flight or self._in_flight[0].correlation != correlation:
            self._end_with(f"broker {self.broker_name} sent a response without a request")
            return
        exchange = self._in_flight[0]
        api, version = exchange.api, exchange.version
        try:
            changed = _changed(api, version, frame, self._place.translate)
        except TooManyEntries:
            self._set_aside(frame, (api, version))
            return
        except Malformed as exc:
            self._end_hidden(exc)
            return
        self._answer(frame, changed)

    def _set_aside(self, frame: bytes, of: tuple[int, int]) -> None:
        self.broker.hold_back(_ASIDE)
        self._large = frame
        self._aside = asyncio.get_running_loop().create_task(self._read_aside(of))

    def _answer(self, frame: bytes, changed: bytes) -> None:
        self.client.write(changed)
        self._place.passed(0, len(frame))
        self._place.tap.end(self._in_flight.popleft(), frame, time.time_ns())
        is_half = len(self._in_flight) <= self._place.tap.most_unanswered // 2
        if is_half and _UNANSWERED in self.client.held_back:
            self.client.let_go(_UNANSWERED)  # first: the next requests may hold it back again
            self._pass_all(self.client, self.client.framer.take(b""))

    def _end_hidden(self, exc: Malformed) -> None:
        exchange = self._in_flight[0]
        what = f"the response to {name_of(exchange.api)} version {exchange.version}"
        why = "its broker addresses cannot be rewritten"
        self._end_with(f"{what} was not forwarded, because {why}: {exc}")

    async def _read_aside(self, of: tuple[int, int]) -> None:
        """Parse a large response in another thread; this connection's next responses are queued meanwhile.

        The first pass finds the addresses, the second replaces them: only this thread may open ports.
        """
        met: dict[tuple[str, int], tuple[str, int]] = {}
        try:
            async with self._place.parsing:
                frame = self._large
                if not frame:
                    return  # the client has left already
                await asyncio.to_thread(rewritten, *of, frame, lambda *at: met.setdefault(at, at))
                if self._large is not frame:
                    return
                met = {at: self._place.translate(*at) for at in met}
                changed = await asyncio.to_thread(rewritten, *of, frame, lambda *at: met[at])
        except Malformed as exc:
            if self._in_flight:
                self._end_hidden(exc)
            return
        if self._large is not frame:
            return
        self._large = b""
        self._answer(frame, changed)
        self._aside, behind, self._behind = None, self._behind, deque()
        self.broker.let_go(_ASIDE)
        self._pass_all(self.broker, behind)

    def _end_with(self, why: str) -> None:
        self._place.trouble(why)
        self.close()


def _changed(api: int, version: int, frame: bytes, translate: Translate) -> bytes:
    """Return the response as the client gets it; raises `TooManyEntries` if it has to be parsed aside."""
    if api == API_VERSIONS or not has_addresses(api, version):
        return restricted(version, frame) if api == API_VERSIONS else frame
    if len(frame) >= (_FETCH_ASIDE_BYTES if api == FETCH else _ASIDE_BYTES):
        raise TooManyEntries(0)
    return rewritten(api, version, frame, translate, _MOST_ENTRIES_HERE)
