"""The JSON of commands, name for name and value for value; PLAYHEAD_UPDATE_GOLDEN=1 writes the golden files.

Programs read this output, so a name in it changes on purpose only. What differs from run to run is replaced: times
of the clock, durations, rates, digests and folders.
"""

import contextlib
import io
import json
import os
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playhead.cli.app import main
from playhead.files.target import FilesTarget
from playhead.record import Slice
from playhead.replay import api
from tests.fix_archives import commit, record, writing
from tests.unit.standbys import NoEngine

GOLDEN = Path(__file__).parents[1] / "golden" / "json"
UPDATE = bool(os.environ.get("PLAYHEAD_UPDATE_GOLDEN"))
AGAIN = "PLAYHEAD_UPDATE_GOLDEN=1 python -m pytest tests/unit/test_json_goldens.py renews it"
# In the order in which they run: each finds what those before it left.
COMMANDS = {
    "replay-dry-run": (0, "replay json:tape sqlite:laps.db?table=laps --create --id day --dry-run"),
    "replay": (0, "replay json:tape sqlite:laps.db?table=laps --create --id day --yes"),
    "resume-of-a-finished-one": (0, "resume day --yes"),
    "verify": (0, "verify day"),
    "replay-with-refused-records": (
        0,
        "replay json:tape sqlite:some.db?table=laps --id some --on-error skip --yes",
    ),
    "verify-with-refused-records": (0, "verify some"),
    "verify-of-a-changed-row": (4, "verify day"),
    "gaps": (4, "gaps json:tape json:half"),
    "runs": (0, "runs"),
    "one-run": (0, "runs day"),
    "contexts": (0, "context list"),
}
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")
_DIGEST = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b")
_MEASURED = ("seconds", "size_bytes", "wall_s", "run_s", "first_commit_s", "records_per_second")
_FIRST_CLOCK_MS = 1_600_000_000_000


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Run the commands once, one after the other; return exit code and output of each."""
    folder = tmp_path_factory.mktemp("golden")
    found: dict[str, tuple[int, str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("STATE", "CONFIG", "CACHE"):
            patch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
        patch.delenv("DATABASE_URL", raising=False)
        patch.chdir(folder)
        patch.setattr(api, "_engine", lambda configuration, *_, **__: NoEngine(configuration))
        tapes()
        with closing(sqlite3.connect("some.db")) as file, file:
            file.execute("CREATE TABLE laps (id CHECK (id <> 3), _topic, _partition, _offset)")
        for name, (_, words) in COMMANDS.items():
            if name == "verify-of-a-changed-row":
                with closing(sqlite3.connect("laps.db")) as file, file:
                    file.execute("UPDATE laps SET lap = 7 WHERE id = 4")
            found[name] = outcome(words, folder)
    return found


def tapes() -> None:
    """Write an archive of two partitions, and one that lacks the end of both."""
    for root, end in (("tape", 5), ("half", 3)):
        with writing(FilesTarget(root, "json"), root, keeps_terms=False) as writer:
            for partition in (0, 1):
                kept = [
                    replace(
                        record(n, value=b'{"id": %d, "lap": 1.5}' % (5 * partition + n)),
                        partition=partition,
                    )
                    for n in range(end)
                ]
                commit(writer, Slice("t", partition, 0, end), kept)


def outcome(words: str, folder: Path) -> tuple[int, str]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), pytest.raises(SystemExit) as end:
        main([*words.split(), "-o", "json"])
    document = steady(json.loads(text.getvalue()), str(folder))
    return int(end.value.code or 0), json.dumps(document, indent=1, sort_keys=True) + "\n"


def steady(value: Any, folder: str, name: str = "") -> Any:
    """Replace what differs from run to run."""
    if isinstance(value, dict):
        return {key: steady(each, folder, key) for key, each in value.items()}
    if isinstance(value, list):
        return [steady(each, folder, name) for each in value]
    if name in _MEASURED and value is not None:
        return "MEASURED"
    if isinstance(value, int) and value > _FIRST_CLOCK_MS:
        return "TIME"
    if isinstance(value, str):
        return _DIGEST.sub("DIGEST", _CLOCK.sub("TIME", value.replace(folder, "FOLDER")))
    return value


@pytest.mark.parametrize("name", COMMANDS)
def test_the_output_is_as_it_was(name: str, outputs: dict[str, tuple[int, str]]) -> None:
    code, text = outputs[name]
    assert code == COMMANDS[name][0]
    golden = GOLDEN / f"{name}.json"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8"), AGAIN


def test_there_is_no_golden_file_without_a_command() -> None:
    assert {each.stem for each in GOLDEN.iterdir()} == set(COMMANDS)
