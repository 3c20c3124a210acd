"""What nobody meant to write comes to every parser; a process of its own tells when one is killed."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.mutations import mutated
from tests.fuzz.parsers import PARSERS, Parser

ROOT = Path(__file__).parents[2]
# A seed of its own for each run; a failure says it, and PLAYHEAD_FUZZ_SEED repeats it.
SEED = int(os.environ.get("PLAYHEAD_FUZZ_SEED", random.randrange(1 << 32)))


def played(seconds: float) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seed", str(SEED), "--seconds", str(seconds)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=seconds + 600
    )
    assert done.returncode == 0, f"seed {SEED}:\n{done.stdout[-8_000:]}\n{done.stderr[-2_000:]}"


@pytest.mark.slow  # fuzzes every parser for a while
def test_no_input_gets_more_out_of_a_parser_than_an_error_of_ours():
    played(10)


@pytest.mark.torture
def test_for_long():
    played(float(os.environ.get("PLAYHEAD_FUZZ_SECONDS", "900")))


def test_every_kept_input_has_its_parser():
    assert {folder.name for folder in fuzz.CORPUS.iterdir() if folder.is_dir()} <= set(PARSERS)
    assert all(parser.good for parser in PARSERS.values())


def test_the_same_seed_makes_the_same_inputs():
    start = [b"one", b'{"two": 2}']
    made = [[mutated(random.Random(n), start) for n in range(50)] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 30


def test_a_parser_that_breaks_is_found(monkeypatch):
    def take(data: bytes) -> None:
        if b"\xff" in data:
            raise KeyError("planted")
        raise ValueError("ours")

    monkeypatch.setitem(PARSERS, "planted", Parser(take, [b"a", b"b"], (ValueError,)))
    count, found = fuzz.play("planted", 1, 2.0)
    assert count > 10
    assert ["planted" in why for _, why in found] == [True]
