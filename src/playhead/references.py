"""Resolves references to values: `${VARIABLE}`, and for secrets also `file:PATH` and `prompt:`."""

import os
import re
import sys
from collections.abc import Callable
from getpass import getpass

from playhead.errors import BadValue, UsageError
from playhead.host import named_files, paths
from playhead.printable import is_unicode, one_line
from playhead.secrets import ENV_REFERENCE, is_reference, is_torn, remember, without_password

PROMPT = "prompt:"
# What is an address; a password may only look like one.
_KEYS = ("database", "schema_registry", "the target")
# A path or a query of HTTP may contain a token, and so may a login without a password.
_ADDRESS = re.compile(
    r"\s*(?:postgres(?:ql)?://|https?://(?:[^/?#@:\s]+:[^/?#@\s]+@)?[^/?#@\s]+/?\s*\Z)",
    re.IGNORECASE,
)

_asked: dict[tuple[str, str], str] = {}


ask_elsewhere: Callable[[str], None] | None = None
"""In the warm engine: told what is missing here and may be there where the command was typed."""


def resolve(text: str, *, key: str, where: str, is_secret: bool = True) -> str:
    """Resolve `${ENV}` references, and a secret's `file:PATH` or `prompt:`; remember secrets."""
    if is_secret and text == PROMPT:
        return _from_terminal(key, where)
    if is_secret and text.startswith("file:"):
        return _from_file(text.removeprefix("file:"), key=key, where=where)

    def from_environment(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            if ask_elsewhere is not None:
                ask_elsewhere(f"the environment of the engine has no {name}")
            raise BadValue(
                key, found=match[0], needed=f"environment variable {name} to be set", where=where
            )
        value = os.environ[name]
        if not is_unicode(value):
            remember(value)
            needed = f"environment variable {name} to be UTF-8"
            raise BadValue(key, found=match[0], needed=needed, where=where)
        if not is_secret:
            return value
        return _remembered(value, key) if is_reference(text) else remember(value)

    return ENV_REFERENCE.sub(from_environment, text)


def _remembered(value: str, key: str) -> str:
    """Redact a secret from now on; of an address only the passwords: its names are words of other texts."""
    if key in _KEYS and _ADDRESS.match(value) and not is_torn(value):
        without_password(value)
        return value
    return remember(value)


def _from_terminal(key: str, where: str) -> str:
    """Ask for a secret once, however often it is needed afterwards."""
    if (key, where) not in _asked:
        if ask_elsewhere is not None:
            ask_elsewhere(f"{key} is asked for at the terminal")
        if not sys.stdin.isatty():
            raise BadValue(
                key,
                found=PROMPT,
                needed="a terminal to ask on",
                where=where,
                hint="in a script, write ${NAME_OF_A_VARIABLE} or file:/path",
            )
        _asked[key, where] = _remembered(getpass(one_line(f"{key} ({where}): ")), key)
    return _asked[key, where]


def _from_file(path: str, *, key: str, where: str) -> str:
    try:
        return _remembered(named_files.text_of(paths.at_home(path)).rstrip("\r\n"), key)
    except (OSError, ValueError, UsageError) as exc:
        raise BadValue(
            key, found=f"file:{path}", needed=f"a readable text file ({exc})", where=where
        ) from exc
