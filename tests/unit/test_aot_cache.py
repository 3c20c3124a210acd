"""A start-up cache counts when its note is there and its bytes are whole, and at no other time."""

import json
import os
import zlib
from dataclasses import asdict
from pathlib import Path

import pytest

from playhead.spark.jvm_cache import Cache, CacheManifest, Check

DATA = bytes(range(256)) * 40_000  # more than one block of the check


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "aot" / "key.aot")


@pytest.fixture
def adopted(cache):
    return adopt(cache)


def adopt(cache: Cache, data: bytes = DATA) -> Cache:
    cache.file.parent.mkdir(exist_ok=True)
    made = cache.file.with_name("made.new")
    made.write_bytes(data)
    cache.adopt(made, ["kafka", "arrow"])
    return cache


def test_an_adopted_cache_is_there_and_whole(adopted):
    assert adopted.is_there()
    assert Check(adopted).is_whole()
    assert adopted.file.read_bytes() == DATA


def test_its_note_says_what_it_must_be_and_what_it_was_trained_on(adopted):
    assert adopted.read_note() == CacheManifest(1, len(DATA), zlib.crc32(DATA), ["kafka", "arrow"])


def test_nothing_is_left_beside_the_cache_and_its_note(adopted):
    assert sorted(file.name for file in adopted.file.parent.iterdir()) == ["key.aot", "key.json"]


def test_a_cache_that_was_never_made_is_neither_there_nor_whole(cache):
    assert not cache.is_there()
    assert not Check(cache).is_whole()


@pytest.mark.parametrize("length", [0, 1, len(DATA) - 1])
def test_a_truncated_cache_is_neither(adopted, length):
    os.truncate(adopted.file, length)
    assert not adopted.is_there()
    assert not Check(adopted).is_whole()


@pytest.mark.parametrize("position", [0, len(DATA) // 2, len(DATA) - 1])
def test_a_flipped_bit_is_found_by_the_check(adopted, position):
    with adopted.file.open("r+b") as stream:
        stream.seek(position)
        stream.write(bytes([DATA[position] ^ 1]))
    assert adopted.is_there()  # a quick look sees only the size
    assert not Check(adopted).is_whole()


def test_a_cache_without_its_note_does_not_count(adopted):
    adopted.note.unlink()
    assert not adopted.is_there()
    assert not Check(adopted).is_whole()


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "3", "{}", '{"size": 1}', '{"format":1,"size":1,"crc32":1,"x":[]}'],
)
def test_a_note_that_cannot_be_understood_does_not_count(adopted, text):
    adopted.note.write_text(text)
    assert adopted.read_note() is None
    assert not adopted.is_there()
    assert not Check(adopted).is_whole()


def test_a_note_that_is_not_text_does_not_count(adopted):
    adopted.note.write_bytes(b"\xff\x00")
    assert not adopted.is_there()


def test_a_note_without_its_cache_does_not_count(adopted):
    adopted.file.unlink()
    assert not adopted.is_there()
    assert not Check(adopted).is_whole()


def test_another_caches_note_does_not_count(adopted):
    note = asdict(CacheManifest(1, len(DATA), zlib.crc32(DATA) ^ 1, []))
    adopted.note.write_text(json.dumps(note))
    assert not Check(adopted).is_whole()


def test_adopting_anew_replaces_file_and_note(adopted):
    adopt(adopted, b"another")
    assert adopted.is_there()
    assert Check(adopted).is_whole()
    assert adopted.file.read_bytes() == b"another"


def test_the_note_is_never_there_with_another_file_than_its_own(adopted, monkeypatch):
    """Killed between the two renames, the new file must not stand with the old note."""

    def die(self: Path, target: Path) -> None:
        assert not adopted.note.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        adopt(adopted, b"another")
    assert not adopted.is_there()


def test_only_the_newest_three_are_kept(tmp_path):
    caches = [Cache(tmp_path / "aot" / f"{name}.aot") for name in "zdbac"]
    for age, cache in enumerate(caches):
        adopt(cache, f"cache {age}".encode())
        os.utime(cache.file, (1_000_000 + age, 1_000_000 + age))
    last = adopt(Cache(tmp_path / "aot" / "last.aot"))
    assert [cache.is_there() for cache in caches] == [False, False, False, True, True]
    assert last.is_there()
    assert len(list(last.file.parent.iterdir())) == 6  # the notes go with their files


def test_a_cache_that_another_process_drops_meanwhile_is_no_trouble(adopted, monkeypatch):
    gone = adopted.file.with_name("gone.aot")
    glob = Path.glob
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [*glob(self, pattern), gone])
    assert adopt(adopted, b"another").is_there()


def test_a_discarded_cache_is_gone_with_its_note(adopted):
    adopted.discard()
    assert list(adopted.file.parent.iterdir()) == []
    adopted.discard()


def test_a_jvm_is_told_where_and_kept_quiet(cache):
    assert cache.options == [
        f"-XX:AOTCache={cache.file}",
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
    ]
