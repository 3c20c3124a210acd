"""Runs a command and says what it cost: wall time, processor time, memory, of its whole process tree."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

_LOOK_EVERY_S = 0.2
_STOP_PATIENCE_S = 15
_SETTLED_AFTER_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """What /proc says of one process; `reaped_s` is the time of its children that have ended."""

    parent: int
    started: int
    cpu_s: float
    reaped_s: float
    rss_mb: float


@dataclass(frozen=True)
class Cost:
    """What one command used. Memory is summed over its processes, so shared pages count in each."""

    wall_s: float
    cpu_s: float
    servers_cpu_s: float
    peak_mb: float
    said: str
    complained: str


class Watched:
    """A running command: `with Watched([...]) as it: it.wait()`, then `it.cost`."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str] | None = None,
        servers: Iterable[int] = (),
    ) -> None:
        self._command, self._environment = list(command), environment
        self._servers = tuple(servers)
        self._seen: dict[tuple[int, int], float] = {}
        self._peak_mb = 0.0
        self._one_at_a_time = threading.Lock()
        self._ended = threading.Event()
        self.cost: Cost | None = None

    def __enter__(self) -> "Watched":
        self._said, self._complained = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self._servers_before_s = servers_cpu_s(self._servers)
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._complained,
            env=self._environment,
        )
        self._looker = threading.Thread(target=self._look, name="bench-watch", daemon=True)
        self._looker.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.cost is None:
            with contextlib.suppress(RuntimeError):
                self.stop()
        self._said.close()
        self._complained.close()

    def is_running(self) -> bool:
        """Without reaping it: its processor time is asked for when it is."""
        found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return found is None

    def cpu_s(self) -> float:
        """What the tree has used so far."""
        self._look_once()
        with self._one_at_a_time:
            return sum(self._seen.values())

    def complained_so_far(self) -> str:
        """What stands on its stderr; read aside, for the place where it writes next is ours too."""
        file = self._complained.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")

    def wait(self, within_s: float = 900) -> Cost:
        """To its own end; an error when it fails or takes too long."""
        deadline = threading.Timer(within_s, self._kill_tree)
        deadline.start()
        try:
            cost, code = self._reap()
        finally:
            deadline.cancel()
        if code != 0:
            raise RuntimeError(
                f"{' '.join(self._command)[:300]} ended with {code}:\n"
                f"{cost.said[-3000:]}\n{cost.complained[-3000:]}"
            )
        return cost

    def stop(self) -> Cost:
        """End it from outside, for programs that run until somebody does."""
        self._look_once()
        self.process.send_signal(signal.SIGTERM)
        hard = threading.Timer(_STOP_PATIENCE_S, self._kill_tree)
        hard.start()
        try:
            return self._reap()[0]
        finally:
            hard.cancel()

    def _reap(self) -> tuple[Cost, int]:
        _, status, used = os.wait4(self.process.pid, 0)
        wall_s = time.perf_counter() - self.began
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()
        self._looker.join()
        # The kernel's sum misses children that nobody waited for, ours what ended between two looks.
        cpu_s = max(used.ru_utime + used.ru_stime, sum(self._seen.values()))
        self.cost = Cost(
            wall_s,
            cpu_s,
            servers_cpu_s(self._servers) - self._servers_before_s,
            self._peak_mb,
            _text(self._said),
            _text(self._complained),
        )
        return self.cost, self.process.returncode

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            self._look_once()

    def _look_once(self) -> None:
        table = _table()
        with self._one_at_a_time:
            # Whoever was once seen stays ours, also when its parent has ended before it.
            roots = {pid for pid, found in table.items() if (pid, found.started) in self._seen}
            family = _with_descendants(roots | ({self.process.pid} & table.keys()), table)
            for pid in family:
                self._seen[pid, table[pid].started] = table[pid].cpu_s
            self._peak_mb = max(self._peak_mb, sum(table[pid].rss_mb for pid in family))

    def _kill_tree(self) -> None:
        table = _table()
        for pid, started in list(self._seen):
            if pid in table and table[pid].started == started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def servers_cpu_s(roots: Sequence[int]) -> float:
    """Processor time of servers that run, with the children that they have waited for.

    A child that ends while /proc is being read is in neither sum; it only grows, so the greater is right.
    """
    if not roots:
        return 0.0
    first_s = _family_cpu_s(roots)
    time.sleep(_SETTLED_AFTER_S)
    return max(first_s, _family_cpu_s(roots))


def _family_cpu_s(roots: Sequence[int]) -> float:
    table = _table()
    found = _with_descendants({pid for pid in roots if pid in table}, table)
    return sum(table[pid].cpu_s + table[pid].reaped_s for pid in found)


def _with_descendants(roots: set[int], table: dict[int, Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, found in table.items():
        children.setdefault(found.parent, []).append(pid)
    family, fresh = set(roots), list(roots)
    while fresh:
        for child in children.get(fresh.pop(), []):
            if child not in family:
                family.add(child)
                fresh.append(child)
    return family


def _table() -> dict[int, Process]:
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  five times a second: no Path objects
        if name.isdigit() and (process := _process(name)) is not None:
            found[int(name)] = process
    return found


def _process(pid: str) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # it has ended meanwhile
    # Behind the command's name, which may hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    user, system, user_reaped, system_reaped = (int(field) / _TICKS for field in fields[11:15])
    return Process(
        int(fields[1]),
        int(fields[19]),
        user + system,
        user_reaped + system_reaped,
        int(fields[21]) * _PAGE / 1e6,
    )


def _text(stream: BinaryIO) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")
