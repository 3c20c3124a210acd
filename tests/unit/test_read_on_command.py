"""`--read-on` and `--max-gap` as a person meets them: what is read behind the end, and what is refused at once."""

import json
from pathlib import Path

import pytest

from playhead.cli.app import main
from playhead.errors import UsageError
from playhead.files.target import FilesTarget
from playhead.record import Slice
from playhead.replay import api
from playhead.replay.journal import Journal
from playhead.testing import ListSource, ListTarget
from tests.fix_archives import commit, record, writing
from tests.unit.replaying import plan_of, request, runner
from tests.unit.standbys import NoEngine, Room, furnished

HOUR = 3_600_000
SPAN = ("--from", "1970-01-01T00:00:02Z", "--to", "1970-01-01T00:00:05Z")


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(api, "_engine", lambda configuration, *_: NoEngine(configuration))
    return furnished(tmp_path, monkeypatch)


@pytest.fixture
def ahead(room: Room) -> str:
    """Of seven records, one for each second, the fourth is two hours ahead."""
    where = room.tape.with_name("ahead")
    times = [0, 1, 2, 7_202, 3, 4, 5]
    with writing(FilesTarget(str(where), "json"), "tape") as writer:
        kept = [record(offset, ms=1_000 * second) for offset, second in enumerate(times)]
        commit(writer, Slice("t", 0, 0, len(times)), kept)
    return f"json:{where}"


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def test_a_record_that_is_ahead_does_not_end_the_span(room, ahead, capsys):
    assert code_of("replay", ahead, "json:copy", *SPAN, "--id", "r", "--yes", "-o", "json") == 0
    said = capsys.readouterr()
    assert room.offsets() == [2, 4, 5]
    proof = json.loads(said.out)
    assert proof["adds_up"]
    assert (proof["totals"]["written"], proof["totals"]["late"]) == (3, 2)
    assert "t:0 is read on from 3 to 6: offset 4 after Kafka's end is in the span" in said.err


def test_who_says_how_long_is_refused_when_that_is_too_short(room, ahead, capsys):
    words = ("replay", ahead, "json:copy", *SPAN, "--yes")
    assert code_of(*words, "--read-on", "1m") == 6
    said = capsys.readouterr().err
    assert "t:0 is read up to offset 3, but offset 4 after it is also in the span" in said
    assert "--read-on end" in said
    assert not room.copy.exists()
    assert Journal().runs() == []
    assert code_of(*words, "--read-on", "3h", "--id", "long") == 0
    assert room.offsets() == [2, 4, 5]
    assert code_of(*words, "--read-on", "end", "--id", "whole") == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--read-on", "soon"),
            "--read-on is 'soon'; needed: auto, end, or a duration",
        ),
        (("--read-on", "5m", "--lateness", "5m"), "--read-on and --lateness contradict each other"),
        (("--max-gap", "5s"), "--max-gap needs a speed, but the pace is max"),
        (("--max-gap", "5s", "--pace", "9/s"), "--max-gap needs a speed, but the pace is 9/s"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "gaps"])
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(
    command, words, told, room, capsys
):
    if command == "gaps" and "--lateness" in words:
        return
    assert code_of(command, "json:nowhere", "json:copy", *SPAN, *words) == 2
    assert told in capsys.readouterr().err
    assert not room.copy.exists()


def test_a_plan_with_such_a_pace_writes_nothing_when_it_is_run(tmp_path):
    class Untouched(ListTarget):
        def prepare(self, *_):
            raise AssertionError("it was prepared")

    plan = plan_of(request=request(max_gap_ms=5_000))
    with pytest.raises(UsageError, match="--max-gap needs a speed, but the pace is max"):
        runner(plan, ListSource([]), Untouched(), tmp_path).run()
