"""Secret values: redacted from everything that is printed or stored."""

import json
import os
import re
from binascii import a2b_base64
from urllib.parse import SplitResult, unquote

from playhead.grammar import escapes

HIDDEN = "********"
# Redacting shorter values would make every text unreadable; they are still hidden by key.
_SHORTEST_REDACTED = 4
ENV_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# The password is between `user:` and the last @ before the path; libpq accepts characters there
# that urllib refuses. One with a raw slash is valid nowhere, but hidden up to the very last @, also where it
# could be a port and a path with an @. White space before a URL is from a file or a variable, and a scheme
# in a scheme is Java's: jdbc:postgresql. A bracket may begin a host, or be in a user's name: then an @ follows.
_PASSWORD_OF_USER = re.compile(
    r"^(?P<before>\s*[^/?#\s]+://(?:[^:/@\[]*|[^:/@]*(?=:[^/?#]*@)|(?!\[)[^:/@,]*(?=:[^/]*@)):)"
    r"(?P<password>[^/]*(?=@)|(?!\d*(?:,[^/]*)?/[^@?#]*(?:[?#]|\Z)).*(?=@))",
    re.DOTALL,
)
# The host was forgotten, and libraries take the password for a port, which they quote. A reference to a
# variable in that place, such as ${PORT}, is no password.
_PASSWORD_AS_PORT = re.compile(
    r"^(?P<before>\s*(?:(?:jdbc:)?postgres(?:ql)?|https?)://[^:/?#@,\[\]\s]*:)"
    r"(?P<password>(?!\d*[,/?#\s]|\d*\Z|\$\{\w+\}(?:[,/?#]|\Z))[^@/?#]++)(?![^/?#]*@)",
    re.IGNORECASE,
)
# A slash in the user's name ends the address for every library: the name is the host, the password a path. Of
# other systems, a path may have a colon and an @ of its own.
_PASSWORD_OF_CUT_USER = re.compile(
    r"^(?P<before>\s*(?:jdbc:)?(?:postgres(?:ql)?|https?|kafka)://[^/?#@]*/[^:?#@]*:)"
    r"(?P<password>(?![^@?#]*\?\w+=).*(?=@))",
    re.DOTALL | re.IGNORECASE,
)
# A login that was escaped as a whole: to every library it is a user's name, which servers quote.
_PASSWORD_OF_ESCAPED_LOGIN = re.compile(
    r"^(?P<before>\s*[^/?#\s]+://[^/?#@:\[\s%]*+(?:%(?!3[Aa])[^/?#@:\[\s%]*+)*+%3[Aa])"
    r"(?P<password>[^/?#@:]++)(?=@|:[^/?#]*@)"
)
_SECRET_KEYS = (
    "password",
    "sslpassword",
    "token",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)
IS_URL = re.compile(r"\s*[^\s=]*://")
# Of schemes, only this one has a colon in it; before another colon is a user's name, and behind it a password with `://`.
_SCHEME = re.compile(r"\s*(?:jdbc:)?[a-z0-9+.-]*", re.IGNORECASE)
# Their login is in front of the host; `kafka://h:9092/a@b` is no login.
_HAS_LOGIN = re.compile(r"\s*(?:postgres(?:ql)?|https?)://", re.IGNORECASE)
# libpq's own white space: it takes every other character for a part of the value.
_SPACE = r" \t\n\v\f\r"
# The value of a pair of a key=value string as libpq reads it. A quote without an end goes to the end.
_VALUE = rf"(?P<password>'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|(?!')(?:\\.|[^\\{_SPACE}])*+\\?)"
_PAIR = re.compile(
    rf"(?P<before>(?<![^{_SPACE}'])(?P<key>[^={_SPACE}]{{1,60}}+)[{_SPACE}]*=[{_SPACE}]*){_VALUE}",
    re.DOTALL,
)
# A URL and pairs in one: libpq takes them for a part of the database's name.
_PASSWORD_BEHIND_URL = re.compile(
    rf"(?P<before>(?<=[{_SPACE}])(?:{'|'.join(_SECRET_KEYS)})[{_SPACE}]*=[{_SPACE}]*){_VALUE}",
    re.DOTALL,
)
_PAIRS = re.compile(r"\s*\w+\s*=")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_KEY_IN_TEXT = re.compile(r"[?&;:]")
_PASSWORD_AS_PARAMETER = re.compile(
    rf"(?P<before>[?&;](?:{'|'.join(_SECRET_KEYS)})=)(?P<password>[^&;'\s]*)"
)
# In a URL it ends with the parameter, whatever is in it. libpq takes %-escapes in the key, too. Keys of
# other servers, and of a hasty user, are hidden where they look like a secret's.
_HASTY_KEYS = (
    *("passwd", "passphrase", "pass", "pwd"),
    *("secret", "authorization", "apikey", "api_key", "api-key"),
)
_QUERY_KEYS = "|".join(
    "".join(
        f"(?i:{re.escape(letter)}|%{ord(letter):02x}|%{ord(letter.upper()):02x})" for letter in key
    )
    for key in (*_SECRET_KEYS, *_HASTY_KEYS)
)
_PASSWORD_IN_QUERY = re.compile(
    rf"(?P<before>[?&;#]\s*(?:[\w.-]*[-_.])?(?:{_QUERY_KEYS})\s*=)(?P<password>[^&;]*)"
)
# libpq divides only at &, and quotes a part without a = in its error; it is more of the password.
_PASSWORD_FOR_LIBPQ = re.compile(
    rf"(?P<before>[?&#]\s*(?:{_QUERY_KEYS})\s*=)(?P<password>[^&]*(?:&[^&=]+(?=&|\Z))*)"
)
# Spark Connect divides only at ;, and its parameters begin behind /; where others have no @.
_PASSWORD_FOR_CONNECT = re.compile(
    rf"(?P<before>;\s*(?:[\w.-]*[-_.])?(?:{_QUERY_KEYS})\s*=)(?P<password>[^;]*(?:;[^;=]+(?=;|\Z))*)"
)
_PASSWORD_OF_CONNECT_USER = re.compile(
    r"^(?P<before>\s*sc://[^/?#\s:@\[]*:)(?P<password>(?!\d*/;)[^;]*(?=@))", re.IGNORECASE
)
# A login in any text that leaves us, of an address that no code has recognised. What comes behind `host:80/`
# is a path, and a quote ends the address.
_LOGIN_IN_TEXT = re.compile(
    r"(?P<before>://(?:[^\s/?#@:\[\]]*|[^\s/?#@:]*(?=:[^\s/?#@'\",]*@)):)"
    r"(?P<password>[^\s/'\",]+(?=@)|(?!\d*/)[^\s@'\",]{1,500}+(?=@))"
)
# Where a token is enough, people write it as the user's name.
_TOKEN_AS_USER = re.compile(
    r"(?P<before>\b(?:https?|sc)://)(?P<password>[^\s/?#@:'\"\[\]]{1,500}+)(?=@)"
)
# A raw mark in it makes its beginning the host; a colon, or a pair, is not of a token.
_CUT_TOKEN = re.compile(
    r"(?P<scheme>\s*https?://)(?P<token>[^\s/?#@:=]*[/?#][^\s@:=]*)@", re.IGNORECASE
)
# librdkafka says what it computed from the password, in one iteration where a hostile server asks for that.
_MADE_OF_PASSWORD = re.compile(r"(?P<before>!= ours )(?P<password>[A-Za-z0-9+/=]{1,500}+)")
# An unquoted or half-quoted password of several words; the second word looks like a key.
_SEVERAL_WORDS = re.compile(
    r"(?:^|\s)password\s*=\s*(?:[^'\s](?:\\.|[^\\\s])*\s+(?!\w+\s*=)\S|'(?:[^'\\]|\\.)*$)",
    re.DOTALL | re.ASCII,
)
# HTTP, SASL and tokens write a login in base64, and a server's error may quote it so.
_ENCODED = re.compile(r"(?:[A-Za-z0-9+/_-]|%2[BbFf]|\\/){6,}+(?:=|%3[Dd]){0,2}+")
# What Kafka's clients fetch for OAUTHBEARER, and a server may repeat: parts in base64, the first a JSON object.
_WEB_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?P<head>e[wy][A-Za-z0-9_-]{6,}+)={0,2}(?:\.[A-Za-z0-9_-]*+={0,2}){1,4}"
)
# PostgreSQL shows bytes as hexadecimal digits.
_DIGITS = re.compile(rf"[0-9A-Fa-f]{{{2 * _SHORTEST_REDACTED},}}+")
_NOT_FOR_URLS = str.maketrans("-_", "+/")
_IN_BRACKETS = re.compile(r"\[[^\[\]]*\]")
# Libraries cut an address at these places and show the parts in their errors.
_CUTS = re.compile(r"[@/:?#\[\]&=%;]+")
_LONGEST_CUT = 200
# Of a text that is cut, so much more is redacted, because that may make it shorter.
_LONGEST_KEPT = 10_000

_known: set[str] = set()


def remember(value: str) -> str:
    """Redact this value from now on in everything that is printed."""
    if len(value) >= _SHORTEST_REDACTED:
        # Python reads the first line and the headers of an HTTP answer as Latin-1, whatever they are.
        for read in {value, escapes.utf8(value).decode("latin-1")}:
            _known.add(read)
            if len(value) <= _LONGEST_CUT:  # Not the text of a key.
                _known.update(part for part in _CUTS.split(read) if len(part) >= _SHORTEST_REDACTED)
    return value


def redact(text: str) -> str:
    """Return the text without the secret values that this process resolved, in all their escaped forms.

    What looks like a password in an address is hidden too, unless it is a reference.
    """
    for value in sorted(_known, key=len, reverse=True):
        if not any(mark in text for mark in "%+&\\"):
            text = text.replace(value, HIDDEN)
        elif escapes.has_pattern(value):
            text = escapes.pattern_of(value).sub(HIDDEN, text)
        else:
            for spelled in sorted(escapes.spellings(value), key=len, reverse=True):
                text = text.replace(spelled, HIDDEN)
    if _known:
        text = _ENCODED.sub(_hidden_if_it_decodes, _DIGITS.sub(_hidden_in_hexadecimal, text))
    for form in (_LOGIN_IN_TEXT, _PASSWORD_AS_PARAMETER, _TOKEN_AS_USER, _MADE_OF_PASSWORD):
        text = form.sub(_hidden_unless_reference, text)
    return _WEB_TOKEN.sub(_hidden_if_token, text)


def redact_cut(text: str) -> str:
    """Redact a text whose end may be cut off: also the beginning of a secret there."""
    text = redact(text)
    for value in sorted(_known, key=len, reverse=True):
        for length in range(min(len(value) - 1, len(text)), _SHORTEST_REDACTED - 1, -1):
            if text.endswith(value[:length]):
                return text[:-length] + HIDDEN
    return text


def redacted_start(text: str, length: int) -> str:
    """Return the beginning of a text, redacted before it is cut, so that no half of a secret is left."""
    kept = text[: 2 * length + _LONGEST_KEPT]
    return (redact if kept == text else redact_cut)(kept)[:length]


def _hidden_if_it_decodes(match: re.Match[str]) -> str:
    """Hide a word that has a secret in its base64, wherever the encoded text begins in it."""
    word = _ESCAPED.sub(r"\1", unquote(match[0])).rstrip("=").translate(_NOT_FOR_URLS)
    for start in range(4):
        # A single character at the end encodes no byte.
        part = word[start : len(word) - ((len(word) - start) % 4 == 1)]
        found = a2b_base64(f"{part}==")
        if any(escapes.utf8(value) in found for value in _known):
            return HIDDEN
    return match[0]


def _hidden_in_hexadecimal(match: re.Match[str]) -> str:
    digits = match[0].lower()
    return HIDDEN if any(escapes.utf8(value).hex() in digits for value in _known) else match[0]


def _hidden_if_token(match: re.Match[str]) -> str:
    try:
        head = json.loads(a2b_base64(match["head"].translate(_NOT_FOR_URLS) + "=="))
    except (ValueError, RecursionError):
        return match[0]
    return HIDDEN if isinstance(head, dict) else match[0]


def _hidden_unless_reference(match: re.Match[str]) -> str:
    return match[0] if is_reference(match["password"]) else f"{match['before']}{HIDDEN}"


def is_reference(text: str) -> bool:
    """Return whether the text is only references to environment variables, and so safe to show."""
    return ENV_REFERENCE.fullmatch(text) is not None


def has_reference(text: str) -> bool:
    """Return whether the text names an environment variable whose value belongs there."""
    return ENV_REFERENCE.search(text) is not None


def passwords_in(url: str) -> list[str]:
    """Return the passwords and tokens written out in a connection URL or a key=value string."""
    found = [_meant(match) for form in _forms(url) for match in form.finditer(url) if _hides(match)]
    return [password for password in found if password]


def _forms(url: str) -> tuple[re.Pattern[str], ...]:
    if IS_URL.match(url):
        is_libpqs = url.lstrip().startswith("postgres")
        if is_libpqs:
            return (
                _PASSWORD_OF_USER,
                _PASSWORD_OF_CUT_USER,
                _PASSWORD_OF_ESCAPED_LOGIN,
                _PASSWORD_AS_PORT,
                _PASSWORD_FOR_LIBPQ,
                _PASSWORD_BEHIND_URL,
            )
        if url.lstrip()[:5].lower() == "sc://":
            return _PASSWORD_FOR_CONNECT, _PASSWORD_OF_CONNECT_USER
        others = _PASSWORD_OF_CUT_USER, _PASSWORD_OF_ESCAPED_LOGIN, _PASSWORD_IN_QUERY
        return _PASSWORD_OF_USER, _PASSWORD_AS_PORT, *others
    if "://" in url:  # as in `--schema-registry=https://…`
        return _PAIR, _PASSWORD_AS_PARAMETER, _PASSWORD_OF_USER, _PASSWORD_IN_QUERY
    return _PAIR, _PASSWORD_AS_PARAMETER


def _hides(match: re.Match[str]) -> bool:
    """Return whether a match is of a secret; every pair is one, so that they are counted off in order."""
    return match.re is not _PAIR or _KEY_IN_TEXT.split(match["key"])[-1] in _SECRET_KEYS


def is_torn(url: str) -> bool:
    """Return whether a library would split the URL inside the password and take the rest for a
    host.

    URLs are split at the first `@` or `/` after the scheme, key=value pairs at a space.
    """
    if not IS_URL.match(url):
        return _SEVERAL_WORDS.search(url) is not None or _has_more_behind_quote(url)
    rest = url.partition("://")[2]
    login, cut, after = _cut_at(rest, "@/")
    if cut == "@":
        host, mark, path = _cut_at(after, "/?")
        is_path = mark != "/" or ":" not in login or "@" not in path.partition("?")[0]
        has_pairs = _has_pairs(after.partition("?")[2])
        return "@" in host or not has_pairs or not is_path or _is_query(login)
    if _PASSWORD_OF_CUT_USER.match(url):
        return True
    ports = [each.partition(":")[2] for each in _IN_BRACKETS.sub("", login).split(",")]
    if _HAS_LOGIN.match(url) and (any(ports) or login.endswith(":")):
        path, _, query = after.partition("?")
        # `u:12/ab@h` could be a port and the name of a database, or a password.
        if "@" in path or "@" in query.partition("=")[0]:
            return True
    return "@" in after and not all(port == "" or port.isdigit() for port in ports)


def _has_pairs(query: str) -> bool:
    """Return whether every `@` in a query is in the value of a pair, so that none is the end of a login."""
    pairs = query.split("&") if "@" in query else ()
    return all("=" in pair and "@" not in pair.partition("=")[0] for pair in pairs)


def is_behind_host(parts: SplitResult) -> bool:
    """Return whether a library would take the beginning of a login for the host, and send it the rest."""
    return any("@" in part for part in (parts.path, parts.query, parts.fragment))


def _has_more_behind_quote(pairs: str) -> bool:
    """Return whether a closing quote is not the end of a secret; libpq would begin another key there."""
    return any(
        match["password"].endswith("'") and pairs[match.end() : match.end() + 1].strip() != ""
        for match in _PAIR.finditer(pairs)
        if match["password"].startswith("'") and _hides(match)
    )


def _is_query(login: str) -> bool:
    """Return whether the text before an @ is no login: `//host?password=p@ss` has no path before its query."""
    return "?" in login.partition(":")[0] or _PASSWORD_IN_QUERY.search(login) is not None


def _cut_at(text: str, marks: str) -> tuple[str, str, str]:
    found = re.search(f"[{marks}]", text)
    if found is None:
        return text, "", ""
    return text[: found.start()], found[0], text[found.end() :]


def without_password(url: str) -> str:
    """Return the URL without its passwords, which are also redacted elsewhere from now on."""
    if is_torn(url):
        return _without_torn(url)

    def hide(match: re.Match[str]) -> str:
        if not _hides(match):
            return match[0]
        remember(match["password"])
        remember(_meant(match))
        return f"{match['before']}{HIDDEN}"

    for form in _forms(url):
        url = form.sub(hide, url)
    return url


def begins_with_login(address: str, *, may_be_pairs: bool = False) -> bool:
    """Return whether an address may have a login where its scheme should be, as in `u:password@host`.

    In pairs for libpq, an @ ends no login.
    """
    if may_be_pairs and _PAIRS.match(address) is not None:
        return False
    scheme, _, rest = address.partition("://")
    return "@" in scheme or ("@" in rest and _SCHEME.fullmatch(scheme) is None)


def shown_address(address: str, *, may_be_pairs: bool = False) -> str:
    """Return what can be shown of the address of a server, whatever was written in its place."""
    if not begins_with_login(address, may_be_pairs=may_be_pairs):
        token = _CUT_TOKEN.match(address)
        if token is None:
            return without_password(address)
        remember(token["token"])
        return f"{token['scheme']}{HIDDEN}@{address[token.end() :]}"
    remember_logins(address)
    return HIDDEN


def remember_logins(servers: str) -> None:
    """Redact the passwords in a list of servers from now on; they do not belong there, but errors quote it."""
    for each in map(str.strip, (servers, *servers.split(","))):
        if "@" in each or "=" in each:
            is_url = "://" in each and not begins_with_login(each)
            without_password(each if is_url else f"kafka://{each}")


def remember_proxies() -> None:
    """Redact the passwords of proxies from now on; libcurl and Python quote the variables of a proxy in errors."""
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy"):
            remember_logins(value)


def _without_torn(url: str) -> str:
    """Hide the text after the user's name up to the last `@`, or the whole login if a split is inside it."""
    if not IS_URL.match(url):
        start = url.index("=", url.index("password")) + 1
        remember(url[start:].strip())
        return url[:start] + HIDDEN
    before, scheme, rest = url.partition("://")
    if _is_query(_cut_at(rest, "@/")[0]):
        host, mark, query = rest.partition("?")
        remember(query)
        for parameter in re.split("[&;]", query):
            remember(parameter.partition("=")[2])
        return f"{before}{scheme}{host}{mark}{HIDDEN}"
    login, _, after = rest.rpartition("@")
    user, colon, password = login.partition(":")
    remember(login)
    remember(password)
    shown = user + colon if colon and "@" not in user else ""
    return f"{before}{scheme}{shown}{HIDDEN}@{after}"


def _meant(match: re.Match[str]) -> str:
    written = match["password"]
    if written.startswith("'"):  # Only in a key=value string, which has no %-escapes.
        return _ESCAPED.sub(r"\1", written[1:].removesuffix("'"))
    if match.re is _PAIR:
        return _ESCAPED.sub(r"\1", written)
    return unquote(written)
