"""Compare what is locked with known holes, with the licences that are allowed, and with its hashes.

`python tools/supply.py` needs no network: it reads `tools/supply.toml`, which is kept by hand, and
`tools/answers.json`, the last answer of osv.dev. `--ask` asks osv.dev about every locked version, and
writes that answer.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import re
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KNOWN, ANSWERS = Path("tools/supply.toml"), Path("tools/answers.json")
PYTHON_LOCKS, JARS_LOCK = ("requirements.lock", "build.lock"), "src/playhead/host/jars.lock"
OSV = "https://api.osv.dev"
_WITHIN_S = 60
_STALE_DAYS = 90


@dataclass(frozen=True, order=True)
class Locked:
    """A package or jar at the version that is locked."""

    ecosystem: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def locked(root: Path) -> list[Locked]:
    """All that the lock files name."""
    found = set()
    for name in PYTHON_LOCKS:
        text = (root / name).read_text(encoding="utf-8")
        pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.MULTILINE)
        found |= {Locked("PyPI", name, version) for name, version in pins}
    for line in (root / JARS_LOCK).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, version = line.split()[1].rpartition(":")
            found.add(Locked("Maven", name, version))
    return sorted(found)


# --- holes


def holes(root: Path, packages: list[Locked]) -> Iterator[str]:
    """A sentence for each known hole of a locked version that nobody has accepted with a reason."""
    known = tomllib.loads((root / KNOWN).read_text(encoding="utf-8"))["hole"]
    accepted = {hole["id"] for hole in known if hole.get("accepted")}
    for package in packages:
        for hole in known:
            has_it = hole["package"] == package.name and any(
                is_in(package.version, versions) for versions in hole["versions"]
            )
            if has_it and hole["id"] not in accepted:
                yield f"{package} has {hole['id']} ({' or '.join(hole['versions'])})"
    for package, ids in answers(root).get("holes", {}).items():
        if package in map(str, packages):
            for found in sorted(set(ids) - accepted):
                yield f"{package} has {found} (osv.dev)"


def is_in(version: str, versions: str) -> bool:
    """Whether a version lies in a range such as `>=2.0,<2.15`."""
    compare = {"<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "==": lambda a, b: a == b}
    for part in versions.split(","):
        found = re.fullmatch(r"(<|>=|==)(\S+)", part.strip())
        if found is None:
            raise ValueError(f"a range is to be such as >=1.0,<1.2, and is {versions!r}")
        if not compare[found[1]](_order(version), _order(found[2])):
            return False
    return True


def _order(version: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def answers(root: Path) -> dict[str, Any]:
    """What osv.dev said last; empty when it was never asked."""
    file = root / ANSWERS
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def never_asked(root: Path, packages: list[Locked]) -> str | None:
    """What the check cannot know: versions about which osv.dev was never asked, or long ago."""
    said = answers(root)
    missing = [package for package in packages if str(package) not in said.get("asked", [])]
    if missing:
        return f"osv.dev was never asked about {len(missing)} of {len(packages)} locked versions"
    age = datetime.date.today() - datetime.date.fromisoformat(said["on"])
    return f"osv.dev was asked {age.days} days ago" if age.days > _STALE_DAYS else None


def ask(root: Path, packages: list[Locked]) -> None:
    """Have osv.dev's answer about every locked version in the file; pages are followed to the end."""
    found: dict[str, list[str]] = {}
    waiting = [(package, "") for package in packages]
    while waiting:
        queries = [
            {"package": {"name": p.name, "ecosystem": p.ecosystem}, "version": p.version}
            | ({"page_token": token} if token else {})
            for p, token in waiting
        ]
        results = _post("/v1/querybatch", {"queries": queries})["results"]
        again = []
        for (package, _), result in zip(waiting, results, strict=True):
            if ids := [each["id"] for each in result.get("vulns", [])]:
                found.setdefault(str(package), []).extend(ids)
            if result.get("next_page_token"):
                again.append((package, result["next_page_token"]))
        waiting = again
    today = datetime.date.today().isoformat()
    document = {"on": today, "asked": [str(each) for each in packages], "holes": found}
    (root / ANSWERS).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _post(path: str, document: object) -> Any:
    request = urllib.request.Request(
        os.environ.get("OSV_URL", OSV) + path,
        data=json.dumps(document).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "playhead"},
    )
    with urllib.request.urlopen(request, timeout=_WITHIN_S) as answer:
        return json.load(answer)


# --- licences


def licences(root: Path, packages: list[Locked]) -> Iterator[str]:
    """A sentence for each locked package whose licence is not known, or is not allowed."""
    table = tomllib.loads((root / KNOWN).read_text(encoding="utf-8"))["licences"]
    for package in packages:
        licence = _licence(package, table)
        if licence is None:
            yield f"{package}: nobody has written down its licence"
        elif not is_allowed(licence, table["allowed"]):
            yield f"{package}: its licence {licence} is not in the list"


def is_allowed(licence: str, allowed: list[str]) -> bool:
    """Of licences joined by OR one has to be allowed, of those joined by AND each."""
    return any(
        all(each.strip(" ()") in allowed for each in choice.split(" AND "))
        for choice in licence.split(" OR ")
    )


def _licence(package: Locked, table: dict[str, Any]) -> str | None:
    if package.ecosystem == "Maven":
        fits = [name for name in table["jars"] if package.name.startswith(name)]
        return str(table["jars"][max(fits, key=len)]) if fits else None
    try:
        about = importlib.metadata.metadata(package.name)
    except importlib.metadata.PackageNotFoundError:
        about = None
    said = about and (about.get("License-Expression") or _short(about.get("License")))
    return table["python"].get(package.name) or said or None


def _short(licence: str | None) -> str | None:
    """The old field may hold a whole text; only an identifier is taken from it."""
    return licence if licence and re.fullmatch(r"[A-Za-z0-9.+-]+", licence) else None


# --- hashes


def unpinned(root: Path) -> Iterator[str]:
    """A sentence for whatever could be installed without being known by its hash."""
    for name in PYTHON_LOCKS:
        text = (root / name).read_text(encoding="utf-8")
        for block in re.split(r"\n(?=\S)", text):
            if "==" in block and not block.startswith("#") and "--hash=sha256:" not in block:
                yield f"{name}: {block.split()[0]} has no hash"
    built = dict(
        re.findall(r"^(\S+?)==([^\s;\\]+)", (root / "build.lock").read_text(), re.MULTILINE)
    )
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    for needed in project["build-system"]["requires"]:
        name, _, version = needed.partition("==")
        if built.get(name) != version:
            yield f"build-system requires {needed}; build.lock has {built.get(name)}"
    for line in (root / "Makefile").read_text(encoding="utf-8").splitlines():
        if re.search(r"pip install", line) and not re.search(
            r"--require-hashes|--no-build-isolation --no-deps -e", line
        ):
            yield f"Makefile: {line.strip()!r} installs what has no hash"
        if "requirements.lock" in line and "install" in line and "--no-build-isolation" not in line:
            yield f"Makefile: {line.strip()!r} builds with what is not locked"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask", action="store_true", help="ask osv.dev first (needs the network)")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args(words)
    packages = locked(options.root)
    unreached = None
    if options.ask:
        try:
            ask(options.root, packages)
        except OSError as exc:  # The rest is checked without the network.
            unreached = f"osv.dev could not be asked: {exc}"
    wrong = [
        *filter(None, [unreached]),
        *holes(options.root, packages),
        *licences(options.root, packages),
        *unpinned(options.root),
    ]
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    if (unknown := never_asked(options.root, packages)) is not None:
        print(f"note: {unknown}: `make audit` does", file=sys.stderr)
    if not wrong:
        # Without a fresh answer of osv.dev, only the list that is kept by hand was compared.
        found = "no known hole" if unknown is None else f"no hole that {KNOWN} names"
        print(f"{len(packages)} locked packages: {found}, licences and hashes as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
