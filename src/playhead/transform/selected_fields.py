"""Says of which values the selected fields cannot be read, or would be altered.

To the engine, a value that is no JSON object has none of the fields: they would be NULL, and the record written
without its content. Of two fields with one name it takes one, and it rounds numbers that only a floating-point number
can hold. So a path alone, with or without a type, reads only documents of which nothing is lost. In a larger
expression, such as `coalesce(value:a, value)`, the NULL may be meant.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from playhead.decoding import Decoder, Decoding, Kinds
from playhead.json_objects import MOST_VALUES, has_more_values
from playhead.records import Records
from playhead.transform.json_limits import is_nested_deeper
from playhead.transform.tokens import DOCUMENTS, Step, Token, TokenKind
from playhead.transform.transform import Output, Transform

# The engine's decimals; it makes other numbers floating-point ones.
_MOST_DIGITS = 38
# A number without these signs loses nothing. Possessive, since a value may have a million digits.
_MAY_BE_ROUNDED = re.compile(
    rb"[:,\[]\s*-?[0-9.]++(?:[eE][-+]?[0-9]{3}|(?<=[0-9]{39})|(?<=[0-9.]{40})|(?<=[0-9.]{16})[eE])"
)
# A text has the engine's floating-point numbers: of others than whole numbers, 15 digits are kept.
_MAY_BE_ROUNDED_IN_TEXT = re.compile(
    rb"[:,\[]\s*-?[0-9.]++(?:[eE][-+]?[0-9]{3}|(?<=[0-9.]{17})|(?<=[0-9.]{16})[eE])"
)
# The engine's limit is higher. That of Python depends on what calls it, and replay and verify must agree.
_DEEPEST = 900
_TEXTS = ("string", "varchar", "char", "binary")
_HALF_OF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class SelectedPath:
    """A path that a selected field is."""

    column: str
    steps: tuple[Step, ...]
    text: str
    keeps_names: bool
    """Whether it is made of all fields inside: without a type, or with one that has several values."""
    keeps_numbers: bool
    """Whether numbers keep their JSON type: without a type, or as a variant."""
    is_text: bool
    """Whether it becomes a text first: numbers in it are those that the engine has read."""

    @classmethod
    def of(cls, output: Output, path: Token) -> "SelectedPath":
        types = [t.text.lower() for t in output.expression.tokens if t.kind is TokenKind.TYPE]
        first = types[0] if types else "variant"
        is_whole = first.startswith(("array", "map", "struct", "variant"))
        keeps_numbers, is_text = is_whole and "variant" in first, first.startswith(_TEXTS)
        return cls(path.column, path.steps, path.text, is_whole, keeps_numbers, is_text)


def selected_paths(outputs: Iterable[Output]) -> tuple[SelectedPath, ...]:
    """Return the paths into keys and values that selected fields are."""
    return tuple(
        SelectedPath.of(output, path)
        for output in outputs
        # Without a new time a record keeps its own, and its content.
        if output.replaces != "timestamp" and (path := output.path) and path.column in DOCUMENTS
    )


def for_selection(decoding: Decoding, transform: Transform) -> Decoding:
    """Return the decoding, of whose values the selected fields are looked at too."""
    paths = selected_paths(transform.outputs())
    return _SelectedDecoding(decoding, paths) if paths else decoding


@dataclass(frozen=True)
class _SelectedDecoding:
    inner: Decoding
    paths: tuple[SelectedPath, ...]

    def open(self) -> "_SelectedDecoder":
        return _SelectedDecoder(self.inner.open(), self.paths)


class _SelectedDecoder:
    def __init__(self, inner: Decoder, paths: Sequence[SelectedPath]) -> None:
        self._inner = inner
        self._paths = {
            column: [path for path in paths if path.column == column]
            for column in sorted({path.column for path in paths})
        }

    def decoded_first(self, records: Records, /) -> Records:
        found = self._inner.decoded_first(records)
        reasons: dict[int, str] = {}
        for column, paths in self._paths.items():
            documents = found.keys if column == "key" else found.readable
            for offset, reason in _why_not(found.offsets, documents, paths):
                if offset not in found.undecoded:
                    reasons.setdefault(offset, reason)
        return replace(found, unselectable=reasons)

    def kinds(self, runs: Iterable[Records], /) -> Kinds:
        return self._inner.kinds(runs)


def _why_not(
    offsets: Sequence[int], documents: Sequence[bytes | None], paths: Sequence[SelectedPath]
) -> Iterator[tuple[int, str]]:
    """Return the offsets of the documents that cannot be selected from, with the reasons."""
    # One search in all documents: there is mostly none.
    rounded = _MAY_BE_ROUNDED_IN_TEXT if any(p.is_text for p in paths) else _MAY_BE_ROUNDED
    is_any = rounded.search(b"\n".join(filter(None, documents))) is not None
    for offset, document in zip(offsets, documents, strict=True):
        # A tombstone stays one.
        if document is None:
            continue
        reader = _READER
        if is_any and rounded.search(document):
            reader = _READER_OF_NUMBERS
        reason = _why_not_from(document, reader, paths)
        if reason is not None:
            yield offset, reason


def _why_not_from(
    document: bytes, reader: json.JSONDecoder, paths: Sequence[SelectedPath]
) -> str | None:
    column = paths[0].column
    if is_nested_deeper(document, _DEEPEST):
        return f"the {column} is nested too deeply: no field of it can be selected"
    try:
        text = document.decode("utf-8")
        if has_more_values(text, MOST_VALUES):
            return (
                f"the {column} has more than {MOST_VALUES:,} values: no field of it can be selected"
            )
        found = reader.decode(text)
        if _HALF_OF_PAIR.search(document):
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        return f"the {column} is nested too deeply: no field of it can be selected"
    except ValueError:
        return f"the {column} is not JSON: no field of it can be selected"
    for path in paths:
        reason = _why_not_at(found, path)
        if reason is not None:
            return reason
    return None


def _why_not_at(document: Any, path: SelectedPath) -> str | None:
    is_of_list = isinstance(path.steps[0], int)
    if not isinstance(document, list if is_of_list else dict):
        name = "list" if is_of_list else "object"
        return f"the {path.column} is not a JSON {name}: no field of it can be selected"
    found: Any = document
    for step in path.steps:
        if isinstance(found, _Repeated) and step in found.repeated:
            return f"{path.text} has two fields of the name {step}: one of them would be lost"
        try:
            found = found[step]
        except (LookupError, TypeError):  # The engine finds nothing either.
            return None
    return _altered(found, path) if path.keeps_names or path.is_text else None


def _altered(found: Any, path: SelectedPath) -> str | None:
    waiting = [found]
    while waiting:
        each = waiting.pop()
        if isinstance(each, _Repeated) and path.keeps_names:
            name = min(each.repeated)
            return f"{path.text} has two fields of the name {name}: one of them would be lost"
        if isinstance(each, _Number):
            if _is_rounded(each, path):
                return (
                    f"{path.text} has a number that would be rounded; {_way_out(each, found, path)}"
                )
        elif isinstance(each, _Repeated):
            waiting += each.every
        elif isinstance(each, dict | list):
            waiting += each.values() if isinstance(each, dict) else each
    return None


def _way_out(number: str, found: Any, path: SelectedPath) -> str:
    if path.is_text and not _is_rounded_as_json(number):
        return f"{path.text} without a type keeps it"
    if number is not found:
        return "it can only be rounded"
    return f"{path.text}::double AS … rounds it, too"


def _is_rounded(number: str, path: SelectedPath) -> bool:
    if path.is_text:
        is_whole = number.removeprefix("-").isdigit()
        return not is_whole and _is_beyond_double(number)
    return path.keeps_numbers and _is_rounded_as_json(number)


def _is_rounded_as_json(text: str) -> bool:
    if "e" in text.lower():
        return _is_beyond_double(text)
    _, digits, exponent = Decimal(text).as_tuple()
    is_decimal = len(digits) <= _MOST_DIGITS >= -int(exponent)
    return not is_decimal and _is_beyond_double(text)


def _is_beyond_double(text: str) -> bool:
    try:
        return Decimal(repr(float(text))) != Decimal(text)
    except InvalidOperation:  # An exponent of more than 18 digits.
        return True


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class _Repeated(dict[str, Any]):
    """An object with several fields of one name, in `repeated`."""

    repeated: frozenset[str] = frozenset()
    every: Sequence[Any] = ()
    """All values, also those of the other fields of a name."""


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    made = _Repeated(found)
    made.every = [value for _, value in pairs]
    made.repeated = frozenset(
        name for name, count in Counter(n for n, _ in pairs).items() if count > 1
    )
    return made


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_READER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
_READER_OF_NUMBERS = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_Number, parse_float=_Number
)
