"""The pages keep up with the code: nothing is undocumented, no link is dead, no generated page is stale."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from playhead.cli.app import app
from playhead.config.kafka_properties import KNOWN_PROPERTIES
from playhead.config.settings import SETTINGS
from playhead.version import __version__

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / f"{n}.md" for n in ("README", "CHANGELOG", "CONTRIBUTING")),
]
LONGEST_ARCHITECTURE = 250
LONGEST_FRONT_PAGE = 130
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# A folder of some machine, as a path that begins with it. Absolute paths of every system are fine.
MACHINE_PATH = re.compile(r"(?<![\w.$~{/])/(?:root|work|home|Users|tmp/[\w.-]+)(?:/|\b)")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands(command: Any, words: tuple[str, ...] = ("playhead",)) -> Iterator[tuple[str, Any]]:
    yield " ".join(words), command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from commands(child, (*words, name))


COMMANDS = dict(commands(app))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_in_the_reference(command):
    page = read(REFERENCE / "cli.md")
    assert f"\n## {command}\n" in page
    for parameter in COMMANDS[command].params:
        unlisted = getattr(parameter, "unlisted", ())
        for option in () if getattr(parameter, "hidden", False) else parameter.opts:
            if option.startswith("-") and option not in unlisted:
                assert re.search(rf"`[^`]*{re.escape(option)}\b", page), f"{option} of {command}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does(command):
    assert COMMANDS[command].help, f"{command} has no help"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_in_the_reference(setting):
    page = read(REFERENCE / "settings.md")
    row = next((line for line in page.splitlines() if line.startswith(f"| `{setting.name}` |")), "")
    assert setting.help in row
    assert setting.environment is None or setting.environment in row


@pytest.mark.parametrize("known", KNOWN_PROPERTIES, ids=lambda known: known.name)
def test_every_kafka_property_is_in_the_reference(known):
    page = read(REFERENCE / "kafka-properties.md")
    row = next((line for line in page.splitlines() if line.startswith(f"| `{known.name}` |")), "")
    assert all(f"`{spelling}`" in row for spelling in known.spellings)


def test_the_changelog_has_this_version():
    assert re.search(
        rf"^## \[{re.escape(__version__)}\]", read(ROOT / "CHANGELOG.md"), re.MULTILINE
    )


def test_the_architecture_can_be_read_in_one_sitting():
    assert len(read(DOCS / "ARCHITECTURE.md").splitlines()) <= LONGEST_ARCHITECTURE


def modules_named_in(page: str) -> set[str]:
    """Dotted names in back quotes whose first part is one of our packages."""
    package = ROOT / "src" / "playhead"
    named = set(re.findall(r"`([a-z_]+(?:\.(?!toml|json)[a-z_0-9]+)+)`", page))
    return {name for name in named if (package / name.partition(".")[0]).is_dir()}


def test_every_module_that_the_architecture_names_is_there():
    package = ROOT / "src" / "playhead"
    named = modules_named_in(read(DOCS / "ARCHITECTURE.md"))
    assert len(named) > 40
    paths = {name: package / name.replace(".", "/") for name in named}
    gone = [
        n for n, path in paths.items() if not (path.is_dir() or path.with_suffix(".py").exists())
    ]
    assert gone == []


def test_one_replay_is_followed_through_fifteen_files_that_are_there():
    page = read(DOCS / "ARCHITECTURE.md")
    section = page.partition("## One replay in 15 files")[2].partition("\n## ")[0]
    files = re.findall(r"^\| `([a-z_/]+\.py)`", section, re.MULTILINE)
    assert len(files) == 15
    assert [file for file in files if not (ROOT / "src" / "playhead" / file).is_file()] == []


def test_the_front_page_is_short_and_has_the_two_commands():
    page = read(ROOT / "README.md")
    assert len(page.splitlines()) <= LONGEST_FRONT_PAGE
    assert "\nmake demo " in page
    assert "\nmake test " in page


def test_the_front_page_says_what_a_reader_with_records_and_tables_of_their_own_needs():
    page = read(ROOT / "README.md")
    assert "playhead produce orders FILE" in page
    assert "pip install '.[local]'" in page
    assert "--by key --key id" in page


def test_the_front_page_shows_the_stored_transcript_whole():
    shown = re.findall(
        r"^```console\n(.*?)^```$", read(ROOT / "README.md"), re.MULTILINE | re.DOTALL
    )
    assert "\n".join(shown) == read(ROOT / "tests" / "golden" / "readme" / "transcript.txt")


def test_the_front_page_leads_to_every_guide():
    page = read(ROOT / "README.md")
    guides = [file.relative_to(ROOT).as_posix() for file in (DOCS / "guides").glob("*.md")]
    assert [guide for guide in guides if f"]({guide})" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_names_a_folder_of_somebodys_machine(page):
    found = [line for line in read(page).splitlines() if MACHINE_PATH.search(line)]
    assert not found


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("in /root/x", True),
        ("see `/home/me/project`", True),
        ("(/home/me)", True),
        ("/Users/me", True),
        ("/tmp/abc", True),
        ("/var/cache/playhead", False),
        ("docs/home/page", False),
        ("~/work/x", False),
        ("https://example.org/home/x", False),
    ],
)
def test_a_folder_of_a_machine_is_told_from_other_paths(text, is_one):
    assert bool(MACHINE_PATH.search(text)) is is_one


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as they are made of the words."""
    without_code = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", without_code, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def dead_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(read(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        file = (page.parent / path).resolve() if path else page
        is_there = file.exists() and file.is_relative_to(ROOT)
        if not is_there or (anchor and anchor not in anchors(read(file))):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_internal_link_leads_somewhere(page):
    assert not list(dead_links(page))


def test_a_dead_link_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# A heading, with `code`\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-heading-with-code) [c](gone.md) [d](there.md#gone) [e](#here)\n"
        "[f](https://example.org) ![g](gone.svg)\n# Here\n"
    )
    assert list(dead_links(page)) == ["gone.md", "there.md#gone", "gone.svg"]


def named_tests() -> list[str]:
    page = read(DOCS / "guarantees.md")
    return re.findall(r"`(tests/[a-z_/]+\.py(?:::\w+)+)`", page)


@pytest.mark.parametrize("name", named_tests())
def test_what_can_be_relied_on_has_the_test_that_it_names(name):
    file, *path = name.split("::")
    tree: ast.AST = ast.parse(read(ROOT / file))
    for each in path:
        inside = {node.name: node for node in ast.iter_child_nodes(tree) if hasattr(node, "name")}
        assert each in inside, f"{name}: there is no {each}"
        tree = inside[each]


def test_every_promise_names_a_test():
    page = read(DOCS / "guarantees.md")
    no_promises = re.compile(
        r"^Playhead does not defend against:\n.*?^## ", re.MULTILINE | re.DOTALL
    )
    promises = re.findall(r"^- .*$", no_promises.sub("", page), re.MULTILINE)
    assert len(promises) > 40
    assert [promise for promise in promises if "(`tests/" not in promise] == []


def test_the_front_page_leads_to_the_promises_and_the_limits():
    page = read(ROOT / "README.md")
    assert all(f"](docs/{name}.md)" in page for name in ("guarantees", "limits", "exactly-once"))
    assert "\n## Security\n" in read(DOCS / "guarantees.md")


def test_every_decision_is_half_a_page_and_numbered_without_holes():
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in decisions] == list(range(1, len(decisions) + 1))
    for page in decisions:
        text = read(page)
        assert re.match(rf"# {int(page.name[:4])}\. \S", text), f"{page.name} begins otherwise"
        assert {"## Context", "## Decision", "## Consequences"} <= set(text.splitlines()), page.name
