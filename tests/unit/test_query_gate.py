"""The gate never stops a replay and repeats the source's result; to wait for logged commits stops it."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest

from playhead.queries.column import Column
from playhead.queries.gate import (
    FIRST_INSIDE,
    FIRST_READ,
    UNNUMBERED,
    LowWater,
    Numbering,
    Order,
    Owners,
    Role,
    is_read,
)  # fmt: skip


def numbering(order: Order, due_us: Iterable[int] = ()) -> Numbering:
    column = Column()
    for each in due_us:
        column.append(each)
    return Numbering(order, column)


@dataclass
class Act:
    """One act of a session in a model of a server: a key to change, or the end of the transaction."""

    session: int
    key: int | None
    value: int = 0
    is_end: bool = False
    is_copy: bool = False
    """Whether it only reads the key, and keeps what it has read."""
    row: int = -1
    before: int = -1
    """For an end, the last row before it began."""


@dataclass
class Model:
    """Locks by key, held until the transaction ends; `v = v * 31 + x` makes the order of changes visible."""

    values: dict[int, int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    copies: dict[int, list[int]] = field(default_factory=dict)
    """For each session, what it has read."""
    holders: dict[int, int] = field(default_factory=dict)

    def can_run(self, act: Act) -> bool:
        return (
            act.key is None or act.is_copy or self.holders.get(act.key, act.session) == act.session
        )

    def run(self, act: Act) -> None:
        if act.is_copy:
            is_own = self.holders.get(act.key) == act.session
            values = self.values if is_own else self.committed
            self.copies.setdefault(act.session, []).append(values.get(act.key, 0))
        elif act.is_end:
            self.committed |= {
                k: self.values[k] for k, s in self.holders.items() if s == act.session
            }
            self.holders = {k: s for k, s in self.holders.items() if s != act.session}
        elif act.key is not None:
            self.holders[act.key] = act.session
            self.values[act.key] = (self.values.get(act.key, 0) * 31 + act.value) % 1_000_003


def scripts(rnd: random.Random, *, copies: int = 0) -> list[list[Act]]:
    """Transactions that take their locks in the order of the keys, so that none is a deadlock by itself."""
    made: list[list[Act]] = []
    for session in range(rnd.randint(2, 5)):
        acts: list[Act] = []
        for _ in range(rnd.randint(1, 5)):
            keys = sorted(rnd.choices(range(3), k=rnd.randint(0, 3)))
            acts += [Act(session, key, rnd.randrange(99)) for key in keys]
            for _ in range(rnd.randint(0, copies)):
                copy = Act(session, rnd.randrange(3), is_copy=True)
                acts.insert(rnd.randint(max(0, len(acts) - len(keys)), len(acts)), copy)
            acts += [Act(session, None, is_end=True)]
        made.append(acts)
    return made


def recorded(rnd: random.Random, made: list[list[Act]], *, starts: bool) -> tuple[list[Act], Model]:
    """Run the sessions in a random order, and return the acts in the order of their rows in the log.

    Rows of completion are written some time after the locks were released; rows of starts before the act runs.
    """
    server, log = Model(), list[Act]()
    queues = [list(acts) for acts in made]
    unwritten: dict[int, Act] = {}
    written: set[int] = set()
    while any(queues) or unwritten:
        choices = [s for s, acts in enumerate(queues) if acts and s not in unwritten]
        if unwritten and (not choices or rnd.random() < 0.4):
            log.append(unwritten.pop(rnd.choice(list(unwritten))))
            continue
        session = rnd.choice(choices)
        act = queues[session][0]
        if starts and id(act) not in written:
            written.add(id(act))
            log.append(act)
            continue
        if not server.can_run(act):
            continue
        act.before = len(log) - 1
        server.run(act)
        queues[session].pop(0)
        if act.is_copy and not starts:
            log.append(act)  # It waited for nothing.
        elif not starts:
            unwritten[session] = act
    for row, act in enumerate(log):
        act.row = row
    return log, server


def numbered(log: list[Act], *, starts: bool) -> Numbering:
    """What the gate makes of the acts of a log."""
    later = {id(act): following(log, act) if starts else act.row for act in log}
    made = numbering("commit")
    for act in log:
        role = Role.END if act.is_end else Role.BODY
        made.add(act.session, role, later[id(act)], before=act.before, sees=True)
    made.seal()
    return made


def following(log: list[Act], act: Act) -> int | None:
    return next((o.row for o in log[act.row + 1 :] if o.session == act.session), None)


def replayed(rnd: random.Random, log: list[Act], gate: Numbering) -> Model | None:
    """Play the log as a gate lets it, at random among what can go on; None if nothing can."""
    server, water, inside = Model(), LowWater(), LowWater()
    queues: dict[int, list[int]] = {}
    for at, act in enumerate(log):
        queues.setdefault(act.session, []).append(at)
    while any(queues.values()):
        ready = [
            acts[0]
            for acts in queues.values()
            if acts and gate.needs[acts[0]] <= water.low and gate.awaits[acts[0]] <= inside.low
            and server.can_run(log[acts[0]])
        ]  # fmt: skip
        if not ready:
            return None
        at = rnd.choice(ready)
        server.run(log[at])
        number = gate.numbers[at]
        if number <= FIRST_INSIDE:
            inside.release((FIRST_INSIDE - number) // 2)
        else:
            water.release(number)
        queues[log[at].session].pop(0)
    return server


@pytest.mark.parametrize("starts", [False, True])
def test_it_ends_with_the_values_of_the_source(starts: bool) -> None:
    for seed in range(1_500):
        rnd = random.Random(seed)
        log, source = recorded(rnd, scripts(rnd), starts=starts)
        gate = numbered(log, starts=starts)
        for _ in range(3):
            target = replayed(rnd, log, gate)
            assert target is not None, f"seed {seed} stopped"
            assert target.values == source.values, f"seed {seed}"


def test_what_was_read_inside_transactions_is_read_again() -> None:
    different = 0
    for seed in range(1_500):
        rnd = random.Random(seed)
        log, source = recorded(rnd, scripts(rnd, copies=2), starts=False)
        gate = numbered(log, starts=False)
        for _ in range(3):
            target = replayed(rnd, log, gate)
            assert target is not None, f"seed {seed} stopped"
            assert target.values == source.values, f"seed {seed}"
            assert target.copies == source.copies, f"seed {seed}"
        for number in range(len(log)):
            gate.awaits[number] = 0
        target = replayed(rnd, log, gate)
        assert target is not None
        different += target.copies != source.copies
    assert different > 100, "the ends that wait made no difference"


def test_an_end_whose_begin_is_not_known_stops_nothing() -> None:
    for seed in range(500):
        rnd = random.Random(seed)
        log, source = recorded(rnd, scripts(rnd, copies=2), starts=False)
        for act in log:
            act.before = rnd.choice([-1, act.before])
        target = replayed(rnd, log, numbered(log, starts=False))
        assert target is not None, f"seed {seed} stopped"
        assert target.values == source.values, f"seed {seed}"


def test_to_wait_for_commits_that_were_logged_before_stops() -> None:
    stopped = 0
    for seed in range(300):
        rnd = random.Random(seed)
        log, _ = recorded(rnd, scripts(rnd), starts=False)
        ends = [at for at, act in enumerate(log) if act.is_end]
        gate = numbering("session")
        for at, act in enumerate(log):
            gate.add(act.session, Role.BODY, act.row)
            gate.numbers[at] = ends.index(at) if at in ends else UNNUMBERED
            gate.needs[at] = sum(end < at for end in ends)
        stopped += replayed(rnd, log, gate) is None
    assert stopped > 30


def test_without_a_gate_the_values_differ() -> None:
    different = 0
    for seed in range(300):
        rnd = random.Random(seed)
        log, source = recorded(rnd, scripts(rnd), starts=False)
        gate = numbering("session")
        for act in log:
            gate.add(act.session, Role.BODY, act.row)
        target = replayed(rnd, log, gate)
        different += target is None or target.values != source.values
    assert different > 100


def test_one_at_a_time_never_waits_for_a_lock() -> None:
    for seed in range(500):
        rnd = random.Random(seed)
        log, source = recorded(rnd, scripts(rnd), starts=False)
        found = numbering("strict")
        for act in log:
            found.add(act.session, Role.END if act.is_end else Role.BODY, act.row)
        found.seal()
        target = replayed(rnd, log, found)
        assert target is not None
        assert target.values == source.values, f"seed {seed}"


def test_writes_alone_that_did_not_overlap_keep_their_order() -> None:
    found = numbering("commit", [0, 0, 0, 0])
    for session, row in ((0, 1), (1, 2), (2, 3)):
        found.add(session, Role.WRITE, row)
    found.add(3, Role.READ, 2)
    found.seal()
    assert list(found.numbers) == [0, 1, 2, FIRST_READ]
    assert list(found.needs) == [0, 1, 2, 1]


@dataclass
class Use:
    """A read of a table, or a change of it, outside of transactions."""

    session: int
    table: int
    alters: bool
    began: int = -1
    has_lock: bool = False
    saw: int = -1
    """How often the table had been changed when it was read."""


def used(rnd: random.Random) -> list[Use]:
    """Run sessions that read and change tables, in a random order; return what they did, in the order of its ends."""
    queues = [
        [
            Use(session, rnd.randrange(2), alters=rnd.random() < 0.3)
            for _ in range(rnd.randint(1, 6))
        ]
        for session in range(rnd.randint(2, 5))
    ]
    versions, running, log = [0, 0], list[Use](), list[Use]()
    for now in count():
        session = rnd.choice([each for each in queues if each] or [[]])
        if not session:
            return log
        use = session[0]
        if use.began < 0:
            use.began = now
            running.append(use)
        # Locks are given in the order in which they were asked for, as a server does.
        earlier = [each for each in running[: running.index(use)] if each.table == use.table]
        use.has_lock = not any(each.alters or use.alters for each in earlier)
        if use.has_lock and rnd.random() < 0.5:
            use.saw = versions[use.table]
            versions[use.table] += use.alters
            running.remove(session.pop(0))
            log.append(use)
    raise AssertionError


def used_again(rnd: random.Random, log: list[Use], gate: Numbering) -> Iterator[tuple[Use, int]]:
    """Play the log as a gate lets it; return what each found."""
    versions, water, reads = [0, 0], LowWater(), LowWater()
    queues: dict[int, list[int]] = {}
    for at, use in enumerate(log):
        queues.setdefault(use.session, []).append(at)
    while any(queues.values()):
        ready = [
            acts[0]
            for acts in queues.values()
            if acts and gate.needs[acts[0]] <= water.low
            and gate.reads_before.get(acts[0], 0) <= reads.low
        ]  # fmt: skip
        at = rnd.choice(ready)  # An IndexError if it stopped.
        use = log[at]
        yield use, versions[use.table]
        versions[use.table] += use.alters
        number = gate.numbers[at]
        if is_read(number):
            reads.release((FIRST_READ - number) // 2)
        else:
            water.release(number)
        queues[use.session].pop(0)


def test_a_change_of_the_schema_comes_after_the_reads_that_it_waited_for() -> None:
    different = 0
    for seed in range(1_500):
        rnd = random.Random(seed)
        log = used(rnd)
        gate = numbering("commit", [each.began for each in log])
        for row, use in enumerate(log):
            role = Role.WRITE if use.alters else Role.READ
            if use.alters:
                gate.note_change()
            gate.add(use.session, role, row)
        gate.seal()
        for _ in range(3):
            assert all(use.saw == found for use, found in used_again(rnd, log, gate)), (
                f"seed {seed}"
            )
        gate.reads_before.clear()
        different += any(use.saw != found for use, found in used_again(rnd, log, gate))
    assert different > 100, "the changes that wait made no difference"


def test_a_number_that_is_released_early_lets_no_later_one_pass() -> None:
    water = LowWater()
    assert not water.release(1)
    assert water.low == 0
    assert water.release(0)
    assert water.low == 2
    assert not water.release(UNNUMBERED)


def old_numbers(added: list[tuple[int, Role, int, int]]) -> tuple[list[int], list[int]]:
    """Numbers by what is ready when, without sorting step by step: for each statement a count over all others."""
    ready, last = [], {}
    for session, role, done, start in added:
        at = last.get(session, -1) if role is Role.END else start if role is Role.WRITE else done
        ready.append(at)
        if role is not Role.FREE:
            last[session] = done
    ends = [at for at, (_, role, *_) in enumerate(added) if role in (Role.END, Role.WRITE)]
    numbers = [UNNUMBERED] * len(added)
    for number, at in enumerate(sorted(ends, key=lambda at: (ready[at], at))):
        numbers[at] = number
    needs = []
    for at, (_, role, done, _) in enumerate(added):
        before = sum(ready[end] < done for end in ends)
        needs.append(
            0 if role is Role.FREE else before if numbers[at] == UNNUMBERED else numbers[at]
        )
    return needs, numbers


def test_a_log_that_grows_gets_the_same_numbers_if_ends_are_known_in_time() -> None:
    for seed in range(400):
        rnd = random.Random(seed)
        log, _ = recorded(rnd, scripts(rnd), starts=False)
        rows = [
            (act.session, Role.END if act.is_end else Role.BODY, act.row, act.row) for act in log
        ]
        beyond = 1 + max(
            (log[at].row - log[before].row for at in range(len(log)) for before in range(at)
             if log[at].is_end and log[before].session == log[at].session),
            default=0,
        )  # fmt: skip
        grown, sealed = numbering("commit"), []
        for session, role, done, _ in rows:
            grown.add(session, role, done)
            if rnd.random() < 0.5:
                sealed += grown.seal(done - beyond)
        sealed += grown.seal()
        assert sorted(sealed) == [*range(len(rows))]
        assert (list(grown.needs), list(grown.numbers)) == old_numbers(rows), f"seed {seed}"


def test_a_transaction_that_stays_open_is_numbered_when_it_ends() -> None:
    found = numbering("commit")
    found.add(0, Role.BODY, 1)
    found.add(1, Role.WRITE, 5)
    assert [*found.seal(6)] == [0, 1]
    found.add(0, Role.END, 7)
    found.add(2, Role.BODY, 8)
    assert [*found.seal(9)] == [2, 3]
    assert list(found.numbers) == [UNNUMBERED, 0, 1, UNNUMBERED]
    assert list(found.needs) == [0, 0, 1, 2]


def test_a_write_alone_waits_for_what_was_done_before_it_began() -> None:
    found = numbering("commit")
    found.add(0, Role.FREE, 3)
    found.add(0, Role.BODY, 5, sees=True)
    found.add(1, Role.WRITE, 6, before=4)
    found.add(2, Role.WRITE, 9, before=5)
    found.add(1, Role.WRITE, 10)
    found.seal()
    assert list(found.numbers) == [UNNUMBERED, FIRST_INSIDE, 0, 1, 2]
    assert list(found.awaits) == [0, 0, 0, 1, 1]


def test_the_session_of_a_number_is_known_until_it_is_forgotten() -> None:
    owners = Owners()
    owners.note(2, session=7)
    owners.note(FIRST_INSIDE - 2, session=8)
    owners.note(FIRST_READ - 2, session=6)
    owners.note(UNNUMBERED, session=9)
    assert [owners.get(number) for number in (0, 2, 3, FIRST_INSIDE, FIRST_INSIDE - 2, FIRST_READ - 2)] == [
        None, 7, None, None, 8, 6,
    ]  # fmt: skip
    owners.forget(5, 5, 0)
    assert owners.get(5) is None
    owners.note(6, session=1)
    assert owners.get(6) == 1


def test_what_is_forgotten_cannot_be_asked_for() -> None:
    column = Column()
    for number in range(10):
        column.append(number)
    column.forget(4)
    assert column[3] == 3, "it is kept until it is half of all"
    column.forget(6)
    assert (len(column), column[6], list(column)) == (10, 6, [6, 7, 8, 9])
    with pytest.raises(IndexError, match="5 is forgotten"):
        column[5]
    with pytest.raises(IndexError):
        column[5] = 1
