"""Finds what an SQL text does beyond its database: to the server, its files, other servers, or the ledger.

Only the text is read. The effects of functions of the database, and of texts that are built at run time, are not
detected.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from playhead.queries.sql_tokens import tokens_of
from playhead.querylog.reach import (
    FUNCTION_ELSEWHERE,
    LEDGER,
    LEDGER_SCHEMA,
    TRUSTED_LANGUAGES,
)

_SUSPECT: Final = re.compile(
    r"copy|system|role|user|group|database|tablespace|subscription|server|dblink|pg_|lo_|language|load|owned"
    r"|grant|revoke|u&|playhead_ledger",
    re.IGNORECASE,
)
_ON_LEDGER: Final = re.compile(
    r"\b(?:drop|delete|truncate|update|alter|lock|revoke|merge|cluster)\b", re.IGNORECASE
)
_RUNS_TEXTS: Final = re.compile(
    r"(?:query|cursor)_to_xml\w*|ts_stat|ts_rewrite|crosstab\w*|xpath_table|connectby"
)
_CHANGES: Final = ("CREATE", "ALTER", "DROP")
_WORDS: Final = {
    "ROLE": "role",
    "USER": "role",
    "GROUP": "role",
    "DATABASE": "database",
    "TABLESPACE": "database",
    "SUBSCRIPTION": "elsewhere",
    "SERVER": "elsewhere",
}
_UNICODE: Final = re.compile(r"\\(?:\+([0-9a-fA-F]{6})|([0-9a-fA-F]{4}))")
_DEEPEST: Final = 4
Tokens = Sequence[re.Match[str]]


def outside_of(text: str, spans: Sequence[tuple[int, int]], *, escapes: bool = False) -> str | None:
    """Return a word for what it does outside of the database; None for nothing. A span is a statement."""
    if _SUSPECT.search(text) is None:
        return None
    if LEDGER_SCHEMA in text.lower() and _ON_LEDGER.search(text):
        return LEDGER
    found = (_of_statement([*tokens_of(text[start:end], escapes=escapes)]) for start, end in spans)
    return next((word for word in found if word is not None), None)


def _of_statement(tokens: Tokens) -> str | None:
    words = _words(tokens)
    first, second = (*words, "", "")[:2]
    if first in ("GRANT", "REVOKE") and "ON" not in words:
        return "role"
    if (first, second) in (("REASSIGN", "OWNED"), ("DROP", "OWNED")):
        return "role"
    if first == "LOAD" or _is_untrusted(tokens, words):
        return "elsewhere"
    names = {*_names(tokens, called=first != "CREATE")}
    if any(FUNCTION_ELSEWHERE.fullmatch(name) for name in names):
        return "elsewhere"
    has_body = first == "CREATE" and bool({"FUNCTION", "PROCEDURE"} & {*words[:4]})
    if has_body or first == "DO" or any(_RUNS_TEXTS.fullmatch(name) for name in names):
        return _of_body(tokens, _DEEPEST)
    return _of_words(tokens, words, 0)


def _words(tokens: Tokens) -> list[str]:
    return [token[0].upper() if token["word"] else "" for token in tokens]


def _of_words(tokens: Tokens, words: Sequence[str], at: int) -> str | None:
    """Return what the statement that begins with this token does."""
    first, second, third = (*words[at : at + 3], "", "", "")[:3]
    if (first, second) == ("ALTER", "SYSTEM"):
        return "alter-system"
    if first in _CHANGES and second in _WORDS and third != "MAPPING":
        return _WORDS[second]
    if first != "COPY":
        return None
    for number in range(at + 1, len(tokens) - 1):
        place = tokens[number + 1]
        is_place = words[number + 1] == "PROGRAM" or place["text"] or place["parameter"]
        if words[number] in ("FROM", "TO") and is_place:
            return "copy-elsewhere"
    return None


def _of_body(tokens: Tokens, depth: int) -> str | None:
    """Check every word, and strings, which may be function bodies or texts for EXECUTE."""
    words = _words(tokens)
    if any(FUNCTION_ELSEWHERE.fullmatch(name) for name in _names(tokens, called=True)):
        return "elsewhere"
    begins = [at for at, word in enumerate(words) if word in (*_CHANGES, "COPY")]
    inner = [_content(token[0]) for token in tokens if token["text"]]
    if not depth and any(_SUSPECT.search(each) for each in inner):
        return "elsewhere"  # Strings are nested so deeply only to hide a statement.
    found = [_of_words(tokens, words, at) for at in begins]
    found += [_of_body([*tokens_of(each)], depth - 1) for each in inner if _SUSPECT.search(each)]
    return next((word for word in found if word is not None), None)


def _names(tokens: Tokens, *, called: bool) -> Iterator[str]:
    """Yield the names in a statement, folded as PostgreSQL does; `called`: only names of calls."""
    for at, token in enumerate(tokens):
        if called and (at + 1 == len(tokens) or tokens[at + 1][0] != "("):
            continue
        if token["word"]:
            yield token[0].lower()
        elif token["quoted"]:
            yield _unquoted(token[0])


def _unquoted(token: str) -> str:
    name = token[token.index('"') + 1 : -1].replace('""', '"')
    if not token.startswith('"'):
        name = _UNICODE.sub(lambda found: chr(int(found[1] or found[2], 16)), name)
    return name


def _content(token: str) -> str:
    if token.startswith("$"):
        tag = token[: token.index("$", 1) + 1]
        return token[len(tag) : -len(tag)]
    return token[token.index("'") + 1 : -1].replace("''", "'")


def _is_untrusted(tokens: Tokens, words: Sequence[str]) -> bool:
    """Return whether it creates or runs a function in a language with access to the server's files and libraries."""
    if words[:1] not in (["CREATE"], ["DO"]) or "LANGUAGE" not in words[:-1]:
        return False
    return any(
        _language(tokens[at + 1]) not in TRUSTED_LANGUAGES
        for at, word in enumerate(words[:-1])
        if word == "LANGUAGE"
    )


def _language(named: "re.Match[str]") -> str:
    name = named[0]
    if named["text"] or named["quoted"]:
        name = _content(name) if named["text"] else _unquoted(name)
    return name.lower()
