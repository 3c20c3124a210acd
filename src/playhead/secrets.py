"""Values that must never be shown: found by reference, redacted by value wherever text leaves us."""

import os
import re
import sys
from getpass import getpass
from pathlib import Path
from urllib.parse import quote, unquote

from playhead.errors import BadValue
from playhead.printable import one_line

HIDDEN = "********"
PROMPT = "prompt:"
# Shorter ones would turn every page of text into stars; they are still hidden by key.
_SHORTEST_REDACTED = 4
_ENV_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# Between `user:` and the last @ before the path; libpq takes characters there that urllib does not.
# A password with a raw slash is nowhere valid, and hidden all the same, up to the last @ of all.
_PASSWORD_OF_USER = re.compile(
    r"^(?P<before>[^:/?#\s]+://[^:/@\[]*:)(?P<password>[^/]*(?=@)|(?!\d*(?:,[^/]*)?/).*(?=@))",
    re.DOTALL,
)
_PASSWORD_AS_PARAMETER = re.compile(
    r"(?P<before>(?:^|[?&;\s])(?:password|sslpassword|token)\s*=\s*)"
    r"(?P<password>'(?:[^'\\]|\\.)*'|[^&;\s]*)"
)
_PASSWORDS = (_PASSWORD_OF_USER, _PASSWORD_AS_PARAMETER)

_known: set[str] = set()
_asked: dict[tuple[str, str], str] = {}


def remember(value: str) -> str:
    """Have this value redacted from everything that is printed from now on."""
    if len(value) >= _SHORTEST_REDACTED:
        _known.add(value)
        _known.add(quote(value, safe=""))
    return value


def redact(text: str) -> str:
    """The text with every secret value that was resolved in this process replaced."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def resolve(text: str, *, key: str, where: str, is_secret: bool = True) -> str:
    """Follow `${ENV}` references, and a secret's `file:PATH` or `prompt:`; a secret is remembered."""
    if is_secret and text == PROMPT:
        return _from_terminal(key, where)
    if is_secret and text.startswith("file:"):
        return _from_file(Path(text[len("file:") :]).expanduser(), key=key, where=where)

    def from_environment(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise BadValue(
                key, found=match[0], needed=f"environment variable {name} to be set", where=where
            )
        return remember(os.environ[name]) if is_secret else os.environ[name]

    return _ENV_REFERENCE.sub(from_environment, text)


def is_reference(text: str) -> bool:
    """True when nothing but the name of an environment variable would be shown."""
    return _ENV_REFERENCE.fullmatch(text) is not None


def has_reference(text: str) -> bool:
    """True when `resolve` would put the value of an environment variable into it."""
    return _ENV_REFERENCE.search(text) is not None


def _from_terminal(key: str, where: str) -> str:
    """Ask once for each secret, however often it is needed afterwards."""
    if (key, where) not in _asked:
        if not sys.stdin.isatty():
            raise BadValue(
                key,
                found=PROMPT,
                needed="a terminal to ask on",
                where=where,
                hint="in a script write ${NAME_OF_A_VARIABLE} or file:/path",
            )
        _asked[key, where] = remember(getpass(one_line(f"{key} ({where}): ")))
    return _asked[key, where]


def _from_file(path: Path, *, key: str, where: str) -> str:
    try:
        return remember(path.read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, UnicodeDecodeError) as exc:
        raise BadValue(
            key, found=f"file:{path}", needed=f"a readable text file ({exc})", where=where
        ) from exc


def passwords_in(url: str) -> list[str]:
    """The passwords and tokens that are written out in a connection URL or key=value string."""
    found = [_meant(match) for form in _PASSWORDS for match in form.finditer(url)]
    return [password for password in found if password]


def without_password(url: str) -> str:
    """The same to show; its passwords are remembered for redaction elsewhere."""

    def hide(match: re.Match[str]) -> str:
        remember(match["password"])
        remember(_meant(match))
        return f"{match['before']}{HIDDEN}"

    for form in _PASSWORDS:
        url = form.sub(hide, url)
    return url


def _meant(match: re.Match[str]) -> str:
    written = match["password"]
    if written.startswith("'"):  # only in a key=value string, which knows no %-escapes
        return re.sub(r"\\(.)", r"\1", written[1:-1])
    return unquote(written)
