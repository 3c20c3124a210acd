"""The simulation itself: one seed plays the same schedules, and what fails becomes smaller."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from simulation import mutants
from simulation.choices import Choices
from simulation.shrink import shrunk

_ROOT = Path(__file__).parents[2]


def _simulated(*arguments: str) -> str:
    found = subprocess.run(
        [sys.executable, "-m", "simulation", *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not found.stderr, found.stderr
    # The rate is another one each time.
    return found.stdout.rsplit(";", 1)[0]


def test_a_seed_plays_the_same_schedules_again() -> None:
    asked = ("--seed", "7", "--schedules", "40", "--seconds", "60", "--go-on")
    first = _simulated(*asked)
    assert "40 schedules" in first
    assert "violations" not in first, first
    assert first == _simulated(*asked)


def test_choices_are_read_back_as_they_were_drawn() -> None:
    drawn = Choices("7:1")
    found = [drawn.below(bound) for bound in (2, 10, 1, 7, 100)]
    again = Choices(given=drawn.taken)
    assert [again.below(bound) for bound in (2, 10, 1, 7, 100)] == found
    assert again.below(10) == 0


def test_what_fails_becomes_smaller() -> None:
    def fails(given: object) -> bool:
        assert isinstance(given, list)
        return sum(each > 4 for each in given) >= 2

    assert shrunk([0, 7, 1, 3, 9, 0, 6, 2], fails) in ([9, 6], [7, 6], [5, 5], [7, 9])


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda each: each.name)
def test_a_mutant_still_fits_the_product(mutant: mutants.Mutant, tmp_path: Path) -> None:
    for each in mutant.changes:
        file = tmp_path / each.file
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            shutil.copy(_ROOT / "src" / "playhead" / each.file, file)
    mutant.apply(tmp_path)
    for each in mutant.changes:
        compile((tmp_path / each.file).read_bytes(), each.file, "exec")


@pytest.mark.torture
@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda each: each.name)
def test_a_mutant_is_found(mutant: mutants.Mutant) -> None:
    # Ten minutes for all of them together, on a machine with nothing else to do.
    assert mutants.found(mutant, seconds=150, seed="1") is not None
