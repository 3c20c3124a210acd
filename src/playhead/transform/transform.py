"""The transform: which records are kept, and what they become, as Spark SQL."""

from collections.abc import Sequence
from dataclasses import dataclass

from playhead.transform.spark_sql import Expression, translate
from playhead.transform.tokens import DOCUMENTS, BadExpression, Token, TokenKind, tokens_of

WHERE, SELECT = "--where", "--select"
_CLOSED_BY = {"(": ")", "[": "]"}
PARTS = ("key", "value", "headers", "timestamp")
"""The parts of a record that a selected expression of the same name replaces."""


@dataclass(frozen=True, slots=True)
class Transform:
    """Which records are kept, and what they become; None changes nothing.

    Both are Spark SQL; see docs/guides/transforms.md. The text is parsed here; its functions and types are
    checked with Spark (`playhead.spark.transform.check`).
    """

    where: str | None = None
    select: str | None = None

    def __post_init__(self) -> None:
        self.condition()
        self.outputs()

    @property
    def changes_nothing(self) -> bool:
        return self.where is None and self.select is None

    def condition(self) -> "Expression | None":
        """The translated condition."""
        if self.where is None:
            return None
        return translate(self.where, WHERE, _needed(self.where, WHERE))

    def expressions(self) -> "list[Expression]":
        """All expressions that Spark will read."""
        condition = self.condition()
        selected = [output.expression for output in self.outputs()]
        return selected if condition is None else [condition, *selected]

    def outputs(self) -> "tuple[Output, ...]":
        """The selected expressions, in order; empty if there are none."""
        if self.select is None:
            return ()
        tokens = _needed(self.select, SELECT)
        outputs = tuple(_output(self.select, item) for item in _items(self.select, tokens))
        _check_names(self.select, outputs)
        return outputs


@dataclass(frozen=True, slots=True)
class Output:
    """One selected expression and its name."""

    name: str
    expression: Expression
    is_named: bool
    """Whether `AS name` was written."""

    @property
    def replaces(self) -> str | None:
        """The part of the record that it replaces; None if it is a field of the new value.

        A bare `timestamp` is a field like `topic` and `offset`, because most users want to keep the time as a
        field; the record's own time changes only with `AS timestamp`.
        """
        if self.name not in PARTS:
            return None
        return None if self.name == "timestamp" and not self.is_named else self.name

    @property
    def is_bare(self) -> bool:
        """Whether it is the part of the record that it replaces, unchanged."""
        sole = self.expression.sole
        return sole is not None and sole.name.lower() == self.replaces

    @property
    def path(self) -> Token | None:
        """The path that it is, with or without types."""
        first, *others = (t for t in self.expression.tokens if t.kind is not TokenKind.SPACE)
        is_typed = all(token.is_sign("::") or token.kind is TokenKind.TYPE for token in others)
        return first if first.kind is TokenKind.PATH and is_typed else None

    @property
    def bare_path(self) -> Token | None:
        """The path that it is, without a type: it keeps its JSON type."""
        sole = self.expression.sole
        return sole if sole is not None and sole.column in DOCUMENTS else None


def _needed(text: str, option: str) -> list[Token]:
    tokens = tokens_of(text, option)
    if all(token.kind is TokenKind.SPACE for token in tokens):
        raise BadExpression(option, text, start=0, reason="found nothing, needed an expression")
    _check_brackets(text, option, tokens)
    return tokens


def _check_brackets(text: str, option: str, tokens: Sequence[Token]) -> None:
    opened: list[Token] = []
    for token in tokens:
        if token.is_sign(*_CLOSED_BY):
            opened.append(token)
        if not token.is_sign(*_CLOSED_BY.values()):
            continue
        if not opened or _CLOSED_BY[opened.pop().text] != token.text:
            reason = f"`{token.text}` closes nothing"
            raise BadExpression(option, text, start=token.start, reason=reason)
    if opened:
        reason = f"`{opened[-1].text}` is not closed"
        raise BadExpression(option, text, start=opened[-1].start, reason=reason)


def _items(text: str, tokens: Sequence[Token]) -> list[list[Token]]:
    """Split the tokens at the commas outside brackets."""
    items: list[list[Token]] = [[]]
    depth, comma = 0, 0
    for token in tokens:
        depth += token.is_sign(*_CLOSED_BY) - token.is_sign(*_CLOSED_BY.values())
        if depth or not token.is_sign(","):
            items[-1].append(token)
            continue
        comma = token.start
        if _is_blank(items[-1]):
            reason = "an expression is missing before this comma"
            raise BadExpression(SELECT, text, start=comma, reason=reason)
        items.append([])
    if _is_blank(items[-1]):
        reason = "no expression follows this comma"
        raise BadExpression(SELECT, text, start=comma, reason=reason)
    return items


def _is_blank(tokens: Sequence[Token]) -> bool:
    return all(token.kind is TokenKind.SPACE for token in tokens)


def _output(text: str, item: list[Token]) -> Output:
    solid = [index for index, token in enumerate(item) if token.kind is not TokenKind.SPACE]
    last = item[solid[-1]]
    if len(solid) > 2 and item[solid[-2]].word == "as" and last.name:
        expression = translate(text, SELECT, item[: solid[-2]])
        # Columns and parts ignore case; JSON fields do not.
        name = last.name.lower() if last.name.lower() in PARTS else last.name
        return Output(name, expression, is_named=True)
    expression = translate(text, SELECT, item)
    name = _own_name(last) if len(solid) == 1 else ""
    if not name:
        raise expression.bad(
            expression.start,
            "this expression needs a name",
            "write: expression AS name",
            length=expression.end - expression.start,
        )
    return Output(name, expression, is_named=False)


def _own_name(token: Token) -> str:
    if token.kind is TokenKind.PATH:
        return str(token.steps[-1]) if isinstance(token.steps[-1], str) else ""
    return token.name.lower()


def _check_names(text: str, outputs: Sequence[Output]) -> None:
    seen: set[str] = set()
    has_value = any(output.replaces == "value" for output in outputs)
    for output in outputs:
        key = output.replaces or f"field {output.name}"
        start = output.expression.start
        if key in seen:
            reason = f"{output.name} is selected twice"
            raise BadExpression(SELECT, text, start=start, reason=reason)
        seen.add(key)
        if has_value and output.replaces is None:
            reason = (
                f"{output.name} would be a field of the value, but the whole value is selected too"
            )
            hint = "leave out one of them, or build the value: to_json(named_struct(...)) AS value"
            raise BadExpression(SELECT, text, start=start, reason=reason, hint=hint)
