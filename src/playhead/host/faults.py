"""Named points in product code at which a test can end the process.

`PLAYHEAD_ABORT_AT=NAME[#N][=kill|exit|raise|stop]` arms one point. When a process passes it for the
N-th time (by default the first), it kills itself (SIGKILL), exits with status 70 without clean-up,
raises `Aborted`, or stops (SIGSTOP) until it is continued.
"""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

VARIABLE = "PLAYHEAD_ABORT_AT"
EXIT_ABORTED = 70
_SPEC = re.compile(
    r"(?P<name>[^#=\s]+)(#(?P<passing>[1-9][0-9]*))?(=(?P<action>kill|exit|raise|stop))?"
)


class Aborted(RuntimeError):
    """A fault that a test requested; outside the error tree, like an unforeseen error."""


class _Armed:
    def __init__(self, spec: str) -> None:
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise ValueError(
                f"{VARIABLE}: found {spec!r}, needed NAME, then #N if not the first passing, "
                "then =kill, =exit, =raise or =stop"
            )
        self.name = match["name"]
        self.passing = int(match["passing"] or 1)
        self.action = match["action"] or "kill"
        # next() of a counter is atomic under the interpreter's lock, so threads need no other.
        self.passings = count(1)

    def passed(self, name: str) -> None:
        if name == self.name and next(self.passings) == self.passing:
            _abort(name, self.action)


def _from_environment() -> _Armed | None:
    spec = os.environ.get(VARIABLE)
    return _Armed(spec) if spec else None


# Read once, so that an unarmed point costs one comparison.
_armed = _from_environment()


def abort_point(name: str) -> None:
    """End the process if `PLAYHEAD_ABORT_AT` names this point; otherwise do nothing.

    The name must be a literal and unique: `abort_points` finds the points by reading the code.
    """
    if _armed is not None:
        _armed.passed(name)


@contextmanager
def armed(spec: str) -> Iterator[None]:
    """Arm a point in this process, as the environment variable does."""
    global _armed  # noqa: PLW0603 - the state is the process's own, as the fault is
    before, _armed = _armed, _Armed(spec)
    try:
        yield
    finally:
        _armed = before


def abort_points(package_root: Path) -> dict[str, str]:
    """Return every abort point below a folder with its `file:line`, so that a test can try them all."""
    points: dict[str, str] = {}
    for path in sorted(package_root.rglob("*.py")):
        for line, name in _calls(path):
            location = f"{path.relative_to(package_root)}:{line}"
            if name is None:
                raise ValueError(f"{location}: the name of an abort point must be a literal")
            if name in points:
                raise ValueError(f"abort point {name!r} exists twice: {points[name]}, {location}")
            points[name] = location
    return points


def _abort(name: str, action: str) -> None:
    if action == "raise":
        raise Aborted(f"abort point {name}")
    if action == "exit":
        os._exit(EXIT_ABORTED)
    os.kill(os.getpid(), signal.SIGSTOP if action == "stop" else signal.SIGKILL)


def _calls(path: Path) -> Iterator[tuple[int, str | None]]:
    import ast  # Product code never comes here.

    for node in ast.walk(ast.parse(path.read_bytes(), filename=str(path))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        if name == "abort_point":
            literal = node.args[0] if len(node.args) == 1 else None
            value = literal.value if isinstance(literal, ast.Constant) else None
            yield node.lineno, value if isinstance(value, str) else None
