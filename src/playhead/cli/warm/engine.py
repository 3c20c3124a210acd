"""`playhead engine`: starts, shows and stops the warm engine of this user."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from playhead.cli.options import Run, command, end, group
from playhead.cli.warm import client, handover
from playhead.errors import EXIT_FAILED, PlayheadError
from playhead.grammar.instant import show_ms
from playhead.host import local_socket
from playhead.host.clock import wait_until

_NONE, _ENDED = "no engine runs", "the engine has ended"
_BUSY = f"an engine runs, but does not answer within {client.ANSWERS_WITHIN_S:g} s; try again"
_END_OF_LOG = 1 << 14
_STARTED_WITHIN_S, _ENDED_WITHIN_S = 120.0, 40.0


class EngineDidNotCome(PlayheadError):
    """The engine was started and does not answer, or has ended."""

    def __init__(self, log: Path, *, has_ended: bool) -> None:
        late = f"the engine does not answer after {_STARTED_WITHIN_S:g} s"
        ended = f"the engine has ended while it was starting{_why(log)}"
        super().__init__(
            ended if has_ended else late,
            hint=f"read its log in {log}; commands run without the engine meanwhile",
        )


def _why(log: Path) -> str:
    """Return what the log of an engine says at its end about why it could not start."""
    with suppress(OSError), log.open("rb") as opened:
        opened.seek(max(0, log.stat().st_size - _END_OF_LOG))
        *_, last = [b"", *opened.read().splitlines()]
        said = last.decode("utf-8", "replace")
        if said.startswith(handover.WHY_NOT):
            return ": " + said.removeprefix(handover.WHY_NOT)
    return ""


@command()
def start(run: Run) -> None:
    """Start the engine now and wait until it answers."""
    client.idle_ms()
    said = _status()
    if said is None:
        started = client.start_engine(at_once=True)

        def has_come() -> dict[str, Any] | bool:
            # Again and again: it may have lowered its priority only now.
            client.hurry()
            return _status() or started.has_ended()

        found = wait_until(has_come, deadline_s=_STARTED_WITHIN_S, every_s=0.25)
        if not isinstance(found, dict):
            raise EngineDidNotCome(started.log, has_ended=bool(found))
        said = found
    _show(run, said)


@command()
def status(run: Run) -> None:
    """Show whether an engine runs, since when, and how many commands it has run. Exit code 1 if none runs."""
    client.idle_ms()
    said = _status()
    if said is None:
        process = client.starting()
        silent = _NONE if process is None else _BUSY
        run.output.say(f"an engine is starting (process {process})" if process else silent)
        run.output.emit({"running": process == 0, "starting": bool(process)}, [])
        raise end(EXIT_FAILED)
    _show(run, said)


def _show(run: Run, said: dict[str, Any]) -> None:
    row = {
        "pid": said["pid"],
        "version": said["version"],
        "started": show_ms(said["started_ms"]),
        "commands": said["commands"],
        "ends_after_s": said["idle_s"],
        "memory_mb": _memory_mb(said["pid"], said["jvm"]),
    }
    run.output.emit({"running": True} | row, [row])


@command()
def stop(run: Run) -> None:
    """Stop the engine when its commands have finished; an engine that is still starting ends at once."""
    found = client.greeted()
    if found is None:
        run.output.say(_stop_starting())
        return
    connection, said = found
    with connection:
        local_socket.send(connection, client.STOP)
    gone = "pid" in said and wait_until(
        lambda: not _is_alive(said["pid"]), deadline_s=_ENDED_WITHIN_S, every_s=0.05
    )
    run.output.say(_ENDED if gone else "the engine ends with the commands that run")


def _stop_starting() -> str:
    """Stop an engine that does not answer yet; return what to say."""
    process = client.starting()
    if not process:
        # SIGTERM would stop the commands that run in it.
        return _NONE if process is None else _BUSY
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    gone = wait_until(lambda: client.starting() is None, deadline_s=_ENDED_WITHIN_S, every_s=0.05)
    return _ENDED if gone else f"process {process}, which was starting an engine, does not end"


def _status() -> dict[str, Any] | None:
    found = client.greeted()
    if found is None:
        return None
    connection, said = found
    connection.close()
    return said if said.keys() >= {"version", *client.NUMBERS} else None


def _is_alive(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


def _memory_mb(*processes: int) -> int:
    """Return the resident memory of these processes, in MiB."""
    pages = 0
    for process in processes:
        with suppress(OSError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


engine = group(
    "Start, show and stop the warm engine of this user.", start, status, stop, name="engine"
)
