"""Refuses Protobuf values that would fill the memory when they are decoded.

The decoder reserves room for all fields of a message's type, and two bytes can ask for a message. A value
in an `Any` is decoded again at each level, and each level keeps a copy of all below it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Final, NamedTuple

MOST_FIELDS: Final = 2_000_000
"""The maximum number of fields of all messages in a value, present or not; one more for each byte."""
MOST_MESSAGES: Final = 2 << 20
"""The maximum number of messages in a value: two bytes of it become 200."""
MOST_MEMBERS: Final = 4 << 20
"""The maximum number of members of all its lists."""
MOST_UNKNOWN: Final = 16 << 20
"""The maximum number of bytes in fields that the schema lacks: each of two bytes becomes an object of a hundred."""
MOST_ANYS: Final = 16
"""The maximum levels of `google.protobuf.Any` in one value."""
MOST_NAMES: Final = 128 << 20
"""The maximum number of letters of the names of fields, or of enums' values: a byte of a value can stand for one."""
MOST_LETTERS: Final = 255
"""The maximum length of a name of a field or an enum's value: two bytes of a value can stand for it in its JSON."""
MOST_OF_EXTENSION: Final = 2 * MOST_LETTERS
"""The same of an extension's, with its package and the types that it is in: each `Any` may repeat it."""
MOST_MAPS: Final = 8_191
"""The maximum number of maps in a type: no value has room for more, and the library takes long to find that out."""
_ANY: Final = "google.protobuf.Any"
_ITSELF: Final = "DESCRIPTOR"
_ASKED_FOR: Final = (_ITSELF, "ListFields")
_VARINT, _FIXED64, _SIZED, _GROUP, _GROUP_END, _FIXED32 = range(6)
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_NUMBER: Final = 10
_MOST_GROUPS: Final = 100
_SHORTEST_MESSAGE: Final = 2
_OF_ITS_OWN: Final = "message_set_wire_format"
_TOO_MANY_FIELDS: Final = (
    f"its messages have more than {MOST_FIELDS:,} fields that are not in its bytes"
)

_TOO_MANY_MESSAGES: Final = f"it has more than {MOST_MESSAGES:,} messages in it"
_TOO_MANY_MEMBERS: Final = f"its lists have more than {MOST_MEMBERS:,} members"


@dataclass(frozen=True, slots=True)
class _Type:
    """What a message takes beside its bytes, and the fields that are messages."""

    fields: int
    """The fields that the decoder reserves."""
    letters: int
    """The length of their names, and of the names of enums' defaults, in the value's JSON."""
    longest: int
    """The length of the longest name of an enum's value in a field."""
    nested: dict[int, Any]


class _Reach(NamedTuple):
    """The most of a type and of all types that are in its fields."""

    fields: int
    letters: int
    longest: int
    has_any: bool
    hides_itself: bool
    """Whether one has a field that hides what it is itself."""


_UNKNOWN: Final = _Type(0, 0, 0, {})


class ProtobufLimits:
    """The limits for values of one pool's types; inspects each type once."""

    def __init__(self) -> None:
        self._types: dict[str, _Type] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._lengths: dict[str, dict[int, int]] = {}
        self._reached: dict[str, _Reach] = {}

    def check(self, kind: Any, data: bytes) -> None:
        """Raise ValueError for bytes with too many fields; what is no Protobuf is left to the decoder."""
        most, left = self._reach(kind), MOST_FIELDS + len(data)
        messages = 1 + len(data) // _SHORTEST_MESSAGE
        is_long = messages > MOST_MESSAGES and bool(self._type(kind).nested)
        if is_long or most.fields * messages > left or most.letters * messages > MOST_NAMES:
            _Walk(data, self._type, left).run(kind)

    def check_anys(self, held: Any, data: bytes, opened: Callable[[Any], Any]) -> None:
        """Raise ValueError for a value, decoded from these bytes, with too many levels of `Any`, or with too many
        fields in all of them; `opened` decodes one.
        """
        if not self._reach(type_of(held)).has_any:
            return
        waiting, left = [(held, 0)], MOST_FIELDS + len(data)
        while waiting:
            held, level = waiting.pop()
            if type_of(held).full_name != _ANY:
                left -= self._type(type_of(held)).fields if level else 0
                if left < 0:
                    raise ValueError(_TOO_MANY_FIELDS)
                waiting += [(each, level) for each in _messages(held)]
            elif level == MOST_ANYS:
                raise ValueError(f"the value has more than {MOST_ANYS} levels of {_ANY}")
            elif fields_of(held):  # An empty one has no type.
                waiting.append((opened(held), level + 1))

    def check_enums(self, held: Any, data: bytes, opened: Callable[[Any], Any]) -> None:
        """Raise ValueError for a value, decoded from these bytes, that is far longer by its enums' names."""
        most = self._reach(type_of(held))
        if len(data) * (MOST_LETTERS if most.has_any else most.longest) <= MOST_NAMES:
            return
        letters, waiting = 0, [held]
        while waiting:
            held = waiting.pop()
            if type_of(held).full_name == _ANY:
                waiting += [opened(held)] if fields_of(held) else []
                continue
            waiting += _messages(held)
            letters += sum(self._letters(field, value) for field, value in fields_of(held))
            if letters > MOST_NAMES:
                raise ValueError(f"names of enums take more than {MOST_NAMES:,} letters of it")

    def check_lists(self, held: Any, data: bytes, opened: Callable[[Any], Any]) -> None:
        """Raise ValueError for a value, decoded from these bytes, whose lists have too many members in all, or that
        has too many messages, each `Any` in it included; `opened` decodes one.
        """
        if len(data) <= MOST_MEMBERS:
            return
        left, messages, waiting = MOST_MEMBERS, MOST_MESSAGES, [held]
        while waiting:
            held = waiting.pop()
            if type_of(held).full_name == _ANY:
                waiting += [opened(held)] if fields_of(held) else []
                continue
            messages -= 1
            if messages < 0:
                raise ValueError(_TOO_MANY_MESSAGES)
            left -= sum(
                len(value)
                for field, value in fields_of(held)
                if not isinstance(value, str | bytes) and hasattr(value, "__len__")
            )
            if left < 0:
                raise ValueError(_TOO_MANY_MEMBERS)
            waiting += _messages(held)

    def check_unknown(self, held: Any, data: bytes) -> None:
        """Raise ValueError for a value, decoded from these bytes, most of which the schema has no fields for."""
        if len(data) <= MOST_UNKNOWN:
            return
        kind = type(held)
        known = kind()
        kind.CopyFrom(known, held)
        kind.DiscardUnknownFields(known)
        if len(data) - kind.ByteSize(known) > MOST_UNKNOWN:
            raise ValueError(f"over {MOST_UNKNOWN:,} bytes are in fields that the schema lacks")

    def _type(self, kind: Any) -> _Type:
        if kind is None:
            return _UNKNOWN
        known = self._types.get(kind.full_name)
        if known is None:
            fields = [*kind.fields]
            # They have numbers of the message, and are no fields of its type.
            if kind.is_extendable:
                fields += kind.file.pool.FindAllExtensions(kind)
            nested = {each.number: each.message_type for each in fields if each.message_type}
            made = [kind]
            if kind.GetOptions().map_entry:  # A value that is not there is made nevertheless.
                made += nested.values()
            enums = {each.enum_type.full_name: each.enum_type for each in fields if each.enum_type}
            lengths = map(self._lengths_of, enums.values())
            counts, letters = zip(*map(self._size, made), strict=True)
            longest = max((max(each.values()) for each in lengths), default=0)
            known = self._types[kind.full_name] = _Type(sum(counts), sum(letters), longest, nested)
        return known

    def _size(self, kind: Any) -> tuple[int, int]:
        """Return how many fields a type has, and the letters of their names, of those of enums' defaults, and of
        extensions.

        A type with thousands of maps to itself would otherwise be counted once for each of them.
        """
        known = self._sizes.get(kind.full_name)
        if known is None:
            names = [each.name for each in kind.fields]
            names += [each.enum_type.values[0].name for each in kind.fields if each.enum_type]
            if kind.is_extendable:  # Their names in JSON have those of all types that they are in.
                names += [each.full_name for each in kind.file.pool.FindAllExtensions(kind)]
            known = self._sizes[kind.full_name] = len(kind.fields), sum(map(len, names))
        return known

    def _letters(self, field: Any, value: Any) -> int:
        """Return the length of the names that a field with enums stands for."""
        field, value = _of_map(field, value)
        if field.enum_type is None:
            return 0
        of = self._lengths_of(field.enum_type)
        counts = Counter((value,) if isinstance(value, int) else value)
        return sum(count * of.get(number, 0) for number, count in counts.items())

    def _lengths_of(self, enum: Any) -> dict[int, int]:
        """Return the lengths of an enum's names, by number."""
        known = self._lengths.get(enum.full_name)
        if known is None:
            known = self._lengths[enum.full_name] = {
                each.number: len(each.name) for each in reversed(enum.values)
            }
        return known

    def check_names(self, held: Any) -> None:
        """Raise ValueError for a value with a field that hides what it is itself."""
        if self._reach(type_of(held)).hides_itself:
            need_names(held, (_ITSELF,))

    def _reach(self, kind: Any) -> _Reach:
        known = self._reached.get(kind.full_name)
        if known is None:
            types = {kind.full_name: kind}
            waiting = [kind]
            while waiting:
                for type_ in self._type(waiting.pop()).nested.values():
                    if type_.full_name not in types:
                        types[type_.full_name] = type_
                        waiting.append(type_)
            found = [self._type(each) for each in types.values()]
            fields, letters = (
                max(getattr(it, name) for it in found) for name in ("fields", "letters")
            )
            known = self._reached[kind.full_name] = _Reach(
                fields,
                letters,
                max(each.longest for each in found),
                _ANY in types,
                any(_ITSELF in each.fields_by_name for each in types.values()),
            )
        return known


def check_types(file: Any) -> None:
    """Raise ValueError for a compiled file with a name that would fill the memory where values repeat it, with
    a type of more maps than a value can have, or with one whose bytes have a form of their own.
    """
    waiting = [(file, len(file.package))]
    while waiting:
        held, scope = waiting.pop()
        is_file = held is file
        types = held.message_type if is_file else held.nested_type
        if not is_file and held.options.message_set_wire_format:
            raise ValueError(f"the schema has a type with {_OF_ITS_OWN}, which is not supported")
        if sum(each.options.map_entry for each in types) > MOST_MAPS:
            raise ValueError(f"the schema has a type with more than {MOST_MAPS:,} maps")
        waiting += [(each, scope + 1 + len(each.name)) for each in types]
        if any(scope + 1 + len(each.name) > MOST_OF_EXTENSION for each in held.extension):
            raise ValueError(
                f"the schema has an extension with a whole name of more than {MOST_OF_EXTENSION} letters"
            )
        names = [each.name for kind in held.enum_type for each in kind.value]
        names += [each.name for each in held.extension]
        names += [held.package] if is_file else [each.name for each in held.field]
        if any(len(name) > MOST_LETTERS for name in names):
            raise ValueError(f"the schema has a name of more than {MOST_LETTERS} letters")


def type_of(held: Any) -> Any:
    """Return the descriptor of a message; the message itself may have a field of the name DESCRIPTOR."""
    return type(held).DESCRIPTOR


def fields_of(held: Any) -> Any:
    """Return the fields of a message that are present; it may have one of the name ListFields."""
    return type(held).ListFields(held)


def need_names(held: Any, names: Sequence[str] = _ASKED_FOR) -> None:
    """Raise ValueError for a message with a field that hides what Protobuf's own JSON asks it for."""
    waiting = [held]
    while waiting:
        held = waiting.pop()
        waiting += _messages(held)
        for name in names:
            if name in type_of(held).fields_by_name:
                raise ValueError(f"a field of the name {name} cannot be read here")


def need_texts(held: Any) -> None:
    """Raise ValueError for a text of a decoded value that is not UTF-8.

    Files of proto2 allow one, and Protobuf's own JSON would write Python's `b'…'`.
    """
    waiting = [held]
    while waiting:
        held = waiting.pop()
        waiting += _messages(held)
        for field, value in starmap(_of_map, fields_of(held)):
            if field.type == field.TYPE_STRING:
                several = (value,) if isinstance(value, str | bytes) else value
                for each in several:
                    text_of(each)


def text_of(held: Any) -> str:
    """Return the text of a field, or raise ValueError for bytes that are not UTF-8."""
    if not isinstance(held, str):
        raise ValueError("a text is not UTF-8")  # noqa: TRY004 - a record is refused for it
    return held


def _of_map(field: Any, value: Any) -> tuple[Any, Any]:
    """Return the field of a map's values, and these values; another field as it is."""
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return field, value
    return entry.fields_by_name["value"], value.values()


def _messages(held: Any) -> Iterator[Any]:
    """Yield the messages in the fields of a message."""
    for field, value in fields_of(held):
        type_ = field.message_type
        if type_ is None:
            continue
        if type_.GetOptions().map_entry:
            if type_.fields_by_name["value"].message_type is not None:
                yield from (value[key] for key in value)
        elif hasattr(value, "ListFields"):
            yield value
        else:
            yield from value


class _Walk:
    """Walks one value and counts the fields of its messages; only groups need recursion."""

    def __init__(self, data: bytes, type_: Callable[[Any], _Type], left: int) -> None:
        self._data, self._type, self._left, self._letters = data, type_, left, MOST_NAMES
        self._messages = MOST_MESSAGES
        self._waiting: list[tuple[Any, int, int]] = []

    def run(self, kind: Any) -> None:
        self._waiting.append((kind, 0, len(self._data)))
        while self._waiting:
            self._message(*self._waiting.pop(), 0)

    def _message(self, kind: Any, at: int, end: int, groups: int) -> int:
        """Walk a message or a group, and return where it ends; messages in it wait."""
        if groups > _MOST_GROUPS:
            raise ValueError(f"the value has more than {_MOST_GROUPS} levels of groups")
        type_ = self._type(kind)
        self._count(type_)
        while at < end:
            tag, at = self._number(at)
            form, held = tag & 7, type_.nested.get(tag >> 3)
            if form == _VARINT:
                _, at = self._number(at)
            elif form == _SIZED:
                size, at = self._number(at)
                if held is not None:
                    self._add()
                    self._waiting.append((held, at, min(at + size, end)))
                at += size
            elif form in _FIXED_SIZES:
                at += _FIXED_SIZES[form]
            elif form == _GROUP:
                self._add()
                at = self._message(held, at, end, groups + 1)
            elif form == _GROUP_END:
                return at
            else:
                return end
        return at

    def _add(self) -> None:
        """Count one more message, before it waits: each takes memory here too."""
        self._messages -= 1
        if self._messages < 0:
            raise ValueError(_TOO_MANY_MESSAGES)

    def _count(self, type_: _Type) -> None:
        self._left -= type_.fields
        self._letters -= type_.letters
        if self._left < 0:
            raise ValueError(_TOO_MANY_FIELDS)
        if self._letters < 0:
            raise ValueError(f"names of its fields take more than {MOST_NAMES:,} letters")

    def _number(self, at: int) -> tuple[int, int]:
        value = shift = 0
        for byte in self._data[at : at + _LONGEST_NUMBER]:
            value |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not byte & 0x80:
                return value, at
        return 0, len(self._data)
