"""Every block of the tutorial works: run in order, as a reader would, against a real sandbox."""

import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import playhead
from playhead.host import paths
from playhead.sandbox import Sandbox

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
# A block of shell, Python or TOML, with the comment that stands before it.
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
MAY_BE_LEFT_OUT = re.compile(r"playhead (?:replay|resume|runs)\b")
OURS = re.compile(
    r"PLAYHEAD_|KAFKA_|SPARK_|PYSPARK_|DATABASE_URL$|PG|XDG_|COMP_WORDS$|VISUAL$|EDITOR$"
)
WITHIN_S = 300


@dataclass(frozen=True)
class Block:
    """One fenced block and what the tutorial says about it."""

    language: str
    text: str
    note: str
    line: int

    @property
    def is_left_out(self) -> bool:
        return self.note.startswith("not run: ")

    @property
    def is_output(self) -> bool:
        return self.note == "output"


def blocks_of(text: str) -> list[Block]:
    return [
        Block(
            match["language"],
            match["text"],
            match["note"] or "",
            text.count("\n", 0, match.start("language")) + 1,
        )
        for match in BLOCK.finditer(text)
    ]


BLOCKS = blocks_of(TUTORIAL.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Reader:
    """Somebody with an empty home who types what the tutorial says, one block after the other."""

    home: Path
    environment: dict[str, str]

    def follow(self, block: Block) -> str:
        """Do what a block says; returns what the terminal shows."""
        if block.language == "toml":
            name = block.note.removeprefix("file: ")
            (self.home / "work" / name).write_text(block.text, encoding="utf-8")
            return ""
        if block.language == "python":
            (self.home / "block.py").write_text(block.text, encoding="utf-8")
            run = f'"{sys.executable}" -W error "$HOME/block.py"'
            return self._run(block, ["bash", "-c", self._in_one_session(run)])
        return self._run(block, ["bash", "-c", self._in_one_session(block.text)])

    def _in_one_session(self, text: str) -> str:
        """The block in a shell that begins with the variables the block before has left."""
        return f'set -euo pipefail\n. "$HOME/exports"\n{text}\nexport -p > "$HOME/exports"\n'

    def _run(self, block: Block, command: list[str]) -> str:
        done = subprocess.run(
            command,
            cwd=self.home / "work",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WITHIN_S,
        )
        assert done.returncode == 0, (
            f"docs/tutorial.md:{block.line} ended with {done.returncode}:\n{block.text}\n{done.stdout}"
        )
        return done.stdout


def environment_of(home: Path) -> dict[str, str]:
    """Nothing of the person who runs the tests but the jars, which are the same for everybody."""
    kept = {key: value for key, value in os.environ.items() if not OURS.match(key)}
    beside_python = Path(sys.executable).parent
    return kept | {
        "HOME": str(home),
        # Whether an engine of an earlier command is there already depends on how busy the machine is.
        "PLAYHEAD_WARM": "off",
        "PATH": os.pathsep.join([str(home / "bin"), str(beside_python), os.environ["PATH"]]),
        "PYTHONPATH": str(Path(playhead.__file__).parents[1]),
        "XDG_CACHE_HOME": str(paths.cache_dir().parent),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "COLUMNS": "80",
    }


def offer_command(home: Path) -> None:
    """Have `playhead` on PATH also where the package was not installed."""
    if shutil.which("playhead", path=str(Path(sys.executable).parent)) is None:
        command = home / "bin" / "playhead"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m playhead.cli.app "$@"\n')
        command.chmod(0o755)


@pytest.fixture
def reader() -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(
        prefix="playhead-tutorial-", ignore_cleanup_errors=True
    ) as name:
        home = Path(name)
        home.chmod(0o755)  # the servers' own user has to enter it
        for folder in ("bin", "work"):
            (home / folder).mkdir()
        (home / "exports").touch()
        offer_command(home)
        try:
            yield Reader(home, environment_of(home))
        finally:
            Sandbox(home / "state" / "playhead" / "sandbox").down()


def shows(wanted: str, found: str) -> bool:
    """Whether a terminal shows what the tutorial does; `...` stands for anything, runs of blanks are one."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(wanted, found, options)


def test_every_block_does_what_the_tutorial_says(reader):
    shown, ran = "", 0
    for block in BLOCKS:
        if block.is_output:
            assert shows(block.text, shown), (
                f"docs/tutorial.md:{block.line} shows\n{block.text}\nand the block above it printed\n{shown}"
            )
        elif block.language in ("sh", "python", "toml") and not block.is_left_out:
            shown = reader.follow(block)
            ran += 1
    assert ran > 0, "the tutorial has no blocks to run"


def test_only_what_cannot_be_run_here_is_left_out():
    for block in BLOCKS:
        if block.is_left_out:
            for line in block.text.splitlines():
                assert MAY_BE_LEFT_OUT.match(line), (
                    f"docs/tutorial.md:{block.line} leaves out: {line}"
                )


def test_every_block_says_what_it_is():
    for block in BLOCKS:
        known = {
            "sh": block.note == "" or block.is_left_out,
            "python": block.note == "",
            "toml": block.note.startswith("file: "),
            "text": block.is_output,
        }
        assert known.get(block.language), (
            f"docs/tutorial.md:{block.line}: ```{block.language} with {block.note!r} is neither run nor output"
        )


@pytest.mark.parametrize(
    ("wanted", "found", "fits"),
    [
        ("broker  up  ...\n", "broker    up     77\n", True),
        ("broker  up  ...\n", "broker    down\n", False),
        ("one\n...\nthree\n", "one\ntwo\ntwo and a half\nthree\n", True),
        ("one\nthree\n", "one\ntwo\nthree\n", False),
    ],
)
def test_dots_stand_for_anything_and_nothing_else_does(wanted, found, fits):
    assert shows(wanted, found) is fits


def test_blocks_are_found_with_their_notes():
    text = "a\n\n<!-- output -->\n```text\nx\n```\n\n```sh\ny\n```\n"
    assert blocks_of(text) == [Block("text", "x\n", "output", 4), Block("sh", "y\n", "", 8)]
