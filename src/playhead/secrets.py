"""Values that must never be shown: found by reference, redacted by value wherever text leaves us."""

import os
import re
import sys
from functools import cache
from getpass import getpass
from urllib.parse import unquote

from playhead.errors import BadValue, UsageError
from playhead.host import paths
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
_SECRET_KEYS = (
    "password",
    "sslpassword",
    "token",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)
_PASSWORD_AS_PARAMETER = re.compile(
    rf"(?P<before>(?:^|[?&;\s])(?:{'|'.join(_SECRET_KEYS)})\s*=\s*)"
    r"(?P<password>'(?:[^'\\]|\\.)*'|[^&;\s]*)"
)
# In a URL it ends with the parameter, whatever is in it; libpq takes %-escapes in the key, too.
_QUERY_KEYS = "|".join(
    "".join(f"(?:{letter}|%{ord(letter):02x}|%{ord(letter):02X})" for letter in key)
    for key in _SECRET_KEYS
)
_PASSWORD_IN_QUERY = re.compile(rf"(?P<before>[?&;]\s*(?:{_QUERY_KEYS})\s*=)(?P<password>[^&;]*)")
# A password of several words that is not quoted, or not to its end; the second is taken for a key.
_SEVERAL_WORDS = re.compile(
    r"(?:^|\s)password\s*=\s*(?:[^'\s]\S*\s+(?!\w+\s*=)\S|'(?:[^'\\]|\\.)*$)"
)
_IN_BRACKETS = re.compile(r"\[[^\]]*\]")
# Where a library cuts an address, and shows the pieces in its own errors.
_CUTS = re.compile(r"[@/:?#\[\]&=%]+")
_LONGEST_CUT = 200
_LETTERS = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}
# A string within a string is escaped again, and each time it has twice as many backslashes. They are
# taken without a way back: otherwise a text of many is tried in every way to share them out.
_ESCAPE = r"\\{1,8}+"

_known: set[str] = set()
_asked: dict[tuple[str, str], str] = {}


def remember(value: str) -> str:
    """Have this value redacted from everything that is printed from now on."""
    if len(value) >= _SHORTEST_REDACTED:
        _known.add(value)
        if len(value) <= _LONGEST_CUT:  # not the text of a key
            _known.update(part for part in _CUTS.split(value) if len(part) >= _SHORTEST_REDACTED)
    return value


def redact(text: str) -> str:
    """The text with every secret value that was resolved in this process replaced, however escaped."""
    for value in sorted(_known, key=len, reverse=True):
        if any(mark in text for mark in "%+\\"):
            text = _escaped(value).sub(HIDDEN, text)
        else:
            text = text.replace(value, HIDDEN)
    return text


@cache
def _escaped(value: str) -> re.Pattern[str]:
    """The value as URLs, forms, JSON, Python, JAAS and Java's properties write it, and as it is."""
    parts = re.findall(r"(\\*)([^\\]|\Z)", value)
    return re.compile("".join(_one(character, len(before)) for before, character in parts))


def _one(character: str, backslashes: int) -> str:
    """A character of a secret with the backslashes that stand before it."""
    # Nobody escapes these, and a pattern that begins with them is fast.
    if not backslashes and (not character or (character.isascii() and character.isalnum())):
        return character
    before, most = r"(?:\\{1,8}+)?+", 8 * backslashes + 8
    if backslashes:
        before = rf"(?:\\{{{backslashes},{most}}}+|{_percent(chr(92)) * backslashes})"
    if not character:
        return before
    escaped = rf"\\{{{backslashes or 1},{most}}}+(?:{_by_code(character)})"
    # The character itself comes last, or it would be found in its own escape: `%` in `%25`.
    plain = rf"(?:{_percent(character)}|{re.escape(character)}{'|[+]' if character == ' ' else ''})"
    return f"(?:{escaped}|{before}{plain})"


def _percent(character: str) -> str:
    """As URLs have it; a URL within a URL has its percent signs escaped again."""
    return "".join(f"%(?:25){{0,2}}(?i:{byte:02x})" for byte in _utf8(character))


def _by_code(character: str) -> str:
    """What stands behind a backslash: a letter, the code, those of the bytes or of Java's two halves."""
    code, units = ord(character), character.encode("utf-16-be", "surrogatepass")
    ways = [
        _ESCAPE.join(f"u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)),
        _ESCAPE.join(f"x{byte:02x}" for byte in _utf8(character)),
        f"U{code:08x}|x{code:02x}|{code:03o}",
    ]
    return f"(?i:{'|'.join(ways)})" + (f"|{_LETTERS[character]}" if character in _LETTERS else "")


def _utf8(character: str) -> bytes:
    # A word of a command line may hold bytes that are no text.
    return character.encode("utf-8", "surrogatepass")


def resolve(text: str, *, key: str, where: str, is_secret: bool = True) -> str:
    """Follow `${ENV}` references, and a secret's `file:PATH` or `prompt:`; a secret is remembered."""
    if is_secret and text == PROMPT:
        return _from_terminal(key, where)
    if is_secret and text.startswith("file:"):
        return _from_file(text.removeprefix("file:"), key=key, where=where)

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


def _from_file(path: str, *, key: str, where: str) -> str:
    try:
        return remember(paths.at_home(path).read_text(encoding="utf-8").rstrip("\r\n"))
    except (OSError, ValueError, UsageError) as exc:
        raise BadValue(
            key, found=f"file:{path}", needed=f"a readable text file ({exc})", where=where
        ) from exc


def passwords_in(url: str) -> list[str]:
    """The passwords and tokens that are written out in a connection URL or key=value string."""
    found = [_meant(match) for form in _forms(url) for match in form.finditer(url)]
    return [password for password in found if password]


def _forms(url: str) -> tuple[re.Pattern[str], ...]:
    return (_PASSWORD_OF_USER, _PASSWORD_IN_QUERY if "://" in url else _PASSWORD_AS_PARAMETER)


def is_torn(url: str) -> bool:
    """Whether a library would cut it inside of the password, and look for a host by the rest.

    It does so at the first `@` or `/` after the scheme, and of key=value pairs at a space.
    """
    _, scheme, rest = url.partition("://")
    if not scheme:
        return _SEVERAL_WORDS.search(url) is not None
    login, cut, after = _cut_at(rest, "@/")
    if cut == "@":
        host, mark, query = _cut_at(after, "/?")
        is_pair = mark != "?" or "@" not in query.partition("=")[0]
        return "@" in host or not is_pair
    port = _IN_BRACKETS.sub("", login.rpartition(",")[2]).partition(":")[2]
    return "@" in after and port != "" and not port.isdigit()


def _cut_at(text: str, marks: str) -> tuple[str, str, str]:
    found = re.search(f"[{marks}]", text)
    if found is None:
        return text, "", ""
    return text[: found.start()], found[0], text[found.end() :]


def without_password(url: str) -> str:
    """The same to show; its passwords are remembered for redaction elsewhere."""
    if is_torn(url):
        return _without_torn(url)

    def hide(match: re.Match[str]) -> str:
        remember(match["password"])
        remember(_meant(match))
        return f"{match['before']}{HIDDEN}"

    for form in _forms(url):
        url = form.sub(hide, url)
    return url


def _without_torn(url: str) -> str:
    """The password is what is behind the user's name, or all of the login when that has a cut, too."""
    before, scheme, rest = url.partition("://")
    if not scheme:
        start = url.index("=", url.index("password")) + 1
        remember(url[start:].strip())
        return url[:start] + HIDDEN
    login, _, after = rest.rpartition("@")
    user, colon, password = login.partition(":")
    remember(login)
    remember(password)
    shown = user + colon if colon and "@" not in user else ""
    return f"{before}{scheme}{shown}{HIDDEN}@{after}"


def _meant(match: re.Match[str]) -> str:
    written = match["password"]
    if written.startswith("'"):  # only in a key=value string, which knows no %-escapes
        return re.sub(r"\\(.)", r"\1", written[1:-1])
    return unquote(written)
