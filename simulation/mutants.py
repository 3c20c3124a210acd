"""Bugs that were found once, each as a patch that puts it back; the simulation has to find them all."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "src" / "playhead"
_WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Change:
    """A text of a file, and what it becomes."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug."""

    name: str
    about: str
    changes: tuple[Change, ...]

    def apply(self, package: Path) -> None:
        """Put it back; a text that is not there exactly once is an error."""
        for each in self.changes:
            file = package / each.file
            text = file.read_text(encoding="utf-8")
            if text.count(each.old) != 1:
                raise LookupError(
                    f"mutant {self.name}: {each.file} has {text.count(each.old)} times: {each.old}"
                )
            file.write_text(text.replace(each.old, each.new), encoding="utf-8")


MUTANTS = (
    Mutant(
        "order",
        "slices of one partition commit as they come, also where the last record of a key wins",
        (
            Change(
                "postgres/open_table.py",
                '    if tombstones == "delete":\n        return True\n    # Two',
                "    return False\n    # Two",
            ),
        ),
    ),
    Mutant(
        "zombie order",
        "a partition has one lane, but a task that was believed lost may commit out of order",
        (
            Change(
                "tables/ledger.py",
                "            refuse_wrong_order(replay_id, slice_, follows=account.follows, last=last)\n",
                "            del last\n",
            ),
        ),
    ),
    Mutant(
        "deleted rows rise",
        "under newer nobody remembers that a key was deleted later than a record that comes now",
        (
            Change(
                "postgres/stage/latest_records.py",
                '    return habits.rule == "newer" and (',
                "    return not habits.rule and (",
            ),
        ),
    ),
    Mutant(
        "ties",
        "of two records of one time the one stays that is committed last",
        (
            Change(
                "postgres/record_rank.py",
                "    if new.place and old.place:\n",
                "    if new.place and not new.place:\n",
            ),
        ),
    ),
    Mutant(
        "spans end early",
        "a span by time ends where one record's clock is ahead",
        (
            Change(
                "time_span.py",
                "    if resolved.to_ms is None or asked.is_to_end:\n",
                "    if True:\n",
            ),
        ),
    ),
    Mutant(
        "buried by the slice",
        "of a slice that has dead letters already no others are buried",
        (
            Change(
                "kafka/write/dead_letters.py",
                "        left = set(burials.missing(slice_, offsets))\n",
                "        seen = burials.others(slice_, ()) > 0\n"
                "        left = set() if seen else set(offsets)\n",
            ),
        ),
    ),
    Mutant(
        "excuses",
        "verify makes its checksums of what it expects, and sees no record that was changed",
        (
            Change(
                "kafka/write/compare.py",
                "            if self.there[found] != digest:\n",
                "            if self.there[found] < 0:\n",
            ),
            Change(
                "kafka/write/compare.py",
                "        self.sums.found_sum += self.there[found]\n",
                "        self.sums.found_sum = self.sums.expected_sum\n",
            ),
        ),
    ),
    Mutant(
        "ledger read short",
        "the ledger is believed when its reader is told an end too early",
        (
            Change(
                "kafka/write/ledger_reading.py",
                "            return True\n",
                "            return False\n",
            ),
        ),
    ),
    Mutant(
        "forgetful ledger",
        "a ledger topic that deletes is accepted, and a finished replay plays again",
        (
            Change(
                "kafka/write/ledger_topic.py",
                '    if "delete" in policy.split(","):\n        raise ForgetfulLedger(policy)\n',
                "",
            ),
        ),
    ),
    Mutant(
        "other terms",
        "the same id goes on with another plan, source or target",
        (
            Change(
                "terms.py", "    if differences:\n", "    if differences and not differences:\n"
            ),
            Change(
                "terms.py",
                "    if kept is not None and (told := differing_place(kept.places.get(topic), now)):\n",
                "    if kept is None and (told := differing_place(None, now)):\n",
            ),
        ),
    ),
    Mutant(
        "no guard",
        "a replay from Python asks nobody whether the context is read-only",
        (
            Change(
                "replay/api.py",
                "        need_consent(action, target.name, configuration, consent, copies=self._copies)\n",
                "        del action\n",
            ),
        ),
    ),
    Mutant(
        "reader read short",
        "a reader believes in an end without records at once, and what it missed counts as absent",
        (
            Change(
                "kafka/read/reader.py",
                "        if end - self._seen == 1 or self._doubted == self._seen:\n",
                "        if end >= self._seen:\n",
            ),
        ),
    ),
    Mutant(
        "topic made again",
        "a live pipeline goes on at the old offsets of a topic that was deleted and made again",
        (Change("task/same_topics.py", "        if told:\n", "        if told and not told:\n"),),
    ),
    Mutant(
        "topic made again in a round",
        "a live pipeline looks at the ids of its topics now and then, and not before it commits",
        (
            Change(
                "task/round.py",
                "        self._open_writer.same.confirm(topic)\n        abort",
                "        abort",
            ),
        ),
    ),
    Mutant(
        "strays stay",
        "a file that a dead writer has left in an archive stays beside those that came after it",
        (
            Change(
                "files/writer.py",
                "            for stray in self._archive.strays(slice_):\n",
                "            for stray in self._archive.strays(slice_)[:0]:\n",
            ),
        ),
    ),
    Mutant(
        "letters of nothing return",
        "a redrive writes a dead letter that lacks what could not be read of its record, as that record",
        (
            Change(
                "kafka/write/routing.py",
                "            elif origin.lacking:\n",
                "            elif origin.lacking and not origin.topic:\n",
            ),
        ),
    ),
    Mutant(
        "overlap",
        "a slice that was committed meanwhile is committed once more into a topic",
        (
            Change(
                "kafka/write/partition_writer.py",
                "        self._refuse_overlap(account.slice)\n",
                "",
            ),
        ),
    ),
)


def found(mutant: Mutant, *, seconds: float, seed: str, more: Sequence[str] = ()) -> str | None:
    """What the simulation says of a copy of the product with the bug in it; None when it finds nothing.

    The schedule that fails must hold for the product without the bug, or it shows something else.
    """
    with tempfile.TemporaryDirectory(prefix="playhead-mutant-") as folder:
        package = Path(folder) / "playhead"
        shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.apply(package)
        asked = ("--seconds", str(seconds), "--seed", seed, "--plain", *more)
        story = _simulated(folder, *asked)
    if story is None:
        return None
    failing = story.partition("SEED=")[2].split()[0]
    without = _simulated(str(_PACKAGE.parent), "--seed", failing, *more)
    if without is not None:
        raise LookupError(f"mutant {mutant.name}: fails without it, too: {without}")
    return story


def _simulated(source: str, *arguments: str) -> str | None:
    """What the simulation of the product in a folder tells of a violation."""
    done = subprocess.run(
        [sys.executable, "-m", "simulation", *arguments],
        check=False,
        cwd=_ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((source, str(_ROOT))),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.stderr:
        raise RuntimeError(done.stderr[-2_000:])
    return done.stdout if done.returncode else None


def main(arguments: Sequence[str]) -> int:
    """Look for all, or for those that are named."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=_WITHIN_S)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--story", action="store_true")
    parser.add_argument("--without", default="")
    given = parser.parse_args(arguments)
    missed = 0
    for mutant in MUTANTS:
        if given.names and mutant.name not in given.names:
            continue
        began = time.monotonic()
        more = ("--without", given.without) if given.without else ()
        story = found(mutant, seconds=given.seconds, seed=given.seed, more=more)
        missed += story is None
        word = "found" if story else "NOT FOUND"
        print(f"{mutant.name}: {word} within {time.monotonic() - began:.0f} s", flush=True)
        if story and given.story:
            print(story, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
