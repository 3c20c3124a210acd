"""Holds what the product claims against what the oracle says."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from playhead.errors import PlayheadError
from playhead.proof import Proof
from playhead.replay.verify import Verification
from simulation import archived
from simulation.cases import LETTERS

if TYPE_CHECKING:
    from simulation.schedule import World


class Violation(Exception):
    """Something was claimed that is not so, or something that must hold does not."""


def after_proof(world: "World", proof: Proof) -> None:
    """A proof must be so, in what the target holds and in what it counts."""
    if world.case.guard is not None:
        raise Violation(f"a context that is {world.case.guard} was written to: {proof.verdict()}")
    if world.expected.fails:
        raise Violation(f"proved, and a record cannot be written: {proof.verdict()}")
    compare(world, f"after {proof.verdict()!r}")
    counted = {name: proof.total(name) for name in ("written", "dead", "skipped")}
    expected = world.expected
    letters = len(expected.letters)
    found = sum(map(len, expected.by_partition.values()))
    wanted = {
        "written": found - expected.refused,
        "dead": letters,
        "skipped": expected.refused - letters,
    }
    if counted != wanted:
        raise Violation(f"the proof counts {counted}; there are {wanted}")


def not_proved(world: "World", proof: Proof) -> None:
    """A run that came to its end has to add up; where it does not, that was at least said."""
    # A task that was reading when the topic was made again finds nobody to ask why an offset is empty.
    is_gone = world.is_upset and world.case.upset == "source made again"
    others = sum(proof.total(name) for name in ("missing", "duplicate", "foreign"))
    if not (world.expected.fails or (is_gone and proof.total("unexplained") and not others)):
        raise Violation(f"a run came to its end and is not proved: {proof.verdict()}")


def after_failure(world: "World", failure: PlayheadError) -> None:
    """Nothing is claimed; nothing wrong may be there either."""


def at_the_end(world: "World", is_proved: bool) -> None:
    """The last run met no faults: it has to have come to the outcome."""
    may_refuse = world.is_upset or world.case.upset == "ledger expires" or world.case.guard
    if world.expected.fails or may_refuse:
        return
    if not is_proved:
        raise Violation("the last run met no faults, and did not come to the outcome")
    compare(world, "at the end")


def verified(world: "World", found: Verification) -> None:
    """What is as it should be must be found to be so."""
    if not found.agrees:
        raise Violation(f"verify does not agree with what is right: {found.as_document()}")


def not_verified(found: Verification) -> None:
    """What somebody has changed must not be found to be as it should be."""
    if found.agrees:
        raise Violation(f"verify agrees with what was changed: {found.verdict()}")


def compare(world: "World", when: str) -> None:
    if world.case.is_table:
        _compare_rows(world, when)
    elif world.case.is_archive:
        archived.compare(world, when)
    else:
        _compare_topic(world, when)
    _compare_letters(world, when)


def _compare_rows(world: "World", when: str) -> None:
    found, wanted = Counter(world.base.rows_of_table(world.target)), Counter(world.expected.rows)
    if found != wanted:
        missing, extra = list((wanted - found).elements()), list((found - wanted).elements())
        raise Violation(f"{when}: the table lacks {missing} and has {extra} too many")


def _compare_topic(world: "World", when: str) -> None:
    topic = world.cluster.topics[world.target]
    held: list[tuple[Any, ...]] = []
    for number in range(len(topic.logs)):
        copies = world.cluster.settled((world.target, number))
        held += [_carried(each) for each in copies]
        if world.case.request.get("partition") != "key":
            wanted = [_carried(each) for each in world.expected.by_partition[number]]
            found = [_carried(each) for each in copies]
            if found != wanted:
                raise Violation(f"{when}: partition {number} has {found}; needed {wanted}")
    _compare_order(world, when, held)
    every = [_carried(each) for log in world.expected.by_partition.values() for each in log]
    if Counter(held) != Counter(every):
        lacking, extra = Counter(every) - Counter(held), Counter(held) - Counter(every)
        raise Violation(f"{when}: the topic lacks {dict(lacking)} and has {dict(extra)} too many")


def compare_beginning(world: "World", when: str) -> None:
    """Of each source partition the topic has the first records, in their order, and none twice."""
    held: Counter[tuple[Any, ...]] = Counter()
    for number in range(len(world.cluster.topics[world.target].logs)):
        found = [_carried(each) for each in world.cluster.settled((world.target, number))]
        held.update(found)
        wanted = [_carried(each) for each in world.expected.by_partition[number]]
        if world.case.request.get("partition") != "key" and found != wanted[: len(found)]:
            raise Violation(f"{when}: partition {number} has {found}; needed those first: {wanted}")
    every = [_carried(each) for log in world.expected.by_partition.values() for each in log]
    extra = held - Counter(every)
    if extra:
        raise Violation(f"{when}: the topic has {dict(extra)} too many")


def _compare_order(world: "World", when: str, held: list[tuple[Any, ...]]) -> None:
    """Records of one key keep their order."""
    for log in world.expected.by_partition.values():
        by_key: dict[Any, list[Any]] = {}
        for each in log:
            by_key.setdefault(each.key, []).append(_carried(each))
        for key, wanted in by_key.items():
            found = [each for each in held if each[0] == key]
            if found != wanted:
                raise Violation(f"{when}: key {key!r} has {found}; needed {wanted}")


def _carried(record: Any) -> tuple[Any, ...]:
    return record.key, record.value, record.timestamp_ms, record.headers


def _compare_letters(world: "World", when: str) -> None:
    wanted = Counter(world.expected.letters)
    if not wanted and LETTERS not in world.cluster.topics:
        return
    found: Counter[tuple[int, int]] = Counter()
    for number in range(len(world.cluster.topics[LETTERS].logs)):
        for each in world.cluster.settled((LETTERS, number)):
            headers = {name: value or b"" for name, value in each.headers}
            place = headers["__playhead.errors.partition"], headers["__playhead.errors.offset"]
            found[int(place[0]), int(place[1])] += 1
    if found != wanted:
        lacking, extra = dict(wanted - found), dict(found - wanted)
        raise Violation(f"{when}: dead letters lack {lacking} and have {extra} too many")
