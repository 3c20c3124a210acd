"""The story as a whole: told on real servers, and not told on when one of its steps did not come about."""

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.fix_environment import not_training, processes_that_mention
from tests.fix_torture import SEED

Start = Callable[..., "subprocess.Popen[str]"]
WITHIN_S = 420
TIMES = 12


def told(start_playhead: Start, folder: Path, *words: str, **more: str) -> tuple[int, str, str]:
    """Exit code, data and talk of one afternoon in this folder."""
    place = ["--dir", str(folder), "--folder", str(folder / "told")]
    process = start_playhead("demo", "--headless", "-o", "json", *place, *words, **more)
    out, err = process.communicate(timeout=WITHIN_S)
    assert "Traceback" not in err
    assert not_training(processes_that_mention(str(folder))) == {}
    return process.returncode, out, err


def is_right(found: dict[str, Any]) -> None:
    assert found["is_right"]
    assert found["sent"] == found["delivered"] == found["rows"] == found["different"] > 0
    assert found["lost_in_the_outage"] == found["replayed"] > 0
    assert found["written_meanwhile"] > 0
    assert found["missing"] == found["duplicates"] == found["gaps_left"] == 0


def test_the_afternoon_from_the_cars_to_the_proof(start_playhead: Start, folder: Path) -> None:
    times = ["--before", "2s", "--outage", "3s", "--after", "4s", "--rate", "400", "--cars", "7"]
    code, out, err = told(start_playhead, folder, *times)
    assert code == 0, err
    is_right(json.loads(out))
    assert "0 missing, 0 duplicates" in err
    written = (folder / "told" / "transcript.txt").read_text(encoding="utf-8")
    assert all(line.strip() in written for line in err.splitlines() if line.startswith("$ "))
    assert marks(folder / "told" / "before.svg") > marks(folder / "told" / "after.svg") == 0


def marks(picture: Path) -> int:
    """How many stretches of time are drawn as missing something."""
    drawn = ElementTree.fromstring(picture.read_text(encoding="utf-8"))  # noqa: S314  our own
    return sum(each.get("class") == "missing" for each in drawn.iter())


@pytest.mark.torture
@pytest.mark.parametrize("number", range(TIMES))
def test_whenever_the_power_goes_the_table_equals_the_topic(
    start_playhead: Start, folder: Path, number: int
) -> None:
    chance = random.Random(f"{SEED} afternoon {number}")
    seconds = {"before": (0.2, 6), "outage": (0.5, 12), "after": (3.5, 6)}
    times = [
        word
        for name, (least, most) in seconds.items()
        for word in (f"--{name}", f"{chance.uniform(least, most):.2f}s")
    ]
    rate = str(chance.choice([50, 400, 1_200]))
    code, out, err = told(start_playhead, folder, *times, "--rate", rate, "--seed", str(number))
    assert code == 0, err
    is_right(json.loads(out))


@pytest.mark.torture
@pytest.mark.parametrize(
    ("point", "who"),
    [("run.planned", "gaps"), ("ingest.offered", "ingest"), ("live.started", "live")],
)
def test_a_step_that_breaks_ends_the_story(
    start_playhead: Start, folder: Path, point: str, who: str
) -> None:
    times = ["--before", "1s", "--outage", "2s", "--after", "4s", "--rate", "400"]
    code, out, err = told(start_playhead, folder, *times, PLAYHEAD_ABORT_AT=f"{point}=kill")
    assert code == 1, err
    assert out == ""
    assert f"error: playhead {who}: found" in err or f"error: {who}: found" in err
