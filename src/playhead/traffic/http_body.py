"""Bodies of captured HTTP requests, as JSON and as XML."""

import base64
import json
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from playhead.traffic.pair import Pair, field

_LARGEST_XML = 16 << 20
_NOT_READ = (b"<!DOCTYPE", b"<!ENTITY", b"\0")


def request_body(pair: Pair) -> bytes | None:
    """The body as it was sent; None without one."""
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
    """The body as a document; None when it is no JSON."""
    body = request_body(pair)
    if body is None:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def xml_texts(pair: Pair, path: str, *, from_soap_body: bool = False) -> Sequence[str]:
    """The texts of the elements, or the values of the attributes, that a path leads to.

    A path is `/order/item/sku`, `//sku`, `order/item[2]` or `//item/@id`, with names without their
    namespace. A document that declares anything of its own is not read: that is how documents of a few
    hundred bytes fill a memory.
    """
    body = request_body(pair)
    # A NUL is in every document of two bytes a character, where a declaration would not be seen.
    if body is None or len(body) > _LARGEST_XML or any(each in body for each in _NOT_READ):
        return ()
    try:
        root = ElementTree.fromstring(body)  # noqa: S314  it declares nothing
        _without_namespaces(root)
        return _texts(_soap_body(root) if from_soap_body else root, path)
    except (ElementTree.ParseError, SyntaxError, LookupError, ValueError, TypeError):
        return ()


def _without_namespaces(root: ElementTree.Element) -> None:
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]


def _soap_body(root: ElementTree.Element) -> ElementTree.Element:
    found = root.find("Body")
    return root if found is None else found


def _texts(root: ElementTree.Element, path: str) -> list[str]:
    elements, _, attribute = path.partition("/@")
    if not attribute and elements.startswith("@"):
        elements, attribute = ".", elements[1:]
    whole = ElementTree.Element("whole")
    whole.append(root)
    # A path from the top begins at the document, one without a slash at its first element or below.
    steps = elements.lstrip("/") if not elements.startswith("//") else f".{elements}"
    found = whole.findall(steps) or root.findall(steps)
    if attribute:
        return [value for each in found if (value := each.get(attribute)) is not None]
    return ["".join(each.itertext()).strip() for each in found]
