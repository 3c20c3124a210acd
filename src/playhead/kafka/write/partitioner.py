"""The partition of a key, by the rule of Java's producer: murmur2 of the key's bytes."""

import struct

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 hash (`org.apache.kafka.common.utils.Utils.murmur2`) as an unsigned number."""
    length = len(data)
    whole = length & ~3
    hashed = _SEED ^ length
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = (word * _FACTOR) & _MASK
        mixed = ((mixed ^ (mixed >> 24)) * _FACTOR) & _MASK
        hashed = ((hashed * _FACTOR) & _MASK) ^ mixed
    if length > whole:
        # Java's cases fall through: the remaining bytes form one small word.
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = (hashed * _FACTOR) & _MASK
    hashed = ((hashed ^ (hashed >> 13)) * _FACTOR) & _MASK
    return hashed ^ (hashed >> 15)


class KeyPartitioner:
    """Returns the partitions of keys in a topic; a record without a key has none of its own.

    Few topics have more than some thousand keys, and hashing in Python is the most expensive step of a
    record; results are therefore cached.
    """

    _REMEMBERED = 100_000

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._known: dict[bytes, int] = {}

    def partition_of(self, key: bytes) -> int:
        found = self._known.get(key)
        if found is None:
            # Java drops the sign bit; it does not take the absolute value.
            found = (murmur2(key) & 0x7FFFFFFF) % self._partitions
            if len(self._known) >= self._REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found
