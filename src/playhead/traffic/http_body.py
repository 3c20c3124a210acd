"""Parses the bodies of captured HTTP requests as JSON and as XML."""

import base64
import json
import re
from binascii import Error as NotBase64
from collections.abc import Iterable
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from playhead.traffic.json_documents import loaded_text
from playhead.traffic.pair import Pair, field

_CONDITION: Final = re.compile(r"""\[(?:'[^']*'|"[^"]*"|[^\]'"])*\]""")
_STEP: Final = re.compile(rf"(//?|^)([^/\[\]]+(?:{_CONDITION.pattern})*)")
_POSITION: Final = re.compile(r"\[\s*(?:([0-9]{1,9})|last\(\)\s*(?:-\s*([0-9]{1,9}))?)\s*\]")

_LARGEST_XML = 16 << 20
_MOST_TAGS = 2 << 20
"""Opening and closing; as many empty elements take 300 MB."""
_MOST_OF_NAMESPACES = 128 << 20
"""Letters: the parser keeps each name together with its namespace, which one attribute says for all names."""
_DEEPEST_XML = 100
"""Each level repeats the text of all levels below it, if a path names them all."""
_NOT_READ = (b"<!DOCTYPE", b"<!ENTITY", b"\0")


def request_body(pair: Pair) -> bytes | None:
    """Return the body as it was sent; None if there is none."""
    request = field(pair, "http", "req")
    encoded = field(request, "bodyBase64")
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except (NotBase64, ValueError):
            return None
    plain = field(request, "body")
    return plain.encode("utf-8", "surrogatepass") if isinstance(plain, str) else None


def request_json(pair: Pair) -> Any:
    """Return the body as a JSON document; None if it is not JSON."""
    body = request_body(pair)
    if body is None:
        return None
    try:
        return loaded_text(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError):
        return None


def xml_texts(pair: Pair, path: str, *, from_soap_body: bool = False) -> Iterable[str]:
    """Return the texts of the elements, or the values of the attributes, at a path.

    A path is `/order/item/sku`, `//sku`, `order/item[2]` or `//item/@id`, with names without namespace. A
    document with a DTD is not parsed, because entity declarations can expand a few hundred bytes to gigabytes.
    Nor is one that is nested too deeply, or has too many elements.
    """
    body = request_body(pair)
    if body is None or len(body) > _LARGEST_XML or body.count(b"<") > _MOST_TAGS:
        return ()
    # A document in UTF-16 contains NUL; a declaration in it would not be found.
    if any(each in body for each in _NOT_READ):
        return ()
    try:
        root = _parsed(body)
        _without_namespaces(root)
        return _texts(_soap_body(root) if from_soap_body else root, path)
    except (ElementTree.ParseError, SyntaxError, LookupError, ValueError, TypeError):
        return ()


class _Elements(ElementTree.TreeBuilder):
    """Builds the elements of a document, and refuses namespaces that are too long for the number of its names."""

    def __init__(self, names: int) -> None:
        super().__init__()
        self._names = names

    def start_ns(self, _: str, namespace: str) -> None:
        """Called for each declaration, before a name is read that is in the namespace."""
        if len(namespace) * self._names > _MOST_OF_NAMESPACES:
            raise ValueError("the names would take much more memory than the document")


def _parsed(body: bytes) -> Element:
    """Return the root element of a document without declarations."""
    names = body.count(b"<") + body.count(b"=")
    parser = ElementTree.XMLParser(target=_Elements(names))  # noqa: S314
    return ElementTree.fromstring(body, parser)  # noqa: S314


def _without_namespaces(root: ElementTree.Element) -> None:
    """Leave only the names of the elements; ValueError if they are nested too deeply."""
    level = [root]
    for _ in range(_DEEPEST_XML):
        for element in level:
            if isinstance(element.tag, str):
                element.tag = element.tag.rpartition("}")[2]
        level = [child for element in level for child in element]
    if level:
        raise ValueError(f"the document is nested more than {_DEEPEST_XML} levels deep")


def _soap_body(root: ElementTree.Element) -> ElementTree.Element:
    found = root.find("Body")
    return root if found is None else found


def _texts(root: ElementTree.Element, path: str) -> Iterable[str]:
    """Return the texts one by one, because together they can be much longer than the document."""
    elements, _, attribute = path.partition("/@")
    if not attribute and elements.startswith("@"):
        elements, attribute = ".", elements[1:]
    whole = ElementTree.Element("whole")
    whole.append(root)
    # A path with a leading slash begins at the document, otherwise at its root element or below.
    steps = elements.lstrip("/") if not elements.startswith("//") else f".{elements}"
    found = elements_at(whole, steps) or elements_at(root, steps)
    if attribute:
        return [value for each in found if (value := each.get(attribute)) is not None]
    return ("".join(each.itertext()).strip() for each in found)


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
