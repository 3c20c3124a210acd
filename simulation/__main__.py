"""`python -m simulation`: schedules of one seed for so many seconds; what fails is shrunk and told."""

import argparse
import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import count

_MOST_SHOWN = 20
_COLLECTED = 100
_HASHES = "PYTHONHASHSEED"


def main(arguments: Sequence[str]) -> int:
    """Play; 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", help="NUMBER for a series, NUMBER:INDEX for one schedule")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--schedules", type=int, default=0, help="end after so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the series")
    parser.add_argument("--without", default="", help="what is not to happen: wild,premature_end")
    parser.add_argument("--go-on", action="store_true", help="count violations, do not shrink them")
    parser.add_argument("--plain", action="store_true", help="do not shrink what fails")
    given = parser.parse_args(arguments)
    from simulation import lighten

    lighten.load_lightly()
    from simulation import machine, product, stream

    product.wire()
    machine.wire()
    stream.wire()
    without = tuple(filter(None, given.without.split(",")))
    seed, _, index = (given.seed or str(random.SystemRandom().randrange(1 << 32))).partition(":")
    if index:
        return _one(f"{seed}:{index}", without, is_plain=given.plain)
    return _series(seed, given, without)


def _series(seed: str, given: argparse.Namespace, without: Sequence[str]) -> int:
    """The schedules of a seed, which are the same ones for any number of processes."""
    import multiprocessing

    print(f"simulation: seed {seed}", flush=True)
    part = partial(_part, seed, given, without)
    sums: Counter[str] = Counter()
    spent_s = 0.0
    # Forked, they need not be wired again.
    with multiprocessing.get_context("fork").Pool(given.jobs) as pool:
        for counts, its_s, failing in pool.imap_unordered(part, range(given.jobs)):
            if failing is not None:
                pool.terminate()
                return _one(failing, without, is_plain=given.plain)
            sums.update(counts)
            spent_s += its_s
    rate = sums["schedules"] / max(spent_s, 1e-9)
    told = ", ".join(f"{number:,} {name}" for name, number in sums.items())
    print(f"simulation: seed {seed}: {told}; {rate:.0f} schedules/s of one core")
    return 1 if sums["violations"] else 0


def _part(
    seed: str, given: argparse.Namespace, without: Sequence[str], first: int
) -> tuple[Counter[str], float, str | None]:
    """Every so many'th schedule: counts, the seconds of a core, and the schedule at which to stop."""
    from simulation.choices import Choices
    from simulation.judge import Violation
    from simulation.schedule import play

    began, spent = time.monotonic(), time.process_time()
    sums: Counter[str] = Counter()
    for index in count(first, given.jobs):
        if time.monotonic() - began >= given.seconds or 0 < given.schedules <= index:
            break
        if sums["schedules"] % _COLLECTED == 0:
            gc.collect()
            if sums["schedules"] <= _COLLECTED:
                # Modules, and what was compiled: it stays, and is not looked at again.
                gc.freeze()
        name, choices = f"{seed}:{index}", Choices(f"{seed}:{index}")
        sums["schedules"] += 1
        try:
            found = play(choices, without=without)
            sums.update({each: getattr(found, each) for each in found.__slots__})
        except Violation as exc:
            sums["violations"] += 1
            if not given.go_on:
                return sums, 0.0, name
            print(f"{name}: {exc}"[:300], flush=True)
            if sums["violations"] == _MOST_SHOWN:
                break
        sums["decisions"] += len(choices.taken)
    return sums, time.process_time() - spent, None


def _one(name: str, without: Sequence[str], *, is_plain: bool) -> int:
    """Play one schedule; shrink what fails, and tell it."""
    from simulation.choices import Choices
    from simulation.shrink import shrunk

    choices = Choices(name)
    failure = _failure(choices, without)
    if failure is None:
        print(f"simulation: SEED={name} holds")
        return 0
    print(f"simulation: VIOLATION, again by: make simulate SEED={name}\n  {failure}"[:1_000])
    if is_plain:
        return 1
    small = shrunk(choices.taken, lambda given: _fails_alike(given, without, failure))
    story: list[str] = []
    again = Choices(given=small)
    told = _failure(again, without, story)
    print(f"shrunk from {len(choices.taken)} choices to {len(small)}:")
    print("\n".join(story))
    print(f"VIOLATION: {told}")
    print(f"again by: make simulate SEED={name}")
    return 1


def _fails_alike(given: Sequence[int], without: Sequence[str], failure: str) -> bool:
    from simulation.choices import Choices

    found = _failure(Choices(given=given), without)
    return found is not None and found.split(" ", 1)[0] == failure.split(" ", 1)[0]


def _failure(choices: object, without: Sequence[str], story: list[str] | None = None) -> str | None:
    from simulation.judge import Violation
    from simulation.schedule import play

    try:
        play(choices, story, without)  # type: ignore[arg-type]
    except Violation as exc:
        return str(exc)
    return None


if __name__ == "__main__":
    if os.environ.get(_HASHES) != "0":
        # The order of sets of texts is part of a schedule.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "simulation", *sys.argv[1:]],
            {**os.environ, _HASHES: "0"},
        )
    sys.exit(main(sys.argv[1:]))
