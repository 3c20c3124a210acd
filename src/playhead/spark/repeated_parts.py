"""Refuses expressions whose parts the engine's JSON would repeat too often.

`plan_check` reads the engine's trees as JSON. What a node has both in a field and below it is there twice, and
in a chain of such nodes each doubles all that is inside. Spark itself needs no more time for them.
"""

from collections.abc import Iterator, Sequence

from playhead.transform.spark_sql import Expression
from playhead.transform.tokens import Token, TokenKind

# Those that the analyser keeps with their arguments beside what it made of them, or with one as an option.
REPEATING = frozenset(
    """array_join arrays_zip btrim date_part datepart decode equal_null extract ifnull levenshtein ltrim
    make_timestamp make_timestamp_ltz nullif nullifzero nvl nvl2 rtrim sequence to_char to_date
    to_timestamp to_timestamp_ltz to_timestamp_ntz to_varchar trim try_add try_aes_decrypt try_divide
    try_make_interval try_make_timestamp try_make_timestamp_ltz try_mod try_multiply try_parse_url
    try_subtract try_to_binary try_to_date try_to_timestamp try_url_decode zeroifnull""".split()  # noqa: SIM905
)
# Most calls repeat their arguments once; zeroifnull, which is made of nvl, and decode do it twice.
_BY_CASE, _BY_CALL = 2, 3
# That takes the engine some seconds; ten times as much can fill its memory.
_MOST_REPEATED = 60_000
_BEFORE_VALUES = frozenset(
    """all and any as between case div else escape from ilike in is like not or regexp rlike some then when
    with""".split()  # noqa: SIM905
)
_HINT = (
    "one CASE takes any number of conditions: CASE WHEN … THEN … WHEN … THEN … END, "
    "and coalesce(a, b, c) any number of values"
)


def check_repetition(expression: Expression) -> None:
    """Raise for the first token that is too much."""
    repeated = 0
    for token, times in _times(_solid(expression)):
        # Once is allowed to a list of any length.
        repeated += times if times > _BY_CALL else 0
        if repeated > _MOST_REPEATED:
            reason = "CASE, BETWEEN or functions such as nvl are nested too deep here"
            raise expression.bad(token.start, reason, _HINT, length=len(token.text))


def _solid(expression: Expression) -> list[Token]:
    return [token for token in expression.tokens if token.kind is not TokenKind.SPACE]


def _times(tokens: Sequence[Token]) -> Iterator[tuple[Token, int]]:
    """Return the tokens, and how often each is in the JSON, at most."""
    betweens = _with_between(tokens)
    brackets, cases = [_BY_CALL if -1 in betweens else 1], 0
    for index, token in enumerate(tokens):
        if token.is_sign("(", "["):
            is_repeated = index > 0 and tokens[index - 1].name.lower() in REPEATING
            times = (_BY_CALL if is_repeated else 1) * (_BY_CALL if index in betweens else 1)
            brackets.append(brackets[-1] * times)
        elif token.is_sign(")", "]"):
            brackets.pop()
        cases = max(0, cases + (token.word == "case") - _is_end(tokens, index))
        yield token, brackets[-1] * _BY_CASE**cases


def _is_end(tokens: Sequence[Token], index: int) -> bool:
    """Return whether END closes a CASE; a field or a variable can have this name, too."""
    before = tokens[index - 1] if index else None
    begins_value = before is None or before.word in _BEFORE_VALUES
    follows_sign = (
        before is not None and before.kind is TokenKind.SIGN and not before.is_sign(")", "]")
    )
    return tokens[index].word == "end" and not begins_value and not follows_sign


def _with_between(tokens: Sequence[Token]) -> frozenset[int]:
    """Return where the brackets open that have BETWEEN directly inside; -1 is the whole expression."""
    found, opened = set(), [-1]
    for index, token in enumerate(tokens):
        if token.is_sign("(", "["):
            opened.append(index)
        elif token.is_sign(")", "]"):
            opened.pop()
        elif token.word == "between":
            found.add(opened[-1])
    return frozenset(found)
