"""The tokens of a SQL expression with `value:path` for JSON, and the error that points into it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from playhead.errors import UsageError
from playhead.transform.sql_types import NAMES, BadType, read_type

DOCUMENTS = ("key", "value")
"""Columns whose text may be a JSON document, so that a path can select a part."""
HEADERS = "headers"

# Spark's token rules without those that are not needed. Other signs (`$`, `@`, `;`) are refused, so
# that no text means one thing here and another to Spark.
_TOKEN = re.compile(
    r"""
      (?P<SPACE>\s+|--(?:\\\n|[^\r\n])*)
    | (?P<STRING>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<QUOTED>`(?:[^`]|``)*`)
    | (?P<NUMBER>(?a:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[lLsSyYdDfF])?)(?!\w))
    | (?P<WORD>\w+)
    | (?P<SIGN><=>|\|\||->|=>|::|<=|>=|<>|!=|==|>>>|<<|>>|[-+*/%&|^~!=<>().,\[\]:])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_NAME = re.compile(r"\w+")
_HALF = re.compile("[\ud800-\udfff]")
_BRACKETED_NAME = re.compile(
    r"""\[\s*('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")\s*\]""", re.DOTALL
)
_LONGEST, _DEEPEST = 100_000, 100
_NO_TYPE = ("`::` needs a type after it, as in ::double", None)
_BRACKETED_INDEX = re.compile(r"\[\s*(\d+)\s*\]")


class BadExpression(UsageError):
    """An expression that cannot be used; the error shows its text with a caret."""

    def __init__(
        self,
        option: str,
        text: str,
        *,
        start: int,
        length: int = 1,
        reason: str,
        hint: str | None = None,
    ) -> None:
        self.option, self.text, self.start, self.reason = option, text, start, reason
        line_start = text.rfind("\n", 0, start) + 1
        line = text[line_start:].partition("\n")[0].rstrip("\r")
        self.line, self.column = text.count("\n", 0, start) + 1, start - line_start + 1
        where = (
            f"line {self.line}, column {self.column}" if "\n" in text else f"column {self.column}"
        )
        # Tabs stay tabs below the text, so that the caret is in the right column.
        margin = "".join("\t" if sign == "\t" else " " for sign in line[: self.column - 1])
        carets = "^" * max(1, min(length, len(line) - self.column + 1))
        super().__init__(
            f"{option}, {where}: {reason}\n    {line}\n    {margin}{carets}", hint=hint
        )


def as_bad_expression(bad: BadType, option: str, text: str) -> BadExpression:
    """Return the error about a type, with its position in the expression."""
    return BadExpression(
        option,
        text,
        start=bad.at,
        length=bad.length,
        reason=bad.reason,
        hint=nearest(bad.name, NAMES) if bad.name else None,
    )


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return a hint with similar names; None if there are none."""
    found = get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(found)}?" if found else None


class TokenKind(Enum):
    """The kinds of tokens."""

    SPACE = 0
    """Includes comments."""
    STRING = 1
    QUOTED = 2
    """An identifier in back quotes."""
    NUMBER = 3
    WORD = 4
    SIGN = 5
    PATH = 6
    """A whole path: `value:lap.time`, `headers:trace`."""
    TYPE = 7
    """The type after `::`."""


Step = str | int
"""One step of a path: the name of a field, or the index of a list."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token; the tokens of a text, joined, are the text."""

    kind: TokenKind
    text: str
    start: int
    steps: tuple[Step, ...] = ()

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The token in lower case, as SQL compares words; empty if it is not a bare word."""
        return self.text.lower() if self.kind is TokenKind.WORD else ""

    @property
    def name(self) -> str:
        """The identifier, bare or in back quotes, as written; empty if it is none."""
        if self.kind is TokenKind.QUOTED:
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind is TokenKind.WORD else ""

    @property
    def column(self) -> str:
        """The column that a path starts from."""
        return self.text.partition(":")[0].lower() if self.kind is TokenKind.PATH else ""

    def is_sign(self, *signs: str) -> bool:
        return self.kind is TokenKind.SIGN and self.text in signs


def tokens_of(text: str, option: str) -> list[Token]:
    """Return all tokens of a text, including spaces and comments."""
    if len(text) > _LONGEST:
        reason = f"the expression has {len(text):,} characters, needed at most {_LONGEST:,}"
        raise BadExpression(option, text[:80], start=0, length=80, reason=reason)
    if half := _HALF.search(text):  # Bytes of the command line that are no text become such halves.
        reason = "here is half of a character, which no engine can be given"
        raise BadExpression(
            option, text, start=half.start(), reason=reason, hint="write the text in UTF-8"
        )
    tokens = list(_Scanner(text, option))
    depth = 0
    for token in tokens:
        depth += token.is_sign("(", "[") - token.is_sign(")", "]")
        if depth > _DEEPEST:
            # Spark's parser takes minutes for some thousands of them.
            reason = f"brackets are nested more than {_DEEPEST} deep here"
            raise BadExpression(option, text, start=token.start, length=1, reason=reason)
    return tokens


class _Scanner:
    """Scans a text once; every error has its position."""

    def __init__(self, text: str, option: str) -> None:
        self._text, self._option = text, option

    def __iter__(self) -> Iterator[Token]:
        position = 0
        seen: list[Token] = []
        while position < len(self._text):
            token = self._type_at(position) if seen and seen[-1].is_sign("::") else None
            token = token or self._token_at(position, seen)
            yield token
            position = token.end
            if token.kind is not TokenKind.SPACE:
                seen.append(token)
        if seen and seen[-1].is_sign("::"):
            raise self._bad(seen[-1].start, *_NO_TYPE, 2)

    def _token_at(self, start: int, seen: list[Token]) -> Token:
        if self._text.startswith("/*", start):
            return Token(TokenKind.SPACE, self._text[start : self._comment_end(start)], start)
        match = _TOKEN.match(self._text, start)
        if match is None or match.lastgroup is None:
            raise self._bad(start, *self._unreadable(start))
        token = Token(TokenKind[match.lastgroup], match.group(), start)
        if self._starts_path(token, seen):
            return self._path(token)
        return token

    def _unreadable(self, start: int) -> tuple[str, str | None]:
        sign = self._text[start]
        if sign in "'\"`":
            return f"the quotation that {sign} opens is not closed", None
        return f"{sign!r} has no meaning here", "put it in quotes if it belongs to a text"

    def _comment_end(self, start: int) -> int:
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self._text, start):
            depth += 1 if edge.group() == "/*" else -1
            if depth == 0:
                return edge.end()
        raise self._bad(start, "the comment is not closed", None)

    def _starts_path(self, token: Token, seen: list[Token]) -> bool:
        text, end = self._text, token.end
        return (
            token.word in (*DOCUMENTS, HEADERS)
            and text.startswith(":", end)
            and not text.startswith("::", end)
            # `x.value` is a field of x, and `struct<value:int>` is a type.
            and not (seen and seen[-1].is_sign("."))
            and [one.text.lower() for one in seen[-2:]] != ["struct", "<"]
        )

    def _path(self, column: Token) -> Token:
        position = column.end + 1
        steps: list[Step] = []
        while True:
            if self._text.startswith("[", position):
                step, position = self._bracketed(position)
            elif not steps or self._text.startswith(".", position):
                step, position = self._named(position + bool(steps))
            else:
                break
            steps.append(step)
        if self._text.startswith("(", position):
            raise self._bad(position, "a path is a value and cannot be called", None)
        if column.word == HEADERS:
            steps = [self._header_name(column, steps)]
        text = self._text[column.start : position]
        return Token(TokenKind.PATH, text, column.start, tuple(steps))

    def _header_name(self, column: Token, steps: list[Step]) -> str:
        """Read the name of a header, which may contain dots and has no fields."""
        if all(isinstance(step, str) for step in steps):
            return ".".join(str(step) for step in steps)
        raise self._bad(
            column.start,
            "a header has no elements; needed: headers:name or headers:['a name']",
            None,
            len(column.text),
        )

    def _bracketed(self, start: int) -> tuple[Step, int]:
        if match := _BRACKETED_INDEX.match(self._text, start):
            return int(match.group(1)), match.end()
        if match := _BRACKETED_NAME.match(self._text, start):
            return self._expressible(start, unquoted(match.group(1))), match.end()
        raise self._bad(
            start, "needed an index from 0 on, or a quoted name, in the brackets of a path", None
        )

    def _named(self, start: int) -> tuple[Step, int]:
        if match := _NAME.match(self._text, start):
            return match.group(), match.end()
        match = _TOKEN.match(self._text, start)
        if match and match.lastgroup == "QUOTED":
            return self._expressible(start, match.group()[1:-1].replace("``", "`")), match.end()
        reason = "the path needs the name of a field here"
        raise self._bad(
            min(start, len(self._text) - 1), reason, "quote names with other characters: ['a-b']"
        )

    def _expressible(self, start: int, name: str) -> str:
        """Refuse a name that Spark's JSON paths cannot express: they have quotes, but no escapes."""
        if (
            name.strip()
            and name[0] == name.lstrip()[0]
            and name != "*"
            and (not set(name) & set("'?") or not set(name) & set(".["))
        ):
            return name
        raise self._bad(start, f"Spark's paths cannot name {name!r}", None)

    def _type_at(self, start: int) -> Token | None:
        if self._text[start].isspace() or self._text.startswith(("--", "/*"), start):
            return None
        if not _NAME.match(self._text, start):
            raise self._bad(start, *_NO_TYPE)
        try:
            end = read_type(self._text, start).end
        except BadType as exc:
            raise as_bad_expression(exc, self._option, self._text) from exc
        return Token(TokenKind.TYPE, self._text[start:end], start)

    def _bad(self, start: int, reason: str, hint: str | None, length: int = 1) -> BadExpression:
        return BadExpression(
            self._option, self._text, start=start, length=length, reason=reason, hint=hint
        )


def unquoted(literal: str) -> str:
    """Return the text of a SQL string literal, with the escapes of Spark that matter in names."""
    quote, inside = literal[0], literal[1:-1]
    return re.sub(r"\\(.)", r"\1", inside.replace(quote * 2, quote), flags=re.DOTALL)
