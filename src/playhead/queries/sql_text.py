"""Classifies SQL texts by their words, without a parser: transactions, settings, statements that run alone."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from playhead.queries.outside import outside_of
from playhead.queries.sql_tokens import tokens_of
from playhead.querylog.text_shape import ByShape, cached_if_short

_MOST_WORDS = 6
_LONGEST_WORD = 64
_ALONE = (
    ("VACUUM",),
    ("CALL",),
    ("DO",),
    ("CLUSTER",),
    ("CREATE", "DATABASE"),
    ("DROP", "DATABASE"),
    ("ALTER", "DATABASE"),
    ("CREATE", "TABLESPACE"),
    ("DROP", "TABLESPACE"),
    ("ALTER", "SYSTEM"),
    ("CREATE", "SUBSCRIPTION"),
    ("ALTER", "SUBSCRIPTION"),
    ("DROP", "SUBSCRIPTION"),
    ("COMMIT", "PREPARED"),
    ("ROLLBACK", "PREPARED"),
    ("DISCARD", "ALL"),
    ("REINDEX",),
)
_ALTERS = (("ALTER",), ("CREATE",), ("DROP",), ("TRUNCATE",), ("GRANT",), ("REVOKE",))
_CONCURRENTLY = "CONCURRENTLY"
_MAY_BE_CONCURRENT = frozenset(("CREATE", "DROP", "REINDEX", "ALTER", "REFRESH"))
_BODIED = frozenset(("FUNCTION", "PROCEDURE"))
_COMMITS = re.compile("commit|call", re.IGNORECASE)
"""What commits inside a block of any language, by itself or in a procedure."""


class Part(NamedTuple):
    """One statement of a text."""

    words: tuple[str, ...]
    """Its first words, in capitals."""
    start: int
    end: int
    is_concurrent: bool = False
    """Whether it contains the word CONCURRENTLY."""

    def begins_with(self, *words: str) -> bool:
        return self.words[: len(words)] == words

    @property
    def opens(self) -> bool:
        """Whether it begins a transaction."""
        return _opens(self.words)

    @property
    def closes(self) -> bool:
        """Whether it ends a transaction; a chained one begins the next."""
        return _closes(self.words)

    @property
    def chains(self) -> bool:
        return self.closes and "CHAIN" in self.words and "NO" not in self.words

    @property
    def undoes(self) -> bool:
        """Whether it undoes a transaction, or the statements after a savepoint."""
        return self.words[:1] in (("ROLLBACK",), ("ABORT",))

    @property
    def alters(self) -> bool:
        """Whether it changes what a read of another session needs: a table, a name, a right."""
        return (
            self.words[:1] in _ALTERS
            and "TEMP" not in self.words[1:4]
            and "TEMPORARY" not in self.words[1:4]
        )

    @property
    def keeps_changes(self) -> bool:
        """Whether it ends a transaction without undoing it."""
        return self.closes and self.words[0] in ("COMMIT", "END", "PREPARE")


@lru_cache(maxsize=1_024)
def _opens(words: tuple[str, ...]) -> bool:
    return words[:1] == ("BEGIN",) or words[:2] == ("START", "TRANSACTION")


@lru_cache(maxsize=1_024)
def _closes(words: tuple[str, ...]) -> bool:
    if words[:2] == ("PREPARE", "TRANSACTION"):
        return True
    if words[:1] not in (("COMMIT",), ("END",), ("ROLLBACK",), ("ABORT",)):
        return False
    return "PREPARED" not in words[1:2] and "TO" not in words[1:3]


class SqlText(NamedTuple):
    """A text that a client sent at once: usually one statement, sometimes several."""

    text: str
    parts: tuple[Part, ...]
    outside: str | None
    """A word for what it does outside of the database; None for nothing."""
    has_escapes: bool = False
    """Whether it was read with backslashes as escapes, and contains some."""

    @property
    def only(self) -> Part | None:
        return self.parts[0] if len(self.parts) == 1 else None

    @property
    def runs_alone(self) -> bool:
        """Whether it may have to run without other statements, or may commit by itself."""
        return any(
            part.begins_with(*words) or part.is_concurrent
            for part in self.parts
            for words in _ALONE
        )

    @property
    def may_commit_inside(self) -> bool:
        """Whether a procedure or a block of it may have committed a part of its work before it failed."""
        return any(
            part.begins_with("CALL")
            or (
                part.begins_with("DO")
                and _COMMITS.search(self.text, part.start, part.end) is not None
            )
            for part in self.parts
        )

    @property
    def controls(self) -> bool:
        """Whether a part of it begins or ends a transaction."""
        return any(part.opens or part.closes for part in self.parts)

    def leaves_open(self, was_open: bool) -> bool:
        """Return whether a transaction is open after it, if none of its parts fails."""
        for part in self.parts:
            if part.opens:
                was_open = True
            elif part.closes:
                was_open = part.chains
        return was_open


def read_sql(text: str, *, escapes: bool = False) -> SqlText:
    """Split a text into its statements, by tokens; `escapes` if standard_conforming_strings is off."""
    like = _LIKE.get(text)
    if like is None:
        return _read(text, escapes=escapes)
    only = like.parts[0]
    return SqlText(text, (Part(only.words, 0, _end_of(text), only.is_concurrent),), like.outside)


@cached_if_short(4096)
def _read(text: str, *, escapes: bool) -> SqlText:
    parts: list[Part] = []
    current: _Open | None = None
    for token in tokens_of(text, escapes=escapes):
        if token["end"] and (current is None or not current.depth):
            if current is not None:
                parts.append(current.part(token.start()))
            current = None
            continue
        if current is None:
            current = _Open(token.start())
        current.take(token)
    if current is not None:
        parts.append(current.part(len(text)))
    spans = [(part.start, part.end) for part in parts]
    has_escapes = escapes and "\\" in text
    outside = outside_of(text, spans, escapes=escapes)
    if has_escapes and outside is None:
        # The setting may have changed, so a text is refused if it acts outside in either reading.
        outside = read_sql(text).outside
    found = SqlText(text, tuple(parts), outside, has_escapes)
    if spans == [(0, _end_of(text))]:
        _LIKE.keep(text, found)
    return found


_LIKE = ByShape[SqlText]()


def _end_of(text: str) -> int:
    """Return where the statement of a text ends that has a shape."""
    return len(text) - text.endswith(";")


@dataclass(slots=True)
class _Open:
    """A statement of a text while its tokens are read."""

    start: int
    words: list[str] = field(default_factory=list)
    depth: int = 0
    """Number of open parentheses and bodies, in which a semicolon does not end the statement."""
    is_concurrent: bool = False

    def take(self, token: "re.Match[str]") -> None:
        sign = token["other"]
        if sign in ("(", ")"):
            self.depth = max(0, self.depth + (1 if sign == "(" else -1))
        if not token["word"]:
            return
        word = token["word"][:_LONGEST_WORD].upper()
        self.is_concurrent |= (
            word == _CONCURRENTLY and self.words[:1] != [] and self.words[0] in _MAY_BE_CONCURRENT
        )
        if len(self.words) < _MOST_WORDS:
            self.words.append(word)
        # CREATE FUNCTION … BEGIN ATOMIC …; CASE … END; END
        if self.words[0] == "CREATE" and not _BODIED.isdisjoint(self.words):
            if word == "BEGIN" or (word == "CASE" and self.depth):
                self.depth += 1
            elif word == "END" and self.depth:
                self.depth -= 1

    def part(self, end: int) -> Part:
        return Part(tuple(self.words), self.start, end, self.is_concurrent)
