"""The warm engine's own process: `python -m playhead.cli.warm_engine IDLE_MS [--at-once]`."""

import contextlib
import fcntl
import importlib
import os
import signal
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path

from playhead.cli import app
from playhead.cli.warm import handover, priority
from playhead.cli.warm.server import Server
from playhead.host import local_socket
from playhead.spark import attached, engine_settings, session
from playhead.spark.jvm import EngineDidNotStart, Gateway
from playhead.spark.task_daemon import SETTING as DAEMON

_LOCK = "lock"
_DAEMON_MODULE = "playhead.cli.warm.task_daemon"
# Tasks that keep a pace wait most of the time: beside them there is room for other commands'.
_MASTER = "local[32]"
# What commands load when they are used; loaded here, the processes of all commands share it.
_LOADED = (
    "confluent_kafka",
    "psycopg",
    "pyarrow",
    "rich.console",
    "rich.table",
    "playhead.cli.replay.replay",
    "playhead.cli.replay.gaps",
    "playhead.cli.replay.resume",
    "playhead.cli.replay.verify",
    "playhead.gaps.search",
    "playhead.kafka.system",
    "playhead.kafka.read.source",
    "playhead.postgres.system",
    "playhead.postgres.target",
    "playhead.files.system",
    "playhead.spark.run",
    "playhead.spark.arrow_rows",
    "playhead.spark.transform",
)


def main() -> None:
    """Start, serve, end."""
    idle_s = int(sys.argv[1]) / 1000
    for kind in (signal.SIGINT, signal.SIGHUP):
        signal.signal(kind, signal.SIG_IGN)
    os.umask(0o077)
    path = handover.folder()
    with local_socket.private_folder(path, make=True) as folder:
        lock = os.open(
            _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another process is starting one
        identity = handover.identity()
        settings = engine_settings.settings("playhead", _MASTER, ui=False)
        settings |= {DAEMON: _DAEMON_MODULE, "spark.default.parallelism": str(os.cpu_count() or 1)}
        with nullcontext() if "--at-once" in sys.argv[2:] else priority.lowered():
            gateway = _started(settings)
        try:
            with contextlib.closing(local_socket.listening(folder, path)) as listener:
                Server(app.run, gateway, listener, folder, lock, identity, idle_s).work()
        finally:
            gateway.close()


def _started(settings: dict[str, str]) -> Gateway:
    gateway = session.boot(settings, session.DEFAULT_MEMORY)[0].gateway
    try:
        _need(os.fork() or _open(gateway, settings))
        for name in _LOADED:
            importlib.import_module(name)
        return gateway
    except BaseException:
        gateway.close()
        raise


def _open(gateway: Gateway, settings: dict[str, str]) -> int:
    """In a process of its own, so that this one stays without threads: the context, and a first job."""
    code = 1
    try:
        attached.open_context(gateway.port, gateway.secret, settings)
        attached.first_job()
        code = 0
    except BaseException:  # noqa: BLE001  the last net; what is printed is in the engine's log
        traceback.print_exc()
    os._exit(code)


def _need(process: int) -> None:
    _, status = os.waitpid(process, 0)
    if status != 0:
        raise EngineDidNotStart(reason="its first job failed", log=Path("-"))


if __name__ == "__main__":
    main()
