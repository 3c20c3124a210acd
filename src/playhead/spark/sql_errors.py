"""Translates Spark's errors about an expression: one line, with the position in the user's text."""

import re
from typing import TYPE_CHECKING

from playhead.errors import PlayheadError
from playhead.spark.failures import of_the_engine
from playhead.transform.spark_sql import Expression
from playhead.transform.tokens import BadExpression, nearest

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

COLUMNS = (
    "key",
    "value",
    "headers",
    "timestamp",
    "topic",
    "partition",
    "offset",
    "key_bytes",
    "value_bytes",
)
"""The columns of an expression."""

_TYPES = (
    "array bigint binary boolean byte date decimal double float int integer long map short smallint "
    "string struct timestamp timestamp_ntz tinyint variant"
)

_PLACE = re.compile(r"\(line (\d+), pos(ition)? (\d+)\)")
_TOO_DEEP = ("java.lang.StackOverflowError", "StreamConstraintsException: Document nesting depth")
_RAISED = re.compile(r"(?:Exception|Error): ([^\n]+)")
_NOISE = re.compile(r" SQLSTATE: | Please, refer to | You can form a valid |; line \d+ pos \d+")


def at_all_of(expression: Expression, reason: str, hint: str | None) -> BadExpression:
    """Return an error that points at the whole expression."""
    length = expression.end - expression.start
    return expression.bad(expression.start, reason, hint, length=length)


def complaint(expression: Expression, exc: Exception) -> PlayheadError:
    """Translate an error of Spark; other errors keep their text."""
    from pyspark.errors import PySparkException

    if (lost := of_the_engine(exc)) is not None:
        return lost
    if not isinstance(exc, PySparkException) or exc.getCondition() is None:
        # Only here: errors with a condition quote the expression, which may have this name in it.
        if isinstance(exc, RecursionError) or any(words in str(exc) for words in _TOO_DEEP):
            reason = "the expression is too long or nested too deeply for the engine"
            return at_all_of(expression, reason, None)
        raised = _RAISED.findall(str(exc))
        return at_all_of(expression, raised[-1].strip() if raised else _first_line(str(exc)), None)
    place = _place(expression.sql, exc)
    reason, hint = _reason(exc)
    if place is None:
        return at_all_of(expression, reason, hint)
    if expression.is_at_end(place[0]):
        last = expression.last
        reason = "the expression cannot end here"
        return expression.bad(last.start, reason, length=len(last.text))
    start, end = expression.source(place[0])[0], expression.source(place[1])[1]
    return expression.bad(start, reason, hint, length=max(1, end - start))


def _place(sql: str, exc: "PySparkException") -> tuple[int, int] | None:
    from pyspark.errors import QueryContextType

    for context in exc.getQueryContext() or ():
        if context.contextType() is not QueryContextType.SQL:
            continue  # It names a line of Python, and no position in a text.
        if context.fragment() and sql[context.startIndex() : context.stopIndex() + 1]:
            return context.startIndex(), context.stopIndex()
    match = _PLACE.search(str(exc))
    if match is None:
        return None
    lines = sql.splitlines(keepends=True)[: int(match[1]) - 1]
    at = sum(map(len, lines)) + int(match[3]) - (1 if match[2] else 0)
    return at, at


def _reason(exc: "PySparkException") -> tuple[str, str | None]:
    condition, parameters = exc.getCondition() or "", exc.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "").replace("`", "")
        hint = nearest(name, COLUMNS) or f"{_as_field(name)}columns: {', '.join(COLUMNS)}"
        return f"there is no column {name!r}", hint
    if condition == "PARSE_SYNTAX_ERROR":
        found = parameters.get("error", "")
        if found == "end of input":
            return "the expression cannot end here", None
        return f"{found} is not expected here", None
    if condition == "UNSUPPORTED_DATATYPE":
        name = parameters.get("typeName", "").strip('"').lower()
        return f"there is no type {name!r}", nearest(name, _TYPES.split())
    text = re.sub(r"^\s*\[[A-Z0-9_.]+\]\s*", "", str(exc))
    return _first_line(text).partition("due to data type mismatch: ")[2] or _first_line(text), None


def _as_field(name: str) -> str:
    """Say how a field of the value is written, if the name can be one."""
    if not name.isidentifier():
        return ""
    return f"a field of the JSON value is written value:{name}; "


def _first_line(text: str) -> str:
    return _NOISE.split(text.strip().partition("\n")[0])[0].strip().rstrip(".")
