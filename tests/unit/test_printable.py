"""Nothing that a terminal obeys reaches one, whoever wrote it; data in a pipe stay as they are."""

import ast
import csv
import io
import json
import sys
import tracemalloc
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead import printable as filter_module
from playhead.cli import app as cli_app
from playhead.cli.output import Output, Progress, csv_text, prompt, tell
from playhead.cli.records.decode import Decoded
from playhead.cli.records.record_output import CsvPrinter, JsonPrinter, LinePrinter
from playhead.errors import PlayheadError
from playhead.kafka.produce.console_lines import LineWriter, Separators
from playhead.printable import indented, json_text, one_line, printable
from playhead.record import Record, TimestampType
from playhead.records import Records
from tests import poison

NAMES = [(each.label, each.text) for each in poison.names() if len(each.text) < 2000]
SOURCE = Path(cli_app.__file__).parents[1]
BIDI = {
    *"\u061c\u200e\u200f\u2028\u2029",
    *map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]),
}


def harmful(text: str, *, but: str = "\n\t") -> set[str]:
    return {
        each
        for each in text
        if (unicodedata.category(each) in ("Cc", "Cs") and each not in but) or each in BIDI
    }


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal, and remembers every byte."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace")

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        self.flush()
        written = self.buffer.getvalue().decode()  # type: ignore[attr-defined]
        return written.replace("\x1b[1m", "").replace(
            "\x1b[0m", ""
        )  # the heads of a table are bold


class Pipe(Terminal):
    def isatty(self) -> bool:
        return False


def on_terminal(monkeypatch) -> Terminal:
    """Both streams are this one, from now on in this test."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("NO_COLOR", "1")
    return made


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_brings_a_control_through_the_filter(text):
    assert not harmful(printable(text))
    assert not harmful(one_line(text), but="")
    assert printable(printable(text)) == printable(text)


@given(st.text(st.characters(exclude_categories=())))
def test_a_sentence_has_one_line_of_its_own(text):
    first, *rest = indented(text).split("\n")
    assert not harmful(first)
    assert all(line.startswith("    ") for line in rest)


@given(st.recursive(st.text(st.characters(exclude_categories=())), st.lists))
def test_json_stays_exact(document):
    for indent in (None, 2):
        for is_ascii in (True, False):
            text = json_text(json.dumps(document, indent=indent, ensure_ascii=is_ascii))
            assert not harmful(text, but="\n")
            assert json.loads(text) == json.loads(json.dumps(document))


@pytest.mark.parametrize("shown", [printable, json_text])
def test_a_text_of_controls_alone_takes_little_more_memory_than_its_escapes(
    shown, monkeypatch
) -> None:
    """A record of 40 MB, which its topic holds in 2 kB, took three gigabytes on a terminal."""
    monkeypatch.setattr(filter_module, "_BLOCK", 1 << 12)
    text = "\x01" * (1 << 17)
    tracemalloc.start()
    try:
        found = shown(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == ("\\x01" if shown is printable else "\\u0001") * (1 << 17)
    assert most < 6 * len(found)


def test_texts_of_every_script_are_shown_as_they_are():
    for text in (
        "Zürich",
        "東京",
        "किताब\u200d",
        "می\u200cخواهم",
        "👩\u200d🚀",
        "e\u0301",
        "a\tb\nc",
        "ключ",
    ):
        assert printable(text) == text


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv"])
def test_data_on_a_terminal(monkeypatch, form):
    for label, text in NAMES:
        terminal = on_terminal(monkeypatch)
        Output(form).emit({"rows": [{text: text}]}, [{text: text, "list": [text], "none": None}])
        shown = terminal.shown()
        assert not harmful(shown), label
        if form == "json":
            assert json.loads(shown) == {"rows": [{text: text}]}, label


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_table_has_a_line_for_each_row_whatever_stands_in_it(monkeypatch, is_terminal):
    for label, text in NAMES:
        terminal = on_terminal(monkeypatch)
        terminal.isatty = lambda: is_terminal  # type: ignore[method-assign]
        monkeypatch.setenv("COLUMNS", "10000")
        Output("table").emit({}, [{"name": text}, {"name": "x"}])
        assert not harmful(terminal.shown(), but="\n"), label
        assert terminal.shown().count("\n") == 3, label


def test_talk_on_a_terminal(monkeypatch):
    for label, text in NAMES:
        terminal = on_terminal(monkeypatch)
        Output().say(text)
        tell(f"found {text}")
        prompt(f"type {text} to continue: ")
        Output().text(text)
        Progress(text, "plain")(text, 1, 2)
        Progress(text, "plain").count(text, 1, 2)
        assert not harmful(terminal.shown()), label
        Progress(text, "line").count(text, 1, 2)
        assert not harmful(terminal.shown(), but="\r\n\t"), label


@pytest.mark.parametrize("words", [[], ["-vv"]])
def test_errors_on_a_terminal(monkeypatch, words):
    for label, text in NAMES:

        def fail(*_, text=text, **__):
            raise PlayheadError(f"the broker says {text}", hint=f"try {text}")

        monkeypatch.setattr(cli_app, "app", fail)
        terminal = on_terminal(monkeypatch)
        cli_app._run(words, cli_app.Ending(), cli_app._run_command)
        shown = terminal.shown()
        assert not harmful(shown), label
        ours = [line for line in shown.splitlines() if line.startswith(("error:", "hint:"))]
        assert len(ours) == 2, f"{label}: a line of somebody else's looks like one of ours"


def test_records_on_a_terminal_are_shown_and_in_a_pipe_are_exact(monkeypatch):
    writer = LineWriter(["key", "value", "headers"], Separators(null=b"null"), b"\n")
    for label, text in NAMES:
        raw = text.encode("utf-8", "surrogatepass")
        headers = (("h", raw),)
        record = Record("laps", 0, 0, 1, TimestampType.CREATE_TIME, raw, raw, headers)
        for stream in (Terminal(), Pipe()):
            monkeypatch.setattr(sys, "stdout", stream)
            LinePrinter(Decoded(), writer=writer).show(Records.of([record]), [0])
            JsonPrinter(Decoded()).show(Records.of([record]), [0])
            written = stream.buffer.getvalue()  # type: ignore[attr-defined]
            if stream.isatty():
                assert not harmful(written.decode()), label
            else:
                assert written.startswith(b"h:" + raw + b"\t" + raw + b"\t" + raw + b"\n{"), label
                document = json.loads(written.decode("utf-8", "replace").rstrip().split("\n")[-1])
                assert document["offset"] == 0, label


def test_a_line_within_a_record_on_a_terminal_is_indented(monkeypatch):
    value = b"order 1\nerror: no\n\nhint: run it\n"
    record = Record("laps", 0, 0, 1, TimestampType.CREATE_TIME, None, value, ())
    for stream in (Terminal(), Pipe()):
        monkeypatch.setattr(sys, "stdout", stream)
        LinePrinter(Decoded(), writer=LineWriter()).show(Records.of([record, record]), [0, 1])
        Output("csv").emit({}, [{"value": value.decode()}])
        CsvPrinter(Decoded()).show(Records.of([record]), [0])
        written = stream.buffer.getvalue()  # type: ignore[attr-defined]
        faked = [line for line in written.split(b"\n") if line.startswith((b"error:", b"hint:"))]
        assert len(faked) == (0 if stream.isatty() else 8)
        if stream.isatty():
            assert written.startswith(
                b"order 1\n    error: no\n    \n    hint: run it\n\norder 1\n"
            )
        else:
            assert written.startswith((value + b"\n") * 2 + b'value\n"' + value + b'"\n')


@pytest.mark.parametrize("text", ["a\rb", "a\nb", "a\r\nb", "\r", 'a"b', "a,b", " a ", "", "=1+1"])
def test_a_cell_of_csv_is_read_back_as_it_was(text):
    written = csv_text([[text, "next"], ["second", text]])
    assert list(csv.reader(io.StringIO(written, newline=""))) == [[text, "next"], ["second", text]]
    assert written.endswith("\n")
    assert not written.endswith("\r\n")


def test_a_bare_carriage_return_in_csv_stands_in_quotes():
    assert csv_text([["one\rtwo", "x"]]) == '"one\rtwo",x\n'


def test_a_stdout_that_knows_no_such_letter_takes_json_and_tables(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    cli_app._open_what_is_closed()
    Output("json").emit({"a": "é\ud800🏁"}, [])
    stream.flush()
    assert json.loads(stream.buffer.getvalue()) == {"a": "é\ud800🏁"}  # type: ignore[attr-defined]
    Output("csv").emit({}, [{"a": "é"}])
    Output("table").emit({}, [{"a": "é"}])


# Who else writes to a standard stream: programs whose stdout is a pipe to us, and two sentences of our
# own that are said below the command line, through the same filter.
BESIDE = {
    "capture/recorder.py": "a pipe to its parent",
    "traffic/scan_worker.py": "a pipe to its parent",
    "cli/tables.py": "a text that output.py writes",
    "demo/cars.py": "a pipe to its parent",
    "cli/warm_engine.py": "filtered",
    "spark/jvm_boot.py": "filtered",
    "replay/engine_warmup.py": "filtered",
    "references.py": "filtered",
    "config/exposed_logins.py": "filtered",
    "config/misspelt_variables.py": "by exposed_logins",
}
_CALLS = {"print", "echo", "secho", "Console", "getpass", "input", "warn"}
_WRITES = {"write", "writelines", "buffer", "fileno"}


def speaking(tree: ast.AST) -> list[int]:
    """Lines in which something is said on a standard stream."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            is_own = isinstance(node.func, ast.Attribute) and name in ("input", "print")
            if name in _CALLS and not is_own:
                found.append(node.lineno)
        if isinstance(node, ast.Attribute) and node.attr in _WRITES:
            inner = node.value
            if isinstance(inner, ast.Attribute) and inner.attr in ("stdout", "stderr"):
                owner = inner.value
                if isinstance(owner, ast.Name) and owner.id == "sys":
                    found.append(node.lineno)
    return found


def test_nothing_is_said_beside_the_one_place():
    assert speaking(ast.parse("import sys\nsys.stdout.write('x')\nprint(1)\nclick.echo(2)")) == [
        3,
        4,
        2,
    ]
    beside = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        lines = speaking(ast.parse(path.read_text(encoding="utf-8")))
        if lines and name != "cli/output.py":
            beside[name] = lines
            if BESIDE.get(name) == "filtered":
                assert "printable import" in path.read_text(encoding="utf-8")
    beside.pop("cli/app.py", None)  # it points the closed stdout at nothing
    assert beside.keys() == BESIDE.keys()


@pytest.mark.parametrize("sign", "\u00ad\u180e\u3164\uffa0\u200b\u2060\ufeff")
def test_a_sign_that_cannot_be_seen_is_shown(sign: str) -> None:
    """Two names that differ only by it would look the same."""
    assert one_line(f"orders{sign}") == f"orders\\{ascii(sign)[2:-1]}"
