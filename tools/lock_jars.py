"""Writes src/playhead/host/jars.lock anew: sizes and SHA-256 of the coordinates listed there or given as arguments.

    python tools/lock_jars.py                     recompute every line (after editing versions by hand)
    python tools/lock_jars.py broker < list.txt   replace one set by the coordinates read from standard input

`list.txt` is what `mvn dependency:list -DincludeScope=runtime` prints for the set's roots; the roots are in
docs/decisions/0003-jars.md.
"""

import hashlib
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playhead.host.jars import DEFAULT_REPOSITORY, LOCK, Jar, read_lock

_LISTED = re.compile(r"([\w.-]+):([\w.-]+):jar:([\w.-]+)")


def locked(set_name: str, coordinate: str) -> str:
    """One line of the lock file, from the bytes that the repository serves."""
    jar = Jar(set_name, coordinate, 0, "")
    with urllib.request.urlopen(f"{DEFAULT_REPOSITORY}/{jar.path}", timeout=120) as answer:
        content = answer.read()
    return f"{set_name} {coordinate} {len(content)} {hashlib.sha256(content).hexdigest()}"


def main() -> None:
    wanted = [(jar.set_name, jar.coordinate) for jar in read_lock()] if LOCK.exists() else []
    if len(sys.argv) > 1:
        found = _LISTED.findall(sys.stdin.read())
        wanted = [pair for pair in wanted if pair[0] != sys.argv[1]]
        wanted += [(sys.argv[1], ":".join(match)) for match in found]
    with ThreadPoolExecutor(8) as pool:
        lines = sorted(pool.map(lambda pair: locked(*pair), set(wanted)))
    head = [line for line in LOCK.read_text().splitlines() if line.startswith("#")]
    Path(LOCK).write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
