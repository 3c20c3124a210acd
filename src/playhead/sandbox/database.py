"""The sandbox's PostgreSQL: TCP on loopback, logs in csvlog, ready for logical replication."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from playhead.host.faults import abort_point
from playhead.host.folders import opened, read_plain
from playhead.host.runtimes import find_postgres
from playhead.sandbox.folder import (
    LOOPBACK,
    SandboxState,
    give,
    hand,
    move_aside,
    new_unfinished,
    within_reach,
)
from playhead.sandbox.process import Server, User, await_server, run_to_end, tail

NAME = USER = "playhead"
_STOP_PATIENCE_S = 10.0
_LONGEST_LOCK = 4_096
_REQUIRES_AUTH = 160_000
"""The first version of libpq that can refuse a way to log in."""

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    # TCP only: a socket's path is limited to 107 bytes, a folder's is not.
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    # Every statement, for query replays; a weekday's file is overwritten after a week.
    "logging_collector": "on",
    "log_destination": "csvlog",
    "log_directory": "../log",
    "log_filename": "postgresql-%a.log",
    "log_truncate_on_rotation": "on",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_statement": "all",
    "log_connections": "on",
    "log_disconnections": "on",
    "log_timezone": "UTC",
}


class Database:
    """A PostgreSQL server with its data in `<sandbox>/postgres`."""

    title = "PostgreSQL"

    def __init__(self, directory: Path, *, user: User | None) -> None:
        self.directory = directory / "postgres"
        self._user = user
        self.server = Server("postgres", self.directory, str(self.data), user)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The latest log: a csvlog, or what the server printed before it opened one."""
        logs = [file for file in self.directory.glob("log/*.csv") if file.exists()]
        return max([self.server.output, *logs], key=_written_at)

    def prepare(self, memory: SandboxState) -> list[str]:
        """Initialise the data folder if there is no usable one; report what was wrong."""
        give(self.directory, self._user)
        remarks = []
        if self.data.exists() and not (self.data / "PG_VERSION").exists():
            aside = move_aside(self.data)
            remarks.append(
                f"PostgreSQL's data folder was not usable (half made?); it is kept as {aside}"
            )
        if not self.data.exists():
            self._initialise(memory.database_password)
        self._drop_foreign_lock()
        return remarks

    def start(self, memory: SandboxState) -> "subprocess.Popen[bytes]":
        settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
        command = [
            self._program("postgres"),
            "-D",
            str(self.data),
            "-p",
            str(memory.database_port),
        ]
        process = self.server.spawn([*command, *settings])
        abort_point("sandbox.database.started")
        return process

    def wait_until_ready(
        self, memory: SandboxState, process: "subprocess.Popen[bytes] | None"
    ) -> None:
        """Return when our own database accepts our login."""
        await_server(self, process, lambda: _lets_in(memory))

    def stop(self) -> bool:
        """Shut down fast: open sessions end, and everything committed stays."""
        return self.server.stop(graceful=signal.SIGINT, patience_s=_STOP_PATIENCE_S)

    def lost_its_port(self) -> bool:
        """Return whether the last start failed because another process took the port."""
        said = "\n".join(tail(self.server.output, 50) + tail(self.log, 50))
        return "could not bind" in said or "could not create any TCP/IP sockets" in said

    def _program(self, name: str) -> str:
        programs = find_postgres()
        root = within_reach(programs.root, programs.pieces, self.directory.parent, self._user)
        return str(root / programs.bin_dir.relative_to(programs.root) / name)

    def _initialise(self, password: str) -> None:
        unfinished = new_unfinished(self.data)
        password_file = self.directory.with_name("postgres.password")
        hand(password_file, password, self._user)
        command = [self._program("initdb"), "-D", str(unfinished), "-U", USER, "-E", "UTF8"]
        command += ["--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password_file}"]
        try:
            run_to_end(
                "making PostgreSQL's data folder",
                command,
                directory=self.directory,
                user=self._user,
            )
        finally:
            password_file.unlink(missing_ok=True)
        abort_point("sandbox.database.initialised")
        unfinished.rename(self.data)

    def _drop_foreign_lock(self) -> None:
        """Remove a postmaster.pid whose number now belongs to another program.

        PostgreSQL refuses to start while any process of that number lives.
        """
        with suppress(OSError, ValueError), opened(self.directory, self.data.name) as data:
            lock = read_plain("postmaster.pid", most=_LONGEST_LOCK, folder=data)
            pid = int(lock.split(b"\n", 1)[0])
            if b"postgres" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.unlink("postmaster.pid", dir_fd=data)


def _written_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def database_url(memory: SandboxState, name: str = NAME) -> str:
    """Return a database's URL with its password, which clients of every version understand."""
    return (
        f"postgresql://{USER}:{memory.database_password}@{LOOPBACK}:{memory.database_port}/{name}"
    )


def guarded_url(memory: SandboxState, name: str = NAME) -> str:
    """Return a database's URL with which our libpq sends the password to no server that asks for it.

    Another user can take the port before the server does, and when the server has ended.
    """
    import psycopg

    url = database_url(memory, name)
    can_refuse = psycopg.pq.version() >= _REQUIRES_AUTH
    return f"{url}?require_auth=scram-sha-256" if can_refuse else url


def _lets_in(memory: SandboxState) -> bool:
    """Return whether our own password is accepted; create our database at the first success."""
    import psycopg
    from psycopg import sql

    maintenance = guarded_url(memory, "postgres")
    try:
        with psycopg.connect(maintenance, connect_timeout=2, autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME])
            if found.fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
    except psycopg.Error:
        return False
    return True
