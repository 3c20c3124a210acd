"""Paths in JSON documents: `car`, `$.car`, `cars[0].name`, `$["odd name"]`."""

import re
from typing import Any, Final

from playhead.errors import PlayheadError
from playhead.grammar.cursor import Cursor

Steps = tuple[str | int, ...]
FORMS: Final = 'write a path as car, $.car, cars[0].name or $["odd name"]'
_NAME: Final = re.compile(r"""[^.\[\]"'\s$]+""")
_BRACKET: Final = re.compile(r"""\[(?:([0-9]{1,9})|"([^"]*)"|'([^']*)')\]""")


class Unfit(PlayheadError):
    """A record without the requested key or time: the kind of error, and what was found."""

    def __init__(self, kind: str, *, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(f"{kind}: {reason}")


def parse_path(text: str, *, where: str) -> Steps:
    """Parse a path into names of fields and indexes of lists."""
    phrase = Cursor.of(text, where)
    path, at, steps = phrase.text, 0, list[str | int]()
    if path.startswith("$"):
        at = 1
    while at < len(path):
        bracket = _BRACKET.match(path, at)
        if bracket is not None:
            place, *names = bracket.groups()
            steps.append(
                int(place) if place is not None else next(n for n in names if n is not None)
            )
            at = bracket.end()
            continue
        at += path[at] == "." and (bool(steps) or path.startswith("$"))
        name = _NAME.match(path, at)
        if name is None or (steps and path[at - 1] != "."):
            raise phrase.refuse(f"found {phrase.found(at)}, needed a name", at=at, hint=FORMS)
        steps.append(name[0])
        at = name.end()
    if not steps:
        raise phrase.refuse("it has no field", hint=FORMS)
    return tuple(steps)


def show_path(steps: Steps) -> str:
    """Format a path so that `parse_path` reads it."""
    shown = ""
    for step in steps:
        if isinstance(step, int):
            shown += f"[{step}]"
        elif _NAME.fullmatch(step):
            shown += f".{step}"
        else:
            quote = "'" if '"' in step else '"'
            shown += f"[{quote}{step}{quote}]"
    return shown[1:] if shown.startswith(".") else f"${shown}"


def value_at(document: Any, steps: Steps, kind: str) -> Any:
    """Return the value at the path; null counts as missing."""
    found = document
    for number, step in enumerate(steps, 1):
        # A text has no places, and a number is one here.
        held: Any = found if isinstance(found, dict | list) else {}
        try:
            found = held[step]
        except (KeyError, IndexError, TypeError):
            raise Unfit(kind, reason=f"there is no {show_path(steps[:number])}") from None
        if found is None:
            raise Unfit(kind, reason=f"{show_path(steps[:number])} is null")
    return found
