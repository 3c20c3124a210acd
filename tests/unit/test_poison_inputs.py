"""Whatever stands in arguments and files: an error of ours, never a fault of Playhead's."""

import contextlib
import copy
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from playhead.cli import app as cli_app
from playhead.cli.records import jsonl
from playhead.config.layers import parse_toml
from playhead.errors import PlayheadError, UsageError
from playhead.kafka.groups import snapshot
from playhead.kafka.groups.position import read_mode
from playhead.kafka.produce.console_lines import BadLine
from playhead.note import Note
from playhead.plan import Plan
from playhead.postgres.table_name import BadTableName, parts_of
from tests import poison
from tests.unit.replaying import partition_plan, plan_of

KINDS: tuple[Any, ...] = (None, True, -1, 1.5, "x", [], {}, [[1]], {"x": 1})


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A command in this process, without a server; gives its exit code and what it says."""
    for name in ("STATE", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        with monkeypatch.context() as patched:
            for name in ("stdout", "stderr"):
                patched.setattr(sys, name, out)
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
            code = cli_app._run(list(words), cli_app.Ending(), cli_app._run_command)
        out.flush()
        return code, out.buffer.getvalue().decode()  # type: ignore[attr-defined]

    return run


def assert_ours(found: tuple[int, str], label: str) -> None:
    code, said = found
    assert "fault of Playhead" not in said, f"{label}: {said[:300]}"
    assert "Traceback" not in said, label
    assert code in (1, 2, 6), (label, code)


GIVEN = [
    ("groups", "reset", "g", "--topic", "{}", "--to-latest"),
    ("groups", "reset", "g", "--shift-by", "{}"),
    ("groups", "reset", "g", "--to-offset", "{}"),
    ("produce", "laps", "--partition", "{}", "-b", "{}"),
    ("consume", "{}", "--span", "{}"),
    ("replay", "kafka:laps", "{}"),
    ("replay", "{}", "kafka:laps"),
    ("replay", "kafka:laps", "postgresql:laps", "--plan", "{}", "--span", "{}"),
    ("gaps", "kafka:laps", "{}", "--key", "{}"),
    ("runs", "{}"),
    ("context", "use", "{}"),
]


@pytest.mark.parametrize("words", GIVEN, ids=" ".join)
def test_arguments(run, words):
    for each in poison.names():
        if each.can_be_argument and len(each.text) < 10_000 and not each.text.startswith("-"):
            found = run(*(word.replace("{}", each.text) for word in words))
            if found[0] != 0:
                assert_ours(found, each.label)


def test_files_of_settings(run, tmp_path):
    for each in poison.files():
        if each.kind == "config":
            (tmp_path / each.name).write_bytes(each.content)
            assert_ours(run("topics", "list"), each.label)
            assert_ours(run("context", "show"), each.label)


def test_settings_that_a_parser_would_take_long_over():
    for text in ("a" + ".a" * 20_000 + " = 1", "a = {b" + ".b" * 20_000 + " = 1}"):
        with pytest.raises(UsageError, match="dots"):
            parse_toml(text.encode(), Path("f"))
    assert parse_toml(b'a = "h1.x.y:1,h2.x.y:1"\n' + b"#", Path("f"))


@pytest.mark.parametrize("kind", ["plan", "jsonl", "offsets", "traffic"])
def test_files_of_other_people(run, tmp_path, kind):
    commands = {
        "plan": ["replay", "kafka:laps", "kafka:copy", "--yes", "--plan"],
        "jsonl": ["produce", "laps", "--format", "jsonl", "--file"],
        "offsets": ["groups", "reset", "g", "--yes", "--from-file"],
        "traffic": ["extract"],
    }
    for each in poison.files():
        if each.kind == kind:
            (tmp_path / each.label).mkdir()
            file = tmp_path / each.label / each.name
            file.write_bytes(each.content)
            found = run(*commands[kind], str(file))
            if kind != "traffic" or found[0] != 0:
                assert_ours(found, each.label)


@pytest.mark.parametrize("rule", ["fail", "skip"])
@pytest.mark.parametrize("fields", ["", "key", "headers,key", "timestamp,partition,headers,key"])
def test_lines_of_other_people(run, tmp_path, fields, rule):
    """Plain `produce` takes whatever bytes come; what is no record is a refused line."""
    kept = [each for each in poison.records() if each.value is not None]
    lines = tmp_path / "lines"
    lines.write_bytes(b"\n".join(b"\t".join((each.key or b"", each.value)) for each in kept))  # type: ignore[arg-type]
    more = ["--with", fields] if fields else []
    found = run("produce", "laps", str(lines), "--dry-run", "--on-error", rule, *more)
    if found[0] != 0:
        assert_ours(found, fields)
    assert rule == "fail" or "fault" not in found[1]


def test_json_lines_that_are_no_records():
    for each in poison.files():
        if each.kind == "jsonl":
            line = each.content.split(b"\n")[0]
            with contextlib.suppress(BadLine):
                document = jsonl.read_document(line, 1)
                jsonl.body(document, "value", 1)
                jsonl.body(document, "key", 1)
                jsonl.headers(document, 1)
                jsonl.timestamp_ms(document, 1)
                jsonl.partition(document, 1)


def test_notes_of_our_own_that_somebody_has_changed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    deep = b"[" * 100_000
    for content in (
        deep,
        b"[]",
        b"1",
        b"null",
        b'{"version":{}}',
        b"\xff",
        b'{"a":' + b"9" * 5_000,
    ):
        file = tmp_path / "snapshot.json"
        file.write_bytes(content)
        with pytest.raises(PlayheadError):
            snapshot._read(file)


def test_a_path_that_is_no_path_is_said(run):
    found = run("replay", "kafka:laps", "kafka:copy", "--plan", "x" * 5_000)
    assert_ours(found, "long")
    assert "File name too long" in found[1]


def nodes(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    held = enumerate(document) if isinstance(document, list) else ()
    for name, each in document.items() if isinstance(document, dict) else held:
        yield from nodes(each, (*path, name))


def test_a_plan_with_fields_of_another_kind_is_refused_when_it_is_read():
    plan = plan_of(partition_plan(0, 9), notes=(Note("a", "b"),), samples=({"a": 1},))
    document = json.loads(plan.as_json())
    assert Plan.from_json(json.dumps(document), where="f") == plan
    refused = 0
    for path in nodes(document):
        for kind in KINDS:
            changed = copy.deepcopy(document)
            holder = changed
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = kind
            try:
                taken = Plan.from_json(json.dumps(changed), where="f")
            except PlayheadError as exc:
                refused += "fault" not in str(exc)
                continue
            assert json.loads(taken.as_json()), path
            taken.slices()
            taken.digest()
            taken.terms()
    assert refused > 100


def test_names_that_no_table_can_have():
    for name in ("a\0b", "s.\ud800", "x" * 64, "€" * 22, "", ".", "s."):
        with pytest.raises(BadTableName):
            parts_of(name)


def test_digits_that_nobody_counts_to():
    for flag in ("--shift-by", "--to-offset"):
        for text in ("9" * 5_000, "-" + "9" * 5_000, "٣", "²"):
            with pytest.raises(UsageError):
                read_mode({flag: text}, timezone="UTC", now_ns=0)
