"""A real broker and a real database in one folder: up, down, status."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playhead.errors import SandboxError, ServerDidNotStart
from playhead.host import paths
from playhead.host.atomic_file import write_whole
from playhead.host.faults import abort_point
from playhead.host.folder_tree import remove_tree
from playhead.host.runtimes import command_of
from playhead.sandbox import folder as ground
from playhead.sandbox.broker import Broker
from playhead.sandbox.database import Database, database_url, guarded_url
from playhead.sandbox.folder import LOOPBACK, SandboxState

_STARTS = 4
"""How often a server is started if others take its port before it does."""


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of a running sandbox's servers."""

    directory: Path
    bootstrap_servers: str
    database_url: str

    def environment(self) -> dict[str, str]:
        """Return the environment variables for other programs."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "DATABASE_URL": self.database_url,
            "PLAYHEAD_SANDBOX_DIR": str(self.directory),
        }


@dataclass(frozen=True, slots=True)
class Status:
    """Which of the sandbox's servers run."""

    directory: Path
    broker_pid: int | None
    database_pid: int | None
    endpoints: Endpoints | None

    @property
    def is_up(self) -> bool:
        return self.broker_pid is not None and self.database_pid is not None


class Sandbox:
    """Kafka and PostgreSQL on free loopback ports, with lasting data in `directory`.

    `broker_settings` are added to the broker's properties, for tests of listeners and limits; `{broker_port}` and
    `{controller_port}` in them are replaced.
    """

    def __init__(self, directory: Path, *, broker_settings: dict[str, str] | None = None) -> None:
        self.directory = directory
        self._broker_settings = dict(broker_settings or {})

    def up(self, *, fresh: bool = False, say: Callable[[str], None] = _silent) -> Endpoints:
        """Start the servers that are not running, and return when both answer.

        If the call fails or is interrupted, it stops what it started.
        """
        user = ground.server_user()
        ground.prepare(self.directory, user)
        with ground.only_one(self.directory, say):
            broker, database = self._servers()
            if fresh:
                self._forget(broker, database)
            memory = ground.recall(self.directory)
            if memory is None:
                memory = self._begin(broker, database, say)
            elif broker.server.pid() is None and database.server.pid() is None:
                ground.expect_made_here(self.directory, memory)
            started: list[Broker | Database] = []
            try:
                memory = self._start_missing(memory, broker, database, started, say)
            except BaseException:
                for server in started:
                    server.stop()
                raise
            self._publish(memory)
            abort_point("sandbox.published")
            return self._endpoints(memory)

    def down(self, *, say: Callable[[str], None] = _silent) -> list[str]:
        """Stop the running servers and keep their data; return those that were stopped."""
        if not self.directory.exists():
            return []
        ground.expect_own(self.directory)
        with ground.only_one(self.directory, say):
            self._context_file.unlink(missing_ok=True)
            return self._stop(*self._servers())

    def status(self) -> Status:
        if self.directory.exists():
            ground.expect_own(self.directory)
        broker, database = self._servers()
        memory = ground.recall(self.directory)
        pids = broker.server.pid(), database.server.pid()
        running = memory is not None and any(pid is not None for pid in pids)
        return Status(
            self.directory, *pids, self._endpoints(memory) if memory and running else None
        )

    def endpoints(self) -> Endpoints:
        """Return the servers' addresses; raise unless all run."""
        status = self.status()
        if not status.is_up or status.endpoints is None:
            raise SandboxError(
                f"the sandbox in {self.directory} is not running",
                hint=f"start it: {paths.sandbox_command('up', self.directory)}",
            )
        return status.endpoints

    @contextmanager
    def running(self) -> Iterator[Endpoints]:
        """Run the sandbox during the block, and stop it at its end, even if this process is killed."""
        guard = self._guard()
        try:
            yield self.up()
        finally:
            self.down()
            guard.communicate()

    @property
    def broker(self) -> Broker:
        return self._servers()[0]

    @property
    def database(self) -> Database:
        return self._servers()[1]

    @property
    def _context_file(self) -> Path:
        return self.directory / "context.toml"

    def _servers(self) -> tuple[Broker, Database]:
        user = ground.server_user()
        return (
            Broker(self.directory, user=user, extra=self._broker_settings),
            Database(self.directory, user=user),
        )

    def _start_missing(
        self,
        memory: SandboxState,
        broker: Broker,
        database: Database,
        started: list[Broker | Database],
        say: Callable[[str], None],
    ) -> SandboxState:
        for attempt in range(1, _STARTS + 1):
            missing = [s for s in (broker, database) if s.server.pid() is None]
            memory = ground.with_usable_ports(
                memory, broker=broker in missing, database=database in missing
            )
            ground.remember(self.directory, memory)
            abort_point("sandbox.remembered")
            try:
                self._start(memory, (broker, database), started, say)
            except ServerDidNotStart:
                lost = [server for server in missing if server.lost_its_port()]
                if not lost or attempt == _STARTS:
                    raise
                say(f"{' and '.join(s.title for s in lost)} lost a port to another program; again")
                self._stop(*lost)
                continue
            return memory
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _start(
        self,
        memory: SandboxState,
        servers: tuple[Broker, Database],
        started: list[Broker | Database],
        say: Callable[[str], None],
    ) -> None:
        with ThreadPoolExecutor(2, thread_name_prefix="sandbox-start") as pool:
            attempts: list[Future[None]] = []
            for server in servers:
                if server.server.pid() is not None:
                    # It runs, but the `up` that started it may have died before it was ready.
                    attempts.append(pool.submit(server.wait_until_ready, memory, None))
                    continue
                started.append(server)
                attempts.append(pool.submit(_bring_up, server, memory, say))
            wait(attempts)
        for attempt in attempts:
            attempt.result()

    def _begin(
        self, broker: Broker, database: Database, say: Callable[[str], None]
    ) -> SandboxState:
        """Make a new state; data of a lost state can only be kept aside, not opened."""
        self._stop(broker, database)
        for server in (broker, database):
            if server.data.exists():
                aside = ground.move_aside(server.data)
                say(f"{server.title}'s data belong to a lost sandbox.json: kept as {aside}")
        memory = ground.new_memory()
        ground.note_made_here(self.directory, memory)
        return memory

    def _endpoints(self, memory: SandboxState) -> Endpoints:
        return Endpoints(self.directory, f"{LOOPBACK}:{memory.broker_port}", database_url(memory))

    def _publish(self, memory: SandboxState) -> None:
        """Write a context that every command finds while the sandbox is up, or its servers have died."""
        write_whole(
            self._context_file,
            f'bootstrap_servers = "{self._endpoints(memory).bootstrap_servers}"\n'
            f'database = "{guarded_url(memory)}"\n',
        )

    def _forget(self, broker: Broker, database: Database) -> None:
        self._stop(broker, database)
        (self.directory / "sandbox.json").unlink(missing_ok=True)
        for folder in (broker.directory, database.directory):
            remove_tree(folder)

    @staticmethod
    def _stop(*servers: Broker | Database) -> list[str]:
        with ThreadPoolExecutor(2, thread_name_prefix="sandbox-stop") as pool:
            stopped = list(pool.map(lambda server: server.stop(), servers))
        return [server.title for server, was in zip(servers, stopped, strict=True) if was]

    def _guard(self) -> "subprocess.Popen[bytes]":
        """Start a process that stops this sandbox when this process ends or closes its stdin."""
        return subprocess.Popen(
            [*command_of("playhead.sandbox.guard"), str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _bring_up(server: Broker | Database, memory: SandboxState, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    server.server.end_strays()
    for remark in server.prepare(memory):
        say(remark)
    process = server.start() if isinstance(server, Broker) else server.start(memory)
    server.wait_until_ready(memory, process)
    with contextlib.suppress(ValueError):
        say(f"{server.title} is ready after {time.monotonic() - began:.1f} s")
