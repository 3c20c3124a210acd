"""Plays the way back of dead letters to where they came from, amid faults, and asked for again."""

from typing import TYPE_CHECKING, Any

from playhead.errors import PlayheadError
from playhead.proof import Proof
from simulation import product
from simulation.cases import LARGEST, LETTERS, SOURCE
from simulation.judge import Violation
from simulation.kafka_cluster import Stored
from simulation.scheduler import Killed, Task

if TYPE_CHECKING:
    from simulation.schedule import World

REPLAY = "r2"
_REQUEST = {"source": f"kafka:{LETTERS}", "target": "kafka:", "redrive": True}
_RUNS = 3
_PREFIX = "__playhead.errors."
_DIED, _TOPIC = _PREFIX + "count", _PREFIX + "topic"

Carried = tuple[Any, ...]


def run(world: "World") -> None:
    """Send all of them back; the last run meets no faults, and one more finds nothing left to be done."""
    one, request = world.scheduler, dict(_REQUEST)
    strangers = world.choices.below(3)
    if strangers:
        _add_strangers(world, strangers)
    if any(_origin(world, each) is None for each in _letters(world)):
        request["on_error"] = "skip"
    wanted = _wanted(world)
    world.storm()
    plan = world.plan(request, REPLAY)
    if plan is None:
        return
    journal = product.Journal()
    is_proved = False
    for number in range(_RUNS):
        if number == _RUNS - 1:
            world.calm()
            one.finish()
        if number and world.case.other_machine:
            journal = product.Journal()
        tasks = [world.start(plan, journal, f"redrive {number}")]
        if world.case.two_at_once and number == 0:
            tasks.append(world.start(plan, product.Journal(), "another"))
        one.run_until(lambda: all(each.is_done for each in tasks))  # noqa: B023
        for each in tasks:
            is_proved = _heed(world, each, wanted) or is_proved
    one.finish()
    if not is_proved:
        raise Violation("the last redrive met no faults, and did not come to its end")
    _compare(world, wanted, "at the end of the redrive")


def _add_strangers(world: "World", count: int) -> None:
    """Records in the topic of dead letters that nobody can send back."""
    gone = ((_TOPIC, b"gone"), (_PREFIX + "partition", b"0"))
    for number in range(count):
        headers = world.choices.pick([(), gone])
        entry = Stored(0, "record", 1_767_200_000_000, b"k", b"stranger", headers)
        world.cluster.write(None, (LETTERS, 0), entry)
        world.scheduler.tell(f"stranger {number} among the dead letters: {headers}")


def _letters(world: "World") -> list[Stored]:
    return world.cluster.settled((LETTERS, 0))


def _wanted(world: "World") -> dict[int, list[Carried]]:
    """What each partition of the source has to hold: what it had, and behind it what died, in that order."""
    wanted = {
        number: [_carried(each) for each in world.cluster.settled((SOURCE, number))]
        for number in range(world.case.partitions)
    }
    for letter in _letters(world):
        origin = _origin(world, letter)
        if origin is not None:
            number, died = origin
            key, value, timestamp_ms, headers = _carried(died)
            back = (key, value, timestamp_ms, (*headers, (_DIED, b"1")))
            wanted[number].append(back)
    return wanted


def _origin(world: "World", letter: Stored) -> tuple[int, Stored] | None:
    """The record that died, and its partition; None where it cannot be sent back."""
    said = dict(letter.headers)
    if said.get(_TOPIC) != SOURCE.encode():
        return None
    number, offset = (int(said[_PREFIX + name] or b"") for name in ("partition", "offset"))
    [died] = [each for each in world.cluster.settled((SOURCE, number)) if each.offset == offset]
    # Of one that is too large, the letter has nothing.
    return None if len(died.value or b"") > LARGEST else (number, died)


def _carried(record: Stored) -> Carried:
    return record.key, record.value, record.timestamp_ms, record.headers


def _heed(world: "World", task: Task, wanted: dict[int, list[Carried]]) -> bool:
    failure = task.failure
    if failure is None and task.result is not None:
        proof: Proof = task.result
        world.scheduler.tell(f"{task.process.name}: {proof.verdict()}")
        if not proof.adds_up:
            raise Violation(f"a redrive came to its end and is not proved: {proof.verdict()}")
        world.played.proved += 1
        _compare(world, wanted, f"after {proof.verdict()!r}")
        letters = _letters(world)
        back = sum(1 for each in letters if _origin(world, each) is not None)
        counted = (proof.total("written"), proof.total("skipped"))
        if counted != (back, len(letters) - back):
            raise Violation(f"the proof of a redrive counts {counted} of {back} letters")
        return True
    if isinstance(failure, Killed) or (failure is None and task.process.is_dead):
        world.played.killed += 1
    elif isinstance(failure, PlayheadError):
        world.scheduler.tell(f"{task.process.name} failed: {type(failure).__name__}: {failure}")
        world.played.failed += 1
    elif failure is not None:
        raise failure
    return False


def _compare(world: "World", wanted: dict[int, list[Carried]], when: str) -> None:
    for number, entries in wanted.items():
        found = [_carried(each) for each in world.cluster.settled((SOURCE, number))]
        if found != entries:
            raise Violation(f"{when}: partition {number} has {found}; needed {entries}")
