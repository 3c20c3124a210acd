"""Finds the elements at a path, in a time that grows with the document and not with its square.

The standard library counts all siblings again for each element of `item[2]`, and for `//a//a` it returns an
element once for each element around it.
"""

import re
from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element

_CONDITION: Final = re.compile(r"""\[(?:'[^']*'|"[^"]*"|[^\]'"])*\]""")
_STEP: Final = re.compile(rf"(//?|^)([^/\[\]]+(?:{_CONDITION.pattern})*)")
_POSITION: Final = re.compile(r"\[\s*(?:([0-9]{1,9})|last\(\)\s*(?:-\s*([0-9]{1,9}))?)\s*\]")


def elements_at(root: Element, path: str) -> list[Element]:
    """Return the elements at a path that begins below the root; SyntaxError if it is not a path."""
    found, at = [root] if path else [], 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise SyntaxError(f"invalid path at character {at + 1}")
        if step[1] == "//":
            found = _all_below(found)
        found = _parents(root, found) if step[2] == ".." else _children(found, step[2])
        at = step.end()
    return found


def _all_below(elements: Iterable[Element]) -> list[Element]:
    """Return these elements and all below them, in their order, each once."""
    found: dict[Element, None] = {}
    waiting = [*elements][::-1]
    while waiting:
        element = waiting.pop()
        if element not in found:  # Otherwise all below it are there too.
            found[element] = None
            waiting += reversed(element)
    return list(found)


def _parents(root: Element, elements: Iterable[Element]) -> list[Element]:
    above = {child: parent for parent in _all_below([root]) for child in parent}
    return list(dict.fromkeys(above[each] for each in elements if each in above))


def _children(elements: Iterable[Element], step: str) -> list[Element]:
    """Return the children that a step selects: by name, by conditions, and by their positions."""
    name = step.partition("[")[0].strip()
    plain, positions = name, list[int]()
    for condition in _CONDITION.findall(step):
        position = _POSITION.fullmatch(condition)
        if position is None:
            plain += condition
        else:
            positions.append(_index(position))
    found: list[Element] = []
    for element in elements:
        chosen = element.findall(plain)
        for index in positions if chosen else ():
            named = element.findall(name)
            at = named[index] if -len(named) <= index < len(named) else None
            chosen = [each for each in chosen if each is at]
        found += chosen
    return found


def _index(position: "re.Match[str]") -> int:
    """Return the index in a list; a path counts from 1, and from the end by `last()-1`."""
    if position[1] is None:
        return -1 - int(position[2] or 0)
    if int(position[1]) == 0:
        raise SyntaxError("positions begin with 1")
    return int(position[1]) - 1
