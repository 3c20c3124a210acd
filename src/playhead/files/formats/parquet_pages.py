"""Sums up what the pages of a column say; the reader of Parquet believes them, and not the footer."""

from collections.abc import Mapping
from typing import Final, NamedTuple

# Of the headers of pages, in Thrift's compact protocol.
_UNFOLDED, _PACKED = 2, 3
# Of data, with the field of each that says how they are encoded.
_DATA_HEADERS: Final = {5: 2, 8: 4}
_VALUES: Final = 1
_NAMES_OF_ENCODINGS: Final = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
}
_BINARY, _STRUCT = 8, 12
_SIZES: Final = {1: 0, 2: 0, 3: 1, 7: 8}
_NUMBERS: Final = (4, 5, 6)
NAMES: Final = 1 << 15
_DEEPEST: Final = 4
_LONGEST_NUMBER: Final = 10
_Fields = Mapping[int, "int | _Fields"]


class Pages(NamedTuple):
    """How many bytes the pages of a column unfold to, how many values they have, and how these are encoded."""

    unfolded: int
    values: int
    encodings: frozenset[str]


def pages_of(data: bytes, start: int, end: int) -> Pages:
    """Return what the headers of pages say; raise ValueError for what are no pages."""
    size = values = 0
    encodings: set[str] = set()
    at = start
    while at < end:
        header = _Header(data, at, end)
        fields = header.struct()
        unfolded, packed = fields.get(_UNFOLDED), fields.get(_PACKED)
        if (
            not isinstance(unfolded, int)
            or not isinstance(packed, int)
            or min(unfolded, packed) < 0
        ):
            raise ValueError("a page has no size")
        size += unfolded
        for each, encoding in _DATA_HEADERS.items():
            of_data = fields.get(each, {})
            said = of_data if isinstance(of_data, Mapping) else {}
            count, number = said.get(_VALUES), said.get(encoding)
            if isinstance(count, int) and count < 0:  # It would hide the values of other pages.
                raise ValueError("a page has fewer values than none")
            values += count if isinstance(count, int) else 0
            if isinstance(number, int):
                encodings.add(_NAMES_OF_ENCODINGS.get(number, str(number)))
        at = header.at + packed
    if at > end:
        raise ValueError("a page is longer than its column")
    return Pages(size, values, frozenset(encodings))


class Compact:
    """Reads numbers of Thrift's compact protocol."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self.at, self._end = data, at, end

    def _signed(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)

    def _number(self) -> int:
        number = 0
        for each in range(_LONGEST_NUMBER):
            byte = self._byte()
            number |= (byte & 127) << 7 * each
            if byte < 128:
                return number
        raise ValueError("a number in it is too long")

    def _byte(self) -> int:
        if not 0 <= self.at < self._end:
            raise ValueError("its footer, or the header of a page, is cut off")
        byte = self._data[self.at]
        self.at += 1
        return byte


class _Header(Compact):
    """Reads one header; it has numbers, texts and structs, and no lists."""

    def struct(self, depth: int = 0) -> _Fields:
        if depth > _DEEPEST:
            raise ValueError("the header of a page is nested too deeply")
        fields: dict[int, int | _Fields] = {}
        name = 0
        while said := self._byte():
            kind = said & 15
            name = name + (said >> 4) if said >> 4 else self._signed()
            # The reader of Parquet takes the field whose type it expects, and only 16 bits of its number.
            if name in fields or not 0 < name < NAMES:
                raise ValueError(
                    f"the header of a page has the field {name} twice, or no such field"
                )
            if kind in _NUMBERS:
                fields[name] = self._signed()
            elif kind == _STRUCT:
                fields[name] = self.struct(depth + 1)
            elif kind == _BINARY:
                length = self._number()  # which moves on itself
                self.at += length
            elif kind in _SIZES:
                self.at += _SIZES[kind]
            else:
                raise ValueError(f"the header of a page has a field of the type {kind}")
        return fields
