"""The simulation itself: one seed plays the same schedules, and what fails becomes smaller."""

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulation import judge, mutants
from simulation.choices import Choices
from simulation.disk import Disk, Store
from simulation.oracle import Outcome
from simulation.scheduler import Scheduler
from simulation.shrink import shrunk

from playhead.files.stores.local import LocalStore

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


@pytest.mark.slow  # plays whole schedules twice
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


@pytest.mark.parametrize(("name", "is_fair"), [("unexplained", True), ("missing", False)])
def test_only_an_absence_may_stay_unexplained_once_the_topic_was_made_again(
    name: str, is_fair: bool
) -> None:
    case = SimpleNamespace(upset="source made again")
    world: Any = SimpleNamespace(expected=Outcome(), is_upset=True, case=case)
    proof: Any = SimpleNamespace(total=lambda it: int(it == name), verdict=lambda: "NOT PROVED")
    with nullcontext() if is_fair else pytest.raises(judge.Violation):
        judge.not_proved(world, proof)


def test_what_fails_becomes_smaller() -> None:
    def fails(given: object) -> bool:
        assert isinstance(given, list)
        return sum(each > 4 for each in given) >= 2

    assert shrunk([0, 7, 1, 3, 9, 0, 6, 2], fails) in ([9, 6], [7, 6], [5, 5], [7, 9])


@pytest.mark.parametrize("number", range(10))
def test_the_model_of_a_disk_answers_as_a_folder_does(number: int, tmp_path: Path) -> None:
    draw = random.Random(number)
    model = Store(Disk(Scheduler(Choices(given=()))), str(tmp_path))
    stores = (LocalStore(tmp_path), model)
    folders = ("a", "a/b", "c")
    for step in range(30):
        folder = draw.choice(folders)
        path = f"{folder}/{draw.randrange(3)}.json"
        action = draw.choice(("publish", "publish", "remove", "look"))
        for store in stores:
            if action == "publish":
                store.publish(path, [b"%d" % step, b"-", b"x" * draw.randrange(1)])
            elif action == "remove":
                store.remove(path)
        for asked in ("", *folders, "never"):
            files, below = ([list(call(asked)) for call in calls] for calls in _lists(stores))
            assert files[0] == files[1], asked
            assert not asked or below[0] == below[1], asked
        assert stores[0].read_all([path, "a/no"]) == stores[1].read_all([path, "a/no"])
        assert stores[0].read(path) == stores[1].read(path)


def _lists(stores: Sequence[Any]) -> Iterator[list[Any]]:
    yield [store.files for store in stores]
    yield [store.folders for store in stores]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda each: each.name)
def test_a_mutant_still_fits_the_product(mutant: mutants.Mutant, tmp_path: Path) -> None:
    for each in mutant.changes:
        file = tmp_path / each.file
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            shutil.copy(_ROOT / "src" / "playhead" / each.file, file)
    mutant.apply(tmp_path)
    for each in mutant.changes:
        compile((tmp_path / each.file).read_bytes(), each.file, "exec")


def test_tables_are_written_and_compared() -> None:
    """A model that does not answer what the product asks ends every schedule before anything is written."""
    order = next(each for each in mutants.MUTANTS if each.name == "order")
    assert mutants.found(order, seconds=120, seed="6", more=("--schedules", "500")) is not None


@pytest.mark.torture(sampled=False)  # minutes each, and CI plays schedules of its own
@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda each: each.name)
def test_a_mutant_is_found(mutant: mutants.Mutant) -> None:
    # Counted in schedules, so that a busy machine finds as much: 150 s of one core with nothing else to do.
    asked = ("--schedules", "15000")
    assert mutants.found(mutant, seconds=800, seed="1", more=asked) is not None
