"""What lies in an archive, read as plainly as can be, and changed by somebody; no code of the product's."""

import base64
import csv
import io
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from simulation.cases import ARCHIVE

if TYPE_CHECKING:
    from simulation.schedule import World

_DATA = re.compile(rf"{ARCHIVE}/topic=src/partition=(\d+)/(\d+)-(\d+)\.\w+")


def compare(world: "World", when: str) -> None:
    """Every record is there once, whoever reads the folder, and nothing else is."""
    from simulation.judge import Violation

    found = Counter(each for path in data_files(world) for each in _records(world, path))
    wanted = Counter(
        (number, each.offset, each.timestamp_ms, each.key or b"", each.value or b"")
        for number, log in world.expected.by_partition.items()
        for each in log
    )
    if found != wanted:
        lacking, extra = dict(wanted - found), dict(found - wanted)
        raise Violation(f"{when}: the archive lacks {lacking} and has {extra} too many")


def data_files(world: "World") -> list[str]:
    """Those that other tools read."""
    return sorted(path for path in world.disk.files if _DATA.fullmatch(path))


def _records(world: "World", path: str) -> list[tuple[int, int, int, bytes, bytes]]:
    text = world.disk.files[path].decode()
    if path.endswith(".jsonl"):
        rows = [json.loads(line) for line in text.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(text)))
    match = _DATA.fullmatch(path)
    assert match is not None
    found = []
    for row in rows:
        assert int(row["partition"]) == int(match[1])
        assert int(match[2]) <= int(row["offset"]) < int(match[3])
        record = (_bytes(row, "key"), _bytes(row, "value"))
        found.append((int(row["partition"]), int(row["offset"]), int(row["timestamp_ms"]), *record))
    return found


def _bytes(row: dict[str, Any], name: str) -> bytes:
    """A null and nothing at all are not told apart here; the verification of the product has to."""
    value = row[name]
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return (value or "").encode()


def tamper(world: "World") -> bool:
    """Somebody changes a file or takes one away; whether there was one."""
    paths = data_files(world)
    if not paths or world.choices.below(2) == 0:
        return False
    files = world.disk.files
    path = paths[world.choices.below(len(paths))]
    kind = world.choices.below(3)
    if kind == 0:
        del files[path]
    elif kind == 1:
        files[path] = files[path].replace(b"0", b"1", 1)
    else:
        files[path] += files[path]
    world.scheduler.tell(f"somebody changes {path}: {('gone', 'other bytes', 'twice')[kind]}")
    return True
