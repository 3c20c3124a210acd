"""Decodes JSON values one by one, tolerantly, and says why a value cannot be written."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from sys import getsizeof
from typing import Any

from playhead.json_objects import MOST_VALUES, REPEATED, Repeated, has_more_values, object_of
from playhead.postgres.rows.altered_values import alterations, has_repeated
from playhead.postgres.rows.column_layout import Field
from playhead.postgres.rows.text_format import Bad, Number, text_for
from playhead.records import Records
from playhead.tables.column_names import fold


class Documents:
    """Finds the fields of JSON objects for columns: by name, or else ignoring upper and lower case."""

    def __init__(self, fields: Sequence[Field], extra: Field | None = None) -> None:
        self.fields, self._extra = fields, extra
        folded: dict[str, list[str]] = {}
        for field in self.fields:
            folded.setdefault(fold(field.name), []).append(field.name)
        self._folded = {low: names[0] for low, names in folded.items() if len(names) == 1}
        self._unused: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._unused_bytes = 0

    def spelling(self, document: Mapping[str, Any]) -> dict[str, str]:
        """Return the field's name for each column that the object fills."""
        found = {field.name: field.name for field in self.fields if field.name in document}
        if len(found) == len(self.fields):
            return found
        for name in document:
            column = self._folded.get(fold(name))
            if column is None or column in document:
                continue
            if column in found:
                raise Bad("ambiguous", f"fields {found[column]} and {name} both mean {column}")
            found[column] = name
        return found

    def texts(
        self, document: Mapping[str, Any], fields: Iterable[Field] | None = None
    ) -> dict[str, str]:
        """Return the text for each column; columns without a value are missing."""
        spelling = self.spelling(document)
        found = {}
        for field in self.fields if fields is None else fields:
            held = document.get(spelling[field.name]) if field.name in spelling else None
            if held is not None:
                found[field.name] = text_for(field.column, held)
        if self._extra is not None:
            used = set(spelling.values())
            rest = Repeated([pair for pair in _pairs(document) if pair[0] not in used])
            if rest:
                found[self._extra.name] = text_for(self._extra.column, rest)
        return found

    def left_out(self, document: Mapping[str, Any]) -> tuple[str, ...]:
        """Fields of an object that no column takes, in the order of their names; without those that are null."""
        if self._extra is not None:
            return ()
        names = tuple(document)
        unused = self._unused.get(names)
        if unused is None:
            used = set(self.spelling(document).values())
            unused = tuple(sorted(name for name in names if name not in used))
            self._keep_unused(names, unused)
        if all(document[name] is not None for name in unused):
            return unused
        return tuple(name for name in unused if document[name] is not None)

    def _keep_unused(self, names: tuple[str, ...], unused: tuple[str, ...]) -> None:
        """Keep them for the next object of these names; any number of different ones may come."""
        size = sum(map(getsizeof, (names, unused, *names)))
        if len(self._unused) >= _MOST_SHAPES or self._unused_bytes + size > _MOST_SHAPES_BYTES:
            self._unused.clear()
            self._unused_bytes = 0
        self._unused[names] = unused
        self._unused_bytes += size

    def alterations(
        self, document: Mapping[str, Any], fields: Iterable[Field] | None = None
    ) -> set[str]:
        """Return what the columns cannot keep exactly, in the words under which it is counted."""
        if fields is None or isinstance(document, Repeated):
            fields = self.fields
        spelling = self.spelling(document)
        found = set(alterations(document, fields, spelling))
        if self._extra is not None and self._extra.column.base == "jsonb":
            used = set(spelling.values())
            rest = Repeated([pair for pair in _pairs(document) if pair[0] not in used])
            if rest.repeated or has_repeated([*rest.values()]):
                found.add(REPEATED)
        return found


_MOST_SHAPES = 1_000
_MOST_SHAPES_BYTES = 16 << 20


def read_object(value: bytes) -> dict[str, Any]:
    """Parse a value as a JSON object; numbers other than integers keep their text."""
    return _object_of(read_json(value, "the value"))


def objects_of(samples: Iterable[Records]) -> list[dict[str, Any]]:
    """Return the values that are JSON objects."""
    found = []
    for value in chain.from_iterable(run.readable for run in samples):
        if value is not None:
            with suppress(Bad):
                found.append(read_object(value))
    return found


def read_names(value: bytes) -> dict[str, Any]:
    """The JSON object that a value is, for its names and for what is null; all numbers as texts."""
    return _object_of(read_json(value, "the value", _NAMES.decode))


def _object_of(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
        raise Bad(
            "json", f"the value is {kinds.get(type(document), 'a number')}, not a JSON object"
        )
    return document


def read_json(held: bytes, what: str, read: Callable[[str], Any] | None = None) -> Any:
    try:
        text = held.decode("utf-8")
        if has_more_values(text, MOST_VALUES):
            raise Bad("json", f"{what} has more than {MOST_VALUES:,} values in it")
        return (read or _loads)(text)
    except UnicodeDecodeError as exc:
        raise Bad(
            "utf8", f"{what} is not UTF-8: byte {exc.start} is {held[exc.start]:#04x}"
        ) from exc
    except RecursionError as exc:
        raise Bad("json", f"{what} is nested too deeply") from exc
    except json.JSONDecodeError as exc:
        raise Bad("json", f"{what} is not JSON: {exc.msg}, at character {exc.pos}") from exc


def _loads(text: str) -> Any:
    try:
        return (_READER_OF_SIGNS if _MINUS_ZERO.search(text) else _READER).decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # An integer with more digits than Python converts by default.
        return _READER_OF_LONG.decode(text)


def _pairs(document: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return document.pairs if isinstance(document, Repeated) else document.items()


_READER = json.JSONDecoder(parse_float=Number, parse_constant=Number, object_pairs_hook=object_of)
# Arrow and the server keep the sign of -0, and so does text; an integer of Python does not.
_MINUS_ZERO = re.compile(r"-0(?![0-9])")
_READER_OF_SIGNS = json.JSONDecoder(
    parse_int=lambda text: Number(text) if text == "-0" else int(text),
    parse_float=Number,
    parse_constant=Number,
    object_pairs_hook=object_of,
)
_NAMES = json.JSONDecoder(parse_int=str, parse_float=str)
_READER_OF_LONG = json.JSONDecoder(
    parse_float=Number, parse_constant=Number, parse_int=Number, object_pairs_hook=object_of
)
