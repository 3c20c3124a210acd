"""Parses the JSON form of a filter: groups of filters that include or exclude pairs."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from playhead.grammar.cursor import NotUnderstood
from playhead.traffic.filter.conditions import WHERE, Both, Either, Test, condition

_PLAIN: Final = {
    "host": "host",
    "detectedCommand": "command",
    "detectedLocation": "location",
    "detectedStatus": "status",
    "optUrl": "url",
    "tech": "tech",
    "l7protocol": "l7protocol",
    "network_address": "networkaddr",
    "networkAddress": "networkaddr",
    "service": "service",
    "cluster": "cluster",
    "namespace": "namespace",
    "direction": "direction",
    "uuid": "uuid",
    "snapshotId": "snapshot",
    "session": "session",
    "source": "source",
}
_BODIES: Final = {
    "json": "req_json",
    "xml": "req_xml",
    "xpath": "req_xpath",
    "soapxpath": "req_soapxpath",
}
_OPERATORS: Final = {
    "CONTAINS": "CONTAINS",
    "EQUAL": "IS",
    "EQUALS": "IS",
    "IS": "IS",
    "REGEX": "REGEX",
}
_BESIDE: Final = {"include", "operator", "id"}


def read(text: str) -> Test:
    """Parse the text; a filter without `include` excludes, because the form leaves false values out."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as exc:
        raise NotUnderstood(text, where=WHERE, at=exc.pos, reason=exc.msg) from exc
    except RecursionError as exc:
        raise NotUnderstood(text, where=WHERE, at=0, reason="it is nested too deeply") from exc
    return _Document(text).group(document, "conditions", _Document.conditions)


class _Document:
    def __init__(self, text: str) -> None:
        self._written = text

    def conditions(self, found: Any) -> Test:
        return self.group(found, "filters", _Document.filter)

    def group(self, found: Any, name: str, each: "Callable[[_Document, Any], Test]") -> Test:
        """Return the parts of a group, joined by its operator."""
        if not isinstance(found, dict):
            raise self._bad(name, f"needed an object with {name}")
        parts = found.get(name)
        if not isinstance(parts, list) or not parts:
            raise self._bad(name, f"{name} must be a non-empty list")
        operator = found.get("operator", "AND")
        if operator not in ("AND", "OR"):
            raise self._bad("operator", f"found {operator!r}, needed AND or OR")
        tests = tuple(each(self, part) for part in parts)
        if len(tests) == 1:
            return tests[0]
        return Both(tests) if operator == "AND" else Either(tests)

    def filter(self, found: Any) -> Test:
        """Return the condition of one filter: a field, an operator and a value."""
        if not isinstance(found, dict):
            raise self._bad("filters", "each filter must be an object")
        names = [name for name in found if name not in _BESIDE]
        if len(names) != 1:
            raise self._bad(
                "filters", f"a filter must have exactly one field; found {names or 'none'}"
            )
        name = names[0]
        operator = _OPERATORS.get(str(found.get("operator", "EQUAL")))
        if operator is None:
            reason = f"found {found['operator']!r}, needed CONTAINS, EQUAL or REGEX"
            raise self._bad("operator", reason)
        keyword, key, values = self._looked_at(name, found[name])
        is_negated = not found.get("include", False)
        try:
            return condition(keyword, key, operator, values, is_negated=is_negated)
        except ValueError as exc:
            raise self._bad(name, exc.args[1]) from exc

    def _looked_at(self, name: str, value: Any) -> tuple[str, str, tuple[str, ...]]:
        if name == "timeRange":
            return "timerange", "", self._texts(name, value, "startTime", "endTime")
        if name in ("tag", "header"):
            key, text = self._texts(name, value, "key", "value")
            return name, key, (text,)
        if name == "reqFilter":
            key, text, kind = self._texts(name, value, "key", "value", "type")
            if kind.lower() not in _BODIES:
                raise self._bad(name, f"found type {kind!r}, needed {', '.join(_BODIES)}")
            return _BODIES[kind.lower()], key, (text,)
        if name == "sample":
            return "sample", "", (self._text(name, value),)
        if name not in _PLAIN:
            raise self._bad(name, f"unknown field {name!r}")
        return _PLAIN[name], "", (self._text(name, value),)

    def _texts(self, name: str, value: Any, *parts: str) -> tuple[str, ...]:
        if not isinstance(value, Mapping):
            raise self._bad(name, f"{name} needs {' and '.join(parts)}")
        return tuple(self._text(name, value.get(part, "")) for part in parts)

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._bad(name, f"{name} must be a string")
        return value

    def _bad(self, name: str, reason: str) -> NotUnderstood:
        at = max(0, self._written.find(f'"{name}"'))
        return NotUnderstood(self._written, where=WHERE, at=at, reason=reason)
