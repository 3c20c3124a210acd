"""The warm engine's own process: `python -m playhead.cli.warm_engine IDLE_MS [--at-once]`."""

import contextlib
import importlib
import os
import signal
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

from playhead import secrets
from playhead.cli import app
from playhead.cli.warm import handover, priority
from playhead.cli.warm.server import Server
from playhead.errors import PlayheadError
from playhead.host import file_lock, local_socket
from playhead.host.clock import wait_until
from playhead.printable import one_line
from playhead.spark import attached, engine_settings, jvm_boot, session
from playhead.spark.jvm import EngineDidNotStart, Gateway
from playhead.spark.task_daemon import SETTING as DAEMON

_ALONE_WITHIN_S = 1.0
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
    """Run the engine; if it cannot start, the last line of its log says why."""
    try:
        _serve()
    except PlayheadError as exc:
        traceback.print_exc()
        reason = one_line(secrets.redact(str(exc)))
        sys.stderr.write(f"{handover.WHY_NOT}{reason}\n")  # This is the log.
        raise SystemExit(exc.exit_code) from exc


def _serve() -> None:
    """Start, serve, end."""
    idle_s = int(sys.argv[1]) / 1000
    for kind in (signal.SIGINT, signal.SIGHUP):
        signal.signal(kind, signal.SIG_IGN)
    # By default the process would end at once, and leave the JVM that it is starting.
    signal.signal(signal.SIGTERM, _end_while_starting)
    os.umask(0o077)
    path = handover.folder()
    with local_socket.private_folder(path, make=True) as folder:
        lock = os.open(
            handover.LOCK,
            os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=folder,
        )
        if not _takes(lock):
            return  # another process is starting one
        code, surroundings = handover.code(), handover.surroundings()
        settings = engine_settings.settings("playhead", _MASTER)
        settings |= {DAEMON: _DAEMON_MODULE, "spark.default.parallelism": str(os.cpu_count() or 1)}
        with nullcontext() if "--at-once" in sys.argv[2:] else priority.lowered():
            gateway = _started(settings)
        os.ftruncate(lock, 0)
        try:
            with contextlib.closing(local_socket.listening(folder, path)) as listener:
                Server(app.run, gateway, listener, folder, lock, code, surroundings, idle_s).work()
        finally:
            gateway.close()


def _end_while_starting(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _takes(lock: int) -> bool:
    """Lock the file and write this process's number into it; False if another engine has the lock."""
    # A command that looks for an engine locks it for a moment.
    if not wait_until(lambda: file_lock.take(lock), deadline_s=_ALONE_WITHIN_S, every_s=0.01):
        return False
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return True


def _started(settings: dict[str, str]) -> Gateway:
    gateway = jvm_boot.boot(settings, session.DEFAULT_MEMORY)[0].gateway
    try:
        # A fork inherits the handler, and must leave the closing of the JVM to this process.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        process = os.fork() or _open(gateway, settings)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        _need(process)
        for name in _LOADED:
            importlib.import_module(name)
        return gateway
    except BaseException:
        gateway.close()
        raise


def _open(gateway: Gateway, settings: dict[str, str]) -> int:
    """In a process of its own, so that this one stays without threads: the context, and a first job."""
    code = 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if gateway.process.stdin is not None:
        os.close(gateway.process.stdin.fileno())  # the JVM ends when the main process ends
    try:
        attached.open_context(gateway.port, gateway.secret, settings)
        attached.first_job()
        attached.let_go()
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
