"""The pages of the documentation, in the order of the site's navigation and of llms.txt, and how one is written."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
HOME = ROOT / "README.md"
HEAD = "<!-- Written by tools/generate.py from the code; change the code, then run `make docs`. -->"

Row = tuple[str, ...]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    escaped = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def page(title: str, introduction: str, *parts: str) -> str:
    return "\n".join([HEAD, "", f"# {title}", "", introduction, "", *parts]).rstrip() + "\n"


class Section(NamedTuple):
    """A group of pages under one heading."""

    title: str
    pages: tuple[Path, ...]


def sections() -> tuple[Section, ...]:
    """Every page once; the decisions have a section of their own, after the others."""
    return (
        Section(
            "Start", (HOME, *_docs("install", "tutorial", "exactly-once", "guarantees", "limits"))
        ),
        Section("Guides", tuple(sorted((DOCS / "guides").glob("*.md")))),
        Section("Reference", tuple(sorted((DOCS / "reference").glob("*.md")))),
        Section(
            "Work on it",
            (*_docs("ARCHITECTURE", "glossary"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"),
        ),
        Section("Decisions", tuple(sorted((DOCS / "decisions").glob("*.md")))),
    )


def _docs(*names: str) -> tuple[Path, ...]:
    return tuple(DOCS / f"{name}.md" for name in names)


def title_of(page: Path) -> str:
    """The text of a page's first heading, without marks of code."""
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    if heading is None:
        raise LookupError(f"{page.relative_to(ROOT)}: found no heading, expected a line `# …`")
    return heading[1].replace("`", "")


def first_sentence_of(page: Path) -> str:
    """The first sentence of the text under a page's heading, without links."""
    text = page.read_text(encoding="utf-8").partition("\n# ")[2] or page.read_text("utf-8")
    blocks = (block.strip() for block in text.split("\n\n")[1:])
    paragraph = next((block for block in blocks if re.match(r"(?!```)[\w`*_]", block)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.:]) (?=[A-Z`])", plain, maxsplit=1)[0].rstrip(":.")


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# --- what is generated from them, or beside them --------------------------------------------------


def llms() -> str:
    """The list of all pages for language models, in the form of llmstxt.org."""
    summary = (
        "> Playhead replays a span of a Kafka topic, an archive or captured traffic into PostgreSQL, "
        "a topic or files: exactly once, resumable, with a proof that accounts for every offset."
    )
    details = (
        "It is a command, `playhead`, and a Python library. A replay takes records from a source "
        "inside a span, through a transform, to a target, at a pace. Progress is kept in a ledger "
        "in the target, in the same transaction as the data. `playhead COMMAND --help` describes "
        "every option, `-o json` makes output for programs, and the exit code says what happened."
    )
    parts = ["# Playhead", "", summary, "", details, ""]
    for section in sections():
        is_optional = section.title == "Decisions"
        parts += [f"## {'Optional' if is_optional else section.title}", ""]
        parts += [
            f"- [{title_of(page)}]({page.relative_to(ROOT).as_posix()}): {first_sentence_of(page)}"
            for page in section.pages
        ]
        parts.append("")
    return "\n".join(parts)


def decisions() -> list[tuple[str, str]]:
    """Number and title of every decision, the title as a link from docs/reference."""
    titles = [(page, *title_of(page).split(". ", 1)) for page in sections()[-1].pages]
    return [(number, f"[{title}](../decisions/{page.name})") for page, number, title in titles]


LAYER = re.compile(r'^ *"([\w |:.]+)", *(?:# *(.+))?$', re.MULTILINE)


def with_layers(architecture: str, contract: str) -> str:
    """ARCHITECTURE.md with its table of layers made from the import contract and its comments."""
    listed = contract.partition("\nlayers = [\n")[2].partition("\n]")[0]
    rows = [
        f"| {', '.join(f'`{name.strip()}`' for name in re.split('[|:]', names))} | {comment} |\n"
        for names, comment in LAYER.findall(listed)
    ]
    if len(rows) != len(listed.splitlines()) or not all(c for _, c in LAYER.findall(listed)):
        raise LookupError(
            "pyproject.toml: expected one tier and a comment on each line of the layers contract"
        )
    table = "| modules | what belongs there |\n| --- | --- |\n" + "".join(rows)
    before, begin, rest = architecture.partition("<!-- layers: from pyproject.toml -->\n")
    _, end, after = rest.partition("<!-- end of layers -->\n")
    if not (begin and end):
        raise LookupError("ARCHITECTURE.md: found no marks around the table of layers")
    return before + begin + table + end + after


def with_transcript(readme: str, transcript: str) -> str:
    """The front page with the commands of the transcript and all of their output, one a block."""
    commands = re.split(r"\n(?=\$ )", transcript)
    front, *blocks = readme.split("\n```console\n")
    if len(blocks) != len(commands):
        raise LookupError(
            f"README.md: found {len(blocks)} console blocks, expected {len(commands)}"
        )
    parts = [front]
    for command, block in zip(commands, blocks, strict=True):
        parts.append(f"\n```console\n{command.rstrip()}\n```\n" + block.partition("```\n")[2])
    return "".join(parts)


def themed(picture: str, *, is_dark: bool) -> str:
    """A picture that follows the reader's theme, fixed to one of the two."""
    start, query, rest = picture.partition("    @media (prefers-color-scheme: dark) {\n")
    dark, end, after = rest.partition("    }\n")
    if not (query and end):
        raise LookupError("found no dark theme in the picture, expected a media query")
    return start + (re.sub("^  ", "", dark, flags=re.MULTILINE) if is_dark else "") + after
