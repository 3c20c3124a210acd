"""Parses the filter language, such as `(command IS "Fetch") AND (location REGEX "^/users")`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from playhead.grammar.cursor import Cursor, NotUnderstood
from playhead.traffic.filter.conditions import (
    KEYED,
    KEYWORDS,
    SNAPSHOT,
    SPECIAL,
    WHERE,
    Both,
    Either,
    Test,
    condition,
)
from playhead.traffic.filter.from_json import read
from playhead.traffic.pair import Pair

_EXAMPLE: Final = '(command IS "Fetch") AND (direction IS OUT)'
_OPERATORS: Final = "IS, NOT, CONTAINS, NOT CONTAINS or REGEX"
_DEEPEST = 64
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<open>\()
    | (?P<close>\))
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<keyed>[A-Za-z][\w]*\[(?:"(?:[^"\\]|\\.)*"|[^\]"]*)\])
    | (?P<word>[^\s()"]+)
    """,
    re.VERBOSE | re.DOTALL,
)
# Only `\"` and `\\` are escapes of the string; `\d` and others belong to a regular expression.
_ESCAPE = re.compile(r'\\(["\\/])')


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a filter's text."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "word" else ""

    @property
    def value(self) -> str:
        return unescaped(self.text) if self.kind == "quoted" else self.text


def unescaped(literal: str) -> str:
    return _ESCAPE.sub(r"\1", literal[1:-1])


@dataclass(frozen=True, slots=True)
class TrafficFilter:
    """A predicate on pairs. `str` gives an equivalent text in the filter language."""

    test: Test
    snapshot: str | None = None

    @classmethod
    def parse(cls, text: str, *, snapshot: str | None = None) -> "TrafficFilter":
        """Parse the text or JSON form. `snapshot` is the id that `snapshot IS …` is compared with."""
        if text.lstrip()[:1] == "{":
            return cls(read(text), snapshot)
        return cls(_Reader(text).whole(), snapshot)

    def matches(self, pair: Pair) -> bool:
        if self.snapshot is not None and SNAPSHOT not in pair:
            pair = {**pair, SNAPSHOT: self.snapshot}
        return self.test.matches(pair)

    def __str__(self) -> str:
        return str(self.test) if isinstance(self.test, Both | Either) else f"({self.test})"


class _Reader:
    """Parses a filter from left to right; errors point to their position."""

    def __init__(self, text: str) -> None:
        self._phrase = Cursor(text, WHERE, 0, len(text))
        self._text = text
        self._tokens = self._tokenized()
        self._next = 0
        self._depth = 0

    def _tokenized(self) -> list[Token]:
        found, at = [], 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                reason = "the quoted string that begins here is not closed"
                raise self._phrase.refuse(reason, at=at)
            if match.lastgroup != "space":
                found.append(Token(match.lastgroup, match[0], at))
            at = match.end()
        return [*found, Token("end", "", len(self._text))]

    def whole(self) -> Test:
        if self._tokens[0].kind == "end":
            raise self._phrase.refuse("it is empty", hint=_EXAMPLE)
        found = self._either()
        if self._peek().kind != "end":
            raise self._bad(self._peek(), "needed AND, OR or the end")
        return found

    def _either(self) -> Test:
        return self._joined("OR", self._both, Either)

    def _both(self) -> Test:
        return self._joined("AND", self._one, Both)

    def _joined(
        self, word: str, read: Callable[[], Test], join: Callable[[tuple[Test, ...]], Test]
    ) -> Test:
        parts = [read()]
        while self._peek().word == word:
            self._take()
            parts.append(read())
        return parts[0] if len(parts) == 1 else join(tuple(parts))

    def _one(self) -> Test:
        token = self._peek()
        if token.kind != "open":
            return self._condition()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._bad(token, f"parentheses are nested more than {_DEEPEST} deep")
        self._take()
        found = self._either()
        if self._peek().kind != "close":
            raise self._bad(self._peek(), f"needed ) for the ( at {token.at + 1}, or AND or OR")
        self._take()
        self._depth -= 1
        return found

    def _condition(self) -> Test:
        token = self._take()
        keyword, key = self._keyword(token)
        operator, is_negated = self._operator(keyword)
        count = 2 if keyword == "timerange" else 1
        given = [self._value(keyword) for _ in range(count)]
        values = tuple(each.value for each in given)
        try:
            return condition(keyword, key, operator, values, is_negated=is_negated)
        except ValueError as exc:
            index, reason = exc.args
            raise self._phrase.refuse(reason, at=given[index].at) from exc

    def _keyword(self, token: Token) -> tuple[str, str]:
        name, bracket, rest = token.text.partition("[")
        keyword = name.lower()
        if token.kind not in ("word", "keyed"):
            raise self._bad(token, "needed a keyword or (")
        if keyword not in KEYWORDS and keyword not in SPECIAL:
            near = get_close_matches(keyword, [*KEYWORDS, *SPECIAL], n=1)
            hint = (
                f"did you mean {near[0]}?" if near else f"known: {', '.join((*KEYWORDS, *SPECIAL))}"
            )
            raise self._phrase.refuse(f"unknown keyword {name!r}", at=token.at, hint=hint)
        key = rest.removesuffix("]")
        key = unescaped(key) if key[:1] == '"' else key.strip()
        if keyword in KEYED and not key:
            raise self._bad(token, f"{keyword} needs a name in brackets", hint=f"{keyword}[NAME]")
        if bracket and keyword not in KEYED and (keyword, key) != ("sample", "rrpair"):
            raise self._phrase.refuse(f"{keyword} takes no brackets", at=token.at + len(name))
        return keyword, key

    def _operator(self, keyword: str) -> tuple[str, bool]:
        token = self._take()
        following = self._peek().word
        is_negated = token.word == "NOT"
        operator = token.word
        if token.word == "NOT" and following == "CONTAINS" and self._has_value_after():
            operator = self._take().word
        elif token.word == "NOT":
            operator = "IS"
        elif token.word == "IS" and following == "NOT" and self._has_value_after():
            self._take()
            is_negated = True
        if operator not in ("IS", "CONTAINS", "REGEX"):
            raise self._bad(token, f"needed {_OPERATORS}")
        if keyword in SPECIAL and operator != "IS":
            raise self._bad(token, f"{keyword} takes only IS or NOT")
        return operator, is_negated

    def _has_value_after(self) -> bool:
        """Return whether a value follows the next word, so that the word is not a value itself."""
        return self._tokens[self._next + 1].kind in ("quoted", "word", "keyed")

    def _value(self, keyword: str) -> Token:
        token = self._take()
        if token.kind not in ("quoted", "word", "keyed"):
            what = "two instants" if keyword == "timerange" else "a value"
            raise self._bad(token, f"{keyword} needs {what}")
        return token

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._peek()
        if token.kind != "end":
            self._next += 1
        return token

    def _bad(self, token: Token, needed: str, hint: str | None = None) -> NotUnderstood:
        found = repr(token.text) if token.text else "the end"
        return self._phrase.refuse(
            f"found {found}; {needed}", at=token.at, hint=hint or f"such as {_EXAMPLE}"
        )
