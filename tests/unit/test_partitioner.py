"""Keys go where Java's producer puts them."""

import random

import pytest

from playhead.kafka.write.partitioner import KeyPartitioner, murmur2


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        # Kafka's own test of Utils.murmur2, as Java's signed numbers.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_known_values(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


def test_the_sign_is_dropped_and_not_the_value_negated() -> None:
    assert KeyPartitioner(10).partition_of(b"21") == (-973932308 & 0x7FFFFFFF) % 10


def test_empty_and_every_length_of_tail() -> None:
    assert {murmur2(b"\xff" * n) for n in range(9)} == {
        _by_the_letter(b"\xff" * n) for n in range(9)
    }


def test_it_is_the_function_as_it_was_published() -> None:
    keys = [random.Random(n).randbytes(n % 41) for n in range(500)]
    assert [murmur2(key) for key in keys] == [_by_the_letter(key) for key in keys]


def test_more_keys_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyPartitioner, "_REMEMBERED", 10)
    by_key = KeyPartitioner(7)
    keys = [b"%d" % (n % 25) for n in range(100)]
    assert [by_key.partition_of(key) for key in keys] == [
        (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys
    ]


def _by_the_letter(data: bytes) -> int:
    """MurmurHash2 of 32 bits, byte by byte."""
    mask, m, h = 0xFFFFFFFF, 0x5BD1E995, 0x9747B28C ^ len(data)
    while len(data) >= 4:
        k = data[0] | data[1] << 8 | data[2] << 16 | data[3] << 24
        k = k * m & mask
        k ^= k >> 24
        k = k * m & mask
        h = h * m & mask ^ k
        data = data[4:]
    if len(data) == 3:
        h ^= data[2] << 16
    if len(data) >= 2:
        h ^= data[1] << 8
    if len(data) >= 1:
        h = (h ^ data[0]) * m & mask
    h ^= h >> 13
    h = h * m & mask
    return h ^ h >> 15
