"""`playhead extract` as a person runs it: CSV to stdout, talk to stderr, and what it refuses."""

import csv
import io
import json

import pytest

from playhead.cli.app import main
from tests.capturing import DATA, SNAPSHOT

VALUE = "kafka.response.FetchResponse.topics.0.partitions.0.records.records.0.valueString"
FETCHED = '--filter=(command IS "Fetch")'


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["extract", *words])
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return call


def test_the_documented_command_gives_the_documented_file(run):
    code, out, err = run(str(SNAPSHOT), "--path", VALUE, "--path", ".ts", FETCHED)
    assert code == 0
    assert out == (DATA / "extract_fetch_expected.csv").read_text()
    assert "add --all-records" in err
    again = run("--snapshot", str(SNAPSHOT), "--path", VALUE, "--path", ".ts", FETCHED, "-q")
    assert again == (0, out, "")


@pytest.mark.parametrize(
    "words", [("data", str(SNAPSHOT)), ("data", "--snapshot", str(SNAPSHOT)), (str(SNAPSHOT),)]
)
def test_the_word_that_another_tool_has_before_the_snapshot(run, words):
    wanted = run(str(SNAPSHOT), "--path", "command", "-q")
    assert run(*words, "--path", "command", "-q") == wanted


def test_a_snapshot_that_is_called_as_that_word(run, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "raw.jsonl").write_text(SNAPSHOT.read_text())
    monkeypatch.chdir(tmp_path)
    wanted = run(str(SNAPSHOT), "--path", "command", "-q")
    assert run("data", "--path", "command", "-q") == wanted
    assert run("data", "data", "--path", "command", "-q") == wanted


def test_other_forms_have_the_same_rows(run):
    words = (str(SNAPSHOT), "--path", "command", "--path", "duration", "-q")
    rows = [*csv.DictReader(io.StringIO(run(*words)[1]))]
    assert len(rows) == 7
    assert [json.loads(line) for line in run(*words, "-o", "jsonl")[1].splitlines()] == rows
    assert json.loads(run(*words, "-o", "json")[1])["rows"] == rows


def test_all_records_as_lines_that_produce_takes(run):
    code, out, err = run(str(SNAPSHOT), "--all-records", FETCHED, "-o", "jsonl")
    found = [json.loads(line) for line in out.splitlines()]
    assert (code, len(found)) == (0, 7)
    assert found[0]["key"] == {"base64": "AAH/"}
    assert found[1]["headers"] == [["trace-id", "t1"], ["retry", None]]
    assert "7 records" in err
    rows = [*csv.DictReader(io.StringIO(run(str(SNAPSHOT), "--all-records", "-q")[1]))]
    assert [row["value_form"] for row in rows].count("null") == 1
    assert len(rows) == 10


@pytest.mark.parametrize("words", [("--path", "command"), ("--all-records",)])
@pytest.mark.parametrize("flags", [(), ("-q",), ("-o", "jsonl")])
def test_a_document_that_could_not_be_read_is_no_success(run, tmp_path, words, flags):
    lines = SNAPSHOT.read_text().splitlines()
    deep = '{"a":' * 200_000 + "1" + "}" * 200_000
    file = tmp_path / "raw.jsonl"
    file.write_text("\n".join([*lines, deep, lines[2][:500]]))
    code, out, err = run(str(file), *words, *flags)
    whole = run(str(SNAPSHOT), *words, *flags)
    assert (code, whole[0]) == (1, 0)
    assert out == whole[1]
    assert err.count("2 of the documents in") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "found no snapshot, or two"),
        ((str(SNAPSHOT), "--snapshot", "x", "--path", "a"), "found no snapshot, or two"),
        ((str(SNAPSHOT),), "found neither --path nor --all-records"),
        ((str(SNAPSHOT), "--path", "a", "--all-records"), "exclude each other"),
        ((str(SNAPSHOT), "--path", "a..b"), "needed a name"),
        ((str(SNAPSHOT), "--path", "a", "--filter", "(command"), "--filter cannot be understood"),
        ((str(SNAPSHOT), "--all-records", "-o", "table"), "written only as csv or jsonl"),
        (("no-such-snapshot", "--path", "a"), "does not exist"),
    ],
)
def test_what_is_refused(run, words, says):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert says in err
