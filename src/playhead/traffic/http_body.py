"""Parses the bodies of captured HTTP requests as JSON and as XML."""

import base64
import json
from binascii import Error as NotBase64
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

from playhead.traffic.json_documents import loaded_text
from playhead.traffic.pair import Pair, field
from playhead.traffic.xml_path import elements_at

_LARGEST_XML = 16 << 20
_MOST_TAGS = 2 << 20
"""Opening and closing; as many empty elements take 300 MB."""
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
        root = ElementTree.fromstring(body)  # noqa: S314  it has no declarations
        _without_namespaces(root)
        return _texts(_soap_body(root) if from_soap_body else root, path)
    except (ElementTree.ParseError, SyntaxError, LookupError, ValueError, TypeError):
        return ()


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
