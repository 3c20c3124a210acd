"""Server processes that outlive us: started in their own session, recognised later, stopped by pid."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from playhead.errors import SandboxError, ServerDidNotStart
from playhead.host.clock import wait_until
from playhead.host.detached import Detached
from playhead.host.folders import open_plain, read_plain

# The shell writes its own pid and start time before it becomes the server. If another process wrote
# them, a crash in between would leave an unknown server. The note goes to its stdin, because the
# servers' user must not have a folder in which root would trust a file.
_NOTE_AND_BECOME = (
    "{ echo $$; cat /proc/$$/stat 2>/dev/null || ps -o lstart= -p $$; } >&0 "
    '&& exec "$@" < /dev/null'
)
_HAS_PROC = Path("/proc/self/stat").exists()
_PREPARED_WITHIN_S = 120.0
_LINES_OF_REASON = 3
_READY_WITHIN_S = 120.0
_KILLED_WITHIN_S = 10.0
_PROGRAMS = ("sh", "java", "postgres")
_LONGEST_NOTE, _LONGEST_TAIL = 4_096, 1 << 20
_STAT_START_TIME = 19  # Of the fields after the command's closing parenthesis.


@dataclass(frozen=True, slots=True)
class User:
    """The user that a server runs as if we are root."""

    name: str
    uid: int
    gid: int

    @staticmethod
    def keywords(user: "User | None") -> dict[str, Any]:
        """Return subprocess's arguments for this user."""
        return {"user": user.uid, "group": user.gid, "extra_groups": []} if user else {}


def environment(home: Path) -> dict[str, str]:
    """Return the whole environment of a server: nothing that could change its behaviour."""
    kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
    return kept | {"HOME": str(home), "LC_ALL": "C.UTF-8"}


def run_to_end(what: str, command: Sequence[str], *, directory: Path, user: User | None) -> None:
    """Run a program that prepares a server's folder; if it fails, its last lines are the reason."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PREPARED_WITHIN_S,
            check=False,
            umask=0o077,
            **User.keywords(user),
        )
    except subprocess.TimeoutExpired as exc:
        raise SandboxError(
            f"{what} did not end within {_PREPARED_WITHIN_S:g} s",
            hint="the machine may be overloaded: try again when it has less to do",
        ) from exc
    if done.returncode != 0:
        # initdb's last line only says that it tidies up; the error stands before it.
        said = done.stdout.strip().splitlines()[-_LINES_OF_REASON:] or [f"status {done.returncode}"]
        raise SandboxError(
            f"{what} failed: {'; '.join(said)}", hint="check free space with `playhead doctor`"
        )


@dataclass(frozen=True, slots=True)
class Server:
    """A server program's folder, and the marker by which its process is recognised.

    `marker` is an argument of its command line that no other process has. `directory` is its own folder; our
    notes about it are beside it, where its user cannot write.
    """

    name: str
    directory: Path
    marker: str
    user: User | None = None

    @property
    def pid_file(self) -> Path:
        return self.directory.with_name(f"{self.name}.pid")

    @property
    def output(self) -> Path:
        """What the process itself printed."""
        return self.directory.with_name(f"{self.name}.out")

    def pid(self) -> int | None:
        """Return the pid of the living process in the pid file, or None.

        It must have the same number, start time and user, and our marker: a reused pid is never
        accepted.
        """
        try:
            first, _, noted = read_plain(self.pid_file, most=_LONGEST_NOTE).decode().partition("\n")
            pid = int(first)
        except (OSError, ValueError):
            return None
        if _start_time(pid) != _start_of(noted) or not self._is_ours(pid):
            return None
        return pid

    def _is_ours(self, pid: int) -> bool:
        owner = os.geteuid() if self.user is None else self.user.uid
        return _owner(pid) == owner and self.marker in " ".join(_command_line(pid))

    def spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the server detached from our terminal, as its user if we are root."""
        self.pid_file.unlink(missing_ok=True)
        note = open_plain(self.pid_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        output = open_plain(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            return Detached(
                ["/bin/sh", "-c", _NOTE_AND_BECOME, self.name, *command],
                directory=self.directory,
                environment=environment(self.directory),
                stdin=note,
                output=output,
                umask=0o077,
                **User.keywords(self.user),
            )
        finally:
            os.close(note)
            os.close(output)

    def end_strays(self) -> None:
        """End what a killed `up` had started without a note: its shell, or the server it became.

        Call it only when no other `up` can be active. It ends only a server's own programs, because other programs
        may have our files in their command lines.
        """
        for pid in _every_pid():
            words = _command_line(pid)
            is_marked = self.marker in words and Path(words[0]).name in _PROGRAMS
            if is_marked and self._is_ours(pid) and pid != self.pid():
                self._signal(pid, signal.SIGKILL)
                wait_until(
                    lambda pid=pid: _start_time(pid) is None,  # type: ignore[misc]
                    deadline_s=_KILLED_WITHIN_S,
                    every_s=0.02,
                )

    def stop(self, *, graceful: signal.Signals, patience_s: float) -> bool:
        """End the process, gracefully first; return True if there was one."""
        pid = self.pid()
        if pid is None:
            self.pid_file.unlink(missing_ok=True)
            return False
        for sign, wait_s in ((graceful, patience_s), (signal.SIGKILL, _KILLED_WITHIN_S)):
            self._signal(pid, sign)
            if self._gone(pid, wait_s):
                break
        self.pid_file.unlink(missing_ok=True)
        return True

    def _signal(self, pid: int, sign: signal.Signals) -> None:
        """Send a signal by a process handle if the system supports it, because a pid may be reused at any time."""
        with contextlib.suppress(ProcessLookupError):
            if not hasattr(os, "pidfd_open"):
                if self._is_ours(pid):
                    os.kill(pid, sign)
                return
            handle = os.pidfd_open(pid)
            try:
                if self._is_ours(pid):
                    signal.pidfd_send_signal(handle, sign)
            finally:
                os.close(handle)

    def _gone(self, pid: int, wait_s: float) -> bool:
        def is_gone() -> bool:
            _reap(pid)
            return self.pid() != pid

        gone = wait_until(is_gone, deadline_s=wait_s, every_s=0.02)
        return gone is not None


class Awaited(Protocol):
    """What is needed to wait for a server."""

    @property
    def title(self) -> str: ...
    @property
    def log(self) -> Path: ...


def await_server(
    awaited: Awaited, process: subprocess.Popen[bytes] | None, is_ready: Callable[[], bool]
) -> None:
    """Return when the server is ready; raise with the end of its log if it ends or takes too long.

    Without a process, an earlier `up` started it.
    """

    def has_ended() -> bool:
        return process is not None and process.poll() is not None

    decided = wait_until(
        lambda: has_ended() or is_ready(),
        deadline_s=_READY_WITHIN_S,
        every_s=0.05,
    )
    if decided and not has_ended():
        return
    reason = f"no answer within {_READY_WITHIN_S:g} s"
    if process is not None and decided:
        reason = f"the process ended with status {process.returncode}"
    log = awaited.log
    raise ServerDidNotStart(awaited.title, reason=reason, log=log, log_tail=tail(log))


def tail(file: Path, lines: int = 15) -> list[str]:
    """Return the last lines of a log, for an error."""
    try:
        text = read_plain(file, most=_LONGEST_TAIL)
    except OSError:
        return []
    return text.decode("utf-8", "replace").splitlines()[-lines:]


def _reap(pid: int) -> None:
    """Collect the exit status of our own child, because a zombie would look alive."""
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)


def _start_of(noted: str) -> str:
    """Return the start time in the starting shell's note."""
    return _field_of_stat(noted) if ")" in noted else noted.strip()


def _field_of_stat(stat: str) -> str:
    fields = stat.rpartition(")")[2].split()
    return fields[_STAT_START_TIME] if len(fields) > _STAT_START_TIME else ""


def _start_time(pid: int) -> str | None:
    if _HAS_PROC:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return None
        is_zombie = stat.rpartition(")")[2].split()[0] == "Z"
        return None if is_zombie else _field_of_stat(stat)
    return _ps(pid, "lstart")


def _owner(pid: int) -> int | None:
    """Return the user of a process."""
    if _HAS_PROC:
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return int(status.partition("\nUid:")[2].split()[0])
    found = _ps(pid, "uid")
    return int(found) if found else None


def _command_line(pid: int) -> list[str]:
    if _HAS_PROC:
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return []
        return raw.decode("utf-8", "replace").split("\0")
    return (_ps(pid, "command") or "").split(" ")


def _every_pid() -> list[int]:
    if _HAS_PROC:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    listed = subprocess.run(["ps", "-axo", "pid="], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split()]


def _ps(pid: int, field: str) -> str | None:
    found = subprocess.run(
        ["ps", "-o", f"{field}=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or None
