r"""The only filter of output for people: characters that a terminal would obey or reorder become
escapes.

Names, values, ids and servers' texts come from others. Escape sequences in them could move the
cursor or set titles and clipboards; direction marks could reverse a text; a newline could begin a
line that looks like one of Playhead's.
"""

import re
from collections.abc import Callable
from typing import Final

# Controls except tab and LF, direction marks, invisible characters, lone surrogates. The joiners
# U+200C and U+200D stay: scripts and emoji need them.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_IN_JSON: Final = re.compile(rf"{_UNSAFE.pattern[:-1]}\t]")
_INDENT = "    "
_BLOCK = 1 << 20


def printable(text: str) -> str:
    r"""Return a text that is safe to print, with `\\x1b` for an escape character; tabs and LF stay."""
    return text if _is_plain(text) else _replaced(_UNSAFE, _escape, text)


def one_line(text: str) -> str:
    """Return a name or value that is safe inside a line or a cell: LF becomes an escape too."""
    shown = printable(text)
    return shown.replace("\t", "\\t").replace("\n", "\\n")


def indented(text: str) -> str:
    """Return a sentence that is safe to print, with every line after an LF indented."""
    first, *rest = printable(text).split("\n")
    return "\n".join(
        [first, *(each if each.startswith(_INDENT) else _INDENT + each for each in rest)]
    )


def json_text(text: str) -> str:
    """Return equal JSON with unsafe characters as JSON escapes."""
    return text if _is_plain(text) else _replaced(_UNSAFE_IN_JSON, _escape_in_json, text)


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can hold a text, which is so if it has no half of a surrogate pair."""
    return text.isascii() or text.encode(errors="replace").decode() == text


def _replaced(
    unsafe: "re.Pattern[str]", escape: "Callable[[re.Match[str]], str]", text: str
) -> str:
    """Return a text with its unsafe characters replaced, block by block.

    Each replacement takes 60 bytes until all are joined, and a value may consist of 256 MB of them.
    """
    blocks = range(0, len(text), _BLOCK)
    return "".join(unsafe.sub(escape, text[start : start + _BLOCK]) for start in blocks)


def _is_plain(text: str) -> bool:
    """Return quickly whether a text needs no escapes, as most do."""
    return text.isascii() and text.replace("\n", "").isprintable()


def _escape(match: "re.Match[str]") -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(match: "re.Match[str]") -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
