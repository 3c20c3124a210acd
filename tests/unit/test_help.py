"""The help of every command, word for word: PLAYHEAD_UPDATE_GOLDEN=1 writes the golden files anew."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from playhead.cli.app import app

GOLDEN = Path(__file__).parents[1] / "golden" / "help"
UPDATE = bool(os.environ.get("PLAYHEAD_UPDATE_GOLDEN"))
AGAIN = "PLAYHEAD_UPDATE_GOLDEN=1 python -m pytest tests/unit/test_help.py writes it anew"
# What would change the form of the help from one terminal to the next.
TERMINAL = {"COLUMNS": "80", "LINES": "24", "TERM": "dumb", "NO_COLOR": "1", "FORCE_COLOR": ""}


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*words, name))


COMMANDS = list(commands(app))


def golden_file(words: tuple[str, ...]) -> Path:
    return GOLDEN / ("-".join(("playhead", *words)) + ".txt")


def help_of(words: tuple[str, ...]) -> str:
    answer = CliRunner().invoke(app, [*words, "--help"], prog_name="playhead", env=TERMINAL)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "playhead")
def test_the_help_of_every_command_is_as_it_was_read(words):
    file, said = golden_file(words), help_of(words)
    if UPDATE:
        file.write_text(said, encoding="utf-8")
    assert file.exists(), f"{file.name} is not there; {AGAIN}"
    assert said == file.read_text(encoding="utf-8"), f"when the change is meant: {AGAIN}"


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "playhead")
def test_help_fits_a_terminal_of_eighty_columns(words):
    too_long = [line for line in help_of(words).splitlines() if len(line) > 80]
    assert not too_long


def test_no_golden_file_is_left_of_a_command_that_is_gone():
    kept = {golden_file(words) for words in COMMANDS}
    gone = sorted(set(GOLDEN.glob("*.txt")) - kept)
    if UPDATE:
        for file in gone:
            file.unlink()
        gone = []
    assert not gone


def test_short_help_is_the_same_as_long_help():
    long, short = (
        CliRunner().invoke(app, ["doctor", flag], prog_name="playhead", env=TERMINAL).stdout
        for flag in ("--help", "-h")
    )
    assert long == short


@pytest.mark.parametrize("word", ["--reset-offsets", "reset-offsets"])
def test_a_command_by_the_name_of_kafkas_flag(word):
    """Otherwise the nearest name would be suggested, and delete-offsets is nearer than reset."""
    answer = CliRunner().invoke(app, ["groups", word, "--help"], prog_name="playhead", env=TERMINAL)
    assert answer.stdout.startswith("Usage: playhead groups reset ")
