"""Walks the bytes of an Avro value before decoding, and refuses those that would crash the process.

The decoder is native code. It follows a recursive schema as deep as the bytes say, until the stack
overflows, and it creates as many empty items as a number in the bytes says.
"""

from dataclasses import dataclass
from typing import Any, Final

MOST_NESTED: Final = 200
"""The maximum levels of records, arrays and maps in one value."""
MOST_EMPTY_VALUES: Final = 10_000
"""The maximum number of values without bytes, such as nulls in an array; the bytes limit all others."""
_MOST_NODES: Final = 10_000
_STEPS_PER_BYTE: Final = 4
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
    """The limits for values of one schema; values that cannot exceed them are not walked."""

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self._schema, self._named = schema, named
        self._can_exceed = _can_exceed(schema, named)

    def check(self, data: bytes) -> None:
        """Raise ValueError for a value beyond the limits, and for bytes that do not fit the schema."""
        if self._can_exceed:
            _Walk(self._named, data).run(self._schema)


def _can_exceed(schema: Any, named: dict[str, Any]) -> bool:
    """Return whether a schema refers to itself, nests too deeply, or has many or endless empty values."""
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
            if kind == "array" and _may_be_empty(node["items"], named):
                return True
        elif not isinstance(kind, str) or kind in named:
            waiting.append((kind, inside))
        if len(inside) > MOST_NESTED:
            return True
    return False


def _may_be_empty(node: Any, named: dict[str, Any]) -> bool:
    """Return whether a value can have no bytes: a null, a record without fields, a fixed of size 0."""
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str) and node in named:
            if node in seen:
                continue
            seen.add(node)
            node = named[node]
        if isinstance(node, list):
            return False  # In a union, a byte tells which of its types follows.
        kind = node["type"] if isinstance(node, dict) else node
        if kind in ("record", "error"):
            waiting += [field["type"] for field in node["fields"]]
        elif not isinstance(kind, str):
            waiting.append(kind)
        elif kind != "null" and not (kind == "fixed" and node["size"] == 0):
            return False
    return True


class _Walk:
    """Walks one value from its first byte, without recursion, against which it protects."""

    def __init__(self, named: dict[str, Any], data: bytes) -> None:
        self._named, self._data = named, data
        self._at = 0

    def run(self, schema: Any) -> None:
        waiting: list[tuple[Any, int]] = [(schema, 0)]
        left = MOST_EMPTY_VALUES + _STEPS_PER_BYTE * len(self._data)
        while waiting:
            if self._at > len(self._data):
                raise ValueError("the bytes do not fit the schema")
            node, depth = waiting.pop()
            left -= 1
            if depth > MOST_NESTED:
                raise ValueError(f"the value is nested more than {MOST_NESTED} levels deep")
            if left < 0:
                raise ValueError(f"the value has more than {MOST_EMPTY_VALUES:,} empty values")
            self._step(node, depth, waiting)

    def _step(self, node: Any, depth: int, waiting: list[tuple[Any, int]]) -> None:
        if isinstance(node, str) and node in self._named:
            node = self._named[node]
        if isinstance(node, _Items):
            if self._has_next(node):
                waiting += [(node, depth), (node.schema, depth)]
            return
        if isinstance(node, list):
            index = self._number()
            if not 0 <= index < len(node):
                raise ValueError("the bytes do not fit the schema")
            waiting.append((node[index], depth))
            return
        kind = node["type"] if isinstance(node, dict) else node
        if kind in ("record", "error"):
            waiting += [(field["type"], depth + 1) for field in reversed(node["fields"])]
        elif kind == "array":
            waiting.append((_Items(node["items"], is_map=False), depth + 1))
        elif kind == "map":
            waiting.append((_Items(node["values"], is_map=True), depth + 1))
        elif not isinstance(kind, str) or kind in self._named:
            waiting.append((kind, depth))
        elif kind == "fixed":
            self._at += node["size"]
        else:
            self._skip(kind)

    def _skip(self, kind: str) -> None:
        if kind in _FIXED_SIZES:
            self._at += _FIXED_SIZES[kind]
            return
        number = self._number()
        if kind in ("bytes", "string"):
            self._at += self._length(number)

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
