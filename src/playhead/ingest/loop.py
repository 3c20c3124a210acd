"""Reads datagrams as fast as they arrive and sends them to a topic, without waiting for the broker."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Literal

from playhead.config.guards import Guard
from playhead.host.faults import abort_point
from playhead.ingest.counts import Counts
from playhead.ingest.json_path import Unfit
from playhead.ingest.record_shape import RecordShape
from playhead.ingest.status_lines import ProducerStatus
from playhead.ingest.udp_socket import Listener
from playhead.kafka.produce.nonblocking_sender import NonBlockingSender
from playhead.kafka.write.dead_letter_headers import refusal_headers
from playhead.record import Headers

Rule = Literal["fail", "skip", "dlq"]
PEER_HEADER = "peer"
# A small number, so that the client's callbacks run many times a second under full load.
_AT_ONCE = 256
_IDLE_MS = 50


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class Ingest:
    """One run: `run` in its own thread, `counts` and `stop` from any thread."""

    listener: Listener
    shape: RecordShape
    outlet: NonBlockingSender
    guard: Guard
    on_bad: Rule = "skip"
    dead_letters: NonBlockingSender | None = None
    """The sender for dead letters; required for the rule `dlq`."""
    by_lines: bool = False
    flush_s: float = 30.0
    now_ms: Callable[[], int] = _now_ms
    first_refusal: Unfit | None = None
    ended: Event = field(default_factory=Event)
    error: BaseException | None = None
    """The error that ended the run; None after `stop`."""
    _stopping: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)
    _datagrams: int = 0
    _bytes: int = 0
    _empty: int = 0
    _truncated: int = 0
    _records: int = 0
    _refused: int = 0
    _kernel_drops: int | None = None
    _shut: bool = False
    _kinds: "Counter[str]" = field(default_factory=Counter)

    def __post_init__(self) -> None:
        topic = self.outlet.topic
        self.guard.need(f"writing datagrams from {self.listener.address} to {topic}", topic)

    def run(self) -> None:
        """Return when every datagram that arrived before `stop` has its outcome."""
        for step in (self._receive, self._read_the_rest, self._flush):
            try:
                step()
            except BaseException as exc:  # noqa: BLE001  raised where the end is awaited
                self.error = self.error or exc
        self.ended.set()

    def stop(self) -> None:
        """Accept nothing more; end when everything is delivered or after `flush_s`."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def counts(self) -> Counts:
        """The present counts; their sum is right at every moment."""
        with self._lock:
            return self._counted()

    def heard(self) -> ProducerStatus:
        """What the client reports of the topic's records."""
        return ProducerStatus(self.outlet.trouble, self.outlet.reasons)

    def failures(self) -> list[str]:
        """Why records failed, each reason once."""
        outlets = filter(None, (self.outlet, self.dead_letters))
        return [reason for outlet in outlets for reason in outlet.reasons]

    def _counted(self) -> Counts:
        buried = self.dead_letters
        return Counts(
            datagrams=self._datagrams,
            bytes=self._bytes,
            empty=self._empty,
            truncated=self._truncated,
            records=self._records,
            waiting=self.outlet.waiting + (buried.waiting if buried else 0),
            delivered=self.outlet.delivered,
            dead_lettered=buried.delivered if buried else 0,
            refused=self._refused,
            dropped=self.outlet.dropped + (buried.dropped if buried else 0),
            failed=self.outlet.failed + (buried.failed if buried else 0),
            strangers=self.listener.strangers,
            kernel_drops=self._kernel_drops if self._shut else self.listener.kernel_drops(),
            refusals=dict(self._kinds),
        )

    def _turn(self, wait_ms: int) -> int:
        datagrams, peers = self.listener.receive(_AT_ONCE, wait_ms)
        abort_point("ingest.received")
        with self._lock:
            self._take(datagrams, peers)
            self.outlet.serve()
            if self.dead_letters is not None:
                self.dead_letters.serve()
        abort_point("ingest.offered")
        return len(datagrams)

    def _receive(self) -> None:
        while not self._stopping.is_set():
            self._turn(_IDLE_MS)

    def _read_the_rest(self) -> None:
        """Read what has arrived, which would otherwise be lost without a trace."""
        self.listener.shut()
        while self._turn(0) or self.listener.has_more:
            pass
        abort_point("ingest.shut")
        with self._lock:
            self._kernel_drops, self._shut = self.listener.kernel_drops(), True
            self.listener.close()

    def _flush(self) -> None:
        deadline = time.monotonic() + self.flush_s
        for outlet in filter(None, (self.outlet, self.dead_letters)):
            outlet.close(max(deadline - time.monotonic(), 0))
        abort_point("ingest.flushed")

    def _take(self, datagrams: Sequence[bytes], peers: Sequence[str]) -> None:
        arrival_ms, headers = self.now_ms(), ()
        most = self.listener.most_bytes
        self._datagrams += len(datagrams)
        self._bytes += sum(map(len, datagrams))
        for number, datagram in enumerate(datagrams):
            own: Headers = ((PEER_HEADER, peers[number].encode()),) if peers else headers
            if len(datagram) > most:
                self._truncated += 1
                self._records += 1
                reason = f"it is longer than {most:,} bytes"
                self._refuse(datagram, arrival_ms, own, Unfit("truncated", reason=reason))
            elif self.by_lines:
                self._take_lines(datagram, arrival_ms, own)
            else:
                self._record(datagram, arrival_ms, own)

    def _take_lines(self, datagram: bytes, arrival_ms: int, headers: Headers) -> None:
        lines = lines_of(datagram)
        self._empty += not lines
        for line in lines:
            self._record(line, arrival_ms, headers)

    def _record(self, value: bytes, arrival_ms: int, headers: Headers) -> None:
        self._records += 1
        try:
            key, timestamp_ms = self.shape.of(value, arrival_ms)
        except Unfit as exc:
            self._refuse(value, arrival_ms, headers, exc)
        else:
            self.outlet.offer(value, key, timestamp_ms, headers)

    def _refuse(self, value: bytes, arrival_ms: int, headers: Headers, exc: Unfit) -> None:
        self._kinds[exc.kind] += 1
        if self.first_refusal is None:
            self.first_refusal = exc
        if self.dead_letters is not None:
            reasons = refusal_headers(self.outlet.topic, arrival_ms, exc.kind, exc.reason)
            self.dead_letters.offer(value, None, arrival_ms, headers + reasons)
            return
        self._refused += 1
        if self.on_bad == "fail":
            # Also take what arrived with it, which would be lost otherwise.
            self._stopping.set()


def lines_of(datagram: bytes) -> list[bytes]:
    """Return the lines of a datagram without their ends; empty lines are left out."""
    return [line for each in datagram.split(b"\n") if (line := each.removesuffix(b"\r"))]
