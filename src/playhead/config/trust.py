"""Which project files the user has trusted, each by its folder's real path and its very bytes."""

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
    """A file as it was read, once: what is decided about it and what is used are the same bytes."""

    file: Path
    content: bytes
    not_ours: str | None = None
    """Why others than the user may have written it; None when they cannot."""

    @property
    def key(self) -> str:
        return key_of(self.file)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def key_of(file: Path) -> str:
    """The file by the real path of its folder: a link to a trusted folder is that folder."""
    return str(Path(os.path.realpath(file.parent)) / file.name)


def store() -> Path:
    """Where it is kept: with the user's own contexts."""
    return paths.config_file().with_name("trusted.json")


def trusted() -> dict[str, str]:
    """Each trusted file with the digest that it had."""
    file = store()
    try:
        with file.open("rb") as opened:
            others = why_not_ours(os.fstat(opened.fileno()))
            content = opened.read()
        document = json.loads(content)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        raise UsageError(f"cannot read {file}: {exc}", hint=f"rm {file}, and trust again") from exc
    if others is not None:
        raise Refused(f"{file} says which projects are trusted, and {others}", hint=f"rm {file}")
    if not isinstance(document, dict):
        raise UsageError(f"{file} is no table of files", hint=f"rm {file}, and trust again")
    return {str(key): str(digest) for key, digest in document.items()}


def is_trusted(seen: ReadFile) -> bool:
    return trusted().get(seen.key) == seen.digest


def was_trusted(seen: ReadFile) -> bool:
    """Whether it was trusted once, with these bytes or others."""
    return seen.key in trusted()


def trust(seen: ReadFile) -> None:
    """From now on what it says counts, as long as it says just this."""
    _change({seen.key: seen.digest})


def forget(key: str) -> bool:
    """Whether it was trusted; it is not any more."""
    was_there = key in trusted()
    _change({key: None})
    return was_there


def _change(changes: dict[str, str | None]) -> None:
    file = store()
    private_files.folder(file.parent)
    lock = file.with_name("trusted.lock")
    with held(lock, lambda _: Refused(f"{file} is being written"), keep_waiting=lambda: True):
        document = {key: digest for key, digest in (trusted() | changes).items() if digest}
        write_whole(file, json.dumps(document, indent=1) + "\n")
