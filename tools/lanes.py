"""Run targets of the Makefile beside one another: `python tools/lanes.py "lint types" test-spark`.

Each argument is a lane: its targets run one after the other, and the lanes run at the same time. The
output of a target is printed in one piece when the target ends. Every target runs, also after a failure;
the exit code is 1 if one failed. While nothing ends, a line a minute says how far each lane has come.

With `--repeat N`, a target of which at most N tests failed is no failure if these tests pass when they run
once more, alone. The summary names them: a test that passes only alone has an error of its own.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

_STATUS_EVERY_S = 60.0
# A signal that comes just before a wait begins is handled only when the wait ends.
_WAIT_S = 1.0
_LAST_BYTES = 4_000
# pytest's line of a failed test: its name may hold spaces, the reason follows.
_FAILED = re.compile(r"FAILED (\S+::.+?)(?: - .*)?$")
# What Python's fault handler prints when the process dies: where the thread was that a signal ended.
_CRASH = re.compile(r"^.*Fatal Python error: .*|^Current thread .*(?:\n  .*)*", re.MULTILINE)


@dataclass
class Lane:
    """Targets that run one after the other; `report` is told the name, exit code, seconds and output of each."""

    targets: list[str]
    report: Callable[[str, int, float, str], None]
    process: "subprocess.Popen[bytes] | None" = None
    output: "IO[bytes] | None" = None
    is_ended: threading.Event = field(default_factory=threading.Event)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        for target in self.targets:
            if self.is_ended.is_set():
                return
            self._run_one(target)

    def _run_one(self, target: str) -> None:
        with tempfile.TemporaryFile() as output:
            begun = time.monotonic()
            with self._starting:  # or a signal could miss a target that is about to be known
                if self.is_ended.is_set():
                    return
                self.process = subprocess.Popen(
                    [os.environ.get("MAKE", "make"), "--no-print-directory", target],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                )
            self.output = output
            code = self.process.wait()
            self.output = None
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        self.report(target, code, time.monotonic() - begun, text)

    def interrupt(self) -> None:
        """End the running target as Ctrl-C does, so that it stops the servers it has started."""
        self.is_ended.set()
        with self._starting:
            if self.process is not None and self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGINT)

    def status(self) -> str | None:
        """The last line of output, or `None` when no target runs."""
        output = self.output
        if output is None:
            return None
        try:
            size = os.fstat(output.fileno()).st_size
            last = os.pread(output.fileno(), _LAST_BYTES, max(0, size - _LAST_BYTES))
        except ValueError:  # the target has ended just now
            return None
        lines = last.decode("utf-8", "replace").split("\n")
        return next((line.strip()[-80:] for line in reversed(lines) if line.strip()), "started")


@dataclass
class Board:
    """Prints what the lanes report, one target at a time."""

    results: list[tuple[str, int, float, list[str]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, target: str, code: int, seconds: float, text: str) -> None:
        with self._lock:
            self.results.append((target, code, seconds, _closing(text)))
            word = "ok" if code == 0 else f"FAILED with exit code {code}"
            print(f"== {target}: {word}, {seconds:.0f} s", flush=True)
            print(text, end="" if text.endswith("\n") or not text else "\n", flush=True)

    def status(self, lanes: list[Lane], seconds: float) -> None:
        with self._lock:
            for lane in lanes:
                if (line := lane.status()) is not None:
                    print(f"-- {seconds:.0f} s: {line}", flush=True)

    def repeat(self, most: int) -> None:
        """Run the few failed tests of each target once more, now that nothing runs beside them."""
        for place, (target, code, seconds, closing) in enumerate(self.results):
            names = [found[1] for line in closing if (found := _FAILED.match(line))]
            if not code or not 0 < len(names) <= most or any(_is_error(line) for line in closing):
                continue
            print(f"== {target}: repeating {len(names)} failed tests, alone", flush=True)
            command = [sys.executable, "-u", "-m", "pytest", *names]
            if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode == 0:
                notes = [f"passed only when repeated alone: {name}" for name in names]
                self.results[place] = (target, 0, seconds, [*notes, *closing])

    def summary(self) -> int:
        print("== summary")
        for target, code, seconds, closing in self.results:
            print(f"{'ok' if code == 0 else 'FAILED':8}{target:16}{seconds:6.0f} s")
            for line in closing:
                print(f"        {line}")
        return 1 if any(code for _, code, *_ in self.results) else 0


def _is_error(line: str) -> bool:
    return line.startswith("ERROR ")


def _closing(text: str) -> list[str]:
    """What pytest says at its end: each test that failed or was skipped, and how many passed; or how it died."""
    lines = text.splitlines()
    named = [line for line in lines if line.startswith(("FAILED ", "ERROR ", "SKIPPED "))]
    counts = [line.strip("= ") for line in lines[-3:] if re.search(r"\d+ (passed|failed)", line)]
    died = [line for found in _CRASH.findall(text) for line in found.splitlines()]
    return [*named, *counts, *died]


def main(words: list[str]) -> int:
    board, begun = Board(), time.monotonic()
    most = 0
    if words[:1] == ["--repeat"]:
        most, words = int(words[1]), words[2:]
    lanes = [Lane(word.split(), board.report) for word in words]
    # A terminal may know fewer characters than the targets print.
    sys.stdout.reconfigure(errors="replace")

    def interrupt(*_: object) -> None:
        for lane in lanes:
            lane.interrupt()

    # A CI that gives up sends SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(lane.run) for lane in lanes]
        next_status = begun + _STATUS_EVERY_S
        while wait(running, _WAIT_S).not_done:
            if (now := time.monotonic()) >= next_status:
                board.status(lanes, now - begun)
                next_status = now + _STATUS_EVERY_S
    for future in running:
        future.result()  # an error of this tool is no success
    if not any(lane.is_ended.is_set() for lane in lanes):
        board.repeat(most)
    code = board.summary()
    return 130 if any(lane.is_ended.is_set() for lane in lanes) else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
