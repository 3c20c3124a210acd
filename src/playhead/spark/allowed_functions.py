"""The functions that an expression may call: those whose result depends only on the record."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from playhead.transform.spark_sql import KEYWORDS, Expression
from playhead.transform.tokens import BadExpression, Token, TokenKind, nearest

ALLOWED = "allowed"
_LIST = Path(__file__).with_name("functions.txt")
# Written like functions, but part of the grammar, so that Spark does not list them.
_SYNTAX = frozenset(
    ("dec", "numeric", "varchar", "character", "timestampadd", "timestampdiff", "try_cast")
)
# Keywords after LIKE, and aggregates elsewhere.
_QUANTIFIERS = ("any", "some", "all")
_QUERY_STARTS = ("from", "select", "table", "values", "with")
# `using` passes rows to a program, in an old query form of Spark.
_QUERY_WORDS = ("select", "using")
_DEPENDS = "depends on "
_OWN_WORDS = {"localtime": "localtimestamp", "system_user": "user"}
# Texts that Spark replaces by the time of reading, and those without a date, which get the one of that day.
_MOVING = re.compile(
    r"(?<![a-z])(now|today|tomorrow|yesterday)(?![a-z])|^r?\W*(T|\d{1,2}:)", re.IGNORECASE
)
_TIMES = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz")
_COMPARED = ("<", "<=", ">", ">=", "=", "==", "<>", "!=", "<=>")
TYPE_TEXTS = {"from_json": 1, "from_csv": 1, "try_variant_get": 2}
"""Functions that read a text as a type, and which argument it is, from 0."""
SCHEMAS_OF_SAMPLES = frozenset(("schema_of_json", "schema_of_csv"))
OPTIONS = {"from_json": 2, "from_csv": 2, "schema_of_json": 1, "schema_of_csv": 1}
OPTIONS |= {"to_json": 1, "to_csv": 1, "to_xml": 1}
"""Functions that take options of a format, and which argument they are, from 0."""
# Those that say how a text is written. Others are of files: `compression` names a Java class, which is loaded.
_OPTIONS = frozenset(
    """allowbackslashescapinganycharacter allowcomments allownonnumericnumbers
    allownumericleadingzeros allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames
    arrayelementname attributeprefix chartoescapequoteescaping columnnameofcorruptrecord comment
    dateformat declaration delimiter dropfieldifallnull emptyvalue escape escapequotes
    ignoreleadingwhitespace ignorenullfields ignoretrailingwhitespace inferschema
    infertimestamp linesep locale mode nanvalue negativeinf nullvalue positiveinf prefersdate
    prefersdecimal pretty primitivesasstring quote quoteall roottag rowtag sep sortkeys timestampformat
    timestampntzformat timezone unescapedquotehandling valuetag""".split()  # noqa: SIM905
)
_OPTIONS_HINT = "write options as in map('dateFormat', 'yyyy-MM-dd')"
_TYPE_HINT = "write the type as in 'a int, b array<string>'"


@cache
def sections() -> Mapping[str, frozenset[str]]:
    """Return all functions of Spark by the reason for their refusal, or as `allowed`."""
    names: dict[str, list[str]] = {}
    section = ""
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            names.setdefault(section, []).extend(line.split())
    return {section: frozenset(found) for section, found in names.items()}


def check_calls(expression: Expression) -> None:
    """Raise for the first token of an expression that must not be there."""
    tokens = [token for token in expression.tokens if token.kind is not TokenKind.SPACE]
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        error = _refusal(expression, token, before, after)
        # A copy of the rest for each token would take the square of their number.
        if error is None and token.name.lower() in {*TYPE_TEXTS, *OPTIONS}:
            rest = tokens[index:]
            error = _type_refusal(expression, rest) or _option_refusal(expression, rest)
        if error:
            raise error
        if token.is_sign(":") and not any(one.word == "struct" for one in tokens[:index]):
            reason = "`:` has a meaning only after key, value and headers, without a space"
            raise expression.bad(token.start, reason)
    for literal, type_ in compared_literals(tokens):
        if type_ in _TIMES and _is_moving(literal):
            raise _moving(expression, literal)


def _refusal(
    expression: Expression, token: Token, before: Token | None, after: Token | None
) -> BadExpression | None:
    if token.is_sign("*") and (before is None or before.is_sign("(", ",", ".", "[")):
        hint = "name the columns"
        return expression.bad(token.start, "`*` stands for no columns here", hint)
    if _begins_query(token, before):
        reason = "an expression cannot contain a query: a transform sees one record and no tables"
        return expression.bad(token.start, reason, length=len(token.text))
    if token.kind is TokenKind.STRING and before is not None and before.word in _TIMES:
        return _moving(expression, token) if _is_moving(token) else None
    if not token.name:
        return None
    is_call = after is not None and after.is_sign("(")
    if is_call and before is not None and before.is_sign("."):
        reason = "call functions by their own name only"
        return expression.bad(token.start, reason, length=len(token.text))
    if is_call:
        return _call_refusal(expression, token, before)
    return _word_refusal(expression, token, before)


def _type_refusal(expression: Expression, tokens: list[Token]) -> BadExpression | None:
    """Refuse a type that is computed, or written as JSON, which could name a module to be imported."""
    position = TYPE_TEXTS.get(tokens[0].name.lower())
    if position is None or not (len(tokens) > 1 and tokens[1].is_sign("(")):
        return None
    given = _argument(tokens[2:], position)
    if not given or given[0].name.lower() in SCHEMAS_OF_SAMPLES:
        return None
    is_text = len(given) == 1 and given[0].kind is TokenKind.STRING
    if is_text and is_written_as_type(given[0].text.lstrip("rR")[1:]):
        return None
    reason = f"{tokens[0].name} needs a type here that is written out"
    return expression.bad(given[0].start, reason, _TYPE_HINT, length=len(given[0].text))


def _option_refusal(expression: Expression, tokens: list[Token]) -> BadExpression | None:
    """Refuse options that are computed, and those that are not of a text."""
    position = OPTIONS.get(tokens[0].name.lower())
    if position is None or not (len(tokens) > 1 and tokens[1].is_sign("(")):
        return None
    given = _argument(tokens[2:], position)
    if not given:
        return None
    name, opening, *inside, closing = given if len(given) > 2 else [given[0]] * 3
    keys = [each.text.lstrip("rR")[1:-1] for each in inside[::4]]
    is_plain = name.name.lower() == "map" and opening.is_sign("(") and closing.is_sign(")")
    is_plain &= all(each.kind is TokenKind.STRING for each in inside[::2])
    if is_plain and all(each.is_sign(",") for each in inside[1::2]) and are_options(keys):
        return None
    reason = f"{tokens[0].name} takes only options of a text, written out"
    return expression.bad(given[0].start, reason, _OPTIONS_HINT, length=len(given[0].text))


def are_options(keys: Iterable[str]) -> bool:
    """Return whether all are names of options that say how a text is written."""
    return all(key.lower() in _OPTIONS for key in keys)


def is_written_as_type(text: str) -> bool:
    """Return whether a text begins as a type of SQL does; JSON begins with another sign."""
    return re.match(r"\s*[\w`]", text) is not None


def _argument(tokens: list[Token], position: int) -> list[Token]:
    """Return the tokens of an argument, from those after the opening bracket of a call."""
    depth, place = 0, 0
    found = []
    for token in tokens:
        if depth == 0 and token.is_sign(")"):
            break
        if depth == 0 and token.is_sign(","):
            place += 1
            continue
        depth += token.is_sign("(", "[") - token.is_sign(")", "]")
        if place == position:
            found.append(token)
    return found


def _begins_query(token: Token, before: Token | None) -> bool:
    if before is not None and (before.is_sign(".") or before.word == "as"):
        return False
    is_first = before is not None and before.is_sign("(")
    return token.word in _QUERY_WORDS or (is_first and token.word in _QUERY_STARTS)


def _call_refusal(
    expression: Expression, token: Token, before: Token | None
) -> BadExpression | None:
    name = token.name.lower()
    if token.word in _QUANTIFIERS:
        if before is not None and before.word in ("like", "ilike"):
            return None
    elif token.word in KEYWORDS or name in _SYNTAX or name in sections()[ALLOWED]:
        return None
    known = _reason(name)
    reason = f"{name} {known}" if known else f"there is no function {token.name!r}"
    return expression.bad(
        token.start, reason, _hint(name, known is not None), length=len(token.text)
    )


def _hint(name: str, is_known: bool) -> str | None:
    allowed = sections()[ALLOWED]
    if not is_known:
        return nearest(name, sorted(allowed))
    return f"use try_{name}" if f"try_{name}" in allowed else None


def _word_refusal(
    expression: Expression, token: Token, before: Token | None
) -> BadExpression | None:
    """Refuse a word such as `current_date`, which is a call even without brackets."""
    if before is not None and (before.is_sign(".") or before.word == "as"):
        return None
    name = token.name.lower()
    reason = _reason(_OWN_WORDS.get(name, name))
    if reason is None or not reason.startswith(_DEPENDS):
        return None
    return expression.bad(token.start, f"{name} {reason}", length=len(token.text))


def _reason(name: str) -> str | None:
    for section, names in sections().items():
        if section != ALLOWED and name in names:
            return section
    return None


def compared_literals(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Return text literals that become a time or a number, by a comparison or a cast."""
    types = {"timestamp": "timestamp", "offset": "bigint", "partition": "bigint"}
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.STRING:
            column = _compared_with(tokens, index)
            if column in types:
                yield token, types[column]
            elif type_ := _cast_to(tokens, index):
                yield token, type_


def _compared_with(tokens: list[Token], index: int) -> str:
    """Return the name compared with a token; empty if there is none."""

    def at(place: int) -> Token | None:
        return tokens[place] if 0 <= place < len(tokens) else None

    for sign, other in ((at(index - 1), at(index - 2)), (at(index + 1), at(index + 2))):
        if sign is not None and other is not None and sign.is_sign(*_COMPARED):
            return other.name.lower()
    words = [token.word for token in tokens[max(0, index - 6) : index]]
    if words[-1:] == ["and"] and words[-3:-2] == ["between"]:
        words = words[:-2]
    if words[-1:] != ["between"]:
        return ""
    words = words[:-1]
    return (words[:-1] if words[-1:] == ["not"] else words)[-1:][0] if words else ""


def _cast_to(tokens: list[Token], index: int) -> str | None:
    """Return the kind of time that a text literal becomes, by `::`, AS, or a function of its name."""
    after = [token.text.lower() for token in tokens[index + 1 : index + 3]]
    if len(after) == 2 and after[0] in ("::", "as") and after[1] in _TIMES:
        return after[1]
    before = [token.text.lower() for token in tokens[max(0, index - 2) : index]]
    if len(before) == 2 and before[1] == "(":
        name = before[0].removeprefix("try_").removeprefix("to_")
        return name if name in _TIMES else None
    return None


def is_moving(text: str) -> bool:
    """Return whether Spark replaces a text by the time of reading when it becomes a time."""
    return _MOVING.search(text) is not None


def _is_moving(literal: Token) -> bool:
    """Return whether a literal may be such a word; escapes could spell one, and a time needs none."""
    return "\\" in literal.text or is_moving(literal.text)


def _moving(expression: Expression, literal: Token) -> BadExpression:
    return expression.bad(
        literal.start,
        f"{literal.text} depends on the time of the run, but a resumed replay must give the same result",
        "write the time itself",
        length=len(literal.text),
    )
