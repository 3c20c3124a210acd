"""Checksums of a partition's records that can be joined: two neighbouring runs give the sum of both."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from zlib import crc32

COLUMNS = 6
"""Offsets, timestamps, timestamp types, keys, values, headers."""
_MARK = "columns:"
_MODULUS = 1 << 64
# The CRC-32 polynomial in reversed bit order, as in zlib: the highest bit is x to the power of 0.
_POLYNOMIAL, _ONE, _X = 0xEDB8_8320, 0x8000_0000, 0x4000_0000


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """The CRC-32 and the length in bytes of each column.

    A column is summed in one call, not record by record. Runs that follow each other have the sums of
    the whole, wherever they were cut.
    """

    parts: tuple[tuple[int, int], ...] = ((0, 0),) * COLUMNS

    def __bool__(self) -> bool:
        return any(length for _, length in self.parts)

    def after(self, columns: Iterable[bytes]) -> "ColumnSums":
        """Return the sums extended by the columns of the records that follow."""
        pairs = zip(self.parts, columns, strict=True)
        return ColumnSums(
            tuple((crc32(more, crc), length + len(more)) for (crc, length), more in pairs)
        )

    def followed_by(self, later: "ColumnSums") -> "ColumnSums":
        """Return the sums extended by those of the records that follow."""
        pairs = zip(self.parts, later.parts, strict=True)
        return ColumnSums(
            tuple(
                (_product(crc, _shift(more)) ^ other, length + more)
                for (crc, length), (other, more) in pairs
            )
        )

    def __str__(self) -> str:
        return _MARK + "-".join(f"{crc:08x}.{length:x}" for crc, length in self.parts)


Checksum = ColumnSums | int
"""An integer is a sum over records, which Spark can compute and earlier versions always used.

Sums of the two kinds are never compared.
"""
NOTHING = ColumnSums()


def shown_checksum(checksum: Checksum | None) -> str | None:
    """Return a checksum as text, because many JSON readers cannot hold so large a number."""
    if isinstance(checksum, int):
        return f"{checksum:016x}"
    return None if checksum is None else str(checksum)


def parsed_checksum(text: str | None) -> Checksum | None:
    """Parse the text of `shown_checksum`."""
    if text is None:
        return None
    if not text.startswith(_MARK):
        return int(text, 16)
    pairs = [part.split(".") for part in text.removeprefix(_MARK).split("-")]
    if len(pairs) != COLUMNS:
        raise ValueError(f"a checksum of {len(pairs)} columns; this Playhead knows {COLUMNS}")
    return ColumnSums(tuple((int(crc, 16), int(length, 16)) for crc, length in pairs))


def checksum_of(checksums: Iterable[Checksum | None]) -> Checksum | None:
    """Join the checksums of runs in offset order; None if one is unknown or the kinds differ."""
    total: Checksum = NOTHING
    for each in checksums:
        if each is None:
            return None
        if not total or not each:
            total = total or each
        elif isinstance(total, int) and isinstance(each, int):
            total = (total + each) % _MODULUS
        elif isinstance(total, ColumnSums) and isinstance(each, ColumnSums):
            total = total.followed_by(each)
        else:
            return None
    return total


def differ(one: Checksum | None, other: Checksum | None) -> bool:
    """Return whether two checksums prove different records; unknown or different kinds prove nothing."""
    if one is None or other is None:
        return False
    if one and other and isinstance(one, int) != isinstance(other, int):
        return False
    return bool(one or other) and one != other


def _product(one: int, other: int) -> int:
    """Multiply two polynomials modulo the CRC-32 polynomial."""
    product = 0
    while one:
        if one & _ONE:
            product ^= other
        one = one << 1 & 0xFFFF_FFFF
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product


@lru_cache(maxsize=4096)
def _shift(length: int) -> int:
    """Return x to the power of `length` bytes' bits, the factor by which later bytes shift a CRC-32."""
    power, bits = _ONE, 8 * length
    for index in range(bits.bit_length()):
        if bits >> index & 1:
            power = _product(power, _squared(index % 32))
    return power


@cache
def _squared(times: int) -> int:
    """Return x squared `times` times; the values repeat after 32."""
    if not times:
        return _X
    root = _squared(times - 1)
    return _product(root, root)
