"""The expressions of our statements, evaluated as SQL does: what is null makes null, and rows compare in order."""

import operator as op
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from simulation.database import refusal

Row = Mapping[str, Any]
Rows = Mapping[str, Row]
"""By alias; under no alias what a name alone means."""
Evaluated = Callable[[Rows], Any]
_TOKEN = re.compile(
    r"""\s*(?:(?P<name>(?:\w+\.)?"(?:[^"]|"")+")|'(?P<text>(?:[^']|'')*)'|(?P<number>\d+)"""
    r"""|(?P<word>OPERATOR\(pg_catalog\.\*<>\)|[A-Za-z_][\w.]*)|(?P<mark>::|<=|>=|<>|[(),<>=-]))"""
)
_SIGNS = {"=": op.eq, "<>": op.ne, "<": op.lt, ">": op.gt, "<=": op.le, ">=": op.ge}
_TIMES = ("timestamptz", "timestamp with time zone", "timestamp")


class Unknown(Exception):
    """A statement, or a part of one, that the model does not know."""


@lru_cache(maxsize=20_000)
def compiled(text: str) -> Evaluated:
    """An expression."""
    parser = _Parser(text)
    found = parser.disjunction()
    if parser.at < len(parser.tokens):
        raise Unknown(f"expression {text} from {parser.tokens[parser.at]} on")
    return found


def cast(value: Any, kind: str) -> Any:
    """A value as one of another type."""
    if value is None or kind in ("record", *_TIMES):
        return value
    if kind == "text":
        return str(value)
    if kind in ("int8", "bigint", "int4", "integer", "int"):
        if (
            re.fullmatch(r"\s*[-+]?\d+\s*", str(int(value) if value in (True, False) else value))
            is None
        ):
            raise refusal("22P02", f'invalid input syntax for type {kind}: "{value}"')
        return int(value)
    raise Unknown(f"type {kind}")


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.at, end = 0, 0
        text = text.strip()
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None:
                raise Unknown(f"expression {text}")
            self.tokens.append((found.lastgroup or "", found.group(found.lastgroup or 0)))
            end = found.end()

    def _next(self, *words: str) -> bool:
        """Whether these come next; then they are taken."""
        ahead = self.tokens[self.at : self.at + len(words)]
        if [value.upper() for kind, value in ahead if kind in ("word", "mark")] != list(words):
            return False
        self.at += len(words)
        return True

    def _need(self, word: str) -> None:
        if not self._next(word):
            raise Unknown(f"needed {word} at {self.at} of {self.tokens}")

    def disjunction(self) -> Evaluated:
        parts = [self._conjunction()]
        while self._next("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else lambda rows: _any([each(rows) for each in parts])

    def _conjunction(self) -> Evaluated:
        parts = [self._negation()]
        while self._next("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else lambda rows: _all([each(rows) for each in parts])

    def _negation(self) -> Evaluated:
        if self._next("NOT"):
            held = self._negation()
            return lambda rows: None if (found := held(rows)) is None else not found
        return self._comparison()

    def _comparison(self) -> Evaluated:
        one = self._cast()
        if self._next("IS", "NOT", "NULL"):
            return lambda rows: one(rows) is not None
        if self._next("IS", "NULL"):
            return lambda rows: one(rows) is None
        if self._next("BETWEEN"):
            low = self._cast()
            self._need("AND")
            high = self._cast()
            return lambda rows: _all(
                [_compared("<=", low(rows), one(rows)), _compared("<=", one(rows), high(rows))]
            )
        for sign in ("=", "<=", ">=", "<>", "<", ">"):
            if self._next(sign):
                other = self._cast()
                return lambda rows: _compared(sign, one(rows), other(rows))
        if self._next("OPERATOR(PG_CATALOG.*<>)"):
            other = self._cast()
            return lambda rows: one(rows) != other(rows)
        return one

    def _cast(self) -> Evaluated:
        found = self._primary()
        while True:
            if self._next("::"):
                kind = self.tokens[self.at][1]
                self.at += 1
                while self.tokens[self.at : self.at + 1] and self.tokens[self.at][1] in (
                    "with",
                    "time",
                    "zone",
                ):
                    self.at += 1
                found = _casting(found, kind)
            elif self._next("COLLATE"):
                self.at += 1
            else:
                return found

    def _primary(self) -> Evaluated:
        if self._next("CASE"):
            return self._case()
        if self._next("COALESCE", "("):
            parts = self._listed()
            return lambda rows: next((v for each in parts if (v := each(rows)) is not None), None)
        if self._next("ROW", "("):
            parts = self._listed()
            return lambda rows: tuple(each(rows) for each in parts)
        if self._next("("):
            parts = self._listed()
            return parts[0] if len(parts) == 1 else lambda rows: tuple(each(rows) for each in parts)
        kind, value = self.tokens[self.at]
        self.at += 1
        return self._atom(kind, value)

    def _atom(self, kind: str, value: str) -> Evaluated:
        if kind == "mark" and value == "-":
            _, digits = self.tokens[self.at]
            self.at += 1
            return lambda _: -int(digits)
        if kind == "number":
            return lambda _: int(value)
        if kind == "text":
            return lambda _: value.replace("''", "'")
        if kind == "word" and value.lower() in ("true", "false", "null"):
            held = {"true": True, "false": False, "null": None}[value.lower()]
            return lambda _: held
        if kind == "name":
            alias, _, name = (
                value.rpartition('."') if not value.startswith('"') else ("", "", value[1:])
            )
            name = name[:-1].replace('""', '"')
            return lambda rows: rows[alias].get(name)
        raise Unknown(f"{value} in {self.tokens}")

    def _case(self) -> Evaluated:
        branches: list[tuple[Evaluated, Evaluated]] = []
        while self._next("WHEN"):
            condition = self.disjunction()
            self._need("THEN")
            branches.append((condition, self.disjunction()))
        self._need("ELSE")
        otherwise = self.disjunction()
        self._need("END")
        return lambda rows: _chosen(branches, otherwise, rows)

    def _listed(self) -> list[Evaluated]:
        parts = [self.disjunction()]
        while self._next(","):
            parts.append(self.disjunction())
        self._need(")")
        return parts


def _chosen(branches: list[tuple[Evaluated, Evaluated]], otherwise: Evaluated, rows: Rows) -> Any:
    for when, found in branches:
        if when(rows):
            return found(rows)
    return otherwise(rows)


def _casting(held: Evaluated, kind: str) -> Evaluated:
    return lambda rows: cast(held(rows), kind)


def _all(values: list[Any]) -> Any:
    if any(each is False for each in values):
        return False
    return None if None in values else True


def _any(values: list[Any]) -> Any:
    if any(each is True for each in values):
        return True
    return None if None in values else False


def _compared(sign: str, one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        for left, right in zip(one, other, strict=True):
            if left is None or right is None:
                return None
            if left != right:
                return _compared(sign, left, right)
        return sign in ("=", "<=", ">=")
    if one is None or other is None:
        return None
    return _SIGNS[sign](one, other)
