"""Walks the bytes of an Avro value before decoding, and refuses those that would crash the process.

The decoder is native code. It follows a recursive schema as deep as the bytes say, until the stack
overflows, and it creates as many empty items as a number in the bytes says. Steps count what a value
takes: one for each type in it, and more for long names, long symbols and decimals of a large scale.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, Final

from playhead.schemas.avro_exact import DECIMAL, MAP, is_final, refuses_below_zero

MOST_NESTED: Final = 200
"""The maximum levels of records, arrays and maps in one value."""
MOST_EMPTY_VALUES: Final = 10_000
"""The maximum number of values without bytes, such as nulls in an array; the bytes limit all others."""
MOST_STEPS: Final = 8 << 20
"""The maximum number of steps of one value, however many bytes it has: a record of one byte becomes 200."""
_MOST_NODES: Final = 10_000
_STEPS_PER_BYTE: Final = 4
_LETTERS_PER_STEP: Final = 32
_INT_BOUND: Final = 2**31
# A number of more than 64 bits, which the decoder cuts, or -2**63, which it takes for a count of 0.
_ODD_NUMBER: Final = re.compile(rb"[\x80-\xff]{9}[\x02-\xff]|\xff{9}\x01")
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LONGEST_NUMBER: Final = 10
_END: Final = 0x80


@dataclass(slots=True)
class _Items:
    """The rest of an array or a map."""

    schema: Any
    is_map: bool
    left: int = 0


class AvroLimits:
    """The limits for values of one schema; values that cannot exceed them are not walked.

    Texts and bytes outside of ASCII may look like a number that is too long; these values are walked.
    """

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self._schema, self._named = schema, named
        self._can_exceed = _can_exceed(schema, named)

    def check(self, data: bytes) -> None:
        """Raise ValueError for a value beyond the limits, and for bytes that do not fit the schema."""
        is_long = len(data) * _STEPS_PER_BYTE > MOST_STEPS
        if self._can_exceed or is_long or _ODD_NUMBER.search(data):
            _Walk(self._named, data).run(self._schema)


def _can_exceed(schema: Any, named: dict[str, Any]) -> bool:
    """Return whether a value of this schema may nest too deeply, or be too large for its bytes."""
    if not is_final(schema) or not refuses_below_zero():
        return True  # Then the decoder does not refuse all numbers outside their bounds.
    return _can_nest(schema, named) or _excess(schema, named) > MOST_EMPTY_VALUES


def _can_nest(schema: Any, named: dict[str, Any]) -> bool:
    """Return whether a schema refers to itself, nests too deeply, or is too large to find out."""
    waiting: list[tuple[Any, tuple[str, ...]]] = [(schema, ())]
    nodes = 0
    while waiting:
        node, inside = waiting.pop()
        nodes += 1
        if nodes > _MOST_NODES:
            return True
        if isinstance(node, str):
            if node not in named:
                continue
            if node in inside:
                return True
            node, inside = named[node], (*inside, node)
        if isinstance(node, list):
            waiting += [(each, inside) for each in node]
            continue
        kind = node["type"]
        if kind in ("record", "error"):
            inside = (*inside, node["name"])
            waiting += [(field["type"], inside) for field in node["fields"]]
        elif kind in ("array", "map"):
            inside = (*inside, "")
            waiting.append((node["items" if kind == "array" else "values"], inside))
        elif not isinstance(kind, str) or kind in named:
            inside = (*inside, "")
            waiting.append((kind, inside))
        if len(inside) > MOST_NESTED:
            return True
    return False


def _excess(node: Any, named: dict[str, Any]) -> float:
    """Return the most steps of a value beyond those that its bytes allow, infinite if items add to them."""
    if isinstance(node, list):
        return 1 - _STEPS_PER_BYTE + max((_excess(each, named) for each in node), default=0)
    if isinstance(node, str) and node in named:
        node = named[node]
    kind = node["type"] if isinstance(node, dict) else node
    if not isinstance(kind, str) or kind in named:
        return 1 + _excess(kind, named)
    if kind in ("record", "error"):
        fields = [_excess(field["type"], named) for field in node["fields"]]
        return 1 + _names(node["fields"]) + sum(fields)
    if kind in ("array", "map"):
        item = 1 + _excess(node["items" if kind == "array" else "values"], named)
        if kind == "map":
            item -= _STEPS_PER_BYTE  # The length of the key.
        return math.inf if item > 0 else 2 - _STEPS_PER_BYTE
    least_bytes = node["size"] if kind == "fixed" else _FIXED_SIZES.get(kind, 1)
    symbols = node["symbols"] if kind == "enum" else ()
    text = max((len(each) for each in symbols), default=0) // _LETTERS_PER_STEP
    return 1 + text + _digits(node) - _STEPS_PER_BYTE * max(least_bytes, 0)


def _names(fields: list[dict[str, Any]]) -> int:
    return sum(len(field["name"]) // _LETTERS_PER_STEP for field in fields)


def _digits(node: Any) -> int:
    """Return the steps for the digits of a decimal that its scale alone makes."""
    if isinstance(node, dict) and node.get("logicalType") in ("decimal", DECIMAL):
        return int(node.get("scale", 0)) // _LETTERS_PER_STEP
    return 0


def _chosen(choices: list[Any], index: int) -> Any:
    if not 0 <= index < list.__len__(choices):
        raise ValueError("the bytes do not fit the schema")
    return choices[index]


class _Walk:
    """Walks one value from its first byte, without recursion, against which it protects."""

    def __init__(self, named: dict[str, Any], data: bytes) -> None:
        self._named, self._data = named, data
        self._at = 0
        self._is_long = _STEPS_PER_BYTE * len(data) > MOST_STEPS
        self._left = MOST_EMPTY_VALUES + min(_STEPS_PER_BYTE * len(data), MOST_STEPS)

    def run(self, schema: Any) -> None:
        waiting: list[tuple[Any, int]] = [(schema, 0)]
        while waiting:
            if self._at > len(self._data):
                raise ValueError("the bytes do not fit the schema")
            node, depth = waiting.pop()
            self._left -= 1
            if depth > MOST_NESTED:
                raise ValueError(f"the value is nested more than {MOST_NESTED} levels deep")
            self._step(node, depth, waiting)
            if self._left < 0 and self._is_long:
                raise ValueError(f"it takes more than {MOST_STEPS:,} steps to read the value")
            if self._left < 0:
                raise ValueError(
                    f"the value has more than {MOST_EMPTY_VALUES:,} empty values, or decimals and"
                    " names that take as much"
                )

    def _step(self, node: Any, depth: int, waiting: list[tuple[Any, int]]) -> None:
        if isinstance(node, str) and node in self._named:
            node = self._named[node]
        if isinstance(node, _Items):
            if self._has_next(node):
                waiting += [(node, depth), (node.schema, depth)]
            return
        if isinstance(node, list):
            waiting.append((_chosen(node, self._number()), depth))
            return
        kind = node["type"] if isinstance(node, dict) else node
        if kind in ("record", "error"):
            self._left -= _names(node["fields"])
            inner = depth + (node["name"] != MAP)  # An entry of a map is no level of its own.
            waiting += [(field["type"], inner) for field in reversed(node["fields"])]
        elif kind == "array":
            waiting.append((_Items(node["items"], is_map=False), depth + 1))
        elif kind == "map":
            waiting.append((_Items(node["values"], is_map=True), depth + 1))
        elif not isinstance(kind, str) or kind in self._named:
            waiting.append((kind, depth))
        elif kind == "enum":
            self._left -= len(_chosen(node["symbols"], self._number())) // _LETTERS_PER_STEP
        else:
            self._left -= _digits(node)
            self._skip(kind, node)

    def _skip(self, kind: str, node: Any) -> None:
        if kind == "fixed":
            self._at += node["size"]
            return
        if kind == "boolean" and self._data[self._at : self._at + 1] > b"\x01":
            raise ValueError(f"a boolean of byte {self._data[self._at]}, needed 0 or 1")
        if kind in _FIXED_SIZES:
            self._at += _FIXED_SIZES[kind]
            return
        number = self._number()
        if kind in ("bytes", "string"):
            self._at += self._length(number)
        elif kind == "int" and not -_INT_BOUND <= number < _INT_BOUND:
            raise ValueError("the bytes do not fit the schema")

    def _has_next(self, items: _Items) -> bool:
        if items.left == 0:
            items.left = self._number()
            if items.left < 0:  # Then the size of the block follows, for skipping it.
                items.left = -items.left
                self._number()
            if items.left == 0:
                return False
        items.left -= 1
        if items.is_map:
            key = self._number()
            self._at += self._length(key)
        return True

    def _length(self, number: int) -> int:
        if number < 0:
            raise ValueError("the bytes do not fit the schema")
        return number

    def _number(self) -> int:
        """Read a zigzag number of at most 64 bits; the decoder treats longer ones differently."""
        value = 0
        for index in range(_LONGEST_NUMBER):
            byte = self._data[self._at] if self._at < len(self._data) else _END
            self._at += 1
            value |= (byte & 0x7F) << 7 * index
            if not byte & 0x80:
                break
        if byte & 0x80 or value >> 64:
            raise ValueError("the bytes do not fit the schema")
        return (value >> 1) ^ -(value & 1)
