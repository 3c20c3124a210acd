"""Runs commands in turn, A B A B …, and compares medians: the machine is shared, absolutes mean little."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROUNDS = 5


@dataclass(frozen=True)
class Sample:
    """One finished run of a command."""

    wall_s: float
    cpu_s: float
    said: str


@dataclass(frozen=True)
class Row:
    """One promise: what was measured, against what, and the bound."""

    work: str
    ours: float
    unit: str
    baseline: str = ""
    theirs: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    our_figures: dict[str, float] | None = None
    their_figures: dict[str, float] | None = None
    note: str = ""
    """What a reader has to know to judge the number."""

    @property
    def value(self) -> float:
        """What the bound is about: the ratio when there is a baseline."""
        return self.ours if self.theirs is None else self.ours / self.theirs

    @property
    def is_kept(self) -> bool:
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    @property
    def bound(self) -> str:
        bounds = [("≤", self.at_most), ("≥", self.at_least)]
        return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)

    @property
    def _verdict(self) -> str:
        if not self.bound:
            return ""
        return "kept" if self.is_kept else "MISSED"

    def cells(self) -> list[str]:
        theirs = "" if self.theirs is None else _shown(self.theirs, self.unit)
        shown = f"{self.value:.2f} ×" if self.theirs is not None else _shown(self.value, self.unit)
        return [
            self.work,
            _shown(self.ours, self.unit),
            self.baseline,
            theirs,
            shown,
            self.bound,
            self._verdict,
            self._both("cpu_s_per_million", "servers_cpu_s_per_million"),
            self._both("peak_mb"),
        ]

    def _both(self, *names: str) -> str:
        """`ours | theirs`; processor time of the program + of the servers."""
        return " | ".join(
            " + ".join(f"{figures[name]:.3g}" for name in names)
            for figures in (self.our_figures, self.their_figures)
            if figures is not None
        )


def _shown(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def run(
    command: Sequence[str], environment: dict[str, str] | None = None, *, code: int = 0
) -> Sample:
    """Run to the end, which is to be with this exit code; processor time is of the command and all it waited for."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode != code:
        raise RuntimeError(f"{' '.join(command)[:200]} ended with {process.returncode}:\n{text}")
    return Sample(time.perf_counter() - began, used.ru_utime + used.ru_stime, text)


def in_turn(*runs: Callable[[], float], rounds: int = ROUNDS) -> list[float]:
    """The median of each, from interleaved rounds after one that is not counted."""
    found: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for place, one in enumerate(runs):
            value = one()
            if number:
                found[place].append(value)
    return [statistics.median(values) for values in found]
