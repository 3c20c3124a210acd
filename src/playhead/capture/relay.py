"""One client's connection and ours to its broker, and what passes between them, frame by frame.

A frame is passed on as it came. Only a response that names versions or addresses is another one when
it leaves; one that should be and cannot be ends the connection, so that no address gets past us.
"""

import asyncio
import struct
import time
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from playhead.capture.address_rewrite import has_addresses, rewritten
from playhead.capture.api_versions import refusal, restricted
from playhead.capture.frame_memory import Halves
from playhead.capture.frames import SIZE_BYTES, Framer, NotKafka
from playhead.capture.pair_document import Connection
from playhead.capture.protocol import (
    API_VERSIONS,
    FETCH,
    PRODUCE,
    SASL_HANDSHAKE,
    Malformed,
    is_known,
    name_of,
    past_tags,
    varint,
)
from playhead.capture.recorder_queue import Exchange, RecorderQueue

_HEAD: Final = struct.Struct(">ihhih")
_CORRELATION: Final = struct.Struct(">i")
_ROOM_BYTES: Final = 1 << 20
# Responses with addresses this large are read in a thread of their own: 5 MB take 0.15 s, twice that
# here, and more where each entry has an address. In one to Fetch, which is large all the time, there is
# little to be walked over.
_ASIDE_BYTES: Final = 64 << 10
_FETCH_ASIDE_BYTES: Final = 8 << 20
_ASIDE: Final = "a large response is being read"
# Clients have a few on their way; each one costs more than the bytes of a small one.
_MOST_UNANSWERED: Final = 1_000
_UNANSWERED: Final = "too many requests are unanswered"
_PRODUCE_TEXT_FROM, _PRODUCE_FLEXIBLE_FROM = 3, 9


class RelayHost(Protocol):
    """Where relays belong: it knows the brokers, the tap, and keeps count."""

    tap: RecorderQueue
    halves: Halves
    is_holding: bool

    def admits(self, host: str) -> bool: ...
    def translate(self, host: str, port: int) -> tuple[str, int]: ...
    def came(self, relay: "Relay") -> int: ...
    def left(self, relay: "Relay") -> None: ...
    def trouble(self, what: str) -> None: ...
    def passed(self, to_broker: int, to_client: int) -> None: ...


class _End(asyncio.Protocol):
    """One of the two sides, as asyncio knows it."""

    def __init__(self, relay: "Relay", name: str) -> None:
        self._relay, self.name = relay, name
        self.framer = Framer()
        self.transport: asyncio.Transport | None = None
        self._held_back: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self.transport = transport
        transport.set_write_buffer_limits(high=_ROOM_BYTES)
        self._relay.made(self)

    def data_received(self, data: bytes) -> None:
        self._relay.received(self, data)

    def eof_received(self) -> bool:
        self._relay.finished(self)
        return True  # the other direction goes on

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._relay.lost(self)
        self._relay.close()

    def pause_writing(self) -> None:
        self._relay.other(self).hold_back("the other side is full")

    def resume_writing(self) -> None:
        self._relay.other(self).let_go("the other side is full")
        self._relay.weigh(self)

    @property
    def held_bytes(self) -> int:
        """What is held of a frame that is not whole yet, and of frames that are not taken."""
        unsent = self.transport.get_write_buffer_size() if self.transport is not None else 0
        return self.framer.held_bytes + unsent + self._relay.behind_bytes(self)

    def give_up(self, why: str) -> None:
        """End the connection and what is on its way."""
        self._relay.give_up(why)

    def hold_back(self, why: str) -> None:
        """Read no more until that is over; there can be several reasons at once."""
        if self.transport is not None and not self._held_back and not self.transport.is_closing():
            self.transport.pause_reading()
        self._held_back.add(why)

    def let_go(self, why: str) -> None:
        self._held_back.discard(why)
        if self.transport is not None and not self._held_back and not self.transport.is_closing():
            self.transport.resume_reading()

    def write(self, frame: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame)
            if self.transport.get_write_buffer_size():
                self._relay.weigh(self)

    def end(self) -> None:
        """Close it; what is on its way still goes."""
        if self.transport is not None:
            self.transport.close()


class Relay:
    """Between one client and one broker."""

    def __init__(self, place: RelayHost, broker: tuple[str, int], shown: str) -> None:
        self._place, self._address, self.broker_name = place, broker, shown
        self.client, self.broker = _End(self, "client"), _End(self, "broker")
        self._in_flight: deque[Exchange] = deque()
        self._number = 0
        self._begun_ns = 0
        self.is_closed = False
        self._aside: asyncio.Task[None] | None = None
        self._behind: deque[bytes] = deque()
        """Frames of the broker that wait for the large one before them."""
        self._connecting: asyncio.Task[None] | None = None
        self._stood: Exchange | None = None

    def other(self, end: _End) -> _End:
        return self.broker if end is self.client else self.client

    # --- coming and going -------------------------------------------------------------------

    def made(self, end: _End) -> None:
        if end is self.client:
            host = str(((end.transport and end.transport.get_extra_info("peername")) or ("",))[0])
            if not self._place.admits(host):
                self._place.trouble(f"{host} is not allowed to come here")
                self.close()
                return
            self._begun_ns = time.time_ns()
            self._number = self._place.came(self)
            loop = asyncio.get_running_loop()
            # Not at once: the asyncio of Python 3.11.2 begins to read after this call, whatever was said in it.
            loop.call_soon(end.hold_back, "no broker yet")
            self._connecting = loop.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.broker, *self._address)
        except (
            OSError,
            ValueError,
            OverflowError,
        ) as exc:  # of a host or port that nobody can have
            reason = getattr(exc, "strerror", None) or str(exc)
            self._place.trouble(f"broker {self.broker_name} cannot be reached: {reason}")
            self.close()
            return
        if self.is_closed:
            self.broker.end()  # the client did not wait for it
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
        if self._place.is_holding:
            self.hold_back()
        self.client.let_go("no broker yet")

    def finished(self, end: _End) -> None:
        """One side says no more; what it said before still goes to the other."""
        other = self.other(end).transport
        if other is None or end is self.broker:
            self.close()
        elif other.can_write_eof() and not other.is_closing():
            other.write_eof()

    def close(self) -> None:
        """End both sides; what is on its way to them still goes."""
        if self.is_closed:
            return
        self.is_closed = True
        self._behind.clear()
        for end in (self.client, self.broker):
            end.framer = Framer()
            end.end()
            self._place.halves.changed(end)
        now_ns = time.time_ns()
        for exchange in self._in_flight:
            self._place.tap.end(exchange, b"", now_ns)
        self._in_flight.clear()
        self._place.tap.gone(self._number)
        self._place.left(self)

    def lost(self, end: _End) -> None:
        """A side is closed; what it held is free at once, whoever may still know of this relay."""
        end.framer = Framer()
        self._place.halves.gone(end)

    def weigh(self, end: _End) -> None:
        if not self.is_closed:
            self._place.halves.changed(end)

    def give_up(self, why: str) -> None:
        self._place.trouble(f"a connection to {self.broker_name} was ended: {why}")
        self.close()
        for each in (self.client, self.broker):
            if each.transport is not None:
                each.transport.abort()

    @property
    def unanswered_bytes(self) -> int:
        """What is kept of requests until their answers come."""
        return sum(each.held_bytes for each in self._in_flight)

    def stands_still(self) -> bool:
        """Whether a request waits for its answer that waited when this was asked before."""
        stood, self._stood = self._stood, next(iter(self._in_flight), None)
        return self._stood is not None and self._stood is stood

    def hold_back(self) -> None:
        self.client.hold_back("nobody writes fast enough")

    def let_go(self) -> None:
        self.client.let_go("nobody writes fast enough")

    def behind_bytes(self, end: _End) -> int:
        """What has come of this end and waits for a large frame before it."""
        return sum(map(len, self._behind)) if end is self.broker else 0

    # --- what passes ------------------------------------------------------------------------

    def received(self, end: _End, data: bytes) -> None:
        if self.is_closed:
            return
        self._pass_all(end, end.framer.take(data))

    def _pass_all(self, end: _End, frames: Iterable[bytes]) -> None:
        try:
            for frame in frames:
                self._pass(end, frame)
                if end is self.client and len(self._in_flight) >= _MOST_UNANSWERED:
                    end.hold_back(_UNANSWERED)
                    break  # the rest stays where it is cut, until there are answers
            self.weigh(end)
        except NotKafka as exc:
            speaks = f"speaks {exc.speaks}" if exc.speaks else f"speaks no Kafka ({exc})"
            who = "a client" if end is self.client else f"broker {self.broker_name}"
            self._end_with(f"{who} {speaks}; the proxy knows Kafka without TLS only")
        except (Malformed, struct.error, IndexError) as exc:
            self._end_with(f"what {end.name} of {self.broker_name} said is not understood: {exc}")

    def _pass(self, end: _End, frame: bytes) -> None:
        if self.is_closed:
            return  # a frame before this one has ended it
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
            self._end_with("a client logs in as before Kafka 1.0, with frames that have no head")
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
        """A version that nobody here knows could be answered with an address that nobody sees."""
        if api == API_VERSIONS and not self._in_flight:
            self.client.write(refusal(correlation))
            return
        self._end_with(f"{name_of(api)} version {version} is not known here, and was not passed on")

    def _response(self, frame: bytes) -> None:
        (correlation,) = _CORRELATION.unpack_from(frame, SIZE_BYTES)
        if not self._in_flight or self._in_flight[0].correlation != correlation:
            self._end_with(f"broker {self.broker_name} answered what was not asked")
            return
        exchange = self._in_flight[0]
        api, version = exchange.api, exchange.version
        try:
            if _is_read_aside(api, version, frame):
                self.broker.hold_back(_ASIDE)
                self._aside = asyncio.get_running_loop().create_task(
                    self._read_aside((api, version), frame)
                )
                return
            if api == API_VERSIONS:
                changed = restricted(version, frame)
            elif has_addresses(api, version):
                changed = rewritten(api, version, frame, self._place.translate)
            else:
                changed = frame
        except Malformed as exc:
            self._end_hidden(exc)
            return
        self._answer(frame, changed)

    def _answer(self, frame: bytes, changed: bytes) -> None:
        self.client.write(changed)
        self._place.passed(0, len(frame))
        self._place.tap.end(self._in_flight.popleft(), frame, time.time_ns())
        if len(self._in_flight) == _MOST_UNANSWERED // 2:
            self._pass_all(self.client, self.client.framer.take(b""))
            if len(self._in_flight) < _MOST_UNANSWERED:
                self.client.let_go(_UNANSWERED)

    def _end_hidden(self, exc: Malformed) -> None:
        exchange = self._in_flight[0]
        what = f"the response to {name_of(exchange.api)} version {exchange.version}"
        self._end_with(f"{what} was not passed on, its addresses being hidden from us: {exc}")

    async def _read_aside(self, of: tuple[int, int], frame: bytes) -> None:
        """Other connections go on meanwhile; this one's next responses wait.

        Addresses are found in a first pass and put in by a second one: ports here are opened by the
        thread that forwards.
        """
        met: dict[tuple[str, int], tuple[str, int]] = {}
        try:
            await asyncio.to_thread(rewritten, *of, frame, lambda *at: met.setdefault(at, at))
            if not self._in_flight:
                return  # the client did not wait for it
            met = {at: self._place.translate(*at) for at in met}
            changed = await asyncio.to_thread(rewritten, *of, frame, lambda *at: met[at])
        except Malformed as exc:
            if self._in_flight:
                self._end_hidden(exc)
            return
        if self.is_closed:
            return
        self._answer(frame, changed)
        self._aside, behind, self._behind = None, self._behind, deque()
        self.broker.let_go(_ASIDE)
        self._pass_all(self.broker, behind)

    def _end_with(self, why: str) -> None:
        self._place.trouble(why)
        self.close()


def _is_read_aside(api: int, version: int, frame: bytes) -> bool:
    least = _FETCH_ASIDE_BYTES if api == FETCH else _ASIDE_BYTES
    return len(frame) >= least and api != API_VERSIONS and has_addresses(api, version)


def acks_of(version: int, frame: bytes) -> int:
    """How many acknowledgements a Produce wants; with none there is no response."""
    (client,) = struct.unpack_from(">h", frame, SIZE_BYTES + 8)
    at = SIZE_BYTES + 10 + max(client, 0)
    if version >= _PRODUCE_FLEXIBLE_FROM:
        size, at = varint(frame, past_tags(frame, at))
        at += max(size - 1, 0)
    elif version >= _PRODUCE_TEXT_FROM:
        (size,) = struct.unpack_from(">h", frame, at)
        at += 2 + max(size, 0)
    (acks,) = struct.unpack_from(">h", frame, at)
    return int(acks)
