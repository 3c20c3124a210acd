"""What was found out about a text is kept, unless the text is large."""

from playhead.queries import sql_text
from playhead.querylog import addresses, located, log_time, sql, text_shape
from playhead.querylog.text_cache import MOST_LETTERS, cached_if_short


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
    caches = (log_time.time_us, addresses._decoded, located._topic_of)
    row = b'2026-01-01 00:00:00 UTC,,"%s",1,,1.1,1,' % name.encode()
    assert log_time.time_us("2026-01-01 00:00:00 UTC")
    located.topic_of(None)
    before = [each.cache_info().currsize for each in caches]  # type: ignore[attr-defined]
    assert log_time.time_us(f"2026-01-01 00:00:00.{zeros} UTC")
    assert addresses.address_of(row).database == name
    assert located.topic_of(name) == located.topic_of(None)
    assert [each.cache_info().currsize for each in caches] == before  # type: ignore[attr-defined]
