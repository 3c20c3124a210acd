"""Builds the documentation as a site of plain files, without a network: python tools/build_site.py FOLDER.

The site has the folders of the repository: docs/tutorial.md becomes docs/tutorial.html, and README.md
index.html. The Markdown files lie beside their pages, so the links of llms.txt work there as well.
"""

import os
import re
import shutil
import sys
from collections import Counter
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from pages import HOME, ROOT, Section, sections, slug, title_of

STYLE = Path(__file__).with_name("site.css")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{up}site.css">
</head>
<body>
<header><a href="{up}index.html">Playhead</a><a class="menu" href="#menu">Menu</a></header>
<main>
{body}</main>
<nav id="menu" aria-label="Pages">
{menu}</nav>
</body>
</html>
"""


class DeadLink(Exception):
    """A page links to a file that does not exist."""


def html_of(page: Path) -> Path:
    """Where the HTML of a page lies, relative to the site's folder."""
    return Path("index.html") if page == HOME else page.relative_to(ROOT).with_suffix(".html")


def link_from(page: Path, other: Path) -> str:
    return Path(os.path.relpath(html_of(other), html_of(page).parent)).as_posix()


def build(folder: Path) -> int:
    """Write the whole site; returns the number of pages."""
    groups = sections()
    files = {STYLE: Path(STYLE.name), ROOT / "llms.txt": Path("llms.txt")}
    pages = [page for group in groups for page in group.pages]
    for page in pages:
        body, linked = rendered(page, set(pages))
        up = "../" * (len(html_of(page).parts) - 1)
        title = title_of(page) if page == HOME else f"{title_of(page)} · Playhead"
        whole = PAGE.format(title=escape(title), up=up, body=body, menu=menu(page, groups))
        put(folder / html_of(page), whole)
        files |= {file: file.relative_to(ROOT) for file in (page, *linked)}
    for file, name in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / name)
    return len(pages)


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def menu(page: Path, groups: tuple[Section, ...]) -> str:
    """Links to all pages; a section of more pages than fit is open only on its own pages."""
    parts = []
    for group in groups:
        items = "".join(f"<li>{menu_link(page, other)}</li>\n" for other in group.pages)
        listing = f"<ul>\n{items}</ul>\n"
        if group.title == "Decisions":
            is_open = " open" if page in group.pages else ""
            parts.append(f"<details{is_open}><summary>Decisions</summary>\n{listing}</details>\n")
        else:
            parts.append(f"<h2>{escape(group.title)}</h2>\n{listing}")
    return "".join(parts)


def menu_link(page: Path, other: Path) -> str:
    current = ' aria-current="page"' if other == page else ""
    name = "Overview" if other == HOME else title_of(other)
    return f'<a href="{link_from(page, other)}"{current}>{escape(name)}</a>'


def rendered(page: Path, pages: set[Path]) -> tuple[str, set[Path]]:
    """A page's HTML, and the other files of the repository that it links to."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(page.read_text(encoding="utf-8"))
    linked: set[Path] = set()
    add_anchors(tokens)
    for token in (inner for outer in tokens for inner in (outer, *(outer.children or ()))):
        for name in ("href", "src"):
            if name in token.attrs:
                token.attrs[name] = resolved(str(token.attrs[name]), page, pages, linked)
        if token.type in ("html_block", "html_inline"):
            for link in re.findall(r'(?:src|srcset|href)="([^"]+)"', token.content):
                resolved(link, page, pages, linked)
    parser.add_render_rule("table_open", lambda *_: '<div class="wide"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser.renderer.render(tokens, parser.options, {}), linked


def add_anchors(tokens: list[Any]) -> None:
    """Give each heading the id that GitHub gives it."""
    seen: Counter[str] = Counter()
    for opening, text in pairwise(tokens):
        if opening.type == "heading_open":
            plain = "".join(child.content for child in text.children)
            name = slug(plain)
            opening.attrs["id"] = f"{name}-{seen[name]}" if seen[name] else name
            seen[name] += 1


def resolved(link: str, page: Path, pages: set[Path], linked: set[Path]) -> str:
    """The link as the site needs it; a file that is no page is remembered, to be copied."""
    path, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link) or not path:
        return link
    file = (page.parent / path).resolve()
    if file in pages:
        return link_from(page, file) + (f"#{anchor}" if anchor else "")
    if not (file.is_file() and file.is_relative_to(ROOT)):
        raise DeadLink(f"{page.relative_to(ROOT)}: the link {link} leads nowhere")
    linked.add(file)
    return link


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit("error: expected one folder\nhint: python tools/build_site.py build/site")
    folder = Path(arguments[0])
    try:
        count = build(folder)
    except DeadLink as exc:
        sys.exit(f"error: {exc}")
    print(f"wrote {count} pages; open {folder / 'index.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
