"""Finds what an SQL text does beyond its database: to the server, its files, other servers, or the ledger.

Only the text is read. The effects of functions of the database, and of texts that are built at run time, are not
detected.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from playhead.queries.sql_tokens import tokens_of
from playhead.querylog.reach import (
    CATALOGS,
    FUNCTION_ELSEWHERE,
    LEDGER,
    LEDGER_SCHEMA,
    RUNS_TEXTS,
    TRUSTED_LANGUAGES,
    UNLOCKS,
    is_beyond,
)

# fmt: off
_SUSPECT: Final = (
    "copy", "system", "role", "user", "group", "database", "tablespace", "subscription", "server", "dblink",
    "pg_", "lo_", "language", "load", "owned", "grant", "revoke", "u&", "playhead_ledger", "extension",
    "foreign", "function", "procedure", "options", "_to_xml", "ts_stat", "ts_rewrite", "crosstab",
    "xpath_table", "connectby", "view", "routine", UNLOCKS, "\\",
)
# fmt: on
_DO: Final = re.compile(r"\bdo\b")
_ON_LEDGER: Final = re.compile(
    r"\b(?:drop|delete|truncate|update|alter|lock|revoke|merge|cluster)\b", re.IGNORECASE
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
    "EXTENSION": "elsewhere",
    "FOREIGN": "elsewhere",
}
_CALLED_LATER: Final = frozenset(("OPERATOR", "AGGREGATE", "CAST"))
"""What is created with a function that it calls later."""
_WRITES: Final = ("INSERT", "UPDATE", "DELETE", "MERGE")
_BEGINS: Final = (*_CHANGES, *_WRITES, "COPY", "IMPORT", "LOAD", "REASSIGN")
_ROUTINES: Final = ("FUNCTION", "PROCEDURE", "ROUTINE")
_BEFORE_KIND: Final = ("OR", "REPLACE", "TRUSTED", "PROCEDURAL", "TEMP", "TEMPORARY", "RECURSIVE")
_GRANTED: Final = {
    "PARAMETER": "role",
    "DATABASE": "database",
    "TABLESPACE": "database",
    "FOREIGN": "elsewhere",
}
_TO_WHOM: Final = {"GRANT": "TO", "REVOKE": "FROM"}
_BEFORE_STATEMENT: Final = ("", "BEGIN", "THEN", "ELSE", "LOOP", "ATOMIC")
_BEFORE_TARGET: Final = ("INTO", "FROM", "ONLY")
_UNICODE: Final = re.compile(r"\\(?:\+([0-9a-fA-F]{6})|([0-9a-fA-F]{4}))")
_ESCAPE: Final = re.compile(
    r"\\(?:U([0-9a-fA-F]{8})|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|.)", re.DOTALL
)
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DEEPEST: Final = 4
_LONGEST_TARGET: Final = 12
"""Tokens behind the first word of a statement that can belong to the name of its table."""
Tokens = Sequence[re.Match[str]]


def outside_of(text: str, spans: Sequence[tuple[int, int]], *, escapes: bool = False) -> str | None:
    """Return a word for what it does outside of the database; None for nothing. A span is a statement."""
    if not _is_suspect(text):
        return None
    if _changes_ledger(text):
        return LEDGER
    found = (_of_statement([*tokens_of(text[start:end], escapes=escapes)]) for start, end in spans)
    return next((word for word in found if word is not None), None)


def _is_suspect(text: str) -> bool:
    """Return whether a word stands in the text, also inside of others; forty times as fast as one pattern."""
    lowered = text.lower()
    if any(word in lowered for word in _SUSPECT):
        return True
    return "do" in lowered and _DO.search(lowered) is not None


def outside_of_run(text: str) -> str | None:
    """Return the same for a text that runs as a program: a body, or what a function was given to run."""
    return LEDGER if _changes_ledger(text) else _of_body([*tokens_of(text)], _DEEPEST)


def _changes_ledger(text: str) -> bool:
    return LEDGER_SCHEMA in text.lower() and _ON_LEDGER.search(text) is not None


def _of_statement(tokens: Tokens) -> str | None:
    words = _words(tokens)
    first = (*words, "")[0]
    if first in _TO_WHOM:
        return _of_grants(tokens, words)
    if _is_untrusted(tokens, words) or _unlocks(tokens):
        return "elsewhere"
    names = {*_names(tokens, called=first != "CREATE")}
    if any(FUNCTION_ELSEWHERE.fullmatch(name) for name in names):
        return "elsewhere"
    has_body = first == "CREATE" and _kind_of_object(words, 0) in _ROUTINES
    if has_body or first == "DO" or any(RUNS_TEXTS.fullmatch(name) for name in names):
        return _of_body(tokens, _DEEPEST)
    return _of_words(tokens, words, 0) or _of_rest(tokens, words, 0)


def _of_grants(tokens: Tokens, words: Sequence[str]) -> str | None:
    """Return what a GRANT or REVOKE gives or takes that belongs to the whole server, such as a role."""
    ends, is_statement = "", False
    for at, word in enumerate(words):
        if word in _TO_WHOM:
            ends = _TO_WHOM[word]
            # In a text for people, `cannot grant it to %` is no statement.
            is_statement = not at or words[at - 1] in _BEFORE_STATEMENT
        elif ends and word == "ON":
            ends = ""
            named, behind = (*words[at + 1 : at + 3], "", "")[:2]
            is_name = bool(behind) or any(each["quoted"] for each in tokens[at + 2 : at + 3])
            # A table may have such a name: GRANT SELECT ON database TO …
            if named in _GRANTED and is_name and behind not in _TO_WHOM.values():
                return _GRANTED[named]
        elif ends and word == ends and is_statement:
            return "role"
    return None


def _unlocks(tokens: Tokens) -> bool:
    """Return whether the setting that protects the catalogs is named, in any quotes."""
    return any(UNLOCKS in token[0].lower() for token in tokens)


def _kind_of_object(words: Sequence[str], at: int) -> str:
    """Return of what kind an object is that a statement creates, alters or drops."""
    behind = (word for word in words[at + 1 : at + 6] if word not in _BEFORE_KIND)
    return next(behind, "")


def _words(tokens: Tokens) -> list[str]:
    return [token[0].upper() if token["word"] else "" for token in tokens]


def _of_words(tokens: Tokens, words: Sequence[str], at: int) -> str | None:
    """Return what the statement that begins with this token does."""
    first, second, third = (*words[at : at + 3], "", "", "")[:3]
    if (first, second) == ("ALTER", "SYSTEM"):
        return "alter-system"
    if second == "OWNED" and first in ("REASSIGN", "DROP"):
        return "role"
    if first == "LOAD" and any(each["text"] for each in tokens[at + 1 : at + 2]):
        return "elsewhere"
    if first in _CHANGES and _kind_of_object(words, at) == "LANGUAGE":
        return "elsewhere"
    if first in _CHANGES and second in _WORDS and third != "MAPPING":
        return _WORDS[second]
    if (first, second) == ("IMPORT", "FOREIGN"):
        return "elsewhere"
    return (
        CATALOGS.get(_target(tokens[at + 1 : at + _LONGEST_TARGET])) if first in _WRITES else None
    )


def _kind(words: Sequence[str], at: int) -> str:
    """Return which of the statements begins here that have to be read to their end; empty for none."""
    first, second, *more = [*words[at : at + 4], "", ""]
    if first == "CREATE" and not _CALLED_LATER.isdisjoint((second, *more)):
        return first
    object_ = _kind_of_object(words, at)
    if first in ("CREATE", "ALTER") and object_ in _ROUTINES:
        return f"{first} ROUTINE"
    if (first, object_) == ("CREATE", "VIEW"):
        return "VIEW"
    return first if first == "COPY" or (first, second) == ("ALTER", "TABLE") else ""


def _of_rest(tokens: Tokens, words: Sequence[str], at: int) -> str | None:
    """Return what a statement does that begins with this token, by what follows up to the last token."""
    kind = _kind(words, at)
    pairs = zip(words[at:], tokens[at + 1 :], strict=False)
    if kind == "COPY":
        is_beyond_it = any(word in ("FROM", "TO") and _is_place(each) for word, each in pairs)
        return "copy-elsewhere" if is_beyond_it else None
    if kind == "ALTER":  # The options of a foreign table name its file or program.
        is_beyond_it = any(word == "OPTIONS" and each[0] == "(" for word, each in pairs)
        return "elsewhere" if is_beyond_it else None
    if kind in ("CREATE", "ALTER ROUTINE"):
        return "elsewhere" if any(map(is_beyond, _names(tokens[at:], called=False))) else None
    if kind == "CREATE ROUTINE":
        return "elsewhere" if _is_untrusted(tokens[at:], words[at:]) else None
    return None


def _is_place(token: "re.Match[str]") -> bool:
    return token[0].upper() == "PROGRAM" or bool(token["text"] or token["parameter"])


def _of_rests(tokens: Tokens, words: Sequence[str]) -> Iterator[str | None]:
    """Yield the same for the statements of a body; the first of its kind is read to the end for all that follow."""
    start = 0
    for end in [*(at for at, token in enumerate(tokens) if token["end"]), len(tokens)]:
        firsts: dict[str, int] = {}
        for at in range(start, end):
            firsts.setdefault(_kind(words, at) if words[at] in _BEGINS else "", at)
        for kind, at in firsts.items():
            yield _of_rest(tokens[start:end], words[start:end], at - start) if kind else None
        yield _of_grants(tokens[start:end], words[start:end])
        if "VIEW" in firsts:  # What is written into a view of one table goes into the table.
            named = _names(tokens[firsts["VIEW"] : end], called=False)
            yield next((CATALOGS[each] for each in named if each in CATALOGS), None)
        start = end


def _target(tokens: Tokens) -> str:
    """Return the catalog or other table that a statement writes into, from behind its first word."""
    found, schema, is_dotted = "", "", True
    for token in tokens:
        if token[0] == ".":
            is_dotted = True
        elif not is_dotted or not (token["word"] or token["quoted"]):
            break
        elif found or token[0].upper() not in _BEFORE_TARGET:
            name = _unquoted(token[0]) if token["quoted"] else token[0].lower()
            schema, found, is_dotted = found, name, False
    return found if schema in ("", "pg_catalog") else ""


def _of_body(tokens: Tokens, depth: int) -> str | None:
    """Check every word, and strings, which may be function bodies or texts for EXECUTE."""
    words = _words(tokens)
    if any(FUNCTION_ELSEWHERE.fullmatch(name) for name in _names(tokens, called=True)):
        return "elsewhere"
    if _unlocks(tokens):
        return "elsewhere"
    begins = [at for at, word in enumerate(words) if word in _BEGINS]
    # Bodies in other languages than SQL have texts in double quotes.
    inner = [*_texts(tokens), *(_unquoted(token[0]) for token in tokens if token["quoted"])]
    if not depth and any(map(_is_suspect, inner)):
        return "elsewhere"  # Strings are nested so deeply only to hide a statement.
    found = [*(_of_words(tokens, words, at) for at in begins), *_of_rests(tokens, words)]
    found += [_of_body([*tokens_of(each)], depth - 1) for each in inner if _is_suspect(each)]
    return next((word for word in found if word is not None), None)


def _names(tokens: Tokens, *, called: bool) -> Iterator[str]:
    """Yield the names in a statement, folded as PostgreSQL does; `called`: only names of calls.

    `a.f` and `(a).f` are the call `f(a)` if `a` has no field `f`.
    """
    for at, token in enumerate(tokens):
        is_call = tokens[at + 1 : at + 2] and tokens[at + 1][0] == "("
        if called and not is_call and not (at and tokens[at - 1][0] == "."):
            continue
        if token["word"]:
            yield token[0].lower()
        elif token["quoted"]:
            yield _unquoted(token[0])


def _unquoted(token: str) -> str:
    name = token[token.index('"') + 1 : -1].replace('""', '"')
    if not token.startswith('"'):
        name = _UNICODE.sub(_unicode, name)
    return name


def _texts(tokens: Tokens) -> Iterator[str]:
    """Yield the contents of texts; one that is continued behind a line break, in the form of its first piece."""
    form, pieces = "", list[str]()
    for token in tokens:
        if token["text"]:
            form = form if pieces else token[0][0].upper()
            pieces.append(_content(token[0], form))
        elif pieces:
            yield "".join(pieces)
            pieces.clear()
    if pieces:
        yield "".join(pieces)


def _content(token: str, form: str = "") -> str:
    if token.startswith("$"):
        tag = token[: token.index("$", 1) + 1]
        return token[len(tag) : -len(tag)]
    found = token[token.index("'") + 1 : -1].replace("''", "'")
    if form == "U":
        return _UNICODE.sub(_unicode, found)
    return _ESCAPE.sub(_escaped, found) if form == "E" else found


def _escaped(found: "re.Match[str]") -> str:
    digits = found[1] or found[2] or found[3]
    if digits:
        return _sign(int(digits, 16))
    return _sign(int(found[4], 8)) if found[4] else _LETTERS.get(found[0][1:], found[0][1:])


def _unicode(found: "re.Match[str]") -> str:
    return _sign(int(found[1] or found[2], 16))


def _sign(number: int) -> str:
    """Return the character; a space for a number that is none, which the server refuses."""
    return chr(number) if number <= sys.maxunicode else " "


def _is_untrusted(tokens: Tokens, words: Sequence[str]) -> bool:
    """Return whether it creates or runs a function in a language with access to the server's files and libraries."""
    is_program = words[:1] == ["DO"] or _kind_of_object(words, 0) in _ROUTINES
    if words[:1] not in (["CREATE"], ["DO"]) or not is_program:
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
