"""Runs the proxy: its ports, its relays, the recorder process, and an orderly shutdown."""

import asyncio
import gc
import json
import resource
import socket
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import Event, Thread
from typing import Any, Final

from playhead.capture.address import HostPort
from playhead.capture.counts import Counts
from playhead.capture.decode_records import MEMORY_BYTES
from playhead.capture.frame_memory import Halves
from playhead.capture.frames import LEAST_MOST_BYTES
from playhead.capture.listeners import MOST_PORTS, Listeners
from playhead.capture.protocol import apis
from playhead.capture.recorder import RecorderConfig
from playhead.capture.recorder_queue import OnSlow, RecorderQueue
from playhead.capture.relay import Relay
from playhead.capture.unanswered import UnansweredWatch
from playhead.host.networks import Networks
from playhead.host.runtimes import command_of

_LINE_BYTES: Final = 1 << 20
_MOST_TROUBLES: Final = 100
_LOOK_EVERY_S: Final = 1.0
_ENDS_EVERY_S: Final = 0.01
_MOST_CONNECTIONS: Final = 10_000
# Threads that parse share one core, and each needs several times the bytes of its response.
_MOST_PARSED_AT_ONCE: Final = 2
# A connection has two sockets. The rest is for ports, files, and a hundred clients that are accepted at once.
_OTHER_HANDLES: Final = 256
_PORTS_AMONG_THEM: Final = 100


@dataclass(frozen=True, slots=True)
class Setting:
    """The addresses of the proxy, and how it records."""

    listen: HostPort
    upstream: HostPort
    order: RecorderConfig
    on_slow: OnSlow = "block"
    memory_bytes: int = MEMORY_BYTES
    advertise: str | None = None
    networks: Networks | None = None
    """Networks whose clients are accepted; None if the address is loopback."""


class Proxy:
    """Runs in its own thread, so that a blocked terminal does not stop traffic."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.doors = Listeners(
            setting.listen, setting.upstream, setting.advertise, _most_files() // 2
        )
        self.tap = RecorderQueue(
            setting.memory_bytes, setting.on_slow, self._hold, self._hold_responses
        )
        self.halves = Halves(setting.memory_bytes, self.trouble)
        self._unanswered = UnansweredWatch(setting.memory_bytes)
        self.most_request_bytes = max(setting.memory_bytes, LEAST_MOST_BYTES)
        self.parsing = asyncio.Semaphore(_MOST_PARSED_AT_ONCE)
        self.is_holding = self.is_holding_responses = False
        self.error: BaseException | None = None
        self.ended = Event()
        self._relays: dict[Relay, None] = {}
        """The connections; the one that sent or received last is the last one."""
        self._most_relays = _most_connections()
        self._ports = 0
        self._connections = 0
        self._to_broker = self._to_client = 0
        self._troubles: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_stopped = False
        self._scribe: subprocess.Popen[bytes] | None = None
        self._told: dict[str, Any] = {}
        self._listening: Thread | None = None

    # --- called from outside ----------------------------------------------------------------

    def start(self) -> None:
        Thread(target=self._run, name="capture", daemon=True).start()

    def stop(self) -> None:
        """Close the ports and the connections, record the remaining pairs, and stop."""
        self._is_stopped = True
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # the thread has ended already, and its loop is closed
                self._loop.call_soon_threadsafe(self._stopping.set)

    def counts(self) -> Counts:
        tap, told = self.tap, self._told
        known = {
            name: told.get(name, 0)
            for name in ("left_out", "unreadable", "records", "written_bytes", "files")
        }
        written = told.get("pairs", 0)
        lost = self._lost_with_the_scribe(tap.handed, written + known["left_out"])
        return Counts(
            connections=self._connections,
            open_connections=len(self._relays),
            to_broker_bytes=self._to_broker,
            to_client_bytes=self._to_client,
            pairs=tap.handed + tap.dropped + tap.waiting,
            written=written,
            dropped=tap.dropped + lost,
            held_bytes=tap.held_bytes,
            most_held_bytes=tap.most_held_bytes,
            redacted_fields=told.get("redacted_fields", 0),
            redacted_values=told.get("redacted_values", 0),
            undecodable=dict(told.get("undecodable", {})),
            brokers=self.doors.known(),
            troubles=dict(self._troubles),
            **known,
        )

    @property
    def is_stopping(self) -> bool:
        """Return whether clients are no longer served, and the remaining pairs are being written."""
        return self._is_stopped

    def scribe_error(self) -> str | None:
        """Return why recording has stopped; None if it runs."""
        found: str | None = self._told.get("error")
        has_failed = self._scribe is not None and bool(self._scribe.returncode)
        if found is None and (has_failed or (self.tap.is_broken and not self._is_stopped)):
            return "the recorder process has ended"
        return found

    def _lost_with_the_scribe(self, handed: int, known: int) -> int:
        # After a stop, the recorder first writes what it has received, and tells it last.
        is_writing_rest = self._is_stopped and not self.ended.is_set()
        if not self.tap.is_broken or is_writing_rest:
            return 0
        return max(handed - known - int(self._told.get("unreadable", 0)), 0)

    # --- called by relays -------------------------------------------------------------------

    def admits(self, host: str) -> bool:
        return self._setting.networks is None or self._setting.networks.admit(host)

    def translate(self, host: str, port: int) -> tuple[str, int]:
        found = self.doors.translate(host, port)
        if self.doors.count != self._ports:
            self._ports = self.doors.count
            self._most_relays = _most_connections(self._ports)
            why = "ports of brokers need its files (ulimit -n), and it was idle"
            self._close_idle(self._most_relays, why)
        return found

    def came(self, relay: Relay) -> int:
        why = f"more than {self._most_relays:,} are open (ulimit -n), and it was idle"
        self._close_idle(self._most_relays - 1, why)
        self._relays[relay] = None
        self._connections += 1
        return self._connections

    def _close_idle(self, most: int, why: str) -> None:
        """Close connections until at most `most` are open."""
        while len(self._relays) > most:
            # Idle connections must not keep others out; a client opens its own again when it needs it.
            # First one that is closed, and whose client does not read the rest.
            closed = (each for each in self._relays if each.is_closed)
            waiting = (each for each in self._relays if not each.is_awaiting)
            idle = next(closed, None) or next(waiting, None) or next(iter(self._relays))
            idle.give_up(why)

    def moved(self, relay: Relay) -> None:
        self._relays[relay] = self._relays.pop(relay, None)

    def left(self, relay: Relay) -> None:
        self._relays.pop(relay, None)

    def trouble(self, what: str) -> None:
        if what not in self._troubles and len(self._troubles) >= _MOST_TROUBLES:
            what = "other troubles"
        self._troubles[what] += 1

    def passed(self, to_broker: int, to_client: int) -> None:
        self._to_broker += to_broker
        self._to_client += to_client

    def _hold(self, is_holding: bool) -> None:
        self.is_holding = is_holding
        self._apply_holds()

    def _hold_responses(self, is_holding: bool) -> None:
        self.is_holding_responses = is_holding
        self._apply_holds()

    def _apply_holds(self) -> None:
        # A request whose response must wait for the recorder is not to blame.
        self._unanswered.hold(self.is_holding and not self.is_holding_responses)
        for relay in self._relays:
            relay.heed_recorder()

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as exc:  # noqa: BLE001  the command reports any error
            self.error = exc
        finally:
            self.ended.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        if self._is_stopped:
            self._stopping.set()
        apis()
        await self._start_scribe()
        # Imported objects live as long as the process, so the garbage collector can skip them.
        gc.collect()
        gc.freeze()
        self.doors.open(lambda broker: Relay(self, (broker.host, broker.port), str(broker)).client)
        await self._until_stopped(self._stopping)
        self.doors.close()
        for relay in list(self._relays):
            relay.close()
        await self.tap.finish()
        scribe, listening = self._scribe, self._listening
        if scribe is not None and listening is not None:
            # Not in threads: after a second signal Python would wait for those, however long the recorder writes.
            while listening.is_alive() or scribe.poll() is None:
                await asyncio.sleep(_ENDS_EVERY_S)

    async def _until_stopped(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _LOOK_EVERY_S)
            self.halves.look()
            self._unanswered.look(list(self._relays))

    async def _start_scribe(self) -> None:
        """Start the recorder process, with a pipe to it that reports when it is full, and one back."""
        here, there = socket.socketpair()
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LINE_BYTES)
        order = asdict(self._setting.order) | {"memory_bytes": self._setting.memory_bytes}
        with there:
            self._scribe = subprocess.Popen(
                [
                    *command_of("playhead.capture.recorder"),
                    json.dumps(order),
                ],
                stdin=there.fileno(),
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches the proxy only; the recorder ends when its input ends
            )
        self._listening = Thread(target=self._listen, name="scribe", daemon=True)
        self._listening.start()
        assert self._loop is not None  # noqa: S101
        transport, _ = await self._loop.create_connection(lambda: self.tap, sock=here)
        transport.set_write_buffer_limits(high=_LINE_BYTES)

    def _listen(self) -> None:
        assert self._scribe is not None  # noqa: S101
        assert self._scribe.stdout is not None  # noqa: S101
        with self._scribe.stdout as lines:
            for line in lines:
                self._told = json.loads(line)


def _most_connections(ports: int = 0) -> int:
    """Return how many connections the limit of open files allows beside the ports."""
    others = _OTHER_HANDLES + max(ports - _PORTS_AMONG_THEM, 0)
    return max(min((_most_files() - others) // 2, _MOST_CONNECTIONS), 1)


def _most_files() -> int:
    """Return how many files may be open; the limit is raised as far as it can be."""
    wanted = 2 * _MOST_CONNECTIONS + _OTHER_HANDLES + MOST_PORTS
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return wanted if allowed == resource.RLIM_INFINITY else allowed
