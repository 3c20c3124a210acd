"""Copies forwarded pairs into a bounded buffer, and sends them to the recorder process.

Only the thread that forwards calls it. When memory is full, `drop` leaves pairs out and counts them;
`block` says so, and whoever forwards then takes no more requests until there is room. Responses to
what was asked before wait too, but only while the recorder has pairs to write: the copy of a request is
free only when there is a response. A pair that is larger than all of the memory is passed on, and counted
as dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from playhead.capture.frames import SIZE_BYTES
from playhead.capture.pair_document import Captured, Connection, is_withheld
from playhead.capture.pipe_format import packed_connection, packed_end, packed_head
from playhead.capture.protocol import read_header

OnSlow = Literal["block", "drop"]
# The overhead of a pair in this process, which matters for millions of small requests.
PAIR_BYTES: Final = 640
# What is noted of a request that has no copy, until its answer.
_NOTE_BYTES: Final = 200
# Clients have a few requests in flight; each costs more memory than the bytes of a small request.
_MOST_UNANSWERED: Final = 1_000
_FEW_UNANSWERED: Final = 10
"""How many a connection may have while the notes of all of them fill the memory."""


@dataclass(slots=True)
class Exchange:
    """A request without a response yet, and its copy."""

    api: int
    version: int
    correlation: int
    connection: int
    at_ns: int
    size: int
    request: bytes | None
    """The copy; None if the buffer was full."""
    was_awaited: bool = True

    @property
    def held_bytes(self) -> int:
        """Memory that the copy takes, in bytes."""
        return 0 if self.request is None else PAIR_BYTES + len(self.request)


class RecorderQueue(asyncio.Protocol):
    """The pipe to the recorder; asyncio calls `pause_writing` when it is full and `resume_writing` later."""

    def __init__(
        self,
        most_bytes: int,
        on_slow: OnSlow,
        hold: Callable[[bool], None],
        hold_responses: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._most, self._on_slow, self._hold = most_bytes, on_slow, hold
        self._hold_responses = hold_responses
        self._line: asyncio.WriteTransport | None = None
        self._queue: deque[tuple[int, tuple[bytes, ...]]] = deque()
        self._untold: dict[int, Connection] = {}
        self._line_is_full = False
        self._is_holding = self._is_holding_responses = False
        self._queued_bytes = 0
        """Bytes of whole pairs, which become free without another response."""
        self.is_broken = False
        self.held_bytes = 0
        self.most_held_bytes = 0
        self.dropped = 0
        self.handed = 0
        self.waiting = 0
        """Pairs that are not written to the pipe yet."""
        self._noted = 0
        """Requests without a copy that have no answer yet."""

    # --- called by asyncio ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101
        self._line = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The recorder has ended: traffic continues, and all further pairs are dropped."""
        self.is_broken = True
        self.dropped += self.waiting
        self.waiting = self.held_bytes = self._queued_bytes = 0
        self._queue.clear()
        self._look_at_room()

    def pause_writing(self) -> None:
        self._line_is_full = True

    def resume_writing(self) -> None:
        self._line_is_full = False
        self._pump()

    # --- called by relays --------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        """Register a connection; it is sent to the recorder with its first pair only."""
        self._untold[connection.number] = connection

    def gone(self, number: int) -> None:
        """Note that the connection has ended."""
        if self._untold.pop(number, None) is None:
            self._put(0, (packed_end(number),))

    def begin(self, exchange: Exchange) -> None:
        """Copy the request, if there is space."""
        assert exchange.request is not None  # noqa: S101
        if is_withheld(exchange.api):
            exchange.request = _head_of(exchange.request)
        size = exchange.held_bytes
        full = self._on_slow == "drop" and self.held_bytes + size > self._most
        if self.is_broken or full or size > self._most:
            exchange.request = None
            self._noted += 1
            return
        self._grow(size)

    def end(self, exchange: Exchange, response: bytes, now_ns: int) -> None:
        """Send the pair to the recorder; an empty response means that there was none."""
        held = exchange.held_bytes
        request, exchange.request = exchange.request, None
        if request is None:
            self.dropped += 1
            self._noted -= 1
            return
        size = len(response)
        kept = b"" if is_withheld(exchange.api) else response
        full = self._on_slow == "drop" and self.held_bytes + len(kept) > self._most
        if self.is_broken or full or held + len(kept) > self._most:
            self.held_bytes = max(self.held_bytes - held, 0)
            self.dropped += 1
            self._look_at_room()
            return
        self._grow(len(kept))
        found = Captured(
            exchange.connection,
            exchange.at_ns,
            max(now_ns - exchange.at_ns, 0),
            request,
            kept,
            exchange.size,
            size,
            exchange.was_awaited,
        )
        first = self._untold.pop(exchange.connection, None)
        told = () if first is None else (packed_connection(first),)
        self._put(held + len(kept), (*told, packed_head(found), request, kept))

    @property
    def most_unanswered(self) -> int:
        """How many requests without an answer a connection may have."""
        is_full = self._noted * _NOTE_BYTES > self._most
        return _FEW_UNANSWERED if is_full else _MOST_UNANSWERED

    async def finish(self) -> None:
        """Return when all pairs are written to the pipe, and the pipe is closed."""
        while self._queue and not self.is_broken:
            await asyncio.sleep(0.01)
        if self._line is not None:
            self._line.close()  # buffered bytes are sent first

    def give_up(self) -> None:
        """Close the pipe at once, and discard its buffer."""
        if self._line is not None:
            self._line.abort()

    # --- inside -----------------------------------------------------------------------------

    def _put(self, size: int, parts: tuple[bytes, ...]) -> None:
        if self.is_broken:
            return
        self._queue.append((size, parts))
        self._queued_bytes += size
        self.waiting += bool(size)
        self._pump()

    def _pump(self) -> None:
        line = self._line
        while self._queue and line is not None and not self._line_is_full and not self.is_broken:
            size, parts = self._queue.popleft()
            line.write(b"".join(parts))
            self.held_bytes = max(self.held_bytes - size, 0)
            self._queued_bytes -= size
            self.handed += bool(size)
            self.waiting -= bool(size)
        self._look_at_room()

    def _grow(self, size: int) -> None:
        self.held_bytes += size
        self.most_held_bytes = max(self.most_held_bytes, self.held_bytes)
        self._look_at_room()

    def _look_at_room(self) -> None:
        """Stop reading requests when the buffer is full, and resume when half of it is free."""
        if self._on_slow != "block":
            return
        if self._is_holding:
            if self.held_bytes <= self._most // 2 or self.is_broken:
                self._is_holding = False
                self._hold(False)
        elif self.held_bytes > self._most and not self.is_broken:
            self._is_holding = True
            self._hold(True)
        self._look_at_responses()

    def _look_at_responses(self) -> None:
        """Stop reading responses when whole pairs fill half of a full buffer: a client may have asked for
        a thousand large ones before it was held back."""
        if self._is_holding_responses:
            if not self._is_holding or self._queued_bytes <= self._most // 4:
                self._is_holding_responses = False
                self._hold_responses(False)
        elif self._is_holding and self._queued_bytes > self._most // 2:
            self._is_holding_responses = True
            self._hold_responses(True)


def _head_of(frame: bytes) -> bytes:
    """Return the first bytes of a request, which identify it and contain none of its content."""
    return frame[: SIZE_BYTES + read_header(frame[SIZE_BYTES:]).body_at]
