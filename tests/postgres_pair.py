"""Two PostgreSQL servers that begin with the same files: one to record on, one to replay on."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from playhead.host.runtimes import PostgresPrograms, find_postgres
from playhead.sandbox.folder import free_port, server_user, within_reach
from playhead.sandbox.process import User, environment

_QUICK = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "fsync": "on",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "deadlock_timeout": "200ms",
}
LOGGING = {
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "log",
    "log_filename": "server.log",
    "log_connections": "on",
    "log_disconnections": "on",
    "log_timezone": "UTC",
    "log_rotation_age": "0",
    "log_rotation_size": "0",
}
DURATIONS = LOGGING | {"log_min_duration_statement": "0", "log_statement": "none"}
STARTS = LOGGING | {"log_min_duration_statement": "-1", "log_statement": "all"}


@dataclass
class Postgres:
    """One server in a folder."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    programs: PostgresPrograms | None = None
    """Those of another version than the sandbox's."""

    @property
    def user(self) -> User | None:
        return server_user()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://app@127.0.0.1:{self.port}/app"

    @property
    def log(self) -> Path:
        return self.data / "log" / "server.csv"

    def program(self, name: str) -> str:
        programs = self.programs or find_postgres()
        root = within_reach(programs.root, programs.pieces, self.folder.parent, self.user)
        return str(root / programs.bin_dir.relative_to(programs.root) / name)

    def run(self, *command: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            command,
            env=environment(self.folder),
            cwd=self.folder,
            check=True,
            capture_output=True,
            **User.keywords(self.user),
        )

    def make(self) -> None:
        self.folder.mkdir(parents=True)
        self._own()
        options = ("-U", "app", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.run(self.program("initdb"), "-D", str(self.data), *options)

    def _own(self) -> None:
        """Let the user of the servers own the folder, and enter every folder on the way."""
        for path in self.folder.parents:
            with suppress(PermissionError):
                path.chmod(path.stat().st_mode | 0o011)
        for path in [self.folder, *self.folder.rglob("*")]:
            if self.user is not None:
                os.chown(path, self.user.uid, self.user.gid)

    def start(self) -> None:
        self._own()
        self.port = self.port or free_port()
        settings = {**_QUICK, **self.settings}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [self.program("postgres"), "-D", str(self.data), "-p", str(self.port), *options],
                env=environment(self.folder),
                cwd=self.folder,
                stdout=output,
                stderr=output,
                start_new_session=True,
                **User.keywords(self.user),
            )
        self._await()

    def _await(self) -> None:
        maintenance = self.url.rpartition("/")[0] + "/postgres"
        until = time.monotonic() + 60
        while True:
            try:
                with psycopg.connect(maintenance, connect_timeout=2, autocommit=True) as connection:
                    found = connection.execute("SELECT FROM pg_database WHERE datname = 'app'")
                    if found.fetchone() is None:
                        connection.execute("CREATE DATABASE app")
                return
            except psycopg.Error:
                assert time.monotonic() < until, (self.folder / "output").read_text()
                time.sleep(0.05)

    def stop(self, sign: signal.Signals = signal.SIGINT) -> None:
        if self.process is None:
            return
        self.process.send_signal(sign)
        self.process.wait(30)
        self.process = None

    def crash(self) -> None:
        """Kill the server and all its processes, as a power failure would."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self.process = None
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it take no connection, and no request to cancel; its sessions play on."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(postmaster, signal.SIGCONT)

    def copy_to(self, folder: Path, settings: Mapping[str, str] | None = None) -> "Postgres":
        """Copy a stopped server."""
        folder.mkdir(parents=True)
        shutil.copytree(self.data, folder / "data", ignore=shutil.ignore_patterns("log"))
        copy = Postgres(folder, settings or {}, programs=self.programs)
        copy._own()
        copy.data.chmod(0o700)
        return copy

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(text.encode())
            return found.fetchall() if found.description else []


@contextmanager
def started(*servers: Postgres) -> Iterator[None]:
    try:
        for server in servers:
            server.start()
        yield
    finally:
        for server in servers:
            server.stop()
