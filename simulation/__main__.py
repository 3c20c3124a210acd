"""`python -m simulation`: schedules of one seed for so many seconds; what fails is shrunk and told."""

import argparse
import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

_MOST_SHOWN = 20
_HASHES = "PYTHONHASHSEED"


def main(arguments: Sequence[str]) -> int:
    """Play; 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", help="NUMBER for a series, NUMBER:INDEX for one schedule")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--schedules", type=int, default=0, help="end after so many")
    parser.add_argument("--without", default="", help="what is not to happen: wild,premature_end")
    parser.add_argument("--go-on", action="store_true", help="count violations, do not shrink them")
    parser.add_argument("--plain", action="store_true", help="do not shrink what fails")
    given = parser.parse_args(arguments)
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
    from simulation.choices import Choices
    from simulation.judge import Violation
    from simulation.schedule import play

    print(f"simulation: seed {seed}", flush=True)
    gc.collect()
    gc.freeze()
    began, spent = time.monotonic(), time.process_time()
    sums: Counter[str] = Counter()
    while time.monotonic() - began < given.seconds:
        name = f"{seed}:{sums['schedules']}"
        sums["schedules"] += 1
        try:
            found = play(Choices(name), without=without)
            sums.update({each: getattr(found, each) for each in found.__slots__})
        except Violation as exc:
            sums["violations"] += 1
            if not given.go_on:
                return _one(name, without, is_plain=given.plain)
            print(f"{name}: {exc}"[:300], flush=True)
            if sums["violations"] == _MOST_SHOWN:
                break
        if sums["schedules"] % 200 == 0:
            gc.collect()
        if sums["schedules"] == given.schedules:
            break
    rate = sums["schedules"] / max(time.process_time() - spent, 1e-9)
    counts = ", ".join(f"{count:,} {name}" for name, count in sums.items())
    print(f"simulation: seed {seed}: {counts}; {rate:.0f} schedules/s of one core")
    return 1 if sums["violations"] else 0


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
