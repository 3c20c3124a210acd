"""Splits an SQL text into tokens, without space and comments."""

import re
from collections.abc import Iterator

from playhead.querylog.text_shape import ByShape

# Possessive quantifiers: backtracking would take memory for every character.
_PLAIN_TEXT = "'(?:[^']++|'')*+'"
_ESCAPED_TEXT = r"'(?:[^'\\]++|''|\\.)*+'"


def _tokens(plain: str) -> "re.Pattern[str]":
    """Return the pattern of SQL tokens, with this pattern of a plain string."""
    return re.compile(
        rf"""
        (?P<skip>\s+|--[^\n\r]*)
        |(?P<comment>/\*)
        |(?P<text>[eE]{_ESCAPED_TEXT}|[bBxXnN]?{plain}|[uU]&{_PLAIN_TEXT}
            |(?P<tag>\$(?:[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?\$).*?(?P=tag))
        |(?P<quoted>(?:[uU]&)?"(?:[^"]++|"")*+")
        |(?P<end>;)
        |(?P<parameter>\$[0-9]+)
        |(?P<number>0[xX][0-9a-fA-F_]+|(?:[0-9]|\.[0-9])[0-9_.]*(?:[eE][-+]?[0-9][0-9_]*)?\w*)
        |(?P<word>[A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*)
        |(?P<other>.)
        """,
        re.VERBOSE | re.DOTALL,
    )


_TOKEN = _tokens(_PLAIN_TEXT)
_TOKEN_WITH_ESCAPES = _tokens(_ESCAPED_TEXT)
"""With standard_conforming_strings = off, a backslash escapes in plain texts too."""
_LONG = 1_000
_COMMENT_BOUND = re.compile(r"/\*|\*/")
_QUERIES = ByShape[str]()


def tokens_of(text: str, *, escapes: bool = False) -> "Iterator[re.Match[str]]":
    """Yield the tokens without space and comments, up to an unterminated quote."""
    pattern = _TOKEN_WITH_ESCAPES if escapes else _TOKEN
    at = 0
    while at < len(text):
        token = pattern.match(text, at)
        if token is None or token["other"] in ("'", '"', "$"):
            return  # The server refuses the whole text.
        if token["comment"]:
            at = _end_of_comment(text, at)
            continue
        at = token.end()
        if not token["skip"]:
            yield token


def _end_of_comment(text: str, at: int) -> int:
    depth = 0
    for token in _COMMENT_BOUND.finditer(text, at):
        depth += 1 if token[0] == "/*" else -1
        if depth == 0:
            return token.end()
    return len(text)


def without_values(text: str, *, escapes: bool = False) -> str:
    """Return a text without values and comments, which is equal for all calls of one query."""
    known = _QUERIES.get(text)
    if known is not None:
        return known
    pieces, end = [], 0
    for token in tokens_of(text, escapes=escapes):
        is_value = token["text"] or token["number"]
        pieces += [" " if token.start() > end else "", "?" if is_value else token[0]]
        end = token.end()
    found = "".join(pieces).strip()
    _QUERIES.keep(text, found)
    return found


def for_parser(text: str, *, escapes: bool) -> str:
    """Return a text as a parser reads it that has a limit, and takes backslashes in plain texts for themselves.

    Comments are left out, and the contents of long texts that have nothing to decode.
    """
    pieces, end = [], 0
    for token in tokens_of(text, escapes=escapes):
        found = token[0]
        is_plain = token["text"] and found.startswith("'")
        if token["text"] and len(found) > _LONG and (found[0] == "$" or is_plain):
            found = found if escapes and "\\" in found else "''"
        if escapes and is_plain:
            found = f"E{found}"
        # Between two texts a line break counts.
        pieces += ["\n" if token.start() > end else "", found]
        end = token.end()
    return "".join(pieces)
