"""The site that `make site` builds: every page is on it once, and every link of it leads somewhere."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "tools" / "build_site.py"
LINKS = ("href", "src", "srcset")


class Parsed(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in LINKS and value:
                self.links.append(unquote(value))
            elif name == "id" and value:
                self.anchors.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(BUILD), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Parsed]:
    return {file: Parsed(file) for file in sorted(site.rglob("*.html"))}


def markdown_pages() -> Iterator[Path]:
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING"))


def beside(file: Path, link: str) -> Path:
    return Path(os.path.normpath(file.parent / link))


def test_every_page_is_on_the_site(site: Path, pages: dict[Path, Parsed]) -> None:
    wanted = {page.relative_to(ROOT).with_suffix(".html") for page in markdown_pages()}
    wanted = wanted - {Path("README.html")} | {Path("index.html")}
    assert {file.relative_to(site) for file in pages} == wanted


def test_every_page_can_be_reached_from_the_menu_of_every_page(
    site: Path, pages: dict[Path, Parsed]
) -> None:
    for file, page in pages.items():
        linked = {beside(file, link.partition("#")[0]) for link in page.links}
        assert set(pages) <= linked | {file}, file.relative_to(site)


def test_every_internal_link_of_the_site_leads_somewhere(pages: dict[Path, Parsed]) -> None:
    assert [link for file, page in pages.items() for link in dead(file, page, pages)] == []


def dead(file: Path, page: Parsed, pages: dict[Path, Parsed]) -> Iterator[str]:
    for link in page.links:
        path, _, anchor = link.partition("#")
        if link.startswith(("http://", "https://")):
            continue
        target = beside(file, path) if path else file
        anchors = pages[target].anchors if target in pages else []
        if not target.is_file() or (anchor and anchor not in anchors):
            yield f"{file.name}: {link}"


def test_no_page_needs_a_network(site: Path, pages: dict[Path, Parsed]) -> None:
    for file in pages:
        text = file.read_text(encoding="utf-8")
        assert "<script" not in text
        assert 'src="http' not in text
    assert "url(" not in (site / "site.css").read_text(encoding="utf-8")


def test_no_anchor_is_there_twice(pages: dict[Path, Parsed]) -> None:
    for file, page in pages.items():
        assert [name for name, count in Counter(page.anchors).items() if count > 1] == [], file


def test_a_link_to_nothing_stops_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BUILD.parent))
    import build_site

    with pytest.raises(build_site.DeadLink, match=r"README\.md: the link docs/gone\.md"):
        build_site.resolved("docs/gone.md", build_site.HOME, set(), set())


def test_every_link_of_the_list_for_language_models_is_on_the_site(site: Path) -> None:
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", (site / "llms.txt").read_text(), re.M)
    assert {site / name for name in listed} == {
        site / page.relative_to(ROOT) for page in markdown_pages()
    }
    assert all((site / name).is_file() for name in listed)
