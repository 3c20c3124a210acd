"""Translates `value:path`, `::type` and comparisons of JSON with numbers into Spark SQL, with positions."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from playhead.transform import path_sql
from playhead.transform.path_sql import as_text, as_type, is_exact
from playhead.transform.sql_types import BadType, quoted_if_odd, whole_type
from playhead.transform.tokens import (
    DOCUMENTS,
    BadExpression,
    Token,
    TokenKind,
    as_bad_expression,
)

_ORDERED = ("<", "<=", ">", ">=")
_COMPARED = (*_ORDERED, "=", "==", "<>", "!=", "<=>")
_ARITHMETIC = ("+", "-", "*", "/", "%", "&", "|", "^")
_NUMBER_COLUMNS = ("offset", "partition")
_TYPED_LITERALS = ("date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval", "x")
# Words that may precede a bracket and are not function names.
KEYWORDS = frozenset(
    """all and any as between by case distinct div else end escape for from ilike in interval is like
    not on or regexp rlike some then when""".split()  # noqa: SIM905
)
_DOUBLE_DIGITS = 15
_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class SqlPart:
    """A part of the translation, with its origin in the user's text."""

    sql: str
    start: int
    length: int
    """The length of its origin in the user's text."""
    is_verbatim: bool = True


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression as the user wrote it, and as Spark reads it."""

    option: str
    text: str
    tokens: tuple[Token, ...]
    pieces: tuple[SqlPart, ...]
    sql: str = field(init=False)
    _starts: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts, length = [], 0
        for piece in self.pieces:
            starts.append(length)
            length += len(piece.sql)
        object.__setattr__(self, "sql", "".join(piece.sql for piece in self.pieces))
        object.__setattr__(self, "_starts", tuple(starts))

    @property
    def start(self) -> int:
        """Where it begins in the user's text, after spaces."""
        return self._solid[0].start

    @property
    def last(self) -> Token:
        """The last token that is not a space."""
        return self._solid[-1]

    @property
    def end(self) -> int:
        return self.last.end

    @property
    def _solid(self) -> list[Token]:
        return [token for token in self.tokens if token.kind is not TokenKind.SPACE]

    @property
    def sole(self) -> Token | None:
        """Its token, if there is only one."""
        return self._solid[0] if len(self._solid) == 1 else None

    def source(self, position: int) -> tuple[int, int]:
        """Return the part of the user's text from which a position of the translation comes."""
        index = bisect_right(self._starts, min(position, len(self.sql) - 1)) - 1
        piece = self.pieces[index]
        if not piece.is_verbatim:
            return piece.start, piece.start + piece.length
        start = piece.start + position - self._starts[index]
        return start, start + 1

    def is_at_end(self, position: int) -> bool:
        """Return whether a position of the translation is after everything that the user wrote."""
        return position >= self._starts[-1]

    def bad(
        self, start: int, reason: str, hint: str | None = None, *, length: int = 1
    ) -> BadExpression:
        """Return an error that points at a position in the user's text."""
        return BadExpression(
            self.option, self.text, start=start, length=length, reason=reason, hint=hint
        )


def translate(text: str, option: str, tokens: Sequence[Token]) -> Expression:
    """Translate the expression of these tokens."""
    try:
        pieces = tuple(_Translation(text, option, tokens).pieces())
    except RecursionError as exc:
        reason = "the expression is too long: it has too many casts, dots or brackets"
        raise BadExpression(option, text, start=tokens[0].start, reason=reason) from exc
    return Expression(option, text, tuple(tokens), pieces)


class _Translation:
    """Walks through the tokens of one expression and writes Spark's SQL."""

    def __init__(self, text: str, option: str, tokens: Sequence[Token]) -> None:
        self._text, self._option = text, option
        self._all = tokens
        self._solid = [token for token in tokens if token.kind is not TokenKind.SPACE]
        # By token index: the calls that begin before the token, the innermost first, and the replacement
        # of a type's tokens.
        self._opened: dict[int, list[str]] = {}
        self._types: dict[int, str] = {}

    def pieces(self) -> list[SqlPart]:
        for index in range(len(self._solid)):
            self._read_cast(index)
        made = [self._made(index) for index in range(len(self._solid))]
        # In brackets, no name can follow the expression.
        pieces = [SqlPart("(", self._all[0].start, 1, is_verbatim=False)]
        index = 0
        for token in self._all:
            if token.kind is TokenKind.SPACE:
                pieces.append(_blank(token))
                continue
            for opened in reversed(self._opened.get(index, ())):
                pieces.append(SqlPart(opened, token.start, len(token.text), is_verbatim=False))
            pieces += made[index]
            index += 1
        return [*pieces, SqlPart(")", self._all[-1].end - 1, 1, is_verbatim=False)]

    def _read_cast(self, index: int) -> None:
        """Parse the type in `cast(x AS type)`, so that only known types are written."""
        if self._word(index) not in ("cast", "try_cast") or not self._is_sign(index + 1, "("):
            return
        depth, named = 0, None
        for place in range(index + 1, len(self._solid)):
            depth += self._is_sign(place, "(") - self._is_sign(place, ")")
            if depth == 1 and self._word(place) == "as":
                named = place
            if depth == 0:
                break
        if named is None:
            return  # Spark reports what is missing.
        text = self._bare(self._solid[named].end, self._solid[place].start)
        try:
            written = whole_type(text)
        except BadType as exc:
            raise as_bad_expression(exc, self._option, self._text) from exc
        for inside in range(named + 1, place):
            self._types[inside] = written if inside == named + 1 else ""

    def _bare(self, begin: int, end: int) -> str:
        """Return a part of the user's text without comments, at its own position."""
        kept = (
            " " * len(token.text) if token.kind is TokenKind.SPACE else token.text
            for token in self._all
            if begin <= token.start < end
        )
        return " " * begin + "".join(kept)

    def _made(self, index: int) -> list[SqlPart]:
        token = self._solid[index]
        start, length = token.start, len(token.text)
        if token.kind is TokenKind.TYPE:
            if self._exact_path(index - 2):
                return []
            type_ = whole_type(token.text)
            before, after = path_sql.around_cast(self._solid, index)
            self._open_cast(index, f"{before}try_cast(")
            opened = SqlPart(" AS ", start, length, is_verbatim=False)
            closed = SqlPart(f"){after}", token.end - 1, 1, is_verbatim=False)
            return [opened, SqlPart(type_, start, length, is_verbatim=type_ == token.text), closed]
        body = self._body(index)
        return [SqlPart(body, start, length, is_verbatim=body == token.text)] if body else []

    def _body(self, index: int) -> str:
        token = self._solid[index]
        if index in self._types:
            return self._types[index]
        if token.is_sign("::"):
            return ""
        if token.word == "cast" and self._is_sign(index + 1, "("):
            return "try_cast"
        if path_sql.becomes_time(self._solid, index):
            text = as_text(token) if token.kind is TokenKind.PATH else token.text
            return path_sql.as_dated_text(text)
        if self._exact_path(index):
            return as_type(token, self._solid[index + 2].text)
        if token.kind is TokenKind.PATH and self._is_sign(index + 1, "::"):
            return as_text(token)
        return self._text_body(index) if self._is_text(index) else _written(token)

    def _text_body(self, index: int) -> str:
        token = self._solid[index]
        self._refuse_order_of_texts(index)
        number = self._number_type(index)
        if token.kind is not TokenKind.PATH:
            return f"try_cast({token.text} AS {number})" if number else token.text
        if number is None:
            return as_text(token)
        return as_type(token, number)

    def _exact_path(self, index: int) -> bool:
        """Return whether the path's type has its own translation."""
        token = self._token(index)
        if token is None or token.column not in DOCUMENTS or not self._is_sign(index + 1, "::"):
            return False
        return is_exact(self._solid[index + 2].text)

    def _open_cast(self, index: int, opened: str) -> None:
        """Note where the cast begins that a `::type` ends."""
        start = self._primary_start(index - 2)
        if start is None:
            reason = "`::` needs a value before it, as in value:speed::int"
            raise self._bad(self._solid[index - 1], reason)
        self._opened.setdefault(start, []).append(opened)

    def _primary_start(self, index: int) -> int | None:
        """Return where the value begins that ends at this token; None if no value ends there."""
        token = self._token(index)
        if token is None:
            return None
        if token.kind is TokenKind.TYPE:
            return self._primary_start(index - 2)
        if token.is_sign(")"):
            return self._call_start(self._opening(index, "(", ")"))
        if token.is_sign("]"):
            opening = self._opening(index, "[", "]")
            return None if opening is None else self._primary_start(opening - 1)
        if token.kind is TokenKind.SIGN:
            return None
        if token.word == "end":
            return self._opening(index, "case", "end")
        if self._is_sign(index - 1, "."):
            return self._primary_start(index - 2)
        if token.kind is TokenKind.STRING and self._word(index - 1) in _TYPED_LITERALS:
            return index - 1
        return index

    def _call_start(self, opening: int | None) -> int | None:
        if opening is None:
            return None
        before = self._token(opening - 1)
        is_call = before is not None and before.name and before.word not in KEYWORDS
        return self._primary_start(opening - 1) if is_call else opening

    def _opening(self, index: int, opens: str, closes: str) -> int | None:
        depth = 0
        for place in range(index, -1, -1):
            text = self._solid[place].text.lower()
            depth += (text == closes) - (text == opens)
            if depth == 0:
                return place
        return None

    def _is_text(self, index: int) -> bool:
        """Return whether this is a STRING that may mean a number: a path without a type, key, value."""
        token = self._token(index)
        if token is None or self._is_sign(index + 1, "::"):
            return False
        if token.kind is TokenKind.PATH:
            return True
        if token.name.lower() not in DOCUMENTS or self._is_sign(index - 1, "."):
            return False
        return not self._is_sign(index + 1, ".", "[", "(", "->", ":", "=>")

    def _refuse_order_of_texts(self, index: int) -> None:
        """Refuse `value:a < value:b`, which would silently order 10 before 9."""
        if not (self._is_sign(index + 1, *_ORDERED) and self._is_text(index + 2)):
            return
        if self._is_sign(index - 1, *_ARITHMETIC) or self._is_sign(index + 3, *_ARITHMETIC):
            return
        sign = self._solid[index + 1]
        raise BadExpression(
            self._option,
            self._text,
            start=sign.start,
            length=len(sign.text),
            reason="both sides are text, and as text '10' comes before '9'",
            hint="add types: value:a::double, or ::string to compare texts",
        )

    def _number_type(self, index: int) -> str | None:
        """Return the type in which a text is compared with the numbers beside it; None without numbers."""
        if self._is_sign(index - 1, "||") or self._is_sign(index + 1, "||"):
            return None
        numbers = self._numbers_after(index) or self._numbers_before(index - 1)
        if not numbers:
            return None
        whole = max(len(_whole_digits(number.text)) for number in numbers)
        digits = max(len(re.sub(r"\D", "", _plain(number.text))) for number in numbers)
        has_exponent = any("e" in _plain(number.text).lower() for number in numbers)
        if digits <= _DOUBLE_DIGITS or has_exponent or whole >= _DECIMAL_DIGITS:
            return "DOUBLE"
        return f"DECIMAL({_DECIMAL_DIGITS},{min(18, _DECIMAL_DIGITS - 1 - whole)})"

    def _numbers_after(self, index: int) -> list[Token]:
        place = index + 1
        if self._is_sign(place, *_COMPARED):
            return self._number_at(place + 1)
        if self._word(place) == "when" and self._word(index - 1) == "case":
            return self._number_at(place + 1)
        if self._word(place) == "not":
            place += 1
        if self._word(place) == "between":
            return self._number_at(place + 1) + self._upper_bound(place + 1)
        if self._word(place) == "in" and self._is_sign(place + 1, "("):
            return self._listed(place + 2)
        return []

    def _upper_bound(self, place: int) -> list[Token]:
        # The next range has its own bound.
        while self._token(place) is not None and self._word(place) not in ("and", "between"):
            place += 1
        return self._number_at(place + 1) if self._word(place) == "and" else []

    def _listed(self, place: int) -> list[Token]:
        numbers = self._number_at(place)
        while numbers and self._token(place) is not None and not self._is_sign(place, ")"):
            if self._word(place) == "in":  # The next list has its own numbers.
                break
            numbers += [self._solid[place]] if self._solid[place].kind is TokenKind.NUMBER else []
            place += 1
        return numbers

    def _numbers_before(self, place: int) -> list[Token]:
        is_compared = self._is_sign(place, *_COMPARED)
        is_bound = self._word(place) == "between"
        place -= 1
        if is_bound and self._word(place) == "not":
            place -= 1
        token = self._token(place)
        if token is None or not (is_compared or is_bound):
            return []
        is_column = token.name.lower() in _NUMBER_COLUMNS
        return [token] if token.kind is TokenKind.NUMBER or is_column else []

    def _number_at(self, place: int) -> list[Token]:
        """Return the number that begins here, after signs and brackets, if there is one."""
        while self._is_sign(place, "(", "+", "-"):
            place += 1
        token = self._token(place)
        if token is None or self._is_sign(place + 1, "(", "."):
            return []
        is_column = token.name.lower() in _NUMBER_COLUMNS
        return [token] if token.kind is TokenKind.NUMBER or is_column else []

    def _token(self, index: int) -> Token | None:
        return self._solid[index] if 0 <= index < len(self._solid) else None

    def _is_sign(self, index: int, *signs: str) -> bool:
        token = self._token(index)
        return token is not None and token.is_sign(*signs)

    def _word(self, index: int) -> str:
        token = self._token(index)
        return token.word if token is not None else ""

    def _bad(self, token: Token, reason: str) -> BadExpression:
        return BadExpression(
            self._option, self._text, start=token.start, length=len(token.text), reason=reason
        )


def _blank(space: Token) -> SqlPart:
    """Return white space for Spark; a comment becomes one space, whatever it contains."""
    if space.text.isspace():
        text = "".join(sign if sign == "\n" else " " for sign in space.text)
        return SqlPart(text, space.start, len(text))
    return SqlPart(" ", space.start, len(space.text), is_verbatim=False)


def _written(token: Token) -> str:
    return quoted_if_odd(token.text) if token.kind is TokenKind.WORD else token.text


def _plain(number: str) -> str:
    """Return a number literal without the letters of its type."""
    return re.sub(r"(?i)(bd|[lsydf])$", "", number)


def _whole_digits(number: str) -> str:
    return re.match(r"\d*", number).group().lstrip("0")  # type: ignore[union-attr]
