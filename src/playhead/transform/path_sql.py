"""Spark SQL for a `value:path`: as text, and as a type."""

import re
from collections.abc import Sequence

from playhead.transform.sql_types import whole_type
from playhead.transform.tokens import DOCUMENTS, HEADERS, Step, Token, TokenKind

OWN_FUNCTIONS = frozenset(("try_element_at",))
"""Functions that only the translation uses, not users."""
# get_json_object converts numbers to doubles and knows no types: these types need the exact way.
_EXACT = re.compile(r"(decimal|dec|numeric|array|map|struct|variant)\b", re.IGNORECASE)

TIMES = ("timestamp", "timestamp_ltz")
"""Types to which Spark converts a text without a date: it adds the date of the run to `12:30` or `T12`."""
WITHOUT_DATE = "(?s)^[^0-9A-Za-z]*(T|[0-9]{1,2}:).*"
_DATED = "regexp_replace(", f", '{WITHOUT_DATE}', '')"
_TIME_FUNCTIONS = ("timestamp", "to_timestamp", "to_timestamp_ltz", "try_to_timestamp")


def becomes_time(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a path, key or value becomes a time, by `::`, cast, or a function of that name."""
    token = tokens[index]
    before = [each.text.lower() for each in tokens[max(0, index - 2) : index]]
    after = [each.text.lower() for each in tokens[index + 1 : index + 3]]
    if token.kind is not TokenKind.PATH and token.name.lower() not in DOCUMENTS:
        return False
    if after[:1] == ["::"]:
        return before[-1:] != ["."] and after[1:] != [] and after[1] in TIMES
    if before[1:] != ["("]:
        return False
    if before[0] in ("cast", "try_cast"):
        return after[:1] == ["as"] and after[1:] != [] and after[1] in TIMES
    return before[0] in _TIME_FUNCTIONS and after[:1] == [")"]


def around_cast(tokens: Sequence[Token], index: int) -> tuple[str, str]:
    """Return what stands around the cast that ends here; nothing, except in `::string::timestamp`."""
    types = [token.text.lower() for token in tokens[index : index + 3]]
    is_dated = len(types) == 3 and types[:2] == ["string", "::"] and types[2] in TIMES
    return _DATED if is_dated else ("", "")


def as_dated_text(text: str) -> str:
    """Return SQL for a text that becomes a time; empty, which is no time, if it has no date."""
    return text.join(_DATED)


def as_text(path: Token) -> str:
    """Return SQL for the path's value as a STRING."""
    if path.column == HEADERS:
        name = _literal(str(path.steps[0]))
        found = f"filter({HEADERS}, header -> header.name = {name})"
        return f"cast(try_element_at({found}, -1).value AS STRING)"
    return f"get_json_object({path.column}, {_literal(_json_path(path.steps))})"


def as_type(path: Token, type_: str) -> str:
    """Return SQL for the path's value as a type; NULL if it cannot be converted."""
    type_ = whole_type(type_)
    cast = f"try_cast({as_text(path)} AS {type_})"
    if path.column == HEADERS or not is_exact(type_):
        return cast
    json_path = _literal(_json_path(path.steps))
    exact = f"try_variant_get(try_parse_json({path.column}), {json_path}, {_literal(type_)})"
    # A text is never an array, so only numbers have a second way, for documents that the exact one
    # refuses.
    return f"coalesce({exact}, {cast})" if type_.lower().startswith(("dec", "num")) else exact


def as_json(path: Token, document: str) -> str:
    """Return SQL for the JSON value itself, from a column with the parsed document."""
    return f"try_variant_get({document}, {_literal(_json_path(path.steps))}, 'variant')"


def is_exact(type_: str) -> bool:
    """Return whether the conversion through text would lose something for this type."""
    return _EXACT.match(type_) is not None


def _json_path(steps: Sequence[Step]) -> str:
    return "$" + "".join(_json_step(step) for step in steps)


def _json_step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if re.fullmatch(r"\w+", step) or "'" in step or "?" in step:
        return f".{step}"
    return f"['{step}']"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
