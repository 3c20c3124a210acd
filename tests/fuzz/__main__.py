"""Plays mutations of the kept inputs against the parsers until the time is up; see the package."""

import argparse
import faulthandler
import random
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from playhead import secrets
from tests.fuzz.mutations import mutated
from tests.fuzz.parsers import PARSERS, Parser

CORPUS = Path(__file__).parent / "corpus"
MOST_S, MOST_KB = 5.0, 3 << 20
STATM = Path("/proc/self/statm")
LOOK_EVERY = 500


def kept(name: str) -> list[bytes]:
    """Inputs that are kept: those that once broke this parser, and those that were always good."""
    files = sorted(CORPUS.glob(f"{name}/*"))
    return [*PARSERS[name].good, *(file.read_bytes() for file in files)]


def inputs(name: str, seed: int) -> Iterator[bytes]:
    """All that is kept as it is, then mutations without an end."""
    start = kept(name)
    yield from start
    number = 0
    while True:
        drawn = random.Random(f"{seed}:{name}:{number}")
        yield mutated(drawn, start)
        number += 1


def broken_by(parser: Parser, data: bytes) -> str | None:
    """What this input did that none may do, or None."""
    # What a person types by mistake is redacted from then on, and 10,000 such words take seconds.
    known = set(secrets._known)
    began = time.process_time()
    try:
        parser.take(data)
    except parser.ours:
        pass
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        secrets._known.intersection_update(known)
    took = time.process_time() - began
    return f"it took {took:.1f} s" if took > MOST_S else None


def kept_kb() -> list[int]:
    """The most memory so far, and the address space, which a leak fills long before; where it is known."""
    space = (
        [int(STATM.read_text().split()[0]) * resource.getpagesize() >> 10] if STATM.exists() else []
    )
    return [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, *space]


def play(name: str, seed: int, seconds: float) -> tuple[int, list[tuple[bytes, str]]]:
    """How many inputs were tried, and those that broke the parser, one for each way."""
    until, count, found = time.monotonic() + seconds, 0, dict[str, tuple[bytes, str]]()
    before = kept_kb()
    for data in inputs(name, seed):
        if time.monotonic() > until and count >= len(kept(name)):
            break
        why = broken_by(PARSERS[name], data)
        count += 1
        if why is not None:
            places = [line for line in why.splitlines() if line.startswith("  File ")]
            found.setdefault(places[-1] if places else why[:40], (data, why))
        if count % LOOK_EVERY == 0:
            grown = max(now - then for now, then in zip(kept_kb(), before, strict=True))
            if grown > MOST_KB:
                found["memory"] = (data, f"{count} inputs have taken {grown:,} KB, and kept them")
                break
    return count, list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--only", choices=sorted(PARSERS))
    parser.add_argument("--keep", type=Path, help="a folder for inputs that break something")
    options = parser.parse_args()
    faulthandler.enable()
    names = [options.only] if options.only else sorted(PARSERS)
    broken = 0
    print(f"seed {options.seed}", flush=True)
    for name in names:
        print(f"{name}: ", end="", flush=True)  # which one it was, when a signal ends us
        count, found = play(name, options.seed, options.seconds / len(names))
        print(f"{count} inputs", flush=True)
        for number, (data, why) in enumerate(found):
            print(f"BROKEN {name} by {data[:200]!r}\n{why}", flush=True)
            if options.keep is not None:
                (options.keep / name).mkdir(parents=True, exist_ok=True)
                (options.keep / name / f"{options.seed}-{number}").write_bytes(data)
        broken += len(found)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
