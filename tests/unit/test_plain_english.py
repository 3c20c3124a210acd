"""The pages are in plain English: none of the constructions that CONTRIBUTING.md rules out is in them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HAND_WRITTEN = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "guides").glob("*.md")),
]
TELL_TALE = [
    r"who(?:m|so)?ever",
    r"(?:no|some|any|every)body(?:'s)?",
    r"of which",
    r"so (?:many|much|long)",
    r"as it (?:is|was)",
    r"anew",
    r"is none",
    r"another one",
    r"(?:go|goes|going|went) on",
    r"comes? to (?!an? end|the end)",
    r"(?:is|are|was|were|be|been) (?:told|said)",
    r"(?:tells?|said) (?:of|so)",
    r"(?:wish|hear|bury|buries|buried|dig|dug)(?:es|s|ed)?",
    r"lies? (?:ready|beside|there|in)",
    r"is no more",
    r"(?:stands?|stood) (?:behind|before|after|there|in|at)",
    r"made again",
    r"cannot be told",
    r"the one (?:who|that|which) (?:is|has)",
]
WORDS = re.compile(rf"\b(?:{'|'.join(TELL_TALE)})\b", re.IGNORECASE)
# What a page may say because the product prints it, or because it is the word itself that is meant.
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """A page without its code, line by line as it was."""
    return CODE.sub(lambda match: "\n" * match[0].count("\n"), text)


def tell_tales(text: str) -> Iterator[str]:
    for number, line in enumerate(prose(text).splitlines(), 1):
        for match in WORDS.finditer(line):
            start, end = max(match.start() - 30, 0), match.end() + 30
            yield f"{number}: {match[0]!r} in …{line[start:end]}…"


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_has_a_tell_tale_construction(page: Path) -> None:
    assert list(tell_tales(page.read_text(encoding="utf-8"))) == []


def test_what_is_not_released_yet_is_told_plainly() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = changes.partition("## [Unreleased]")[2].partition("\n## [")[0]
    assert list(tell_tales(unreleased)) == []


def test_no_title_of_a_decision_has_one() -> None:
    titles = [page.read_text("utf-8").splitlines()[0] for page in (DOCS / "decisions").glob("*.md")]
    assert [found for title in titles for found in tell_tales(title)] == []


def test_a_tell_tale_is_found_and_code_is_left_alone() -> None:
    text = "Fine.\n```text\nnobody knows\n```\nWhoever asks `goes on`.\n"
    assert [found.partition(" in ")[0] for found in tell_tales(text)] == ["5: 'Whoever'"]
