"""A project's playhead.toml: where it is found, and what it may set before the user trusts it.

It comes with a clone, so anyone may have written it. Its settings reach a server only after
`playhead config trust`.
"""

import os
import shlex
from contextlib import suppress
from pathlib import Path
from stat import S_IWOTH

from playhead import secrets
from playhead.config import trust
from playhead.config.layers import FILE, KAFKA, Layer, Precedence, layer_of, parse_toml
from playhead.config.trust import ReadFile
from playhead.errors import BadValue, Refused, UsageError
from playhead.host.folders import open_plain, why_not_ours

PROJECT_FILE = "playhead.toml"
HARMLESS = ("timezone", "spark_memory", "read_only", "production")
"""What an untrusted project file may set: settings that reach no server and run no code."""
_MOST_BYTES = 1 << 16


class NotTrusted(Refused):
    """A project file sets something that requires trust."""

    def __init__(self, seen: ReadFile, why: str) -> None:
        self.file, self.why = seen.file, why
        state = "has changed since it was trusted" if trust.was_trusted(seen) else "is not trusted"
        folder = shlex.quote(str(seen.file.parent))
        shared = "" if seen.not_ours is None else " --shared"
        super().__init__(
            f"{seen.file} {state}, and {why}",
            hint=f"it came with the folder; read it, then: playhead config trust{shared} {folder}",
        )


def find_project_file(folder: Path) -> Path | None:
    """Return the nearest playhead.toml from this folder up to the root of its repository.

    Outside a repository, only the folder's own file counts: a file in /tmp must not affect everyone below
    it. Neither must a repository there, so the search ends at a folder that everyone can write.
    """
    walked: list[Path] = []
    for place in (folder, *folder.parents):
        if walked and _is_everybodys(place):
            break
        walked.append(place)
        if _is_there(place / ".git"):
            return next((p / PROJECT_FILE for p in walked if _is_there(p / PROJECT_FILE)), None)
    return folder / PROJECT_FILE if _is_there(folder / PROJECT_FILE) else None


def _is_there(path: Path) -> bool:
    with suppress(OSError):  # Also in a folder that we cannot read.
        path.lstat()
        return True
    return False


def _is_everybodys(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & S_IWOTH)
    except OSError:
        return True


def read(file: Path) -> ReadFile:
    """Read the file's bytes once; refuse a link, because its target is not in the folder."""
    try:
        with os.fdopen(open_plain(file, os.O_RDONLY), "rb") as opened:
            not_ours = why_not_ours(os.fstat(opened.fileno()))
            content = opened.read(_MOST_BYTES + 1)
    except OSError as exc:
        reason = "it is a link" if file.is_symlink() else str(exc.strerror)
        raise UsageError(f"cannot read {file}: {reason}") from exc
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{file} is not a settings file: it has more than {_MOST_BYTES >> 10} KiB")
    return ReadFile(file, content, not_ours)


def said_by(seen: ReadFile) -> tuple[Layer, str | None]:
    """Return the settings of the file, trusted or not, and the context that it chooses."""
    where = str(seen.file)
    table = parse_toml(seen.content, seen.file)
    context = table.pop("context", None)
    if context is not None and not isinstance(context, str):
        raise BadValue("context", found=context, needed="a context's name", where=where)
    if FILE in table:
        # The trust would not cover the other file's content.
        hint = "write its properties into the table [kafka], or give --config"
        raise UsageError(f"{FILE} in {where}: a project file cannot name another file", hint=hint)
    return layer_of(table, where, place=Precedence.PROJECT, also=("context",)), context


def project_layer(file: Path) -> tuple[Layer, str | None]:
    """Return the file's settings; refuse those that need trust, with a hint on how to trust the file."""
    seen = read(file)
    if trust.is_trusted(seen):
        return said_by(seen)
    if seen.not_ours is not None:
        raise NotTrusted(seen, seen.not_ours)
    layer, context = said_by(seen)
    said = {**layer.settings, **{f"{KAFKA}.{key}": text for key, text in layer.kafka.items()}}
    for name, value in {**said, **({} if context is None else {"context": context})}.items():
        if name not in HARMLESS:
            raise NotTrusted(
                seen, f"sets {name}; without trust it may set only {', '.join(HARMLESS)}"
            )
        if secrets.has_reference(value):
            raise NotTrusted(seen, f"{name} in it refers to the environment")
    return layer, context
