"""What was found out about a text is kept, unless the text is large."""

import pytest

from playhead.queries import sql_text
from playhead.querylog import addresses, located, log_time, sql, text_shape
from playhead.querylog.rows import NotARow
from playhead.querylog.text_shape import MOST_LETTERS, cached_if_short


def test_large_texts_are_not_kept() -> None:
    asked: list[tuple[str, bool]] = []

    @cached_if_short(2)
    def length(text: str, *, escapes: bool = False) -> int:
        asked.append((text, escapes))
        return len(text)

    short, large = "x" * MOST_LETTERS, "x" * (MOST_LETTERS + 1)
    for text in (short, short, large, large):
        assert length(text) == len(text)
    assert length(short, escapes=True) == len(short)
    assert asked == [(short, False), (large, False), (large, False), (short, True)]


def test_the_readers_of_statements_keep_no_large_text() -> None:
    large = "SELECT '" + "x" * MOST_LETTERS + "'"
    caches = (sql._parsed, sql.normalized, sql_text._read, text_shape.shape_of)
    before = [each.cache_info().currsize for each in caches]  # type: ignore[attr-defined]
    for read in (sql.understand, sql.normalized, sql_text.read_sql, text_shape.shape_of):
        read(large)
    assert [each.cache_info().currsize for each in caches] == before  # type: ignore[attr-defined]


def test_the_readers_of_rows_keep_no_large_text() -> None:
    zeros, name = "0" * MOST_LETTERS, "x" * MOST_LETTERS
    caches = (log_time.time_us, located._topic_of)
    row = b'2026-01-01 00:00:00.000 UTC,"a","%s",1,,1.1,1,'
    assert log_time.time_us("2026-01-01 00:00:00 UTC")
    addresses.address_of(row % b"warm")
    located.topic_of(None)
    before = [each.cache_info().currsize for each in caches]  # type: ignore[attr-defined]
    with pytest.raises(NotARow):
        log_time.time_us(f"2026-01-01 00:00:00.{zeros} UTC")
    assert addresses.address_of(row % name.encode()).database == name
    assert located.topic_of(name) == located.topic_of(None)
    assert [each.cache_info().currsize for each in caches] == before  # type: ignore[attr-defined]
    assert addresses.address_of(row % b"shop").database == "shop"
    assert [sender.database for sender in addresses._senders.values()][-1:] == ["shop"]
    assert max(len(sender.text) for sender in addresses._senders.values()) < 1_000


def test_many_sessions_and_seconds_are_not_kept_for_ever() -> None:
    for number in range(10_000):
        hour, second = number // 3_600, number % 3_600
        at = f"2026-01-01 {hour:02}:{second // 60:02}:{second % 60:02}.000 UTC"
        addresses.address_of(f'{at},"a","b",{number},,{number:x}.1,1,'.encode())
        assert len(addresses._senders) <= addresses._MOST_KEPT
        assert len(addresses._seconds) <= addresses._MOST_KEPT


def test_a_cache_keeps_as_many_letters_as_it_may_whatever_the_length_of_the_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_shape, "_MOST_LETTERS_KEPT", 10 * MOST_LETTERS)
    length = cached_if_short(1_000)(len)
    by_shape = text_shape.ByShape[int]()
    for number in range(100):
        text = f"SELECT c{number} FROM {'t' * (MOST_LETTERS - 20)}"
        length(text)
        by_shape.keep(text, number)
        assert by_shape.get(text) == number
        assert length.cache_info().currsize <= 10  # type: ignore[attr-defined]
        assert len(by_shape._kept) <= 10
    assert length.cache_info().currsize > 1  # type: ignore[attr-defined]
    assert len(by_shape._kept) > 1
