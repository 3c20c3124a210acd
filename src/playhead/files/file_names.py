"""The path of each file of an archive: a function of replay, topic, partition and offsets only."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

from playhead.record import Slice

Format = Literal["parquet", "json", "csv"]
SUFFIXES: dict[Format, str] = {"parquet": ".parquet", "json": ".jsonl", "csv": ".csv"}

# Spark, Hive and DuckDB ignore folders and files with this beginning.
LEDGER = "_playhead"
ABOUT = f"{LEDGER}/archive.json"
_REPLAY = "replay.json"

_PLACE = r"topic=(?P<topic>[^/]+)/partition=(?P<partition>\d{5,})"
_OFFSETS = r"(?P<from_offset>\d{20})-(?P<to_offset>\d{20})"
_DATA = re.compile(f"{_PLACE}/{_OFFSETS}")
_TERMS = re.compile(rf"{LEDGER}/replay=[^/]+/terms-[0-9a-f]{{16}}\.json")
_AGREED = "agreed-"
_ENTRY = re.compile(rf"{LEDGER}/replay=(?P<replay>[^/]+)/{_PLACE}/{_OFFSETS}\.json")


@dataclass(frozen=True, slots=True)
class EntryName:
    """The parts of a ledger file's path."""

    replay_id: str
    slice: Slice
    path: str


def place_folder(topic: str, partition: int) -> str:
    """Return the folder of one partition, in Hive's form."""
    return f"topic={_escaped(topic)}/partition={partition:05d}"


def data_path(slice_: Slice, format_: Format) -> str:
    """Return the file of a slice; the same for every replay."""
    folder = place_folder(slice_.topic, slice_.partition)
    return f"{folder}/{_offsets(slice_)}{SUFFIXES[format_]}"


def data_slice(path: str, format_: Format) -> Slice | None:
    """Return the slice of a file of this format; None for other files."""
    match = _DATA.fullmatch(path.removesuffix(SUFFIXES[format_]))
    return _slice(match) if match and path.endswith(SUFFIXES[format_]) else None


def replay_folder(replay_id: str) -> str:
    """Return the ledger folder of one replay."""
    return f"{LEDGER}/replay={_escaped(replay_id)}"


def replay_of(folder: str) -> str | None:
    """Return the replay of a ledger folder; None for other folders."""
    _, prefix, escaped = folder.partition(f"{LEDGER}/replay=")
    return unquote(escaped) if prefix and "/" not in escaped else None


def about_path(replay_id: str) -> str:
    """Return the file with what a replay knew about its topics."""
    return f"{replay_folder(replay_id)}/{_REPLAY}"


def terms_path(replay_id: str, digest: str) -> str:
    """Return the file of a replay's terms, named by their digest, so that two writers hide nothing."""
    return f"{replay_folder(replay_id)}/terms-{digest[:16]}.json"


def agreed_path(terms: str) -> str:
    """Return the file that marks these terms as the agreed ones."""
    folder, _, name = terms.rpartition("/")
    return f"{folder}/{_AGREED}{name}"


def is_terms(path: str) -> bool:
    """Return whether the path is a `terms_path`."""
    return _TERMS.fullmatch(path) is not None


def is_about(path: str) -> bool:
    """Return whether the path is an `about_path`."""
    parts = path.split("/")
    return len(parts) == 3 and parts[0] == LEDGER and parts[2] == _REPLAY


def entries_folder(replay_id: str, topic: str, partition: int) -> str:
    """Return the ledger folder of one replay for one partition."""
    return f"{replay_folder(replay_id)}/{place_folder(topic, partition)}"


def entry_path(replay_id: str, slice_: Slice) -> str:
    """Return the ledger file of a slice: if it exists, the slice is committed."""
    folder = entries_folder(replay_id, slice_.topic, slice_.partition)
    return f"{folder}/{_offsets(slice_)}.json"


def entry_name(path: str) -> EntryName | None:
    """Parse the path of a ledger file; None for other files."""
    match = _ENTRY.fullmatch(path)
    if match is None:
        return None
    return EntryName(unquote(match["replay"]), _slice(match), path)


def _slice(match: re.Match[str]) -> Slice:
    return Slice(
        unquote(match["topic"]),
        int(match["partition"]),
        int(match["from_offset"]),
        int(match["to_offset"]),
    )


def _offsets(slice_: Slice) -> str:
    return f"{slice_.from_offset:020d}-{slice_.to_offset:020d}"


def _escaped(name: str) -> str:
    """Escape separators, and everything that two systems could read differently."""
    return quote(name, safe="")
