"""The sandbox's PostgreSQL: over TCP on loopback, logging to csvlog, ready for logical replication."""

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

_SETTINGS = {
    "listen_addresses": LOOPBACK,
    # TCP only: a socket's path may not be longer than 107 bytes, a folder's may.
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    # Every statement, as the query replays need them; a weekday's file is overwritten a week later.
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
    """A PostgreSQL server whose data live in `<sandbox>/postgres`."""

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
        """What was written last: a csvlog, or what the server printed before it opened one."""
        logs = [file for file in self.directory.glob("log/*.csv") if file.exists()]
        return max([self.server.output, *logs], key=_written_at)

    def prepare(self, memory: SandboxState) -> list[str]:
        """Initialise the data folder if there is none that can be used; says what was out of order."""
        give(self.directory, self._user)
        remarks = []
        if self.data.exists() and not (self.data / "PG_VERSION").exists():
            aside = move_aside(self.data)
            remarks.append(f"PostgreSQL's data folder was not usable (half made?); kept as {aside}")
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
        """Return when our own database lets us in."""
        await_server(self, process, lambda: _lets_in(memory))

    def stop(self) -> bool:
        """A fast shutdown: open sessions are ended, everything committed is kept."""
        return self.server.stop(graceful=signal.SIGINT, patience_s=_STOP_PATIENCE_S)

    def lost_its_port(self) -> bool:
        """True when the last start failed because somebody else had taken the port."""
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
        """Remove a postmaster.pid whose number now belongs to some other program.

        PostgreSQL refuses to start while a process of that number lives, whatever it is.
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


def database_url(memory: SandboxState) -> str:
    """Where the database is, with its password."""
    return (
        f"postgresql://{USER}:{memory.database_password}@{LOOPBACK}:{memory.database_port}/{NAME}"
    )


def _lets_in(memory: SandboxState) -> bool:
    """True when we are let in with our own password; makes our database at its first success."""
    import psycopg
    from psycopg import sql

    maintenance = database_url(memory).rpartition("/")[0] + "/postgres"
    try:
        with psycopg.connect(maintenance, connect_timeout=2, autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME])
            if found.fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
    except psycopg.Error:
        return False
    return True
