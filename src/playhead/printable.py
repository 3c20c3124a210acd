r"""The one filter of what people read: what a terminal would obey, or show elsewhere, is shown as an escape.

Names, values, ids and a server's own words are other people's. Escape sequences in them move the
cursor, set titles and clipboards; marks of direction show a text backwards; a line's end begins a
line that looks like ours.
"""

import re
from typing import Final

# Controls but tab and LF, marks of direction and of nothing, halves of surrogate pairs.
# The joiners U+200C and U+200D stay: scripts and emoji are spelled with them.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_IN_JSON: Final = re.compile(rf"{_UNSAFE.pattern[:-1]}\t]")
_INDENT = "    "


def printable(text: str) -> str:
    r"""The text as it may be shown: `\x1b` for an escape character; tabs and LF stay."""
    return text if _is_plain(text) else _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """The same for a name or a value inside a line or a cell, where nothing may begin a new one."""
    shown = printable(text)
    return shown.replace("\t", "\\t").replace("\n", "\\n")


def indented(text: str) -> str:
    """The same for a sentence of ours: what follows an LF in it never looks like a line of its own."""
    first, *rest = printable(text).split("\n")
    return "\n".join(
        [first, *(each if each.startswith(_INDENT) else _INDENT + each for each in rest)]
    )


def json_text(text: str) -> str:
    """JSON that means exactly the same, with such characters escaped as JSON does."""
    return text if _is_plain(text) else _UNSAFE_IN_JSON.sub(_escape_in_json, text)


def _is_plain(text: str) -> bool:
    """Most texts are, and it is told in a moment."""
    return text.isascii() and text.replace("\n", "").isprintable()


def _escape(match: "re.Match[str]") -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_in_json(match: "re.Match[str]") -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
