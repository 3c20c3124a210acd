"""The project files that the user trusts, by the folder's real path and the file's exact bytes."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from playhead.errors import Refused, UsageError
from playhead.host import paths, private_files
from playhead.host.atomic_file import write_whole
from playhead.host.file_lock import held
from playhead.host.folders import why_not_ours


@dataclass(frozen=True, slots=True)
class ReadFile:
    """The bytes of a file, read once: what is checked is also what is used."""

    file: Path
    content: bytes
    not_ours: str | None = None
    """Why other users may have written it; None if they cannot."""

    @property
    def key(self) -> str:
        return key_of(self.file)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def key_of(file: Path) -> str:
    """Return the file with its folder's real path: a link to a trusted folder is that folder."""
    return str(Path(os.path.realpath(file.parent)) / file.name)


def store() -> Path:
    """Return the file of trusted projects, beside the user's contexts."""
    return paths.config_file().with_name("trusted.json")


def trusted() -> dict[str, str]:
    """Return the trusted files with their digests."""
    file = store()
    try:
        with file.open("rb") as opened:
            others = why_not_ours(os.fstat(opened.fileno()))
            content = opened.read()
        document = json.loads(content)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        raise UsageError(
            f"cannot read {file}: {exc}", hint=f"remove it and trust the projects again: rm {file}"
        ) from exc
    if others is not None:
        raise Refused(
            f"{file} says which projects are trusted, and {others}", hint=f"remove it: rm {file}"
        )
    if not isinstance(document, dict):
        raise UsageError(
            f"{file} is not a table of files",
            hint=f"remove it and trust the projects again: rm {file}",
        )
    return {str(key): str(digest) for key, digest in document.items()}


def is_trusted(seen: ReadFile) -> bool:
    return trusted().get(seen.key) == seen.digest


def was_trusted(seen: ReadFile) -> bool:
    """Return whether the file was ever trusted, with these bytes or others."""
    return seen.key in trusted()


def trust(seen: ReadFile) -> None:
    """Trust the file from now on, with exactly these bytes."""
    _change({seen.key: seen.digest})


def forget(key: str) -> bool:
    """Remove the trust; return whether the file was trusted."""
    was_there = key in trusted()
    _change({key: None})
    return was_there


def _change(changes: dict[str, str | None]) -> None:
    file = store()
    private_files.folder(file.parent)
    lock = file.with_name("trusted.lock")
    with held(
        lock, lambda _: Refused(f"another process is writing {file}"), keep_waiting=lambda: True
    ):
        document = {key: digest for key, digest in (trusted() | changes).items() if digest}
        write_whole(file, json.dumps(document, indent=1) + "\n")
