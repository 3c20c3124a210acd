"""Data goes to stdout in the form asked for, talk to stderr, and neither is folded, coloured or leaky."""

import csv
import io
import json
import sys

import pytest

from playhead import secrets
from playhead.cli.app import run
from playhead.cli.output import Output, Progress, ReaderGone, colour_is_wanted, tell
from playhead.testing import ManualClock

ROWS = [
    {"name": "zürich 東京", "is_on": True, "count": 0, "tags": ["a", "b"], "note": None},
    {"name": 'quo"te, comma', "is_on": False, "count": 7, "tags": [], "extra": "x"},
]
DOCUMENT = {"rows": ROWS}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def emitted(capsys, form, rows=ROWS, document=DOCUMENT) -> str:
    Output(form).emit(document, rows)
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_json_is_the_whole_document(capsys):
    text = emitted(capsys, "json")
    assert json.loads(text) == DOCUMENT
    assert "zürich 東京" in text
    assert text.endswith("}\n")


def test_jsonl_is_a_row_a_line(capsys):
    lines = emitted(capsys, "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == ROWS


def test_jsonl_keeps_a_row_on_its_line(capsys):
    text = emitted(capsys, "jsonl", [{"a": "one\ntwo\u2028three"}])
    assert text.count("\n") == 1
    assert json.loads(text) == {"a": "one\ntwo\u2028three"}


def test_csv_can_be_read_back(capsys):
    text = emitted(capsys, "csv")
    assert list(csv.DictReader(io.StringIO(text))) == [
        {
            "name": "zürich 東京",
            "is_on": "yes",
            "count": "0",
            "tags": "a, b",
            "note": "",
            "extra": "",
        },
        {
            "name": 'quo"te, comma',
            "is_on": "no",
            "count": "7",
            "tags": "",
            "note": "",
            "extra": "x",
        },
    ]
    assert "\r" not in text


def test_a_table_has_a_head_and_a_line_for_each_row(capsys):
    head, first, second = emitted(capsys, "table").splitlines()
    assert head.split() == ["NAME", "IS-ON", "COUNT", "TAGS", "NOTE", "EXTRA"]
    assert first.split() == ["zürich", "東京", "yes", "0", "a,", "b"]
    assert second.split() == ['quo"te,', "comma", "no", "7", "x"]


def test_a_tables_lines_have_no_blanks_at_their_ends(capsys):
    lines = emitted(capsys, "table", [{"a": "long enough", "b": None}, {"a": "x", "b": "y"}])
    assert [line for line in lines.splitlines() if line != line.rstrip()] == []


def test_a_table_in_a_pipe_is_neither_folded_nor_coloured(capsys):
    text = emitted(capsys, "table", [{"state": "ok", "found": "word " * 600, "last": "end"}])
    assert len(text.splitlines()) == 2
    assert "\x1b" not in text
    assert text.endswith(" end\n")


def test_square_brackets_are_no_markup(capsys):
    assert "[bold]x[/bold]" in emitted(capsys, "table", [{"a": "[bold]x[/bold]"}])


def test_a_table_without_rows_says_nothing_of_its_own(capsys):
    assert emitted(capsys, "table", []).strip() == ""


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv"])
def test_every_form_takes_every_kind_of_value(capsys, form):
    rows = [{"a": value} for value in (None, True, 0, 1.5, [], ["x"], ("y",), {"z": 1}, "ok", b"q")]
    assert emitted(capsys, form, rows, {"rows": rows})


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("", True), ("1", False)])
def test_a_terminal_has_colours_unless_somebody_minds(monkeypatch, no_color, coloured):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    assert colour_is_wanted() is coloured
    Output().emit({}, [{"state": "ok"}])
    assert ("\x1b[32mok" in terminal.getvalue()) is coloured


def test_a_dumb_terminal_has_no_colours(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    assert colour_is_wanted() is False


def test_talk_goes_to_stderr_and_quiet_silences_it(capsys):
    Output().say("hello")
    assert capsys.readouterr() == ("", "hello\n")
    Output(quiet=True).say("hello")
    assert capsys.readouterr() == ("", "")


def test_quiet_keeps_data(capsys):
    Output(quiet=True).text("export A=1")
    assert capsys.readouterr() == ("export A=1\n", "")


def test_what_is_told_has_its_secrets_redacted(capsys):
    secrets.remember("opensesame")
    tell("the word is opensesame")
    assert capsys.readouterr().err == f"the word is {secrets.HIDDEN}\n"


class Gone(io.StringIO):
    """A stdout whose reader has left."""

    def write(self, text: str) -> int:
        if text:
            raise BrokenPipeError
        return 0


@pytest.mark.parametrize(
    "words", [["--help"], ["replay", "-h"], ["groups", "--help"], ["--version"]]
)
def test_help_for_a_reader_who_left_is_no_fault(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "stdout", Gone())
    assert run(words) == 0
    assert capsys.readouterr().err == ""


def test_a_reader_who_left_is_told_from_other_broken_pipes(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Gone())
    for form in ("table", "json", "jsonl", "csv"):
        with pytest.raises(ReaderGone):
            Output(form).emit(DOCUMENT, ROWS)


# --- progress


def test_plain_progress_comes_at_once_then_every_two_seconds_and_at_the_end(capsys):
    clock = ManualClock()
    progress = Progress("fetching", "plain", lambda: clock.monotonic_ns() / 1e9)
    for done in (1_000_000, 2_000_000, 3_000_000, 10_000_000):
        progress("a.jar", done, 10_000_000)
        clock.advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "fetching:  10 % of 10.0 MB",
        "fetching:  30 % of 10.0 MB",
        "fetching: 100 % of 10.0 MB",
    ]


def test_json_progress_is_an_object_a_line(capsys):
    progress = Output(progress_form="json").progress("fetching")
    progress("a.jar", 5, 5)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err) == {
        "what": "fetching",
        "step": "a.jar",
        "done": 5,
        "total": 5,
    }


@pytest.mark.parametrize(
    "output", [Output(progress_form="none"), Output(quiet=True, progress_form="plain")]
)
def test_no_progress_is_no_progress(capsys, output):
    progress = output.progress("fetching")
    progress("a.jar", 5, 5)
    progress.close()
    assert capsys.readouterr() == ("", "")


def test_what_is_said_beside_moving_progress_has_a_line_of_its_own(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    progress = Output().progress("fetching")
    progress("a.jar", 1, 2)
    Output().say("waiting for the server")
    progress("b.jar", 2, 2)
    progress.close()
    Output().say("done")
    drawn = [line.rpartition("\r")[2] for line in terminal.getvalue().split("\n")]
    assert drawn == ["waiting for the server", "done", ""]
    left = terminal.getvalue().split("waiting")[0]
    assert left.endswith("\r" + " " * len(left.split("\r")[1]) + "\r")


def test_progress_in_a_pipe_is_plain(capsys):
    Output().progress("fetching")("a.jar", 5, 5)
    assert capsys.readouterr().err == "fetching: 100 % of 0.0 MB\n"


@pytest.mark.parametrize(("term", "moves"), [("xterm", True), ("dumb", False)])
def test_progress_on_a_terminal_is_one_line_that_moves(monkeypatch, term, moves):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLUMNS", "40")
    progress = Output().progress("fetching")
    progress("a-very-long-name-of-a-jar-that-does-not-fit.jar", 1, 2)
    progress("b.jar", 2, 2)
    progress.close()
    text = terminal.getvalue()
    assert text.startswith("\r") is moves
    assert ("\n" not in text) is moves
    assert not moves or max(len(line) for line in text.split("\r")) < 40
    assert not moves or text.endswith(" \r")


@pytest.mark.parametrize(
    ("columns", "drawn"),
    [
        (120, "replay a: #######.............  36 %  1,809 of 5,000 offsets  361/s, at 2021-08-04"),
        (72, "replay a: ###......  36 %  1,809 of 5,000 offsets  361/s, at 2021-08-04"),
        (66, "replay a:  36 %  1,809 of 5,000 offsets  361/s, at 2021-08-04"),
        (60, "replay a: ####........  36 %  1,809 of 5,000 offsets  361/s"),
        (30, "replay a: ####.........  36 %"),
        (8, "replay "),
    ],
)
def test_progress_on_a_narrow_terminal_gives_up_its_bar_and_whole_parts(
    monkeypatch, columns, drawn
):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    progress = Output().progress("replay a")
    progress.count("361/s, at 2021-08-04", 1_809, 5_000)
    progress.close()
    assert terminal.getvalue().split("\r")[1] == drawn


def test_progress_of_nothing_does_not_divide_by_it(capsys):
    Output().progress("fetching")("nothing", 0, 0)
    assert "fetching" in capsys.readouterr().err
