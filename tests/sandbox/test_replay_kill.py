"""Killed at any step, a replay goes on from its ledger, and in the end everything is there once."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import playhead
from playhead.faults import abort_points
from tests.fix_replay import LONG_TAPE, Performance, ended

Perform = Callable[..., Performance]
POINTS = abort_points(Path(playhead.__file__).parent)
AREAS = {
    "kafka": ("kafka.", "job.", "run."),
    "postgres": ("postgres.direct.", "postgres.closed", "postgres.ledger.", "job.", "run."),
    "staged": ("postgres.stage.", "postgres.closed", "postgres.ledger."),
    "parquet": ("files.", "job.", "run."),
}
CASES = [
    (kind, point)
    for kind, areas in AREAS.items()
    for point in sorted(POINTS)
    if point.startswith(areas)
]


def test_no_point_of_a_replay_is_left_out() -> None:
    passed = {point for _, point in CASES}
    areas = ("kafka.", "postgres.", "files.", "job.", "run.")
    assert {point for point in POINTS if point.startswith(areas)} == passed


@pytest.mark.torture
@pytest.mark.parametrize(("kind", "point"), CASES)
def test_killed_at(perform: Perform, long_tape: str, kind: str, point: str) -> None:
    """The process that passes the point dies: the driver, or a worker, which the driver survives."""
    it = perform(kind, long_tape, LONG_TAPE)
    first = ended(it.start(PLAYHEAD_ABORT_AT=f"{point}#2" if is_passed_often(point) else point))
    if first.code != -signal.SIGKILL:
        assert first.code == 1, f"{point} was not passed, or nobody minded: {first.err}"
        assert "Traceback" not in first.err
        assert f"playhead resume {it.replay_id}" in first.err
    it.are_gone()
    so_far = it.end.numbers()
    assert len(so_far) == len(set(so_far))
    it.finish()


def is_passed_often(point: str) -> bool:
    once = ("run.", "files.before_a", "files.archive_made", "files.about_written")
    return not point.startswith(once)
